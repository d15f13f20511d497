"""PNG files: read back by Pillow, the same for any number of threads, as small as the choices allow."""

from __future__ import annotations

import configparser
import io
import pathlib
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import IndexedImage
from clquant.color.formats import parallel, png
from clquant.runtime import InvalidArgument
from tests.lowering import lower


def opened(data: bytes) -> PIL.Image.Image:
    image = PIL.Image.open(io.BytesIO(data))
    image.load()
    return image


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """The chunks of a file, whose checksums hold."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = [], 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        found.append((kind, body))
        at += 12 + size
    return found


def depth(data: bytes) -> int:
    return chunks(data)[0][1][8]


@settings(max_examples=40)
@given(
    height=st.integers(1, 20),
    width=st.integers(1, 30),
    count=st.integers(1, 256),
    seed=st.integers(0, 2**32 - 1),
    effort=st.sampled_from(png.EFFORTS),
)
def test_pictures_come_back(height, width, count, seed, effort):
    rng = np.random.default_rng(seed)
    indices, rgba = rng.integers(0, count, (height, width), dtype=np.uint8), rng.integers(0, 256, (count, 4), np.uint8)
    data = png.indexed(indices, rgba, effort=effort)
    image = opened(data)
    assert image.mode == "P"
    assert np.array_equal(np.asarray(image), indices)
    assert np.array_equal(np.asarray(image.convert("RGBA")), rgba[indices])
    assert [kind for kind, _ in chunks(data)][:2] == [b"IHDR", b"PLTE"]
    for pixels in (rgba[indices], rgba[indices][:, :, :3], rgba[indices][:, :, 0]):
        assert np.array_equal(np.asarray(opened(png.picture(pixels, effort=effort))), pixels)


@pytest.mark.parametrize("kind", ["noise", "flat", "ramp"])
def test_rows_packed_in_parts_make_one_file(kind, rng, monkeypatch):
    made = {
        "noise": rng.integers(0, 40, (150, 301), np.uint8),
        "flat": np.zeros((150, 301), np.uint8),
        "ramp": (np.add.outer(np.arange(150), np.arange(301)) // 5).astype(np.uint8),
    }
    rgba = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, axis=1)
    whole = png.indexed(made[kind], rgba)
    lower(monkeypatch, png__band=5000)
    for cores in (1, 3):
        monkeypatch.setattr(parallel, "cores", lambda count=cores: count)
        assert png.indexed(made[kind], rgba) == whole
    lower(monkeypatch, png__chunk=500)
    cut = png.indexed(made[kind], rgba)
    data = [body for name, body in chunks(cut) if name == b"IDAT"]
    assert max(map(len, data)) <= 500
    assert b"".join(data) == b"".join(body for name, body in chunks(whole) if name == b"IDAT")
    assert np.array_equal(np.asarray(opened(cut)), made[kind])


def shaded(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Smooth indices with noise, as of a photograph, and their palette."""
    y, x = np.mgrid[:240, :320]
    smooth = 32 + 16 * np.sin(x / 37) + 14 * np.sin(y / 23 + x / 90) + rng.normal(0, 0.6, x.shape)
    return np.clip(smooth, 0, 63).astype(np.uint8), rng.integers(0, 256, (64, 4), np.uint8)


@pytest.mark.parametrize("library", ["libdeflate", "zlib"])
def test_each_effort_makes_a_smaller_file(library, rng, monkeypatch):
    if library == "libdeflate":
        pytest.importorskip("deflate", reason="the extra `cli`")
    else:
        monkeypatch.setattr(png, "libdeflate", None)
    indices, rgba = shaded(rng)
    files = {effort: png.indexed(indices, rgba, effort=effort) for effort in png.EFFORTS}
    for data in files.values():
        assert np.array_equal(np.asarray(opened(data)), indices)
    assert len(files["fast"]) > 1.02 * len(files["normal"])
    assert len(files["normal"]) > len(files["small"])


@pytest.mark.parametrize("effort", ["normal", "small"])
def test_files_are_as_small_as_libdeflate_makes_the_rows(effort, rng):
    deflate = pytest.importorskip("deflate", reason="the extra `cli`")
    indices, rgba = shaded(rng)
    rows = b"".join(b"\0" + row.tobytes() for row in indices)
    head = 12 * 4 + 13 + 8 + 64 * 4
    assert len(png.indexed(indices, rgba, effort=effort)) <= 1.02 * len(deflate.zlib_compress(rows, 11)) + head


def test_the_command_comes_with_libdeflate():
    settings = configparser.ConfigParser()
    settings.read(pathlib.Path(__file__).parents[2] / "setup.cfg")
    assert "deflate" in settings["options.extras_require"]["cli"]


@pytest.mark.parametrize(("count", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 4), (16, 4), (17, 8), (256, 8)])
def test_noise_has_the_least_depth(count, bits, rng):
    rgba = rng.integers(0, 256, (count, 4), np.uint8)
    data = png.indexed(rng.integers(0, count, (90, 71), np.uint8), rgba)
    assert depth(data) == bits
    assert len(data) < 90 * 72 * bits / 8 + 90 + 4 * count + 150


def test_repeated_tiles_are_not_packed(rng):
    """Of matches that begin at odd pixels packed bytes show nothing."""
    words = [rng.integers(0, 16, 31, np.uint8) for _ in range(12)]
    rows = [np.concatenate([words[i] for i in rng.integers(0, 12, 40)]) for _ in range(60)]
    data = png.indexed(np.stack(rows), rng.integers(0, 256, (16, 4), np.uint8))
    assert depth(data) == 8
    assert np.array_equal(np.asarray(opened(data)), np.stack(rows))


