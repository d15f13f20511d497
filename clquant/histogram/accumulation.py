"""Adding up the counts of one part of a picture after another, in memory that does not grow with their number."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from clquant.histogram.merging import Codes, Counts, HostCounts, merged
from clquant.runtime import InvalidArgument

# Counts of parts that wait to be merged, in colours: 12 bytes each.
MOST_WAITING = 1 << 22
_RGB = 1 << 24
_AT_ONCE = 1 << 20
_HALF = 1 << 12
_OPAQUE = np.uint32(0x11111111)


class Accumulator:
    """Adds up counts; many opaque 8-bit colours in a table of 128 MiB, at most `most_deep` colours of 16 bits."""

    def __init__(self, most_deep: int | None = None) -> None:
        self._most_deep = most_deep
        self._waiting: list[HostCounts] = []
        self._table: Counts | None = None

    def add(self, part: HostCounts) -> None:
        """Take some counts."""
        self._waiting.append(part)
        most = MOST_WAITING if self._most_deep is None else min(MOST_WAITING, self._most_deep)
        if sum(len(waiting.codes) for waiting in self._waiting) <= most:
            return
        self._empty_into_table()
        deep = sum(len(waiting.codes) for waiting in self._waiting if waiting.bits == 16)
        if self._most_deep is not None and deep > self._most_deep:
            raise InvalidArgument(
                f"images have over {self._most_deep} colours of 16 bits, which is what memory holds; "
                "allowed: more memory, or max_bits=8"
            )

    def _empty_into_table(self) -> None:
        self._waiting = [merged([self._without_opaque(waiting) for waiting in self._waiting])]

    def _without_opaque(self, part: HostCounts) -> HostCounts:
        """Move the counts of opaque colours to the table; return the rest."""
        if part.bits != 8:
            return part
        if self._table is None:
            self._table = np.zeros(_RGB, np.uint64)
        kept = []
        for first in range(0, len(part.codes), _AT_ONCE):
            codes, counts = part.codes[first : first + _AT_ONCE], part.counts[first : first + _AT_ONCE]
            if part.partial:
                opaque = codes & _OPAQUE == _OPAQUE
                kept.append((codes[~opaque], counts[~opaque]))
                codes, counts = codes[opaque], counts[opaque]
            self._table[_places(codes)] += counts  # codes are distinct: each place once
        left = [np.concatenate(both) for both in zip(*kept, strict=True)] or [part.codes[:0], part.counts[:0]]
        return HostCounts(left[0], left[1], part.transparent, part.partial, part.clear)

    def result(self) -> HostCounts:
        """All counts together."""
        if self._table is None:
            return merged(self._waiting)
        self._empty_into_table()
        table, self._table = self._table, None
        rest = merged(self._waiting)
        opaque = counted_places(lambda first, n: table[first : first + n])
        return with_opaque(rest, opaque)


def with_opaque(rest: HostCounts, opaque: HostCounts) -> HostCounts:
    """Join counts and the counts of opaque colours."""
    if len(rest.codes):
        return merged([rest, opaque])
    return replace(opaque, transparent=rest.transparent, partial=rest.partial, clear=rest.clear)


def counted_places(read: Callable[[int, int], Counts]) -> HostCounts:
    """Collect the counts above 0 of a table that `read(first, n)` reads a part of."""
    n = sum(int(np.count_nonzero(read(first, _AT_ONCE))) for first in range(0, _RGB, _AT_ONCE))
    codes, counts, filled = np.empty(n, np.uint32), np.empty(n, np.uint64), 0
    for first in range(0, _RGB, _AT_ONCE):
        part = read(first, _AT_ONCE)
        places = np.flatnonzero(part)
        end = filled + len(places)
        codes[filled:end], counts[filled:end] = _codes(places + first), part[places]
        filled = end
    return HostCounts(codes, counts, 0, partial=False, clear=False)


def _places(codes: Codes) -> npt.NDArray[np.uint32]:
    """Codes of opaque colours without the bits of alpha, in the same order."""
    compact, _ = _half_codes()
    places: npt.NDArray[np.uint32] = compact[codes >> 16] << 12 | compact[codes & 0xFFFF]
    return places


def _codes(places: npt.NDArray[np.intp]) -> Codes:
    """The inverse of `_places`."""
    _, spread = _half_codes()
    codes: Codes = spread[places >> 12] << 16 | spread[places & _HALF - 1]
    return codes


@functools.cache
def _half_codes() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """16 bits of a code to the 12 that are no alpha's, and back to 16 with alpha's set."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    compact = np.zeros_like(halves)
    for nibble in range(4):
        compact |= (halves >> 4 * nibble + 1 & 7) << 3 * nibble
    spread = np.zeros(_HALF, np.uint32)
    opaque = halves[halves & 0x1111 == 0x1111]
    spread[compact[opaque]] = opaque
    return compact, spread
