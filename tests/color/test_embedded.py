"""C sources and LVGL's images, read again by the rules of C and of LVGL's headers."""

from __future__ import annotations

import re
import zlib

import numpy as np
import PIL.Image
import pytest

from clquant import IndexedImage, Palette
from clquant.cli import main
from clquant.color.formats.embedded import identifier
from clquant.runtime import InvalidArgument


def picture(colors, shape=(5, 7)):
    rng = np.random.default_rng(colors)
    palette = Palette(rng.integers(0, 256, (colors, 3), dtype=np.uint8)).with_transparent()
    if colors in (2, 4, 16, 256):
        palette = Palette(palette.colors[:colors, :3])
    return IndexedImage(rng.integers(0, len(palette), shape), palette)


def unpacked(rows, bits, width):
    every = np.unpackbits(np.asarray(rows, np.uint8), axis=1).reshape(len(rows), -1, bits)
    return (every << np.arange(bits - 1, -1, -1, dtype=np.uint8)).sum(axis=2)[:, :width]


def numbers(text, array):
    inside = re.search(rf"{array}\[\d*\] = \{{(.*?)\}};", text, re.DOTALL)
    return [int(word, 16) for word in re.findall(r"0x[0-9a-f]+", inside[1])]


@pytest.mark.parametrize("colors", [1, 2, 3, 4, 9, 16, 17, 200, 256])
@pytest.mark.parametrize("kind", ["C", "H"])
def test_plain_arrays_keep_indices_and_order(colors, kind):
    image = picture(colors)
    text = image.to_bytes(kind, name="frog").decode("ascii")
    defined = {key: int(value) for key, value in re.findall(r"#define FROG_(\w+) (-?\d+)$", text, re.MULTILINE)}
    bits = defined["BITS"]
    assert (defined["WIDTH"], defined["HEIGHT"], defined["COLORS"]) == (7, 5, len(image.palette))
    clear = image.palette.transparent_index
    assert defined["TRANSPARENT"] == (-1 if clear is None else clear)
    palette = [alpha << 24 | red << 16 | green << 8 | blue for red, green, blue, alpha in image.palette.rgba().tolist()]
    assert numbers(text, "uint32_t frog_palette") == palette
    rows = np.array(numbers(text, "uint8_t frog_pixels"), np.uint8).reshape(5, defined["STRIDE"])
    assert np.array_equal(unpacked(rows, bits, 7), image.indices)
    assert text.startswith("#ifndef FROG_H\n") == text.endswith("\n#endif\n") == (kind == "H")
    assert ("static const uint8_t" in text) == (kind == "H")


def test_palettes_of_displays():
    image = IndexedImage([[0, 1, 2]], Palette(["#ff0000", "#00ff00", "#0000ff80"]))
    with pytest.raises(InvalidArgument, match=r"^color_format is 'rgb565', whose colours have no alpha; allowed: "):
        image.to_bytes("C", color_format="rgb565")
    opaque = IndexedImage(image.indices, Palette(image.palette.colors[:, :3]))
    text = opaque.to_bytes("C", color_format="rgb565").decode("ascii")
    assert numbers(text, "uint16_t picture_palette") == [0xF800, 0x07E0, 0x001F]


@pytest.mark.parametrize("colors", [1, 2, 3, 4, 9, 16, 17, 200, 256])
@pytest.mark.parametrize("version", [8, 9])
def test_lvgl_files(colors, version):
    image = picture(colors, (6, 9))
    data = image.to_bytes("LVGL", lvgl=version)
    bits = {1: 1, 2: 1, 3: 2, 4: 2, 9: 4, 16: 4, 17: 8, 200: 8, 256: 8}[colors]
    stride, kind = (9 * bits + 7) // 8, {1: 7, 2: 8, 4: 9, 8: 10}[bits]
    if version == 8:
        assert int.from_bytes(data[:4], "little") == kind + (9 << 10) + (6 << 21)
        data = data[4:]
    else:
        assert data[:12] == bytes([0x19, kind, 0, 0, 9, 0, 6, 0, stride, 0, 0, 0])
        data = data[12:]
    palette = np.frombuffer(data[: 4 << bits], np.uint8).reshape(-1, 4)
    count = len(image.palette)
    assert np.array_equal(palette[:count, [2, 1, 0, 3]], image.palette.rgba())
    assert not palette[count:].any()
    rows = np.frombuffer(data[4 << bits :], np.uint8).reshape(6, stride)
    assert np.array_equal(unpacked(rows, bits, 9), image.indices)


