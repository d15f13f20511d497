"""Animated PNG files (ISO/IEC 15948, third edition, section 11.3.6): what each frame changes.

Frames that have one palette are indexed; else all are RGB, or RGBA if any colour has alpha. A frame replaces a
rectangle of what stands there, and nothing is disposed of, so that no reader can differ.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel, png
from clquant.color.formats.bits import bits_of
from clquant.color.formats.gif_frames import Indexed, bounds

_KEEP, _REPLACE = 0, 0  # dispose_op none, blend_op source
_MAX_SHORT = 65535


def encoded(frames: Sequence[Indexed], delays_ms: Sequence[int], plays: int) -> bytes:
    """Frames as an APNG file."""
    height, width = frames[0][0].shape
    rgba = frames[0][1]
    alike = len(rgba) <= png.MAX_COLORS and all(np.array_equal(colors, rgba) for _, colors in frames)
    opaque = all((colors[:, 3] == 255).all() for _, colors in frames)
    depth = bits_of(len(rgba)) if alike else 8
    kind = png.INDEXED if alike else png.RGB if opaque else png.RGBA
    head = png.chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    control = png.chunk(b"acTL", struct.pack(">II", len(frames), plays))
    parts = [png.SIGNATURE, head, control, *(png.palette_chunks(rgba) if alike else [])]
    sequence = 0
    for number, (pixels, _, x, y) in enumerate(changes(frames, alike, 3 if opaque else 4)):
        rows, columns = pixels.shape[:2]
        place = struct.pack(">IIIII", sequence, columns, rows, x, y)
        sequence += 1
        parts.append(png.chunk(b"fcTL", place + _delay(delays_ms[number]) + bytes([_KEEP, _REPLACE])))
        data = png.compressed(pixels, depth)
        if number == 0:
            parts.append(png.chunk(b"IDAT", data))
        else:
            parts.append(png.chunk(b"fdAT", struct.pack(">I", sequence) + data))
            sequence += 1
    return b"".join([*parts, png.chunk(b"IEND", b"")])


def changes(
    frames: Sequence[Indexed], alike: bool, channels: int, grid: int = 1
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.bool_], int, int]]:
    """Of each frame the rectangle that differs from the frame before, which of its pixels do, its left and upper edge.

    Of frames with `alike` palettes these are indices, else colours of `channels`; edges are multiples of `grid`.
    """
    before: npt.NDArray[Any] | None = None
    for indices, rgba in frames:
        now = indices if alike else parallel.looked_up(np.ascontiguousarray(rgba[:, :channels]), indices)
        if before is None:
            yield now, np.ones(indices.shape, np.bool_), 0, 0
        else:
            differs = now != before if alike else (now != before).any(axis=2)
            rows, columns = bounds(differs)
            top, left = rows.start // grid * grid, columns.start // grid * grid
            place = slice(top, rows.stop), slice(left, columns.stop)
            yield now[place], differs[place], left, top
        before = now


def _delay(milliseconds: int) -> bytes:
    """Numerator and denominator of a delay in seconds."""
    if milliseconds <= _MAX_SHORT:
        return struct.pack(">HH", milliseconds, 1000)
    return struct.pack(">HH", min((milliseconds + 500) // 1000, _MAX_SHORT), 1)
