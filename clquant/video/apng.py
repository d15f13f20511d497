"""Animated PNG files (ISO/IEC 15948, third edition, section 11.3.6): what each frame changes.

Frames that have one palette are indexed; else all are RGB, or RGBA if any colour has alpha. A frame replaces a
rectangle of what stands there, and nothing is disposed of, so that no reader can differ. Indices of several frames have
a byte each: FFmpeg shows rectangles of fewer bits at wrong places.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel, png
from clquant.color.formats.png import bits_of
from clquant.images.moving import bounds
from clquant.runtime import InvalidArgument
from clquant.video.shown import About, Shown

_KEEP, _REPLACE = 0, 0  # dispose_op none, blend_op source
_MAX_SHORT = 65535
MAX_DELAY_MS = 1000 * _MAX_SHORT

# The rectangle that differs from the frame before, which of its pixels do, its left and upper edge, its milliseconds.
Change = tuple[npt.NDArray[Any], npt.NDArray[np.bool_], int, int, int]


def write(file: BinaryIO, about: About, frames: Iterable[Shown]) -> None:
    """Write frames as an APNG file that can be sought in, as they come."""
    rgba = about.rgba if about.rgba is not None and len(about.rgba) <= png.MAX_COLORS else None
    source = iter(frames)
    begin = list(itertools.islice(source, 2))
    depth = 8 if rgba is None or len(begin) > 1 else bits_of(len(rgba))
    kind = png.INDEXED if rgba is not None else png.RGB if about.opaque else png.RGBA
    file.write(png.SIGNATURE)
    file.write(png.chunk(b"IHDR", struct.pack(">IIBBBBB", about.width, about.height, depth, kind, 0, 0, 0)))
    control = file.tell()
    file.write(_control(0, about.plays) + b"".join([] if rgba is None else png.palette_chunks(rgba)))
    if about.comment:
        file.write(png.chunk(b"tEXt", b"Comment\0" + about.comment.encode("latin-1", "replace")))

    def packed(change: Change) -> tuple[Change, bytes]:
        return change, png.compressed(change[0], depth)

    number, channels = 0, 3 if about.opaque else 4
    for (pixels, _, x, y, delay), data in parallel.ordered(
        packed, changes(itertools.chain(begin, source), rgba, channels)
    ):
        rows, columns = pixels.shape[:2]
        sequence = max(2 * number - 1, 0)
        place = struct.pack(">IIIII", sequence, columns, rows, x, y)
        file.write(png.chunk(b"fcTL", place + struct.pack(">HH", *_fraction(delay)) + bytes([_KEEP, _REPLACE])))
        file.write(png.chunk(b"fdAT", struct.pack(">I", sequence + 1) + data) if number else png.chunk(b"IDAT", data))
        number += 1
    file.write(png.chunk(b"IEND", b""))
    file.seek(control)
    file.write(_control(number, about.plays))
    file.seek(0, 2)


def _control(count: int, plays: int) -> bytes:
    return png.chunk(b"acTL", struct.pack(">II", count, plays))


def changes(
    frames: Iterable[Shown], palette: npt.NDArray[np.uint8] | None, channels: int, grid: int = 1
) -> Iterator[Change]:
    """Yield what each frame changes: of frames with one palette indices, else colours of `channels`.

    Edges are multiples of `grid`.
    """
    before: npt.NDArray[Any] | None = None
    for number, (indices, rgba, delay, kept) in enumerate(frames):
        if palette is None:
            now = parallel.looked_up(np.ascontiguousarray(rgba[:, :channels]), indices)
        elif np.array_equal(rgba, palette):
            now = indices
        else:
            raise InvalidArgument(
                f"frames[{number}] has another palette than those before; allowed for a PNG that is written as frames "
                "come: one palette, or the frames in a list"
            )
        if before is None:
            yield now, np.ones(indices.shape, np.bool_), 0, 0, delay
        else:
            if kept is not None:
                now[kept] = before[kept]
            differs = now != before if palette is not None else (now != before).any(axis=2)
            rows, columns = bounds(differs)
            top, left = rows.start // grid * grid, columns.start // grid * grid
            place = slice(top, rows.stop), slice(left, columns.stop)
            yield now[place], differs[place], left, top, delay
        before = now


def holds_delay(milliseconds: int) -> bool:
    """Whether a file can hold a delay exactly."""
    return max(_fraction(milliseconds)) <= _MAX_SHORT


def _fraction(milliseconds: int) -> tuple[int, int]:
    """Numerator and denominator of a delay in seconds."""
    return (milliseconds, 1000) if milliseconds <= _MAX_SHORT else Fraction(milliseconds, 1000).as_integer_ratio()