@pytest.mark.parametrize("noise", [0.3, 0.7, 1.5])
def test_filters_and_bytes_per_pixel_of_few_grays(noise, rng):
    """Of noisy ramps no layout is clearly smaller than the one that is taken."""
    y, x = np.mgrid[:200, :256]
    ramp = np.clip(8 + 4 * np.sin(x / 40) + 4 * np.sin(y / 30) + rng.normal(0, noise, x.shape), 0, 15).astype(np.uint8)
    gray = np.repeat(np.arange(0, 256, 17, dtype=np.uint8)[:, None], 4, axis=1)
    data = png.indexed(ramp, gray)
    layouts = [png._Layout(ramp, bits, filtered) for bits in (4, 8) for filtered in (False, True)]
    least = min(len(png.compress(each.data(), png._level("normal", 1))) for each in layouts)
    assert len(data) < least / 0.97 + 150
    assert np.array_equal(np.asarray(opened(data)), ramp)


def test_filters_where_they_help():
    """A smooth ramp of sorted grays shrinks by its differences; each of the five filters is undone right."""
    y, x = np.mgrid[:120, :160]
    ramp = ((x * x // 97 + y * y // 61 + (x * y) // 53) % 251).astype(np.uint8)
    gray = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, axis=1)
    data = png.indexed(ramp, gray)
    raw = zlib.decompress(b"".join(body for kind, body in chunks(data) if kind == b"IDAT"))
    assert len(set(raw[:: 160 + 1])) > 1
    assert np.array_equal(np.asarray(opened(data)), ramp)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_all_filters(channels, rng):
    rows = rng.integers(0, 256, (2, 9 * channels), np.uint8)
    for number, filtered in enumerate(png._filters(rows[1:], rows[:1], channels)):
        for at in range(9 * channels):
            left = int(rows[1, at - channels]) if at >= channels else 0
            corner = int(rows[0, at - channels]) if at >= channels else 0
            above = int(rows[0, at])
            guess = left + above - corner
            paeth = min((left, above, corner), key=lambda value: abs(guess - value))
            expected = (0, left, above, (left + above) // 2, paeth)[number]
            assert filtered[0, at] == (int(rows[1, at]) - expected) % 256


def test_gray_pictures_without_palette():
    for count, mode in ((2, "1"), (4, "L"), (16, "L")):
        levels = (np.arange(count) * 255 // (count - 1)).astype(np.uint8)
        indices = np.arange(count, dtype=np.uint8).reshape(1, -1).repeat(40, 1).repeat(3, 0)
        image = opened(png.indexed(indices, np.repeat(levels[:, None], 4, axis=1), gray=True))
        assert image.mode == mode
        assert np.array_equal(np.asarray(image.convert("L")), levels[indices])


def test_what_goes_with_a_picture(rng):
    image = IndexedImage([[0, 1], [1, 0]], [[0, 0, 0], [255, 255, 255]])
    info = opened(image.to_bytes("PNG", dpi=(300, 150), icc_profile=b"profile" * 99)).info
    assert [round(value) for value in info["dpi"]] == [300, 150]
    assert info["icc_profile"] == b"profile" * 99
    with pytest.raises(
        InvalidArgument,
        match="cannot write the picture as 'PNG': effort is 'most'; allowed: 'fast', 'normal', 'small'",
    ):
        image.to_bytes("PNG", effort="most")
    with pytest.raises(InvalidArgument, match="dpi is 300; allowed: two numbers"):
        image.to_bytes("PNG", dpi=300)
    with pytest.raises(InvalidArgument, match="icc_profile is 'srgb'; allowed: bytes"):
        image.to_bytes("PNG", icc_profile="srgb")
    assert opened(image.to_bytes("PNG", compress_level=1)).size == (2, 2)  # Pillow's own


def test_compression_is_another_name_of_effort(rng):
    indices, rgba = shaded(rng)
    image = IndexedImage(indices, rgba)
    for effort in png.EFFORTS:
        assert image.to_bytes("PNG", compression=effort) == image.to_bytes("PNG", effort=effort)
    with pytest.raises(InvalidArgument, match="effort is 'most'"):
        image.to_bytes("PNG", compression="most")


def test_the_smallest_file_may_have_its_palette_in_order(rng):
    indices, _ = shaded(rng)
    gray = np.repeat(rng.permutation(64).astype(np.uint8)[:, None] * 4, 3, axis=1)
    image = IndexedImage(np.argsort(gray[:, 0]).astype(np.uint8)[indices], gray)
    normal, small = (image.to_bytes("PNG", effort=effort) for effort in ("normal", "small"))
    assert len(small) < 0.97 * len(normal)
    assert np.array_equal(np.asarray(opened(normal)), image.indices)
    assert np.array_equal(np.asarray(opened(small).convert("RGB")), image.to_array())


def test_wide_palettes_are_written_in_full_colour(rng):
    image = IndexedImage(rng.integers(0, 300, (40, 50)), rng.integers(0, 256, (300, 3)))
    assert np.array_equal(np.asarray(opened(image.to_bytes("PNG"))), image.to_array())
    assert np.array_equal(np.asarray(image.to_pil()), image.to_array())


def test_sides_that_no_png_has():
    with pytest.raises(InvalidArgument, match="at most 2147483647 pixels wide"):
        png.indexed(np.broadcast_to(np.uint8(0), (1, 1 << 31)), np.zeros((1, 4), np.uint8))
