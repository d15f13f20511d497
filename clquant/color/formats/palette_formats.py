"""Palette files: which reader and writer a name stands for; pictures of swatches."""

from __future__ import annotations

import codecs
import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import params
from clquant.color.formats import binary, png, text
from clquant.color.values import MOST_COLORS, as_rgba
from clquant.images import decode, files, picture_files
from clquant.runtime import FileError, FormatError, InvalidArgument

# No palette of 65536 colours needs more in any of the formats.
MOST_BYTES = 16 << 20
MOST_PIXELS = 1 << 24
_SWATCHES = "a picture of swatches"
SWATCH_SIDE = 16
SWATCHES_PER_ROW = 16

Colors = npt.NDArray[np.uint8]  # (n, 3) or (n, 4)


@dataclass(frozen=True)
class Format:
    """One kind of palette file."""

    name: str
    suffix: str  # of files that are written in it
    read: Callable[[bytes], Colors]  # from bytes to colours; raises FormatError and nothing else
    write: Callable[[Colors], bytes]  # from colours to bytes; raises InvalidArgument where the format cannot hold it
    signature: bytes = b""  # what its files begin with; empty where they have no mark


def read_swatches(data: bytes) -> Colors:
    """The palette of an indexed picture, in its order; of any other picture its distinct colours in reading order."""
    try:
        with picture_files.opened(data, _SWATCHES) as (image, _):
            if image.width * image.height > MOST_PIXELS:
                raise FormatError(f"a picture of {image.width}x{image.height} is no palette; allowed: 2^24 pixels")
            image.load()
            return _palette_of(image)
    except FileError as error:
        if isinstance(error.__cause__, PIL.UnidentifiedImageError):
            raise FormatError("no palette file and no picture of a format that is read") from error
        raise FormatError(str(error).removeprefix(f"cannot read {_SWATCHES}: ")) from error


def _palette_of(image: PIL.Image.Image) -> Colors:
    if image.mode == "P" and image.palette is not None:
        count = min(max(len(image.palette.palette) // len(image.palette.mode), 1), 256)
        image.apply_transparency()
        colors = np.array(image.getpalette("RGBA"), np.uint8).reshape(-1, 4)[:count]
    else:
        pixels = np.asarray(PIL.Image.fromarray(decode.from_pil(image, "picture")).convert("RGBA")).reshape(-1, 4)
        _, first = np.unique(pixels.view(np.uint32)[:, 0], return_index=True)
        if len(first) > MOST_COLORS:
            raise FormatError(f"a picture of {len(first)} colours is no palette; allowed: {MOST_COLORS}")
        colors = pixels[np.sort(first)]
    return colors if (colors[:, 3] < 255).any() else colors[:, :3]


def write_swatches(colors: Colors) -> bytes:
    """A PNG with a square a colour, 16 a row; indexed up to 256 colours, so that it reads back exactly."""
    columns = min(len(colors), SWATCHES_PER_ROW)
    rows = -(-len(colors) // columns)
    cells = np.minimum(np.arange(rows * columns), len(colors) - 1).reshape(rows, columns)
    squares = cells.repeat(SWATCH_SIDE, 0).repeat(SWATCH_SIDE, 1)
    if len(colors) > png.MAX_COLORS:
        return png.picture(colors[squares])
    return png.indexed(squares.astype(np.uint8), as_rgba(colors))


FORMATS = (
    Format("gpl", ".gpl", text.read_gpl, text.write_gpl, b"GIMP Palette"),
    Format("jasc", ".pal", text.read_jasc, text.write_jasc, b"JASC-PAL"),
    Format("riff", ".pal", binary.read_riff, binary.write_riff, b"RIFF"),
    Format("ase", ".ase", binary.read_ase, binary.write_ase, b"ASEF"),
    Format("act", ".act", binary.read_act, binary.write_act),
    Format("hex", ".hex", text.read_hex, text.write_hex),
    Format("paint.net", ".txt", text.read_paint_net, text.write_paint_net),
    Format("png", ".png", read_swatches, write_swatches, b"\x89PNG"),
)
NAMES = tuple(f.name for f in FORMATS)


def _named(name: str) -> Format:
    return FORMATS[NAMES.index(params.choice("format", name, NAMES))]


def from_bytes(data: bytes, format: str | None = None, suffix: str = "") -> Colors:
    """A palette from a file's bytes."""
    if format is not None:
        return _named(format).read(data)
    for known in FORMATS:
        if known.signature and data.removeprefix(codecs.BOM_UTF8).startswith(known.signature):
            return known.read(data)
    for known in FORMATS:
        if not known.signature and known.suffix == suffix.lower():
            return known.read(data)
    return read_swatches(data)


def to_bytes(colors: Colors, format: str) -> bytes:
    """A palette as a file's bytes."""
    return _named(format).write(colors)


def read(path: str | os.PathLike[str], format: str | None = None) -> Colors:
    """Read a palette file."""
    data = files.read_bytes(path, MOST_BYTES)
    try:
        return from_bytes(data, format, pathlib.Path(path).suffix)
    except FormatError as error:
        raise FileError(f"cannot read {os.fspath(path)!r} as a palette: {error}") from error


def write(colors: Colors, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a palette file, whole or not at all."""
    files.write_bytes(path, to_bytes(colors, format_of(path) if format is None else format))


def format_of(path: str | os.PathLike[str]) -> str:
    """The name of the format that a path's suffix stands for."""
    suffix = files.path_of(path).suffix.lower()
    for known in FORMATS:
        if known.suffix == suffix:
            return known.name
    suffixes = ", ".join(sorted({f.suffix for f in FORMATS}))
    raise InvalidArgument(f"{os.fspath(path)!r}: no palette format has the suffix {suffix!r}; allowed: {suffixes}")
