"""Animated WebP files without loss (Google, "WebP Container Specification"): what each frame changes.

Pillow packs the pixels. Its own writer of animations is not used: libwebp merges equal frames and their times. A frame
replaces a rectangle of what stands there, or is drawn on it with holes where nothing changes if that is smaller, and
nothing is disposed of.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.color.formats import apng
from clquant.color.formats.gif_frames import Indexed
from clquant.color.formats.names import LOSSLESS
from clquant.runtime import InvalidArgument

MAX_SIDE = 16383
_HAS_ALPHA, _ANIMATED = 0x10, 0x02
_DRAW, _REPLACE = 0x00, 0x02
_RIFF_BYTES = 12


def encoded(frames: Sequence[Indexed], delays_ms: Sequence[int], plays: int) -> bytes:
    """A whole file, of frames of one size with their times, shown `plays` times or, if that is 0, for ever."""
    height, width = frames[0][0].shape
    if max(height, width) > MAX_SIDE:
        raise InvalidArgument(
            f"a WebP is at most {MAX_SIDE} pixels wide and high; these frames are {width} wide and {height} high"
        )
    opaque = all((colors[:, 3] == 255).all() for _, colors in frames)
    parts, has_alpha = [], not opaque
    # Places are written halved: a rectangle begins at even rows and columns.
    changes = apng.changes(frames, False, 3 if opaque else 4, grid=2)
    for (pixels, differs, x, y), delay in zip(changes, delays_ms, strict=True):
        data, how = _packed(pixels), _REPLACE
        if not differs.all() and (opaque or (pixels[differs][:, 3] == 255).all()):
            with_holes = np.zeros((*differs.shape, 4), np.uint8)
            with_holes[differs] = np.dstack([pixels[..., :3], np.full(differs.shape, 255, np.uint8)])[differs]
            smaller = _packed(with_holes)
            if len(smaller) < len(data):
                data, how, has_alpha = smaller, _DRAW, True
        rows, columns = differs.shape
        place = _three(x // 2) + _three(y // 2) + _three(columns - 1) + _three(rows - 1)
        parts.append(_chunk(b"ANMF", place + _three(delay) + bytes([how]) + data))
    flags = _ANIMATED | (_HAS_ALPHA if has_alpha else 0)
    head = _chunk(b"VP8X", bytes([flags, 0, 0, 0]) + _three(width - 1) + _three(height - 1))
    body = b"".join([b"WEBP", head, _chunk(b"ANIM", struct.pack("<IH", 0, plays)), *parts])
    return b"RIFF" + struct.pack("<I", len(body)) + body


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
