"""Animated WebP files without loss (Google, "WebP Container Specification"): what each frame changes.

Pillow packs the pixels. Its own writer of animations is not used: libwebp merges equal frames and their times. A frame
replaces a rectangle of what stands there, or is drawn on it with holes where nothing changes if that is smaller, and
nothing is disposed of.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.color.formats import parallel
from clquant.color.formats.picture_formats import LOSSLESS
from clquant.runtime import InvalidArgument
from clquant.video import apng
from clquant.video.shown import About, Shown

MAX_SIDE = 16383
MAX_DELAY_MS = (1 << 24) - 1
_HAS_ALPHA, _ANIMATED = 0x10, 0x02
_DRAW, _REPLACE = 0x00, 0x02
_RIFF_BYTES = 12
_SIZE_ENDS = 8


def write(file: BinaryIO, about: About, frames: Iterable[Shown]) -> None:
    """Write frames as they come to a file that can be sought in."""
    if max(about.height, about.width) > MAX_SIDE:
        raise InvalidArgument(
            f"a WebP is at most {MAX_SIDE} pixels wide and high; these frames are {about.width} wide and "
            f"{about.height} high"
        )
    if about.comment:
        raise InvalidArgument("comment is given; allowed in GIF and PNG files alone")
    has_alpha = not about.opaque
    file.write(_head(about, has_alpha, 0))
    # Places are written halved: a rectangle begins at even rows and columns.
    changes = apng.changes(frames, None, 3 if about.opaque else 4, grid=2)
    for chunk, with_holes in parallel.ordered(lambda change: _frame(change, about.opaque), changes):
        file.write(chunk)
        has_alpha = has_alpha or with_holes
    end = file.tell()
    file.seek(0)
    file.write(_head(about, has_alpha, end - _SIZE_ENDS))
    file.seek(end)


def _head(about: About, has_alpha: bool, size: int) -> bytes:
    flags = _ANIMATED | (_HAS_ALPHA if has_alpha else 0)
    canvas = _chunk(b"VP8X", bytes([flags, 0, 0, 0]) + _three(about.width - 1) + _three(about.height - 1))
    return b"RIFF" + struct.pack("<I", size) + b"WEBP" + canvas + _chunk(b"ANIM", struct.pack("<IH", 0, about.plays))


def _frame(change: apng.Change, opaque: bool) -> tuple[bytes, bool]:
    """The chunk of one frame, and whether it has holes."""
    pixels, differs, x, y, delay = change
    data, how = _packed(pixels), _REPLACE
    if not differs.all() and (opaque or (pixels[differs][:, 3] == 255).all()):
        with_holes = np.zeros((*differs.shape, 4), np.uint8)
        with_holes[differs] = np.dstack([pixels[..., :3], np.full(differs.shape, 255, np.uint8)])[differs]
        smaller = _packed(with_holes)
        if len(smaller) < len(data):
            data, how = smaller, _DRAW
    rows, columns = differs.shape
    place = _three(x // 2) + _three(y // 2) + _three(columns - 1) + _three(rows - 1)
    return _chunk(b"ANMF", place + _three(delay) + bytes([how]) + data), how == _DRAW


def _packed(pixels: npt.NDArray[np.uint8]) -> bytes:
    """The chunk of a picture's pixels, cut out of a file of its own."""
    out = io.BytesIO()
    PIL.Image.fromarray(np.ascontiguousarray(pixels)).save(out, "WEBP", **LOSSLESS["WEBP"])
    return out.getvalue()[_RIFF_BYTES:]


def _chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk with its length, filled up to an even one."""
    return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def _three(number: int) -> bytes:
    return number.to_bytes(3, "little")
