"""`clquant.pillow.quantize` has the signature, the errors and the kind of result of Pillow's `Image.quantize`."""

from __future__ import annotations

import functools
import inspect
import io
import pickle
from typing import Any

import numpy as np
import PIL.Image
import pytest
from PIL.Image import Dither, Quantize

import clquant
from clquant import KMeansPalette, Palette, pillow


@pytest.fixture
def picture(rng: np.random.Generator) -> PIL.Image.Image:
    """13x17, with holes, faint and opaque pixels."""
    pixels = rng.integers(0, 256, (17, 13, 4), dtype=np.uint8)
    pixels[:, :, 3] = np.array([0, 128, 255, 255], np.uint8)[rng.integers(0, 4, (17, 13))]
    return PIL.Image.fromarray(pixels)


def rgba(image: PIL.Image.Image) -> Any:
    return np.asarray(image.convert("RGBA"))


def test_the_signature_is_pillows() -> None:
    ours = list(inspect.signature(pillow.quantize).parameters.values())
    theirs = list(inspect.signature(PIL.Image.Image.quantize).parameters.values())
    assert [(p.name, p.kind, p.default) for p in ours[1:]] == [(p.name, p.kind, p.default) for p in theirs[1:]]


OLD = pytest.mark.skipif(int(PIL.__version__.split(".")[0]) < 12, reason="before Pillow 12, PA loses alpha")


@pytest.mark.parametrize(
    "steps",
    ["1", "L", "LA", "P", "RGB", "RGBA", "RGB P", pytest.param("RGBA PA", marks=OLD), "LA La", "RGBA RGBa"],
)
def test_every_mode_gives_what_the_library_gives(steps: str, picture: PIL.Image.Image) -> None:
    image = functools.reduce(PIL.Image.Image.convert, steps.split(), picture)
    made = pillow.quantize(image, 7, dither=Dither.NONE)
    mode, with_alpha = image.mode, steps not in ("1", "L", "RGB", "RGB P")
    image = image.convert("LA") if mode == "La" else image
    pixels = np.asarray(image.convert("RGBA" if with_alpha else "L" if mode in ("1", "L") else "RGB"))
    expected = clquant.quantize(pixels, 7)
    assert (made.mode, made.size, made.palette.mode) == ("P", image.size, "RGBA" if with_alpha else "RGB")
    assert np.array_equal(np.asarray(made), expected.indices)
    assert made.palette.palette == expected.palette.colors.tobytes()


def test_dithering_is_honoured_without_a_palette(picture: PIL.Image.Image) -> None:
    image = picture.convert("RGB")
    for given, name in ((Dither.FLOYDSTEINBERG, "floyd-steinberg"), (Dither.ORDERED, "bayer"), ("leaky", "leaky")):
        made = pillow.quantize(image, 5, dither=given)
        assert np.array_equal(np.asarray(made), clquant.quantize(np.asarray(image), 5, dither=name).indices)
    assert np.array_equal(np.asarray(pillow.quantize(image, 5)), np.asarray(pillow.quantize(image, 5, dither=3)))


@pytest.mark.parametrize("method", [*Quantize, 1])
def test_methods_choose_the_start(method: int, picture: PIL.Image.Image) -> None:
    init = "median-cut" if method == Quantize.MEDIANCUT else "k-means++"
    engine = KMeansPalette(6, init=init).fit(np.asarray(picture))
    made = pillow.quantize(picture, 6, method, kmeans=3)
    assert made.palette.palette == engine.palette_.colors.tobytes()


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (7, 3)])
@pytest.mark.parametrize("colors", [1, 2, 255, 256])
def test_sizes_and_numbers_of_colours(size: tuple[int, int], colors: int, picture: PIL.Image.Image) -> None:
    made = pillow.quantize(picture.convert("RGB").crop((0, 0, *size)), colors)
    assert made.size == size
    assert 1 <= len(made.palette.palette) // 3 <= colors
    assert len(made.getcolors()) <= colors


