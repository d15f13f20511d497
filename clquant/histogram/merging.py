"""Colours and their 64-bit counts on the host: parts are merged there, and the result goes back to a device.

Colours are kept as codes in Z-order: bit b of red, green, blue and alpha is bit 4 b + 3, 4 b + 2, 4 b + 1 and 4 b.
Opaque colours have the same order with and without alpha, which is the order of `clquant.histogram.counting`.
Colours of 16 bits per value have 64-bit codes by the same rule: that of the high bytes, then that of the low bytes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.histogram.counts import ColorCounts
from clquant.images.decode import narrowed as narrow_values
from clquant.runtime import InvalidArgument, Scope, Session

# The most that counts may add up to: squared distances are below 2^24, and their sums must fit 63 bits.
MAX_TOTAL = 2**39
MAX_NARROW = 2**32 - 1
# Codes of all parts together that are merged at a time, about.
_RANGE = 1 << 20

# uint32 of 8-bit and uint64 of 16-bit values.
Codes = npt.NDArray[Any]
Counts = npt.NDArray[np.uint64]
# uint8 or uint16.
Colors = npt.NDArray[Any]
_ALPHA_BITS = 0x1111111111111111

_BYTES = np.arange(256, dtype=np.uint32)
# Cells of side 16 of opaque colours, among those of colours with alpha: the lowest of every four bits is alpha's.
OPAQUE_CELLS = np.flatnonzero(np.arange(1 << 16) & 0x1111 == 0x1111)


@functools.cache
def spread_bits(apart: int) -> npt.NDArray[np.uint32]:
    """Table of bytes whose bits are so far apart, (256,)."""
    bits = [(_BYTES >> np.uint32(bit) & np.uint32(1)) << np.uint32(apart * bit) for bit in range(8)]
    spread: npt.NDArray[np.uint32] = np.bitwise_or.reduce(bits)
    return spread


# A channel's bits, four apart; and the other way: of a byte of a code, two bits of each channel.
_SPREAD, _GATHERED = spread_bits(4), np.zeros(256, np.uint32)
for _channel in range(4):
    _pair = (_BYTES >> 3 - _channel & 1) | (_BYTES >> 7 - _channel & 1) << 1
    _GATHERED |= _pair.astype(np.uint32) << 8 * _channel


def codes_of(colors: Colors) -> Codes:
    """Convert (n, 4) uint8 or uint16 colours to Z-order codes of 32 or 64 bits."""
    if colors.dtype == np.uint16:
        high, low = (codes_of((colors >> np.uint16(shift)).astype(np.uint8)).astype(np.uint64) for shift in (8, 0))
        wide: Codes = high << np.uint64(32) | low
        return wide
    first, last = _spread_pairs()
    codes = np.empty(len(colors), np.uint32)
    for row in range(0, len(colors), _RANGE):  # a range at a time, which bounds memory
        pairs = np.ascontiguousarray(colors[row : row + _RANGE]).view(np.uint16)
        codes[row : row + _RANGE] = first[pairs[:, 0]] | last[pairs[:, 1]]
    return codes


@functools.cache
def _spread_pairs() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """The parts of a code that red and green have, and blue and alpha, by their two bytes as a number of 16 bits."""
    bytes_of = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    low, high = (_SPREAD[bytes_of[:, place]] for place in range(2))
    return low << np.uint32(3) | high << np.uint32(2), low << np.uint32(1) | high


def colors_of(codes: Codes) -> Colors:
    """(n, 4) uint8, or uint16 of 64-bit codes: the inverse of `codes_of`."""
    if codes.dtype == np.uint64:
        parts = [(codes >> np.uint64(shift)).astype(np.uint32) for shift in (32, 0)]
        high, low = (colors_of(part).astype(np.uint16) for part in parts)
        wide: Colors = high << np.uint16(8) | low
        return wide
    first, last = _gathered_pairs()
    packed = np.empty(len(codes), np.uint32)
    for row in range(0, len(codes), _RANGE):
        part = codes[row : row + _RANGE]
        packed[row : row + _RANGE] = first[part & np.uint32(0xFFFF)] | last[part >> np.uint32(16)]
    return packed.view(np.uint8).reshape(-1, 4)


@functools.cache
def _gathered_pairs() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """The bits of a colour that the lower and the upper half of a code have."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    low, high = _GATHERED[halves & np.uint32(255)], _GATHERED[halves >> np.uint32(8)]
    first = low | high << np.uint32(2)
    return first, first << np.uint32(4)


def is_partial(codes: Codes) -> npt.NDArray[np.bool_]:
    """Mask of the colours that are neither opaque nor transparent."""
    opaque = codes.dtype.type(_ALPHA_BITS >> (64 - 8 * codes.dtype.itemsize))
    alpha = codes & opaque
    partial: npt.NDArray[np.bool_] = (alpha != opaque) & (alpha != 0)
    return partial


