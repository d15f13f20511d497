"""Palette files: round trips, files as other programs write them, and hostile ones."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import PIL.Image
import pytest

from clquant import Palette
from clquant.color.formats import palette_formats
from clquant.runtime import ClquantError, FileError, FormatError, InvalidArgument

OPAQUE = ("act", "ase", "gpl", "hex", "jasc", "png", "riff")
WITH_ALPHA = ("gpl", "hex", "jasc", "png")


def from_bytes(*arguments: Any, **options: Any) -> Palette:
    return Palette(palette_formats.from_bytes(*arguments, **options))


def to_bytes(palette: Palette, name: str) -> bytes:
    return palette_formats.to_bytes(palette.colors, name)


@pytest.mark.parametrize("name", OPAQUE)
@pytest.mark.parametrize("count", [1, 2, 17, 256])
def test_round_trip(name, count, rng, tmp_path):
    palette = Palette(rng.integers(0, 256, (count, 3)))
    assert from_bytes(to_bytes(palette, name), name) == palette
    path = tmp_path / f"a{next(f.suffix for f in palette_formats.FORMATS if f.name == name)}"
    palette.write(path, name)
    assert Palette.read(path) == palette


@pytest.mark.parametrize("name", sorted(set(OPAQUE) - {"act"}))
def test_round_trip_of_many_colors(name, rng):
    palette = Palette(np.unique(rng.integers(0, 256, (3000, 3)), axis=0))
    assert from_bytes(to_bytes(palette, name), name) == palette


@pytest.mark.parametrize("within", ["\x85", "\u2028", "\x0b", "\x0c", "\x1c"])
def test_a_name_adds_no_colors(within):
    text = f"GIMP Palette\r\n1 2 3 dark {within} 7 8 9\r4 5 6 light\n\n"
    for coding in ("utf-8", "latin-1"):
        if coding == "utf-8" or within < "\x80":
            assert list(from_bytes(text.encode(coding))) == [(1, 2, 3), (4, 5, 6)]
    assert list(from_bytes(b"GIMP Palette\n1 2 3 dark \x85 7 8 9\n4 5 6 light\n")) == [(1, 2, 3), (4, 5, 6)]
    assert list(from_bytes(f";{within}010203\n040506".encode(), "hex")) == [(4, 5, 6)]


@pytest.mark.parametrize("name", WITH_ALPHA)
def test_round_trip_with_alpha(name, rng):
    palette = Palette(rng.integers(0, 255, (40, 4)))
    assert from_bytes(to_bytes(palette, name), name) == palette


def test_act_keeps_one_transparent_entry(rng):
    colors = rng.integers(0, 256, (9, 4))
    colors[:, 3], colors[5, 3] = 255, 0
    palette = Palette(colors)
    assert from_bytes(to_bytes(palette, "act"), "act") == palette
    assert len(from_bytes(bytes(768), "act")) == 256


def test_files_of_other_programs():
    gimp = b"GIMP Palette\r\nName: T\r\nColumns: 4\r\n# c\r\n  0   0   0\tBlack\r\n255 128  64 Warm orange\r\n\r\n"
    assert list(from_bytes(gimp)) == [(0, 0, 0), (255, 128, 64)]
    lospec = b"1a1c2c\n5d275d\n\nB13E53\n"
    assert list(from_bytes(lospec, suffix=".HEX")) == [(26, 28, 44), (93, 39, 93), (177, 62, 83)]
    jasc = b"JASC-PAL\r\n0100\r\n2\r\n1 2 3\r\n4 5 6\r\n"
    assert list(from_bytes(jasc, suffix=".pal")) == [(1, 2, 3), (4, 5, 6)]
    assert list(from_bytes(jasc.replace(b"\n2", b"\n16"), suffix=".pal")) == [(1, 2, 3), (4, 5, 6)]
    paint = b";paint.net Palette File\r\n;Colors: 2\r\nFF1A1C2C\r\n; x\r\nff5D275D\r\n"
    assert list(from_bytes(paint, suffix=".txt")) == [(26, 28, 44), (93, 39, 93)]
    assert list(from_bytes(b"801A1C2C\n5D275D\n", suffix=".txt")) == [(26, 28, 44, 128), (93, 39, 93, 255)]
    for data, suffix in ((gimp, ".gpl"), (jasc, ".pal"), (lospec, ".hex"), (paint, ".txt")):
        assert from_bytes(b"\xef\xbb\xbf" + data, suffix=suffix) == from_bytes(data, suffix=suffix)


def ase(*blocks):
    body = b"".join(struct.pack(">HI", kind, len(data)) + data for kind, data in blocks)
    return b"ASEF" + struct.pack(">HHI", 1, 0, len(blocks)) + body


def ase_color(model, *values):
    return b"\0\1\0\0" + model + struct.pack(f">{len(values)}fH", *values, 0)


def png(pixels):
    out = io.BytesIO()
    PIL.Image.fromarray(np.ascontiguousarray(pixels)).save(out, "PNG")
    return out.getvalue()


def test_ase_models_and_groups():
    data = ase(
        (0xC001, b"\0\1\0\0"),
        (1, ase_color(b"Gray", 0.5)),
        (1, ase_color(b"CMYK", 0.0, 0.5, 1.0, 0.2)),
        (0xC002, b""),
        (1, ase_color(b"RGB ", 1.0, 0.0, 1.0)),
    )
    assert list(from_bytes(data)) == [(128, 128, 128), (204, 102, 0), (255, 0, 255)]


def test_pictures_are_palettes_too():
    tiny = np.array([[[9, 9, 9], [1, 2, 3]], [[9, 9, 9], [7, 7, 7]]], np.uint8)
    out = io.BytesIO()
    PIL.Image.fromarray(tiny).save(out, "BMP")
    assert list(from_bytes(out.getvalue())) == [(9, 9, 9), (1, 2, 3), (7, 7, 7)]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("gpl", b"", "first line"),
        ("gpl", b"GIMP Palette\n1 2\n", "line 2: fewer than 3 numbers"),
        ("gpl", b"GIMP Palette\n1 2 300\n", "'300' is no number from 0 to 255"),
        ("gpl", b"GIMP Palette\n1 2 -3\n", "'-3' is no number"),
        ("gpl", b"GIMP Palette\n", "0 colours"),
        ("gpl", b"GIMP Palette\n" + b"1 2 3\n" * 65537, "65537 colours"),
        ("paint.net", b";paint.net\nFFFF00\nxyz", "txt, line 3: 'xyz' is not aarrggbb or rrggbb"),
        ("jasc", b"JASC-PAL\n0100\n99999999999999\n", "no number of colours"),
        ("jasc", b"JASC-PAL\n0100\n1\n1 2\n", "2 numbers"),
        ("hex", b"12345\n", "is not rrggbb"),
        ("hex", b"\0" * 9, "zero bytes"),
        ("hex", b"010203\n" * 65537, "65537 colours"),
        ("act", b"\0" * 767, "767 bytes; allowed: 768 or 772"),
        ("act", b"\0" * 772, "0 colours"),
        ("riff", b"RIFF" + b"\0" * 30, "form 'PAL '"),
        ("riff", b"RIFF\0\0\0\0PAL data\xff\xff\xff\xff" + b"\0" * 8, "longer than the file"),
        ("riff", b"RIFF\0\0\0\0PAL junk\4\0\0\0" + b"\0" * 4, "no 'data' chunk"),
        ("riff", b"RIFF\0\0\0\0PAL data\4\0\0\0\0\3\0\1", "256 colours in 4 bytes"),
        ("riff", b"RIFF\0\0\0\0PAL data\2\0\0\0\0\3" + b"\0" * 4, "chunk is too short"),
        ("ase", b"\xe0\xa5" * 20, "Aseprite"),
        ("ase", ase(), "0 colours"),
        ("ase", ase((1, b"\0")), "block is too short"),
        ("ase", b"ASEF\0\1\0\0\xff\xff\xff\xff", "ends before"),
        ("ase", ase((1, ase_color(b"LAB ", 0.1, 0.2, 0.3))), "LAB; allowed: RGB, CMYK, Gray"),
        ("ase", ase((1, ase_color(b"RGB ", 0.1, 2.0, 0.3))), "outside 0 to 1"),
        ("ase", ase((1, ase_color(b"RGB ", float("nan"), 0.0, 0.3))), "outside 0 to 1"),
        ("ase", ase((1, b"\xff\xff" + b"\0" * 20)), "unknown model"),
        ("ase", ase((7, b"")), "unknown kind"),
        ("png", b"\x89PNG\r\n\x1a\n", "no picture of a format that is read"),
        ("png", png(np.zeros((4097, 4096), np.bool_)), "4096x4097 is no palette"),
        ("png", png(np.arange(257 << 8, dtype="<u4").view(np.uint8).reshape(257, 256, 4)[..., :3]), "65792 colours"),
    ],
)
def test_hostile_files_are_refused(name, data, message):
    with pytest.raises(FormatError, match=message):
        from_bytes(data, name)


@pytest.mark.parametrize(
    ("colors", "name", "message"),
    [
        (np.zeros((257, 3), int), "act", "at most 256 colours"),
        ([[0, 0, 0, 7]], "act", "one transparent entry"),
        ([[0, 0, 0, 7]], "ase", "holds no alpha"),
        ([[0, 0, 0, 7]], "riff", "holds no alpha"),
        (np.zeros((65536, 3), int), "riff", "at most 65535 colours"),
        ([[0, 0, 0]], "xcf", "format is 'xcf'; allowed: 'gpl'"),
    ],
)
def test_what_a_format_cannot_hold(colors, name, message, tmp_path):
    with pytest.raises(InvalidArgument, match=message):
        Palette(colors).write(tmp_path / "a", name)
    assert list(tmp_path.iterdir()) == []


def test_wrong_files(tmp_path):
    with pytest.raises(FileError, match="cannot read"):
        Palette.read(tmp_path / "missing.gpl")
    (tmp_path / "a.gpl").write_bytes(b"not a palette")
    with pytest.raises(FileError, match=r"a\.gpl' as a palette: no palette file and no picture"):
        Palette.read(tmp_path / "a.gpl")
    with pytest.raises(InvalidArgument, match=r"no palette format has the suffix '\.doc'; allowed: \.act, \.ase"):
        Palette([[0, 0, 0]]).write(tmp_path / "a.doc")


@pytest.mark.parametrize("name", OPAQUE)
def test_mutated_files_give_a_palette_or_a_clear_error(name, rng):
    whole = to_bytes(Palette(rng.integers(0, 256, (12, 3))), name)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 5)):
            place = int(rng.integers(0, len(data)))
            kind = rng.integers(0, 3)
            if kind == 0:
                data[place] = int(rng.integers(0, 256))
            elif kind == 1:
                del data[place : place + int(rng.integers(1, 9))]
            else:
                data[place:place] = bytes(rng.integers(0, 256, 3, dtype=np.uint8))
            if not data:
                break
        try:
            assert len(from_bytes(bytes(data), name)) >= 1
        except ClquantError as error:
            assert str(error)


def test_pictures_of_swatches_are_read_as_pictures_are(tmp_path):
    """16-bit gray keeps its levels, and a turned picture is read as it is shown."""
    levels = np.arange(200, dtype=np.uint16) * 257
    PIL.Image.fromarray(levels[None]).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(Palette.read(tmp_path / "deep.png").colors[:, 0], np.arange(200))
    turned = PIL.Image.fromarray(np.uint8([[[1, 2, 3], [4, 5, 6]]]))
    exif = turned.getexif()
    exif[274] = 2  # mirrored
    turned.save(tmp_path / "turned.png", exif=exif)
    assert list(Palette.read(tmp_path / "turned.png")) == [(4, 5, 6), (1, 2, 3)]