def test_one_colour_is_the_mean() -> None:
    pixels = np.array([[[10, 20, 30, 255], [13, 20, 0, 255], [99, 99, 99, 0]]], np.uint8)
    made = pillow.quantize(PIL.Image.fromarray(pixels), 1)
    assert rgba(made).tolist() == [[[12, 20, 15, 170]] * 3]
    assert rgba(pillow.quantize(PIL.Image.new("RGBA", (2, 1)), 1)).tolist() == [[[0, 0, 0, 0]] * 2]
    assert rgba(pillow.quantize(PIL.Image.new("L", (2, 1), 7), 1)).tolist() == [[[7, 7, 7, 255]] * 2]


def test_transparency_is_exact_also_in_files(picture: PIL.Image.Image) -> None:
    pixels = np.asarray(picture).copy()
    assert (rgba(pillow.quantize(picture, 9))[pixels[:, :, 3] == 0] == 0).all()
    pixels[:, :, 3] = np.where(pixels[:, :, 3] == 0, 0, 255)
    made = pillow.quantize(PIL.Image.fromarray(pixels), 9)
    for kind in ("PNG", "GIF"):
        file = io.BytesIO()
        made.save(file, kind)
        with PIL.Image.open(file) as read:
            assert np.array_equal(rgba(read), rgba(made))
    assert np.array_equal(rgba(made)[:, :, 3], pixels[:, :, 3])


@pytest.mark.parametrize("make", [pillow.quantize, lambda image, n: clquant.quantize(image, n).to_pil()])
def test_soft_edges_are_kept_as_each_format_has_them(make: Any, picture: PIL.Image.Image) -> None:
    pixels = np.asarray(picture).copy()
    pixels[:, :, 3] = np.where(pixels[:, :, 3] == 0, 0, pixels[:, :, 3] | 64)
    made = make(PIL.Image.fromarray(pixels), 16)
    want = rgba(made)
    assert {0, 255} < set(np.unique(want[:, :, 3]).tolist())
    for kind, options in (
        ("PNG", {}),
        ("WEBP", {"lossless": True, "exact": True}),
        ("TIFF", {}),
        ("TGA", {}),
        ("GIF", {}),
    ):
        file = io.BytesIO()
        made.save(file, kind, **options)
        with PIL.Image.open(file) as read:
            found = rgba(read)
        if kind == "GIF":
            assert np.array_equal(found[:, :, 3], np.where(want[:, :, 3] < 128, 0, 255))
            assert (found[pixels[:, :, 3] == 0][:, 3] == 0).all()
        else:
            assert np.array_equal(found, want)
    film = io.BytesIO()
    more = [make(PIL.Image.fromarray(pixels[::-1].copy()), 16), made]
    made.save(film, "GIF", save_all=True, append_images=more, disposal=2)
    with PIL.Image.open(film) as read:
        for number, expected in enumerate((want, want[::-1], want)):
            read.seek(number)
            assert np.array_equal(rgba(read)[:, :, 3] == 0, expected[:, :, 3] < 128)
    assert np.array_equal(rgba(pickle.loads(pickle.dumps(made))), want)


def test_opaque_rgba_is_as_good_as_rgb(picture: PIL.Image.Image) -> None:
    image = picture.convert("RGB")
    made = pillow.quantize(image.convert("RGBA"), 16)
    assert made.palette.mode == "RGBA"
    assert np.array_equal(rgba(made), rgba(pillow.quantize(image, 16)))


def test_info_stays_but_for_the_transparency(picture: PIL.Image.Image) -> None:
    image = picture.convert("RGB")
    red, green, blue = image.getpixel((2, 3))
    image.info.update(transparency=(red, green, blue), dpi=(72, 72))
    made = pillow.quantize(image, 8)
    assert made.info["dpi"] == (72, 72)
    assert rgba(made)[3, 2, 3] == 0
    assert "transparency" not in pillow.quantize(picture.convert("RGB"), 8).info


@pytest.mark.parametrize("count", [1, 3, 256])
def test_a_palette_is_used_as_it_is(count: int, picture: PIL.Image.Image, rng: np.random.Generator) -> None:
    colors = rng.integers(0, 256, (count, 3), dtype=np.uint8)
    other = PIL.Image.new("P", (1, 1))
    other.putpalette(colors.tobytes())
    image = picture.convert("RGB")
    made = pillow.quantize(image, palette=other, dither=Dither.NONE)
    assert made.palette.palette == colors.tobytes()
    assert np.array_equal(np.asarray(made), clquant.quantize(np.asarray(image), Palette(colors)).indices)
    assert np.asarray(pillow.quantize(image, palette=other)).max() < count