@dataclass(frozen=True)
class HostCounts:
    """Distinct colours and how often each occurs."""

    codes: Codes  # (n,) ascending, of alpha above 0
    counts: Counts  # (n,) uint64, above 0
    transparent: int  # weight of the pixels of alpha 0
    partial: bool  # whether an alpha is between 0 and the largest, whatever its weight
    clear: bool  # whether an alpha is 0, whatever its weight

    @property
    def total(self) -> int:
        """Sum of `counts`."""
        return int(self.counts.sum(dtype=np.uint64))

    @classmethod
    def of(cls, session: Session, counted: ColorCounts) -> HostCounts:
        """Copy a device's counts."""
        colors, counts = counted.to_host(session)
        given = counts.astype(np.uint64), counted.transparent, counted.partial, counted.clear
        return cls(codes_of(colors), *given)

    @classmethod
    def without_opaque(cls, counted: ColorCounts) -> HostCounts:
        """Wrap the pixels of alpha 0 of counts without partly transparent colours."""
        none = np.zeros(0, np.uint32), np.zeros(0, np.uint64)
        return cls(*none, counted.transparent, counted.partial, counted.clear)

    @property
    def bits(self) -> int:
        """8 or 16, of a value."""
        return 2 * self.codes.dtype.itemsize

    def widened(self) -> HostCounts:
        """The same with 16 bits per value: 257 v for v of 8 bits."""
        if self.bits == 16:
            return self
        codes = self.codes.astype(np.uint64)
        return dataclasses.replace(self, codes=codes << np.uint64(32) | codes)

    def narrowed(self) -> HostCounts:
        """The same with 8 bits per value: round(v / 257) for v of 16 bits, of alpha too."""
        if self.bits == 8:
            return self
        colors = narrow_values(colors_of(self.codes))
        solid = colors[:, 3] > 0
        codes, counts = summed(codes_of(colors[solid]), self.counts[solid])
        lost = int(self.counts[~solid].sum(dtype=np.uint64))
        return HostCounts(codes, counts, self.transparent + lost, bool(is_partial(codes).any()), self.clear or lost > 0)

    def shifted(self, bits: int) -> HostCounts:
        """Every count times 2^bits."""
        counts = self.counts << np.uint64(bits)
        return dataclasses.replace(self, counts=counts, transparent=self.transparent << bits)

    def upload(self, scope: Scope) -> ColorCounts:
        """Copy counts of 8 bits per value to buffers of a scope."""
        if self.bits == 16:
            return self.narrowed().upload(scope)
        total = checked_total(self.total)
        wide = total > MAX_NARROW
        colors = colors_of(self.codes).view(np.uint32).ravel()
        return ColorCounts(
            n_colors=len(self.codes),
            colors=scope.copy_of(colors),
            counts=scope.copy_of(self.counts if wide else self.counts.astype(np.uint32)),
            cell_starts=self._cell_starts(),
            total=total,
            transparent=self.transparent,
            partial=self.partial,
            clear=self.clear,
            wide=wide,
        )

    def _cell_starts(self) -> npt.NDArray[np.uint32]:
        """Return where each cell of side 16 begins: cells with alpha if some colour is partly transparent."""
        cells = np.arange(1 << 16, dtype=np.uint32) if self.partial else OPAQUE_CELLS.astype(np.uint32)
        starts = np.searchsorted(self.codes, cells << np.uint32(16))
        return np.append(starts, len(self.codes)).astype(np.uint32)


def checked_total(total: int) -> int:
    """A sum of counts that is small enough."""
    if total > MAX_TOTAL:
        raise InvalidArgument(f"the pixels or their weights add up to {total}; allowed: at most 2^39 = {MAX_TOTAL}")
    return total


def merged(parts: Sequence[HostCounts]) -> HostCounts:
    """Join at least one part, in any order, adding up to less than 2^64; 16 bits per value if one has them."""
    if len(parts) == 1:
        return parts[0]
    if any(p.bits == 16 for p in parts):
        parts = [p.widened() for p in parts]
    codes, counts = _joined(parts)
    return HostCounts(
        codes,
        counts,
        transparent=sum(p.transparent for p in parts),
        partial=any(p.partial for p in parts),
        clear=any(p.clear for p in parts),
    )


def _joined(parts: Sequence[HostCounts]) -> tuple[Codes, Counts]:
    """Distinct codes of all parts, ascending, and their counts: a range of codes at a time, which bounds memory."""
    longest = max((part.codes for part in parts), key=len)
    most = sum(len(part.codes) for part in parts)
    # Pages of these that nothing is written to take no memory.
    codes, counts = np.empty(most, longest.dtype), np.empty(most, np.uint64)
    step = max(len(longest) * _RANGE // max(most, 1), 1)
    cuts = np.array([np.append(np.searchsorted(p.codes, longest[step::step]), len(p.codes)) for p in parts])
    begins, filled = np.zeros(len(parts), np.intp), 0
    for ends in cuts.T:
        ranges = [slice(begin, end) for begin, end in zip(begins, ends, strict=True)]
        own = [(p.codes[where], p.counts[where]) for p, where in zip(parts, ranges, strict=True)]
        found, sums = summed(*(np.concatenate(both) for both in zip(*own, strict=True)))
        codes[filled : filled + len(found)], counts[filled : filled + len(found)] = found, sums
        begins, filled = ends, filled + len(found)
    return codes[:filled], counts[:filled]


def summed(codes: Codes, counts: Counts) -> tuple[Codes, Counts]:
    """Return distinct codes, ascending, and the sums of their counts."""
    if codes.dtype == np.uint64:
        order = np.argsort(codes)
        return _summed_runs(codes[order], counts[order])
    # Sorting numbers that hold their places takes NumPy a third of the time of an `argsort`.
    keys = codes.astype(np.uint64) << np.uint64(32) | np.arange(len(codes), dtype=np.uint64)
    keys.sort()
    places = (keys & np.uint64(2**32 - 1)).astype(np.intp)
    return _summed_runs((keys >> np.uint64(32)).astype(np.uint32), counts[places])


def _summed_runs(codes: Codes, counts: Counts) -> tuple[Codes, Counts]:
    if not len(codes):
        return codes, counts
    begins = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    return codes[begins], np.add.reduceat(counts, begins)
