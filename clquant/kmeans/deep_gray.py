"""Gray palettes of the lowest inertia there is, of gray pictures of 16 bits.

Entries have 8 bits, so there are 256 to choose from, and what two neighbouring ones of a palette cost between them
depends on no other. Dynamic programming over the entries, in ascending order, finds the best choice (see
`clquant.kmeans.exact`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space

Choice = npt.NDArray[np.uint8]

# Sums below it are taken in 64 bits, others in whole numbers of any size.
_MAX_INT64 = 2**62


def best_grays(
    levels: npt.NDArray[np.uint16], weights: npt.NDArray[np.unsignedinteger], k: int, space: Space
) -> npt.NDArray[np.uint8]:
    """The k grays of the lowest inertia; in OKLab, where grays lie on a line but for rounding, nearly so.

    Parameters
    ----------
    levels : ndarray
        (n,) uint16, distinct and ascending.
    weights : ndarray
        (n,) integers above 0.
    k : int
        1 to 256.
    space : Space
        Of 16-bit values, without alpha.

    Returns
    -------
    ndarray
        (k,) uint8, ascending. Of equally good choices that of the lowest last entry, then of the one before, and so on.
    """
    places = _on_the_line(levels, space)
    entries = [int(e) for e in _on_the_line(np.arange(256, dtype=np.uint16) * np.uint16(257), space)]
    costs = _Costs(places, weights)
    first = [int(np.searchsorted(places, e)) for e in entries]
    between = np.full((256, 256), costs.most, object)
    for p in range(256):
        for q in range(p + 1, 256):
            middle = int(np.searchsorted(places, (entries[p] + entries[q]) // 2, side="right"))
            between[p, q] = costs.of(first[p], middle, entries[p]) + costs.of(middle, first[q], entries[q])
    below = np.array([costs.of(0, first[p], entries[p]) for p in range(256)], object)
    above = np.array([costs.of(first[p], len(places), entries[p]) for p in range(256)], object)
    if 4 * costs.most < _MAX_INT64:
        between, below, above = (part.astype(np.int64) for part in (between, below, above))
    return _cheapest(between, below, above, k, 2 * costs.most)


class _Costs:
    """Sums of weighted squared distances of runs of levels to an entry."""

    def __init__(self, places: npt.NDArray[np.int64], weights: npt.NDArray[np.unsignedinteger]) -> None:
        where, mass = places.astype(object), weights.astype(object)
        zero = np.zeros(1, object)
        self._sums = [np.append(zero, np.cumsum(mass * where**power)) for power in range(3)]
        self.most = int(self._sums[0][-1]) * (int(places[-1]) + 2**17) ** 2
        """More than any choice costs: places are below 2^17."""

    def of(self, begin: int, end: int, entry: int) -> int:
        """Of the levels `begin` to `end` - 1."""
        mass, moment, square = (int(sums[end] - sums[begin]) for sums in self._sums)
        return square - 2 * entry * moment + entry * entry * mass


def _on_the_line(levels: npt.NDArray[np.uint16], space: Space) -> npt.NDArray[np.int64]:
    """The first coordinate of grays, which ascends with them."""
    return space.coordinates(np.repeat(levels[:, None], 3, axis=1))[:, 0].astype(np.int64)


def _cheapest(
    between: npt.NDArray[Any], below: npt.NDArray[Any], above: npt.NDArray[Any], k: int, impossible: int
) -> Choice:
    """The k of 256 entries that cost least: below the first, between neighbours, above the last.

    Every choice costs at most half of `impossible`, and what is none more than that.
    """
    least, before = below, []
    for _ in range(k - 1):
        totals = least[:, None] + between
        before.append(totals.argmin(axis=0))
        least = np.minimum(totals.min(axis=0), impossible)
    chosen = [int((least + above).argmin())]
    for earlier in reversed(before):
        chosen.append(int(earlier[chosen[-1]]))
    return np.array(chosen[::-1], np.uint8)
