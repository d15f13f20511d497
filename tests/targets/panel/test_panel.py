"""Panels: tones, gamut, untouched device colours, packed frames, the command."""

from __future__ import annotations

import pathlib
import pickle
import re
from typing import Any

import hypothesis.strategies as st
import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings

import clquant
from clquant import Palette, runtime
from clquant.cli import main
from clquant.panel import PANELS, Panel, fitted, pack_codes, pack_planes, panel


@given(st.integers(1, 9), st.integers(1, 19), st.sampled_from([1, 2, 4, 8]), st.integers(0, 2**32))
@settings(max_examples=40)
def test_packed_codes_are_read_back(height: int, width: int, bits: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 1 << bits, (height, width))
    rows = np.frombuffer(pack_codes(codes, bits), np.uint8).reshape(height, -(-width * bits // 8))
    fields = np.unpackbits(rows, axis=1)[:, : width * bits].reshape(height, width, bits)
    assert np.array_equal(fields @ (1 << np.arange(bits)[::-1]), codes)


def test_planes_have_no_bit_where_there_is_ink() -> None:
    black, red = pack_planes([[0, 1, 2, 1, 0, 2, 1, 1, 2]])
    assert (black, red) == (bytes([0b01110111, 0b10000000]), bytes([0b11011011, 0]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pack_codes([[4]], 2), "codes go up to 4; allowed: 0 to 3 in 2 bits"),
        (lambda: pack_codes([[1]], 3), "bits is 3"),
        (lambda: pack_codes([1], 1), "allowed: .H, W. integers"),
        (lambda: pack_codes([[-1]], 8), "at least 0"),
        (lambda: pack_codes([[0.5]], 8), "allowed: .H, W. integers"),
        (lambda: panel("kindle"), "name is 'kindle'; allowed: 'mono', 'gray4'"),
        (lambda: panel("bwr").quantize(np.zeros((2, 2), np.uint8), tone=2), "tone is 2"),
        (lambda: panel("bwr").quantize(np.zeros((2, 2), np.uint8), gamut=-1), "gamut is -1"),
        (
            lambda: Palette(["black"], device=["black", "white"]),
            r"device has shape \(2, 3\); allowed: one for each of 1",
        ),
        (lambda: Palette(["black"], codes=[256]), "codes go from 256 to 256; allowed: 0 to 255"),
    ],
)
def test_wrong_arguments_are_named(call: Any, words: str) -> None:
    with pytest.raises(clquant.ClquantError, match=words):
        call()


def test_a_measured_palette_keeps_its_device() -> None:
    one = Palette(["#191e21", "#f1f1f1"], device=["black", "white"], codes=[1, 0])
    for same in (pickle.loads(pickle.dumps(one)), one.take([0, 1]), Palette(one, device=one.device, codes=one.codes)):
        assert same == one
        assert same.device is not None
        assert same.device.tolist() == [[0, 0, 0], [255, 255, 255]]
        assert same.codes.tolist() == [1, 0]
    assert one != Palette(one)
    assert one.sorted("luma").codes.tolist() == [1, 0]
    assert one.take([1]).codes.tolist() == [0]
    assert Palette(one).codes.tolist() == [0, 1]


@pytest.mark.parametrize("name", PANELS)
def test_presets_are_whole(name: str) -> None:
    chosen = panel(name)
    assert isinstance(chosen, Panel)
    assert chosen.palette.device is not None
    assert chosen.source
    assert int(chosen.palette.codes.max()) < 1 << (chosen.bits or 2)
    assert len(set(chosen.palette.codes.tolist())) == len(chosen.palette)


def test_black_and_white_become_the_panels() -> None:
    chosen = panel("spectra6")
    ends = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    assert chosen.prepare(ends)[0].tolist() == chosen.palette.colors[:2].tolist()
    assert np.array_equal(chosen.prepare(ends, tone=0), ends)
    ramp = np.arange(256, dtype=np.uint8)[None]
    assert (np.diff(chosen.prepare(ramp).astype(int), axis=1) >= 0).all()
    vivid = np.array([[[250, 10, 30]]], np.uint8)
    luma = (299 * 250 + 587 * 10 + 114 * 30 + 500) // 1000
    assert chosen.prepare(vivid, tone=0, gamut=0).tolist() == [[[luma] * 3]]
    assert np.array_equal(chosen.prepare(vivid, tone=0, gamut=1), vivid)


def test_pixels_of_device_colours_are_untouched(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    chosen = panel("spectra6")
    picture = rng.integers(1, 255, (21, 33, 3), dtype=np.uint8)
    picture[5:9, 4:20], picture[12:, :3] = (255, 0, 0), (0, 0, 255)
    made = chosen.quantize(picture, queue=queue)
    assert (made.indices[5:9, 4:20] == 3).all()
    assert (made.indices[12:, :3] == 4).all()
    assert np.array_equal(chosen.in_device_colors(made).to_array()[6, 6], (255, 0, 0))
    codes = np.array([0, 1, 2, 3, 5, 6])[made.indices]
    assert chosen.pack(made) == pack_codes(codes, 4)
    plain = Panel("own", Palette(["black", "white"]), 1, 1.0, "test").quantize(picture, None, tone=0, queue=queue)
    assert np.array_equal(plain.indices, clquant.quantize(picture, ["black", "white"], queue=queue).indices)


def test_alpha_is_laid_over_white() -> None:
    clear = np.array([[[9, 9, 9, 0], [0, 0, 0, 255], [0, 0, 0, 51]]], np.uint8)
    assert panel("mono").prepare(clear, tone=0)[0, :, 0].tolist() == [255, 0, 204]


def test_the_command_writes_pictures_and_frames(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    picture = np.random.default_rng(3).integers(0, 256, (10, 13, 3), dtype=np.uint8)
    PIL.Image.fromarray(picture).save("a.png")
    assert main(["panel", "a.png", "--panel", "bwr", "-q"]) == 0
    assert main(["panel", "a.png", "--panel", "bwr", "--size", "13x10", "-o", "a.bin", "-q"]) == 0
    assert main(["panel", "a.png", "--panel", "bwr", "--device-colors", "-o", "d.png", "-q"]) == 0
    made = panel("bwr").quantize(picture)
    assert np.array_equal(np.asarray(PIL.Image.open("a-bwr.png").convert("RGB")), made.to_array())
    assert pathlib.Path("a.bin").read_bytes() == panel("bwr").pack(made)
    assert len(pathlib.Path("a.bin").read_bytes()) == 2 * 10 * 2
    colors = {tuple(c) for c in np.asarray(PIL.Image.open("d.png").convert("RGB")).reshape(-1, 3).tolist()}
    assert colors <= {(0, 0, 0), (255, 255, 255), (255, 0, 0)}
    assert main(["panel", "a.png", "--panel", "list"]) == 0
    assert "measured by" in capsys.readouterr().out
    assert main(["panel", "a.png", "--panel", "bwr", "--tone", "3"]) == 2
    assert "tone is 3" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["spectra6", "bwr"])
@pytest.mark.parametrize("suffix", [".c", ".h"])
def test_a_c_source_has_the_bytes_of_the_frame(tmp_path: pathlib.Path, name: str, suffix: str) -> None:
    path = tmp_path / "my.png"
    PIL.Image.fromarray(np.random.default_rng(3).integers(0, 256, (10, 13, 3), dtype=np.uint8)).save(path)
    for out in (f"my{suffix}", "my.bin"):
        given = ["panel", str(path), "--panel", name, "--size", "13x10", "-o", str(tmp_path / out), "-q"]
        assert main(given) == 0
    text = (tmp_path / f"my{suffix}").read_text("ascii")
    assert bytes(int(value, 16) for value in re.findall(r"0x(\w\w),", text)) == (tmp_path / "my.bin").read_bytes()
    assert "#define MY_WIDTH 13\n" in text
    assert text.startswith("#ifndef MY_H") == (suffix == ".h")


def test_a_frame_is_of_the_panels_size(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, frame = tmp_path / "a.png", tmp_path / "a.bin"
    PIL.Image.new("RGB", (40, 20), "red").save(path)
    given = ["panel", str(path), "-o", str(frame), "-q", "--panel"]
    assert main([*given, "spectra6"]) == 2
    assert "is 40x20, the panel 800x480; allowed: a picture of that size, --fit" in capsys.readouterr().err
    assert main([*given, "bwr"]) == 2
    assert "name yours with --size WxH" in capsys.readouterr().err
    assert main([*given, "spectra6", "--device-colors", "--size", "40x20"]) == 2
    assert "--device-colors goes with pictures" in capsys.readouterr().err
    assert not frame.exists()
    assert main([*given, "spectra6", "--size", "20x20", "--fit", "contain"]) == 0
    white, red = b"\x11" * 10, b"\x33" * 10
    assert frame.read_bytes() == white * 5 + red * 10 + white * 5
    assert main([*given, "spectra6", "--size", "20x20", "--fit", "cover"]) == 0
    assert frame.read_bytes() == red * 20


def test_pictures_are_brought_to_a_size() -> None:
    picture = np.zeros((2, 4, 3), np.uint8)
    picture[:, 2:] = 255
    assert fitted(picture, (8, 5), "stretch").shape == (5, 8, 3)
    assert np.array_equal(fitted(picture, (4, 2), "stretch"), picture)
    assert np.array_equal(fitted(picture, (2, 2), "cover"), picture[:, 1:3])
    assert (fitted(picture, (4, 6), "contain")[[0, 1, 4, 5]] == 255).all()
    with pytest.raises(runtime.InvalidArgument, match="way is 'crop'"):
        fitted(picture, (4, 6), "crop")


def test_only_pictures_of_the_panel_are_packed() -> None:
    device = panel("spectra6")
    other = clquant.IndexedImage(np.zeros((2, 3), np.uint8), Palette(["black", "white"]))
    for call in (device.pack, device.in_device_colors):
        with pytest.raises(runtime.InvalidType, match="picture is array of shape"):
            call(np.zeros((2, 3), np.uint8))
        with pytest.raises(runtime.InvalidArgument, match="picture has 2 colours; allowed: one in the 6 of 'spectra6'"):
            call(other)


@pytest.mark.parametrize(("name", "bits"), [("gray4", 2), ("gray16", 4)])
def test_gray_panels_pack_a_ramp_from_black_on(name: str, bits: int, tmp_path: pathlib.Path) -> None:
    levels = 1 << bits
    ramp = np.array([[255 * i // (levels - 1) for i in range(levels)]] * 2, np.uint8)
    PIL.Image.fromarray(ramp).save(tmp_path / "a.png")
    call = ["panel", str(tmp_path / "a.png"), "--panel", name, "-q", "-o", str(tmp_path / "a.bin")]
    assert main([*call, "--size", f"{levels}x2"]) == 0
    assert (tmp_path / "a.bin").read_bytes() == pack_codes(np.arange(levels)[None].repeat(2, axis=0), bits)
    assert main([*call, "--size", f"2x{levels}", "--rotate", "90"]) == 0
    assert (tmp_path / "a.bin").read_bytes() == pack_codes(np.arange(levels)[:, None].repeat(2, axis=1), bits)


def test_halftones_are_fitted_as_frames_are(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (20, 31, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(tmp_path / "a.png")
    out = tmp_path / "b.png"
    for way in ("contain", "cover", "stretch"):
        PIL.Image.fromarray(fitted(pixels, (24, 16), way)).save(tmp_path / "fitted.png")
        call = ["halftone", str(tmp_path / "a.png"), "--gray", "-q", "-o", str(out), "--size", "24x16", "--fit", way]
        assert main(call) == 0
        assert main(["halftone", str(tmp_path / "fitted.png"), "--gray", "-q", "-o", str(tmp_path / "c.png")]) == 0
        assert out.read_bytes() == (tmp_path / "c.png").read_bytes()
    assert main(["halftone", str(tmp_path / "a.png"), "--fit", "cover", "-o", str(out)]) == 2
    assert "--fit is given without --size" in capsys.readouterr().err
    assert main(["halftone", str(tmp_path / "a.png"), "-o", str(tmp_path / "b.bin")]) == 2
    assert "a plain .bin is a frame of clquant panel" in capsys.readouterr().err
