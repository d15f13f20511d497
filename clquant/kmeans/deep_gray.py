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
    """Return the k grays of the lowest inertia, (k,) uint8 ascending; ties go to the lowest last entry, and so on."""
    # `levels` are distinct and ascending, `weights` above 0. In OKLab, where grays lie on a line but for rounding, the
    # result is nearly the best.
    places = _on_the_line(levels, space)
    entries = _on_the_line(np.arange(256, dtype=np.uint16) * np.uint16(257), space)
    # More than any choice costs.
    most = int(weights.sum(dtype=np.uint64)) * (max(int(places[-1]), int(entries[-1])) + 1) ** 2
    costs = _Costs(places, weights, np.int64 if 8 * most < _MAX_INT64 else object)
    first = np.searchsorted(places, entries)
    middle = np.searchsorted(places, (entries[:, None] + entries) // 2, side="right")
    between = costs.of(first[:, None], middle, entries[:, None]) + costs.of(middle, first, entries)
    between[np.tri(256, dtype=bool)] = most
    below = costs.of(np.zeros_like(first), first, entries)
    above = costs.of(first, np.full_like(first, len(places)), entries)
    return _cheapest(between, below, above, k, 2 * most)


class _Costs:
    """Sums of weighted squared distances of runs of levels to an entry, in whole numbers of a dtype that holds them."""

    def __init__(self, places: npt.NDArray[np.int64], weights: npt.NDArray[np.unsignedinteger], dtype: type) -> None:
        self._dtype = dtype
        where: npt.NDArray[Any] = places.astype(dtype)
        mass: npt.NDArray[Any] = weights.astype(dtype)
        zero: npt.NDArray[Any] = np.zeros(1, dtype)
        self._sums = [np.append(zero, np.cumsum(mass * where**power)) for power in range(3)]

    def of(self, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64], entry: npt.NDArray[np.int64]) -> Any:
        """Return the costs of the levels `begin` to `end` - 1; arrays that broadcast."""
        mass, moment, square = (sums[end] - sums[begin] for sums in self._sums)
        given: npt.NDArray[Any] = entry.astype(self._dtype)
        return square - 2 * given * moment + given * given * mass


def _on_the_line(levels: npt.NDArray[np.uint16], space: Space) -> npt.NDArray[np.int64]:
    """The first coordinate of grays, which ascends with them."""
    return space.coordinates(np.repeat(levels[:, None], 3, axis=1))[:, 0].astype(np.int64)


def _cheapest(
    between: npt.NDArray[Any], below: npt.NDArray[Any], above: npt.NDArray[Any], k: int, impossible: int
) -> Choice:
    """Return the k of 256 entries that cost least: below the first, between neighbours, above the last."""
    # Every possible choice costs at most half of `impossible`, every other one more than that.
    least, before = below, []
    for _ in range(k - 1):
        totals = least[:, None] + between
        before.append(totals.argmin(axis=0))
        least = np.minimum(np.take_along_axis(totals, before[-1][None], axis=0)[0], impossible)
    chosen = [int((least + above).argmin())]
    for earlier in reversed(before):
        chosen.append(int(earlier[chosen[-1]]))
    return np.array(chosen[::-1], np.uint8)
