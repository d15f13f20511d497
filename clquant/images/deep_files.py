"""PNG and TIFF pictures of 16-bit colour, from their 16 bits.

Pillow has no mode for them and keeps the high byte of each value. It reads such files in either byte order, though: in
the wrong one, the byte that it keeps is the low one. So they are decoded twice. 16-bit gray with alpha has four bytes a
pixel, which are read as if they were red, green, blue and alpha.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
from PIL.Image import Transpose

from clquant.images.guards.metadata_work import png_chunks

_ORIENTATION = 0x0112  # EXIF's tag; 1 is upright
# The turns that set a picture of each orientation upright. Pillow's own function writes all EXIF data anew as well.
_TURNS = dict(zip(range(2, 9), (
    Transpose.FLIP_LEFT_RIGHT, Transpose.ROTATE_180, Transpose.FLIP_TOP_BOTTOM, Transpose.TRANSPOSE,
    Transpose.ROTATE_270, Transpose.TRANSVERSE, Transpose.ROTATE_90,
), strict=True))  # fmt: skip
_MOST_EXIF = 1 << 20
_PLANAR, _SEPARATE = 284, 2  # TIFF's tag
_OTHER = "B" if sys.byteorder == "little" else "L"
# The layout of a file's values in Pillow's words, and that of the other byte order.
_SWAPPED = {
    f"{mode};16{order}": f"{mode};16{other}"
    for mode in ("RGB", "RGBA")
    for order, other in (("B", "L"), ("L", "B"), ("N", _OTHER))
}
_GRAY_ALPHA = "LA;16B"


def deep_colors(image: PIL.Image.Image) -> npt.NDArray[np.uint16] | None:
    """The 16-bit colours of a file; None if it has none, or its pixels were read before."""
    tiles: list[Any] = list(getattr(image, "tile", None) or [])
    layouts = [tile[3] if isinstance(tile[3], str) else tile[3][0] for tile in tiles if tile[3]]
    if image.format == "PNG" and layouts == [_GRAY_ALPHA] and image.mode == "RGBA":
        return _gray_with_alpha(image)
    known = len(layouts) == len(tiles) > 0 and all(layout in _SWAPPED for layout in layouts)
    if image.format not in ("PNG", "TIFF") or not known or _has_planes(image):
        return None
    key = image.info.get("transparency")
    other = _opened_again(image)
    other.tile = [_swapped(tile) for tile in other.tile]
    high, low = (np.asarray(turned_upright(half)).astype(np.uint16) for half in (image, other))
    values: npt.NDArray[np.uint16] = high << np.uint16(8) | low
    if image.mode != "RGB" or not isinstance(key, tuple):
        return values
    opaque = (values != np.array(key, np.uint16)).any(axis=2)
    return np.dstack([values, np.uint16(65535) * opaque])


def _gray_with_alpha(image: Any) -> npt.NDArray[np.uint16]:
    """(H, W, 4): gray as three equal channels."""
    other = _opened_again(image)
    other.tile = [_with_layout(tile, "RGBA") for tile in other.tile]
    pairs = np.asarray(turned_upright(other)).astype(np.uint16)
    gray, alpha = (pairs[:, :, i] << np.uint16(8) | pairs[:, :, i + 1] for i in (0, 2))
    return np.dstack([gray, gray, gray, alpha])


def turned_upright(image: PIL.Image.Image) -> PIL.Image.Image:
    """A picture whose pixels are read, as its EXIF orientation says; damaged EXIF data say nothing."""
    note_late_exif(image)
    image.load()
    turn = _TURNS.get(orientation_of(image))
    return image if turn is None else image.transpose(turn)


def note_late_exif(image: Any) -> None:
    """Give an opened animated PNG the EXIF data after its pixels, which Pillow reads of others alone."""
    file = getattr(image, "fp", None)
    if image.format != "PNG" or file is None or "exif" in image.info or not image.is_animated:
        return
    place = file.tell()
    for kind, at, size in png_chunks(file):
        if kind == b"eXIf" and size <= _MOST_EXIF:
            file.seek(at)
            image.info["exif"] = b"Exif\0\0" + file.read(size)
    file.seek(place)


def orientation_of(image: PIL.Image.Image) -> int:
    """An image's EXIF orientation, 1 to 8; of a PNG whose EXIF data come last, only once its pixels are read."""
    found: Any = 1
    with contextlib.suppress(Exception):
        found = image.getexif().get(_ORIENTATION, 1)
    return found if found in _TURNS else 1


def upright(pixels: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """Pixels (H, W) or (H, W, C) as their EXIF orientation says."""
    pixels = pixels.swapaxes(0, 1) if orientation > 4 else pixels
    down, across = ((1, 1), (1, -1), (-1, -1), (-1, 1))[(orientation - 1) % 4]
    return np.ascontiguousarray(pixels[::down, ::across])


def _opened_again(image: Any) -> Any:
    """The same frame of the same file, whose tiles may be changed."""
    place = image.fp.tell()
    image.fp.seek(0)
    other = PIL.Image.open(io.BytesIO(image.fp.read()), formats=[image.format])
    image.fp.seek(place)
    other.seek(image.tell())
    return other


def _swapped(tile: Any) -> Any:
    """A tile whose values are in the other byte order."""
    layout = tile[3]
    return _with_layout(tile, _SWAPPED[layout] if isinstance(layout, str) else (_SWAPPED[layout[0]], *layout[1:]))


def _has_planes(image: Any) -> bool:
    """Whether a TIFF has a plane for each channel, whose values are not in the layout that its tiles name."""
    return image.format == "TIFF" and int(image.tag_v2.get(_PLANAR, 1)) == _SEPARATE


def _with_layout(tile: Any, layout: Any) -> Any:
    # Older releases of Pillow have plain tuples.
    return tile._replace(args=layout) if hasattr(tile, "_replace") else (*tile[:3], layout)
