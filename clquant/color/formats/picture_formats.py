"""Formats of picture files: their names, suffixes and what they hold."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import PIL.Image

from clquant import params
from clquant.color.formats import embedded, sixel
from clquant.images import files
from clquant.runtime import InvalidArgument

MOST_ICO_SIDE = 256
# Formats that Pillow cannot write, or does not read again, with alpha.
WITHOUT_ALPHA = frozenset({"BMP", "DIB", "EPS", "JPEG", "MPO", "PBM", "PCX", "PPM", "SPIDER"})
# Formats beside PNG and GIF that hold a palette, of opaque colours.
WITH_PALETTE = frozenset({"BMP", "DIB", "PCX", "TGA", "TIFF"})
# Formats with a bit per pixel if the palette is black and white.
BILEVEL = frozenset({"BMP", "TIFF"})
# Suffixes whose formats are known without importing all of Pillow's.
_COMMON_SUFFIXES = {
    f".{name.lower()}": name for name in ("PNG", "GIF", "SIXEL", "TIFF", "BMP", "WEBP", "PBM", "C", "H")
}
_COMMON_SUFFIXES |= {".six": "SIXEL", ".tif": "TIFF"}
# Of LVGL's own files; a plain .bin is a panel's frame.
LVGL_SUFFIX = ".lvgl.bin"
FAX_COMPRESSIONS = frozenset({"group3", "group4", "tiff_ccitt"})
# Formats of our own, of at most 256 colours, and what encodes indices with (n, 4) colours.
OWN: dict[str, Callable[..., bytes]] = {
    "SIXEL": sixel.encode,
    "C": embedded.c_source,
    "H": partial(embedded.c_source, header=True),
    "LVGL": embedded.lvgl_binary,
}
# Own formats whose text has a name in it.
SOURCES = frozenset({"C", "H"})
SMALL_DISPLAYS = SOURCES | {"LVGL"}
# Options that make Pillow write without loss, and small files.
LOSSLESS: dict[str, dict[str, Any]] = {
    "TIFF": {"compression": "tiff_adobe_deflate"},
    "WEBP": {"lossless": True, "exact": True},
}


def by_pillow(image: PIL.Image.Image, name: str, options: Mapping[str, Any]) -> bytes:
    """Encode a picture by Pillow in its own size, an icon too, and without loss where the format has a way."""
    if name == "ICNS" or (name == "ICO" and max(image.size) > MOST_ICO_SIDE):
        raise InvalidArgument(
            f"{name} holds no picture of {image.width}x{image.height} pixels; allowed: "
            f"ICO up to {MOST_ICO_SIDE}x{MOST_ICO_SIDE}, PNG and other formats"
        )
    own = {"sizes": [image.size]} if name == "ICO" else LOSSLESS.get(name, {})
    compression = options.get("compression")
    # Some releases of libtiff crash on these.
    if name == "TIFF" and compression in FAX_COMPRESSIONS and image.mode != "1":
        raise InvalidArgument(f"compression {compression!r} holds black and white alone")
    data = io.BytesIO()
    try:
        image.save(data, "PPM" if name == "PBM" else name, **{**own, **options})
    except MemoryError:
        raise
    except Exception as error:  # Pillow's encoders raise many kinds
        raise InvalidArgument(str(error)) from error
    return data.getvalue()


def format_of(path: str | os.PathLike[str]) -> str:
    """The name, for `IndexedImage.to_bytes`, of the format that a path's suffix stands for."""
    named = files.path_of(path)
    if named.name.lower().endswith(LVGL_SUFFIX):
        return "LVGL"
    name = format_of_suffix(named.suffix)
    if named.suffix.lower() == ".bin":
        frame = "a plain .bin is a frame of clquant panel"
        raise InvalidArgument(f"{str(named)!r}: {frame}; allowed for an LVGL image: {named.stem + LVGL_SUFFIX!r}")
    if name is None:
        raise InvalidArgument(f"{str(named)!r}: no picture format has the suffix {named.suffix!r}; try .png or .gif")
    return name


def format_named(format: str) -> str:
    """A format's name as Pillow has it, or ``"SIXEL"``, of such a name or a suffix in letters of any case."""
    name = format.upper()
    if name in OWN or name in ("PNG", "GIF", "PBM"):
        return name
    PIL.Image.init()
    known = name if name in PIL.Image.SAVE else format_of_suffix("." + format.removeprefix("."))
    if known is None:
        raise InvalidArgument(
            f"format is {params.shown(format)}; allowed: 'PNG', 'GIF', 'SIXEL', or the name or suffix of a format that "
            f"Pillow writes, such as 'JPEG', 'TIFF' or 'webp'"
        )
    return known


def format_of_suffix(suffix: str) -> str | None:
    """The format of a suffix with its dot; None where Pillow writes none."""
    lower = suffix.lower()
    if lower in _COMMON_SUFFIXES:
        return _COMMON_SUFFIXES[lower]
    PIL.Image.init()
    name = PIL.Image.registered_extensions().get(lower)
    return name if name in PIL.Image.SAVE else None
