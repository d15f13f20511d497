"""Sixel: pictures inside a terminal's text.

DEC, "VT330/VT340 Programmer Reference Manual", volume 2, chapter 14: bands of six rows, one character of six pixels per
column and colour, colours in registers of 0 to 100 per channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel
from clquant.runtime import InvalidArgument, bound

MAX_REGISTERS = 256
BAND_ROWS = 6
# Colours of less alpha are not drawn, so that the terminal's background shows.
DRAWN_ALPHA = 128

_BEGIN = b"\x1bP0;1;0q"  # parameter 2: pixels that are not drawn keep what they had
_END = b"\x1b\\"
# A run shorter than this is not longer when written out.
_SHORTEST_RUN = 4

Integers = npt.NDArray[np.int64]


def registers(colors: npt.NDArray[np.uint8]) -> Integers:
    """(n, 3) int64, 0 to 100: the registers of (n, 3 or 4) colours, rounded half up."""
    return np.asarray((colors[:, :3].astype(np.int64) * 200 + 255) // 510)


def shown_colors(colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The colours that a terminal shows: the registers' rounding; alpha below 128 becomes 0, else 255."""
    shown = ((registers(colors) * 255 + 50) // 100).astype(np.uint8)
    if colors.shape[1] == 3:
        return shown
    alpha = np.where(colors[:, 3:] < DRAWN_ALPHA, 0, 255).astype(np.uint8)
    return np.concatenate([shown, alpha], axis=1)


def encode(indices: npt.NDArray[np.unsignedinteger[Any]], rgba: npt.NDArray[np.uint8]) -> bytes:
    """A picture as sixel."""
    if len(rgba) > MAX_REGISTERS:
        raise InvalidArgument(f"sixel holds at most {MAX_REGISTERS} colours; this palette has {len(rgba)}")
    height, width = indices.shape
    drawn = rgba[:, 3] >= DRAWN_ALPHA
    used = np.flatnonzero((parallel.counted(indices, len(rgba)) > 0) & drawn).tolist()
    values = registers(rgba)
    head = b'"1;1;%d;%d' % (width, height)
    colors = [b"#%d;2;%d;%d;%d" % (color, *values[color]) for color in used]
    rows = max(bound("sixel.part") // (BAND_ROWS * width), 1) * BAND_ROWS

    def band(number: int) -> bytes:
        return _bands(indices[number * rows : (number + 1) * rows], drawn)

    bands: list[bytes] = parallel.in_threads(band, -(-height // rows))
    return b"".join([_BEGIN, head, *colors, *bands, _END])


def _bands(rows: npt.NDArray[np.unsignedinteger[Any]], drawn: npt.NDArray[np.bool_]) -> bytes:
    """Whole bands, from the first one's first colour to the last one's end."""
    height, width = rows.shape
    count = -(-int(height) // BAND_ROWS)
    width_bits = int(width).bit_length()
    cells = _cells(rows, drawn, count, width_bits)
    if not len(cells):
        return b"-" * count
    # Cells of one colour and band that follow each other and are alike make a run.
    sixels, places = (cells & 63).astype(np.int64), (cells >> np.uint64(BAND_ROWS)).astype(np.int64)
    starts = np.flatnonzero(
        np.concatenate([[True], (np.diff(places) != 1) | (sixels[1:] != sixels[:-1])]) | _changes(places >> width_bits)
    )
    lengths = np.diff(starts, append=len(cells))
    lines, columns = places[starts] >> width_bits, places[starts] & ((1 << width_bits) - 1)
    return _written(lines, columns, lengths, sixels[starts], count)


def _cells(
    rows: npt.NDArray[np.unsignedinteger[Any]], drawn: npt.NDArray[np.bool_], count: int, width_bits: int
) -> npt.NDArray[np.uint64]:
    """Sort numbers of band, colour, column and its six pixels, one for each column that has any."""
    height, width = rows.shape
    colors = np.zeros((count, BAND_ROWS, width), np.uint8)
    colors.reshape(-1, width)[:height] = rows
    there = np.zeros(colors.shape, np.bool_)
    there.reshape(-1, width)[:height] = drawn[rows]
    bands = (np.arange(count, dtype=np.uint64) << np.uint64(8))[:, None]
    found = []
    for row in range(BAND_ROWS):
        bits = np.full((count, width), 1 << row, np.uint8)
        first = there[:, row].copy()
        for other in range(BAND_ROWS):
            if other == row:
                continue
            same = (colors[:, row] == colors[:, other]) & there[:, other]
            if other < row:
                first &= ~same
            else:
                bits |= same.astype(np.uint8) << np.uint8(other)
        lines = (bands | colors[:, row]) << np.uint64(width_bits) | np.arange(width, dtype=np.uint64)
        found.append((lines << np.uint64(BAND_ROWS) | bits)[first])
    return np.sort(np.concatenate(found))


def _changes(values: Integers) -> npt.NDArray[np.bool_]:
    """Mark values that differ from the one before; the first does."""
    return np.concatenate([[True], values[1:] != values[:-1]])


def _written(lines: Integers, columns: Integers, lengths: Integers, sixels: Integers, count: int) -> bytes:
    """Write runs as text: each in columns of fixed widths, from which zero bytes are taken out."""
    begins, bands = _changes(lines), lines >> 8
    gaps = columns - np.where(begins, 0, np.concatenate([[0], (columns + lengths)[:-1]]))
    repeats = np.array([b"" if n < _SHORTEST_RUN else b"!%d" % n for n in range(max(gaps.max(), lengths.max()) + 1)])
    characters = np.array([[bytes([63 + sixel]) * n for n in range(_SHORTEST_RUN)] for sixel in range(64)])
    widths = (1, 4, repeats.itemsize, 3, repeats.itemsize, 3)
    text = np.zeros(len(lines), [(f"f{i}", f"S{width}") for i, width in enumerate(widths)])
    text["f0"][begins & ~_changes(bands)] = b"$"
    text["f1"][begins] = np.array([b"#%d" % color for color in range(MAX_REGISTERS)])[lines[begins] & 255]
    for number, (values, lasting) in enumerate(((np.zeros_like(sixels), gaps), (sixels, lengths))):
        text[f"f{2 + 2 * number}"] = repeats[lasting]
        text[f"f{3 + 2 * number}"] = characters[values, np.where(lasting < _SHORTEST_RUN, lasting, 1)]
    edges = np.searchsorted(bands, np.arange(count + 1))
    parts = (text[edges[i] : edges[i + 1]].tobytes().translate(None, b"\0") for i in range(count))
    return b"".join(part + b"-" for part in parts)
