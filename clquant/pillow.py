"""`clquant.pillow.quantize`: Pillow's `Image.quantize` with the same arguments, by this library."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
from PIL.Image import Dither, Quantize

from clquant import params
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.kmeans import KMeansPalette
from clquant.palette import engine
from clquant.runtime import FileError, InvalidArgument, InvalidType

__all__ = ["quantize"]

_MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX")
_WITH_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")
# Pillow treats all numbers but NONE and ORDERED alike.
_DITHERS = {Dither.NONE: None, Dither.ORDERED: "bayer"}


def quantize(
    image: PIL.Image.Image,
    colors: int = 256,
    method: int | None = None,
    kmeans: int = 0,
    palette: PIL.Image.Image | None = None,
    dither: Any = Dither.FLOYDSTEINBERG,
) -> PIL.Image.Image:
    """An image in few colours: a drop-in for Pillow's ``image.quantize(...)``.

    Parameters
    ----------
    image : PIL.Image.Image
        Of mode 1, L, LA, P, RGB or RGBA (or PA, La, RGBa, RGBX). Its pixels are taken as they are: no EXIF orientation,
        no ICC profile.
    colors : int
        How many colours to learn, 1 to 256; ignored if `palette` is given. A single colour is the mean, of alpha too.
    method : int, optional
        One of `PIL.Image.Quantize`. Colours are always learned by k-means (`KMeansPalette`) over all pixels. With
        ``MEDIANCUT`` it starts from a median cut; with None and all others it starts as `clquant.quantize` does. Each
        works for every mode.
    kmeans : int
        0 or more; taken for Pillow's sake, as k-means always runs.
    palette : PIL.Image.Image, optional
        An image of mode P whose palette is used as it is, with all its entries and no others.
    dither : int, str or object
        ``Dither.NONE``, ``Dither.FLOYDSTEINBERG`` or ``Dither.ORDERED`` (Bayer's 8x8 matrix); or whatever
        `clquant.quantize` takes, such as ``"blue-noise"``. It works with and without `palette`.

    Returns
    -------
    PIL.Image.Image
        Of mode P, with the `info` of `image`. The palette's mode is RGBA if `image` has transparency, else RGB; it has
        an entry per learned colour, and pixels of alpha 0 keep alpha 0; its ``save`` writes them so to every format
        that has alpha. The same on every device.

    Raises
    ------
    InvalidType
        If `image` or `palette` is no PIL image, or another argument has a wrong type.
    InvalidArgument
        If an argument or a mode is not allowed, or `image` has pixels of alpha 0 and `palette` has no such entry.
        Like every error of a value, it is a ``ValueError``, as in Pillow.
    FileError
        If the file behind an image is damaged.

    Examples
    --------
    >>> import PIL.Image
    >>> import clquant.pillow
    >>> image = PIL.Image.new("RGB", (3, 1), "red")
    >>> clquant.pillow.quantize(image, 4).getcolors()
    [(3, 0)]
    """
    way = _dither_of(dither)
    chosen = None if method is None else params.integer("method", method, 0, max(Quantize))
    params.integer("kmeans", kmeans, 0)
    pixels = _pixels(image)
    if palette is not None:
        return _to_palette_of(palette, image, pixels, way)
    count = params.integer("colors", colors, 1, 256)
    if count == 1:
        return _image(np.zeros(pixels.shape[:2], np.uint8), _mean(pixels), image)
    init = "median-cut" if chosen == Quantize.MEDIANCUT else "k-means++"
    made = KMeansPalette(count, init=init).fit(pixels).quantize(pixels, way)
    return _image(made.host_indices(), made.palette.rgba()[:, : max(pixels.shape[2], 3)], image)


def _dither_of(dither: Any) -> Any:
    """Return the dither that `clquant.quantize` takes for Pillow's number; anything else as it is."""
    if isinstance(dither, bool) or not isinstance(dither, int):
        return dither
    return _DITHERS.get(Dither(params.integer("dither", dither, 0, max(Dither))), "floyd-steinberg")


def _loaded(image: Any, name: str) -> PIL.Image.Image:
    """An image whose pixels are read."""
    if not isinstance(image, PIL.Image.Image):
        raise InvalidType(f"{name} is {params.shown(image)}; allowed: a PIL image")
    try:
        image.load()
    except OSError as error:
        raise FileError(f"{name}: cannot read the PIL image: {error}") from error
    return image


def _has_alpha(image: PIL.Image.Image) -> bool:
    """Whether some pixels of an image can be transparent."""
    of_palette = image.mode == "P" and getattr(image.palette, "mode", "RGB") == "RGBA"
    return image.mode in _WITH_ALPHA or of_palette or "transparency" in image.info


def _pixels(image: Any) -> npt.NDArray[np.uint8]:
    """(H, W, 1, 3 or 4)."""
    loaded = _loaded(image, "image")
    if loaded.mode not in _MODES:
        raise InvalidArgument(f"image has mode {loaded.mode}; allowed: {', '.join(_MODES)}")
    if 0 in loaded.size:
        raise InvalidArgument(f"image has the size {loaded.size}; allowed: at least one pixel")
    if loaded.mode == "La":
        loaded = loaded.convert("LA")
    kind = "RGBA" if _has_alpha(loaded) else "L" if loaded.mode in ("1", "L") else "RGB"
    return np.atleast_3d(np.asarray(loaded.convert(kind)))


def _mean(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The mean colour, (1, 3 or 4), rounded half up; colours count by their alpha."""
    rows = pixels.reshape(-1, pixels.shape[2]).astype(np.int64)
    weight = rows[:, 3:] if rows.shape[1] == 4 else np.ones((len(rows), 1), np.int64)
    total = max(int(weight.sum()), 1)
    color = (2 * (rows[:, :3] * weight).sum(axis=0) + total) // (2 * total)
    alpha = (2 * rows[:, 3:].sum(axis=0) + len(rows)) // (2 * len(rows))
    return np.concatenate([np.resize(color, 3), alpha]).astype(np.uint8)[None]


def _to_palette_of(other: Any, image: PIL.Image.Image, pixels: npt.NDArray[np.uint8], dither: Any) -> PIL.Image.Image:
    """The picture in the colours of another image of mode P, which stay as they are."""
    source = _loaded(other, "palette")
    if source.mode != "P" or source.palette is None:
        raise InvalidArgument(f"palette is an image of mode {source.mode}; allowed: mode P")
    kind = "RGBA" if _has_alpha(source) else "RGB"
    count = len(source.palette.palette) // len(source.palette.mode)
    if count == 0:
        raise InvalidArgument("palette is an image whose palette is empty; allowed: 1 to 256 entries")
    entries = PIL.Image.fromarray(np.arange(count, dtype=np.uint8)[None])
    entries.putpalette(source.palette.palette, source.palette.mode)
    if "transparency" in source.info:
        entries.info["transparency"] = source.info["transparency"]
    colors = np.asarray(entries.convert(kind))[0]
    return _image(engine.quantize(pixels, Palette(colors), dither=dither).host_indices(), colors, image)


def _image(indices: npt.NDArray[Any], colors: npt.NDArray[np.uint8], like: PIL.Image.Image) -> PIL.Image.Image:
    """Indices and their colours as an image of mode P with the `info` of another, whose transparency they replace."""
    made = IndexedImage.of_own(indices, Palette(colors)).to_pil()
    if colors.shape[1] == 4 and (colors[:, 3] == 255).all():
        made.putpalette(colors.tobytes(), "RGBA")
    made.info = {**{name: value for name, value in like.info.items() if name != "transparency"}, **made.info}
    return made