@pytest.mark.parametrize("version", [8, 9])
def test_lvgl_sources_hold_the_same_bytes(version):
    image = picture(9, (4, 21))
    text = image.to_bytes("C", name="icon", lvgl=version).decode("ascii")
    binary = image.to_bytes("LVGL", lvgl=version)[4 if version == 8 else 12 :]
    assert bytes(numbers(text, "uint8_t icon_map")) == binary
    fields = dict(re.findall(r"\.([\w.]+) = (\w+),", text))
    assert (fields["header.w"], fields["header.h"]) == ("21", "4")
    assert fields["header.cf"] == {8: "LV_IMG_CF_INDEXED_4BIT", 9: "LV_COLOR_FORMAT_I4"}[version]
    assert fields.get("header.stride") == {8: None, 9: "11"}[version]


def test_names(tmp_path):
    image = picture(3)
    image.save(tmp_path / "2 frogs.h")
    assert f"static const uint8_t _2_frogs_{zlib.crc32(b'2 frogs'):08x}_pixels[" in (tmp_path / "2 frogs.h").read_text()
    with pytest.raises(InvalidArgument, match=r"a plain .bin is a frame.*'frogs.lvgl.bin'"):
        image.save(tmp_path / "frogs.bin", lvgl=8)
    image.save(tmp_path / "frogs.lvgl.bin", lvgl=8)
    assert (tmp_path / "frogs.lvgl.bin").read_bytes() == image.to_bytes("LVGL", lvgl=8)
    names = {"a_b_c": "a_b_c", "whiles": "whiles", "": "picture"}
    assert {text: identifier(text) for text in names} == names
    unlike = ["a b", "a-b", "a_b", "a.b", "while", "_while", "1", "_1", "été", "ôtô", "图标", "按钮", "a b "]
    assert len({identifier(text).upper() for text in unlike}) == len(unlike)
    assert all(re.fullmatch(r"[A-Za-z_]\w*", identifier(text), re.ASCII) for text in unlike)


@pytest.mark.parametrize("more", [[], ["--lvgl", "9"]])
def test_headers_of_one_call_have_names_of_their_own(more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stems = ["图标", "按钮", "a b", "a-b", "a_b", "A_b", "plain", "sub/plain"]
    for stem in stems:
        (tmp_path / "in" / stem).parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4)).save(tmp_path / "in" / f"{stem}.png")
    texts = []
    for _ in range(2):
        assert main(["palette", "in", "-k", "4", *more, "--name", "{stem}.h", "-q", "-o", "out/"]) == 0
        texts.append({path: path.read_text() for path in sorted((tmp_path / "out").rglob("*.h"))})
    assert texts[0] == texts[1]
    guards = [re.search(r"#ifndef (\w+)", text)[1] for text in texts[0].values()]
    arrays = [name for text in texts[0].values() for name in re.findall(r"(\w+)\[\w*\] = ", text)]
    assert len(set(guards)) == len(stems)
    assert len(set(arrays)) == len(arrays) == len(stems) * (1 if more else 2)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("C", {"name": "a b"}, r"^name is 'a b'; allowed: an identifier of C$"),
        ("C", {"name": "while"}, r"^name is 'while'; allowed: an identifier of C$"),
        ("C", {"lvgl": 7}, r"^lvgl is 7; allowed: 8, 9$"),
        (
            "C",
            {"lvgl": 9, "color_format": "rgb565"},
            r"^color_format is 'rgb565' with lvgl=9, whose palettes are 32",
        ),
        ("LVGL", {"lvgl": None}, r"^lvgl is None; allowed: 8, 9$"),
        ("LVGL", {"name": "a"}, r"^cannot write the picture as 'LVGL': "),
        ("SIXEL", {"name": "a"}, r"^cannot write the picture as 'SIXEL': "),
    ],
)
def test_refusals(kind, options, message):
    with pytest.raises(InvalidArgument, match=message):
        picture(4).to_bytes(kind, **options)


def test_too_many():
    with pytest.raises(InvalidArgument, match=r"^an LVGL image holds at most 256 colours; this palette has 300$"):
        IndexedImage([[0]], Palette(np.zeros((300, 3), np.uint8))).to_bytes("LVGL")
    with pytest.raises(InvalidArgument, match=r"^LVGL 8 holds pictures of at most 2047x2047; this one is 2048x1$"):
        picture(2, (1, 2048)).to_bytes("LVGL", lvgl=8)
