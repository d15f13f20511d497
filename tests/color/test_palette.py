"""Palette and IndexedImage: rules, files, and the errors of wrong calls."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest

from clquant import IndexedImage, Palette
from clquant.color.formats import picture_formats
from clquant.runtime import FileError, InvalidArgument, InvalidType, open_session


def pil(data: bytes) -> PIL.Image.Image:
    image = PIL.Image.open(io.BytesIO(data))
    image.load()
    return image


@pytest.fixture
def rgba(rng):
    colors = rng.integers(0, 256, (16, 4), dtype=np.uint8)
    colors[3] = 0
    colors[5:, 3] = 255
    return IndexedImage(rng.integers(0, 16, (9, 11)), colors)


def test_a_picture_keeps_its_own_indices():
    indices = np.zeros((2, 2), np.uint8)
    image = IndexedImage(indices, [[1, 2, 3], [4, 5, 6]])
    indices[:] = 9
    assert (image.to_array() == [1, 2, 3]).all()


def test_palette_is_what_it_was_given():
    palette = Palette([[1, 2, 3], [255, 0, 16]])
    assert list(palette) == [(1, 2, 3), (255, 0, 16)]
    assert palette[1] == (255, 0, 16)
    assert palette.hex() == ["#010203", "#ff0010"]
    assert palette == Palette(palette)
    assert hash(palette) == hash(Palette(palette))
    assert palette != Palette([[1, 2, 3]])
    assert repr(palette) == "Palette(2 colours: #010203 #ff0010)"
    assert palette.colors.dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        palette.colors[0] = 1
    assert "#ff0010" in palette._repr_html_()


def test_colours_as_text():
    assert list(Palette(["#010203", "FF0010", "0x0a0b0c"])) == [(1, 2, 3), (255, 0, 16), (10, 11, 12)]
    assert list(Palette(("#01020304", "#ff0010"))) == [(1, 2, 3, 4), (255, 0, 16, 255)]
    palette = Palette(["#00000000", "#ff8800"])
    assert Palette(palette.hex()) == palette
    assert list(Palette(["#f80", "Orange", "rebeccapurple", "black"])) == [
        (255, 136, 0), (255, 165, 0), (102, 51, 153), (0, 0, 0)
    ]  # fmt: skip
    assert list(Palette(["#f808", "transparent"])) == [(255, 136, 0, 136), (0, 0, 0, 0)]
    for wrong in ("f80", "orangish", "", "#ff880", 5):
        with pytest.raises(InvalidArgument, match=r"colors\[1\] is .*; allowed: '#rgb', '#rrggbb'"):
            Palette(["#000000", wrong])


def test_numpy_takes_the_colours(rgba):
    palette = Palette([[1, 2, 3], [255, 0, 16]])
    assert np.asarray(palette).dtype == np.uint8
    assert np.array_equal(np.asarray(palette, int), palette.colors)
    assert np.array_equal(np.asarray(rgba), rgba.to_array())
    assert np.array_equal(np.array(rgba, np.float32), rgba.to_array())
    assert np.array(palette).flags.writeable
    for colors in (palette, rgba):
        with pytest.raises(ValueError, match="need"):
            colors.__array__(np.dtype(np.float32), copy=False)
        assert colors != 3


def test_parts_of_a_palette():
    palette = Palette(["#010203", "#040506", "#070809"])
    assert palette[1:] == Palette(["#040506", "#070809"])
    assert palette[::-1][0] == (7, 8, 9)
    with pytest.raises(InvalidArgument, match="0 colours"):
        palette[3:]


def test_files_that_are_no_paths(rgba):
    file = io.BytesIO()
    rgba.save(file, "PNG")
    assert file.getvalue() == rgba.to_bytes("PNG")
    with pytest.raises(InvalidArgument, match="format is None"):
        rgba.save(file)


def test_transparent_entry():
    palette = Palette([[1, 2, 3], [4, 5, 6]])
    assert palette.transparent_index is None
    clear = palette.with_transparent()
    assert list(clear) == [(1, 2, 3, 255), (4, 5, 6, 255), (0, 0, 0, 0)]
    assert clear.transparent_index == 2
    assert clear.with_transparent() is clear


@pytest.mark.parametrize(
    ("colors", "kind", "message"),
    [
        ("brand.gpl", InvalidType, r"colors is 'brand.gpl'; allowed: .* \(Palette.read reads a file\)"),
        ([1, 2, 3], InvalidArgument, r"colors has shape \(3,\); allowed: \(n, 3\) or \(n, 4\)"),
        ([[1, 2]], InvalidArgument, "shape"),
        ([[1, 2, 3], [1, 2]], InvalidArgument, "ragged"),
        (np.zeros((0, 3), np.uint8), InvalidArgument, "0 colours; allowed: 1 to 65536"),
        (np.zeros((65537, 3), np.uint8), InvalidArgument, "65537 colours"),
        ([[0.5, 0, 0]], InvalidType, "dtype float64"),
        ([[256, 0, 0]], InvalidArgument, "values from 0 to 256; allowed: 0 to 255"),
        ([[-1, 0, 0]], InvalidArgument, "values from -1"),
        ("red", InvalidType, "colors is .red."),
        (None, InvalidArgument, "shape"),
    ],
)
def test_wrong_colors(colors, kind, message):
    with pytest.raises(kind, match=message):
        Palette(colors)


@pytest.mark.parametrize(
    ("indices", "kind", "message"),
    [
        (np.zeros((2, 2)), InvalidType, "dtype float64; allowed: integers"),
        (np.zeros(4, int), InvalidArgument, "shape"),
        (np.zeros((0, 4), int), InvalidArgument, "at least 1x1"),
        ([[0, 2]], InvalidArgument, "go from 0 to 2; allowed: 0 to 1"),
        ([[-1, 0]], InvalidArgument, "go from -1"),
    ],
)
def test_wrong_indices(indices, kind, message):
    with pytest.raises(kind, match=message):
        IndexedImage(indices, [[0, 0, 0], [1, 1, 1]])


def test_device_indices_stay_there(queue):
    session = open_session(queue)
    there = session.new_array((2, 3), np.uint8)
    there.set(np.array([[0, 1, 0], [1, 1, 0]], np.uint8))
    image = IndexedImage(there, [[0, 0, 0], [9, 9, 9]])
    assert image.indices is there
    assert image == IndexedImage([[0, 1, 0], [1, 1, 0]], [[0, 0, 0], [9, 9, 9]])
    with pytest.raises(InvalidArgument, match=r"allowed: \(H, W\) uint16"):
        IndexedImage(there, np.zeros((300, 3), int))


def test_png_keeps_indices_palette_and_alpha(rgba, tmp_path):
    path = tmp_path / "a.png"
    rgba.save(path)
    with PIL.Image.open(path) as image:
        assert image.mode == "P"
        assert np.array_equal(np.asarray(image), rgba.indices)
        assert np.array_equal(np.asarray(image.convert("RGBA")), rgba.to_array())


def test_png_of_many_colors_is_lossless(rng):
    image = IndexedImage(rng.integers(0, 1000, (40, 30)), rng.integers(0, 256, (1000, 3)))
    assert image.indices.dtype == np.uint16
    assert np.array_equal(np.asarray(pil(image._repr_png_())), image.to_array())


def test_gif_has_one_transparent_entry(rgba):
    back = np.asarray(pil(rgba.to_bytes("GIF")).convert("RGBA"))
    expected = rgba.to_array()
    clear = expected[:, :, 3] < 128
    assert np.array_equal(back[:, :, 3] == 0, clear)
    assert np.array_equal(back[~clear][:, :3], expected[~clear][:, :3])


def test_gif_of_an_opaque_palette(rng):
    image = IndexedImage(rng.integers(0, 256, (20, 20)), rng.integers(0, 256, (256, 3)))
    assert np.array_equal(np.asarray(pil(image.to_bytes("gif")).convert("RGB")), image.to_array())


def test_other_formats_are_written_in_full_color(rgba, tmp_path):
    for suffix in (".jpg", ".bmp", ".webp", ".tiff"):
        rgba.save(tmp_path / f"a{suffix}")
        with PIL.Image.open(tmp_path / f"a{suffix}") as image:
            assert image.size == (11, 9)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_pil_images_can_be_saved(kind):
    colors = [(1, 2, 3, 255), (9, 9, 9, 0), (4, 5, 6, 255)]
    image = IndexedImage(np.arange(60).reshape(6, 10) % 3, colors)
    file = io.BytesIO()
    image.to_pil().save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    back = np.asarray(pil(file.getvalue()).convert("RGBA"))
    opaque = image.to_array()[..., 3] == 255
    assert np.array_equal(back[..., 3] == 255, opaque)
    assert np.array_equal(back[opaque], image.to_array()[opaque])


@pytest.mark.parametrize("suffix", ["jpg", ".jpg", "JPE", "tif", ".Png", "gif", "six", "webp"])
def test_formats_by_suffix(rgba, suffix, tmp_path):
    path = tmp_path / f"a.{suffix.removeprefix('.')}"
    rgba.save(path)
    assert path.read_bytes() == rgba.to_bytes(suffix)


@pytest.mark.parametrize("kind", sorted(picture_formats.WITHOUT_ALPHA - {"PBM"}))
def test_formats_without_alpha(rgba, kind):
    for background, values in ((None, (255, 255, 255)), ("#f80", (255, 136, 0))):
        colors, alpha = rgba.palette.colors[:, :3].astype(int), rgba.palette.colors[:, 3:].astype(int)
        laid = (2 * (colors * alpha + np.array(values) * (255 - alpha)) + 255) // 510
        opaque = IndexedImage(rgba.indices, laid.astype(np.uint8)).to_bytes(kind)
        assert rgba.to_bytes(kind, background=background) == opaque
        if background is None and kind in ("BMP", "DIB", "JPEG", "PCX"):
            file = io.BytesIO()
            rgba.to_pil().save(file, kind)
            assert np.array_equal(np.asarray(pil(file.getvalue())), np.asarray(pil(opaque)))


def test_a_background_makes_every_format_opaque(rgba):
    opaque = IndexedImage(rgba.indices, np.where(rgba.palette.rgba()[:, 3:] == 0, 255, rgba.palette.rgba())[:, :3])
    clear = IndexedImage(
        rgba.indices, np.where(rgba.palette.rgba()[:, 3:] == 0, 0, rgba.palette.rgba() | [0, 0, 0, 255])
    )
    for kind in ("PNG", "GIF", "TIFF", "C", "BMP"):
        assert clear.to_bytes(kind, background=(255, 255, 255)) == opaque.to_bytes(kind)
    mask = IndexedImage([[0, 1, 2]], ["black", "white", "transparent"])
    assert mask.to_bytes("PBM") == IndexedImage([[0, 1, 1]], ["black", "white"]).to_bytes("PBM")
    for wrong in ("#fff8", "nope", 3, (1, 2), (0, 0, 256)):
        with pytest.raises((InvalidArgument, InvalidType), match=r"background(\[2\])? is "):
            rgba.to_bytes("BMP", background=wrong)


def test_notebook_views(rgba):
    assert rgba._repr_png_().startswith(b"\x89PNG")
    assert "data:image/png;base64," in rgba._repr_html_()
    assert repr(rgba) == "IndexedImage(11x9, 16 colours)"
    with pytest.raises(TypeError):
        hash(rgba)


def test_wrong_outputs_leave_no_file(rgba, tmp_path):
    many = IndexedImage([[0]], np.zeros((257, 3), int))
    with pytest.raises(InvalidArgument, match="at most 256 colours; this palette has 257"):
        many.save(tmp_path / "a.gif")
    with pytest.raises(InvalidArgument, match=r"no picture format has the suffix '\.xyz'"):
        rgba.save(tmp_path / "a.xyz")
    for unknown in ("nope", "", ".", "psd", "\ud800"):
        with pytest.raises(InvalidArgument, match=r"format is .*; allowed: 'PNG', 'GIF', 'SIXEL', or the name or suf"):
            rgba.to_bytes(unknown)
    with pytest.raises(FileError, match="missing"):
        rgba.save(tmp_path / "missing" / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_memory_that_runs_out_is_no_wrong_picture(monkeypatch):
    def save(*_args, **_options):
        raise MemoryError

    monkeypatch.setattr(PIL.Image.Image, "save", save)
    with pytest.raises(MemoryError):
        IndexedImage([[0, 1]], ["black", "white"]).to_bytes("BMP")
