"""Sixel: pictures inside a terminal's text.

DEC, "VT330/VT340 Programmer Reference Manual", volume 2, chapter 14: bands of six rows, one character of six pixels per
column and colour, colours in registers of 0 to 100 per channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel
from clquant.runtime import InvalidArgument

MAX_REGISTERS = 256
BAND_ROWS = 6
# Colours of less alpha are not drawn, so that the terminal's background shows.
DRAWN_ALPHA = 128

_BEGIN = b"\x1bP0;1;0q"  # parameter 2: pixels that are not drawn keep what they had
_END = b"\x1b\\"
_BLANK, _REPEAT, _COLOR, _LINE_END, _BAND_END = b"?!#$-"  # as integers
# A run shorter than this is not longer when written out.
_SHORTEST_RUN = 4
_PART_PIXELS = 1 << 20  # of fewer, threads wait for each other more than they work

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
    rows = max(_PART_PIXELS // (BAND_ROWS * width), 1) * BAND_ROWS

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
    return _written(lines, columns, lengths, sixels[starts] + 63, count)


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


def _written(lines: Integers, columns: Integers, lengths: Integers, characters: Integers, count: int) -> bytes:
    """Write runs as text."""
    begins = _changes(lines)
    bands, colors = lines >> 8, lines & 255
    # Ends of bands are written before the next band's first run; else a line's end stands between two colours.
    ends = np.diff(bands, prepend=0)
    returns = begins & (ends == 0)
    returns[0] = False
    after = columns + lengths
    gaps = columns - np.where(begins, 0, np.concatenate([[0], after[:-1]]))
    marks = np.where(begins, 1 + _digits(colors), 0)
    sizes = ends + returns + marks + _run_bytes(gaps) + _run_bytes(lengths)
    places = np.cumsum(sizes) - sizes
    out = np.full(int(sizes.sum() + count - bands[-1]), _BAND_END, np.uint8)
    places += ends
    out[places[returns]] = _LINE_END
    places += returns
    out[places[begins]] = _COLOR
    _put_numbers(out, places[begins] + 1, colors[begins])
    places += marks
    some = gaps > 0
    _put_runs(out, places[some], gaps[some], np.full(int(some.sum()), _BLANK))
    _put_runs(out, places + _run_bytes(gaps), lengths, characters)
    return bytes(out.tobytes())


def _digits(values: Integers) -> Integers:
    """Decimal digits of numbers."""
    count = np.ones(len(values), np.int64)
    power = 10
    while len(values) and power <= values.max():
        count += values >= power
        power *= 10
    return count


def _run_bytes(lengths: Integers) -> Integers:
    """Bytes that runs take as text."""
    return np.where(lengths < _SHORTEST_RUN, lengths, 2 + _digits(lengths))


def _put_runs(out: npt.NDArray[np.uint8], places: Integers, lengths: Integers, characters: Integers) -> None:
    for place in range(_SHORTEST_RUN - 1):
        some = (lengths > place) & (lengths < _SHORTEST_RUN)
        out[places[some] + place] = characters[some]
    some = lengths >= _SHORTEST_RUN
    places, lengths = places[some], lengths[some]
    out[places] = _REPEAT
    out[places + 1 + _put_numbers(out, places + 1, lengths)] = characters[some]


def _put_numbers(out: npt.NDArray[np.uint8], places: Integers, values: Integers) -> Integers:
    """Write numbers in decimal; how many digits each has."""
    digits = _digits(values)
    rest = values.copy()
    for place in range(int(digits.max(initial=0))):
        some = digits > place
        out[(places + digits - 1 - place)[some]] = ord("0") + (rest % 10)[some]
        rest //= 10
    return digits
