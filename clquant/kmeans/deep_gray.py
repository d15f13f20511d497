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
from clquant.kmeans.exact import best_runs

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
    # From an entry to the next one, and from before the first to behind the last.
    between: npt.NDArray[Any] = np.full((258, 258), 2 * most, costs.dtype)
    between[1:257, 1:257] = costs.of(first[:, None], middle, entries[:, None]) + costs.of(middle, first, entries)
    between[np.tri(258, dtype=bool)] = most
    between[0, 1:257] = costs.of(np.zeros_like(first), first, entries)
    between[1:257, 257] = costs.of(first, np.full_like(first, len(places)), entries)
    chosen: npt.NDArray[np.uint8] = (np.array(best_runs(between, k + 1)[1:-1]) - 1).astype(np.uint8)
    return chosen


class _Costs:
    """Sums of weighted squared distances of runs of levels to an entry, in whole numbers of a dtype that holds them."""

    def __init__(self, places: npt.NDArray[np.int64], weights: npt.NDArray[np.unsignedinteger], dtype: type) -> None:
        self.dtype = dtype
        where: npt.NDArray[Any] = places.astype(dtype)
        mass: npt.NDArray[Any] = weights.astype(dtype)
        zero: npt.NDArray[Any] = np.zeros(1, dtype)
        self._sums = [np.append(zero, np.cumsum(mass * where**power)) for power in range(3)]

    def of(self, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64], entry: npt.NDArray[np.int64]) -> Any:
        """Return the costs of the levels `begin` to `end` - 1; arrays that broadcast."""
        mass, moment, square = (sums[end] - sums[begin] for sums in self._sums)
        given: npt.NDArray[Any] = entry.astype(self.dtype)
        return square - 2 * given * moment + given * given * mass


def _on_the_line(levels: npt.NDArray[np.uint16], space: Space) -> npt.NDArray[np.int64]:
    """The first coordinate of grays, which ascends with them."""
    return space.coordinates(np.repeat(levels[:, None], 3, axis=1))[:, 0].astype(np.int64)
