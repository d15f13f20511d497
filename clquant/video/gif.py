"""The GIF89a container of animations: headers, colour tables and frames' blocks, in the specification's order.

Source: CompuServe, "Graphics Interchange Format, version 89a", 1990; the loop block is Netscape's extension.
Pillow packs the pixels (LZW). Its own writer of animations is not used: it merges equal frames, and compares frames
without their alpha.
"""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.video.shown import About

MAX_DELAY = 65535  # hundredths of a second
MAX_PLAYS = 65535

_HEADER_BYTES = 13
_TABLE_FLAG = 0x80
_EIGHT_BITS_PER_CHANNEL = 0x70
_KEEP, _CLEAR = 1, 2  # what becomes of a frame's rectangle before the next frame is drawn
_EXTENSION, _DESCRIPTOR, _TRAILER = b"\x21", b"\x2c", b"\x3b"
_LOOP = _EXTENSION + b"\xff\x0bNETSCAPE2.0\x03\x01"
_COMMENT = _EXTENSION + b"\xfe"
BLOCK_BYTES = 255


@dataclass(frozen=True)
class Frame:
    """One rectangle that is drawn on what the frames before left."""

    indices: npt.NDArray[np.uint8]  # (h, w)
    x: int  # where its upper left pixel goes
    y: int
    colors: npt.NDArray[np.uint8]  # (n, 3), 1 to 256 of them
    transparent: int | None  # the index that draws nothing
    clear: bool  # whether the rectangle becomes transparent before the next frame is drawn, instead of staying
    delay: int  # hundredths of a second

    @functools.cached_property
    def packed(self) -> bytes:
        """The pixels as LZW blocks."""
        return _packed(self.indices)

    @functools.cached_property
    def table(self) -> tuple[int, bytes]:
        """The colours, filled up with black to 2^(size + 1) entries: (size, bytes)."""
        size = max(int(len(self.colors) - 1).bit_length(), 1) - 1
        return size, self.colors.tobytes().ljust(3 * (2 << size), b"\0")


def write(file: BinaryIO, about: About, frames: Iterable[tuple[Frame, bytes]]) -> None:
    """Write a whole file of frames with their packed pixels as they come."""
    shared: tuple[int, bytes] | None = None
    for frame, packed in frames:
        size, table = frame.table
        if shared is None:
            shared = size, table
            background = frame.transparent or 0
            flags = _TABLE_FLAG | _EIGHT_BITS_PER_CHANNEL | size
            file.write(b"GIF89a" + struct.pack("<HHBBB", about.width, about.height, flags, background, 0) + table)
            if about.plays != 1:  # what is written is how often it is repeated
                file.write(_LOOP + struct.pack("<HB", max(about.plays - 1, 0), 0))
            if about.comment:
                file.write(_COMMENT + blocks(about.comment.encode("ascii", "replace")))
        own = (size, table) != shared
        flags = (_CLEAR if frame.clear else _KEEP) << 2 | (frame.transparent is not None)
        file.write(_EXTENSION + b"\xf9" + struct.pack("<BBHBB", 4, flags, frame.delay, frame.transparent or 0, 0))
        rows, columns = frame.indices.shape
        flags = _TABLE_FLAG | size if own else 0
        file.write(_DESCRIPTOR + struct.pack("<HHHHB", frame.x, frame.y, columns, rows, flags))
        file.write((table if own else b"") + packed)
    file.write(_TRAILER)


def blocks(data: bytes) -> bytes:
    """Data in blocks of up to 255 bytes, each after its length, and an empty one."""
    parts = [data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)]
    return b"".join(bytes([len(part)]) + part for part in [*parts, b""])


def _packed(indices: npt.NDArray[np.uint8]) -> bytes:
    """A frame's pixels as LZW blocks, cut out of a file of one gray picture, whose values Pillow leaves alone."""
    out = io.BytesIO()
    PIL.Image.fromarray(np.ascontiguousarray(indices)).save(out, "GIF", optimize=False, interlace=0)
    data = out.getvalue()
    at = _HEADER_BYTES + _table_bytes(data[10])
    assert data[at : at + 1] == _DESCRIPTOR
    at += 10 + _table_bytes(data[at + 9])
    return data[at : -len(_TRAILER)]


def _table_bytes(flags: int) -> int:
    """Bytes of the colour table that a descriptor's flags announce."""
    return 3 * (2 << (flags & 7)) if flags & _TABLE_FLAG else 0