@pytest.mark.parametrize("kind", ["RGBA", "info"])
def test_a_palette_with_transparency(kind: str, picture: PIL.Image.Image) -> None:
    other = PIL.Image.new("P", (1, 1))
    if kind == "RGBA":
        other.putpalette(bytes([0, 0, 0, 0, 255, 255, 255, 255, 90, 0, 0, 255]), "RGBA")
    else:
        other.putpalette(bytes([0, 0, 0, 255, 255, 255, 90, 0, 0]))
        other.info["transparency"] = 0
    made = pillow.quantize(picture, palette=other, dither=Dither.NONE)
    assert (np.asarray(made)[np.asarray(picture)[:, :, 3] == 0] == 0).all()
    assert made.palette.mode == "RGBA"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"colors": 0}, "colors is 0; allowed: an integer from 1 to 256"),
        ({"colors": 257}, "colors is 257; allowed: an integer from 1 to 256"),
        ({"method": 4}, "method is 4; allowed: an integer from 0 to 3"),
        ({"kmeans": -1}, "kmeans is -1; allowed: an integer of at least 0"),
        ({"dither": 9}, "dither is 9; allowed: an integer from 0 to 3"),
        ({"dither": "none such"}, "dither is 'none such'; allowed: "),
        ({"palette": PIL.Image.new("RGB", (1, 1))}, "palette is an image of mode RGB; allowed: mode P"),
        ({"palette": PIL.Image.new("P", (1, 1))}, "palette is an image whose palette is empty; allowed: 1 to 256"),
    ],
)
def test_what_pillow_refuses_is_a_value_error_too(given: dict[str, Any], words: str, picture: PIL.Image.Image) -> None:
    with pytest.raises(clquant.InvalidArgument, match=words) as caught:
        pillow.quantize(picture.convert("RGB"), **given)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("mode", "width"), [("CMYK", 1), ("F", 1), ("I;16", 1), ("RGB", 0)])
def test_wrong_images(mode: str, width: int) -> None:
    with pytest.raises(clquant.InvalidArgument, match="image has"):
        pillow.quantize(PIL.Image.new(mode, (width, 1)))


@pytest.mark.parametrize("palette", [None, PIL.Image.new("P", (1, 1))])
def test_a_tall_gray_picture_is_one(palette: PIL.Image.Image | None) -> None:
    if palette is not None:
        palette.putpalette([0, 0, 0, 255, 255, 255])
    tall = PIL.Image.new("L", (3, 500), 255)
    assert pillow.quantize(tall, 2, palette=palette).convert("L").tobytes() == tall.tobytes()


def test_holes_need_an_entry_of_the_palette(picture: PIL.Image.Image) -> None:
    with pytest.raises(clquant.InvalidArgument, match="fully transparent pixels"):
        pillow.quantize(picture, palette=pillow.quantize(picture.convert("RGB"), 4))


def test_other_things_than_images_are_named(picture: PIL.Image.Image) -> None:
    with pytest.raises(clquant.InvalidType, match=r"image is 'photo\.png'; allowed: a PIL image"):
        pillow.quantize("photo.png")
    with pytest.raises(clquant.InvalidType, match=r"palette is .*; allowed: a PIL image"):
        pillow.quantize(picture, palette=Palette(["red"]))
    with pytest.raises(clquant.InvalidType, match="method is 'octree'; allowed: an integer from 0 to 3"):
        pillow.quantize(picture, method="octree")


def test_a_damaged_file_is_named(picture: PIL.Image.Image) -> None:
    file = io.BytesIO()
    picture.convert("RGB").resize((60, 60)).save(file, "JPEG")
    with pytest.raises(clquant.FileError, match="image: cannot read the PIL image"):
        pillow.quantize(PIL.Image.open(io.BytesIO(file.getvalue()[:-300])))
