"""Lloyd's algorithm for entries that a display of fewer bits per channel can show.

Each step assigns every point to its nearest entry as the display has it, and moves each entry to the displayable colour
nearest to the mean of its points. Where the entries no longer change, entries that are missed least are swapped for
displayable colours that are missed most; these are estimated by cells, the points of one nearest displayable colour,
and swaps stay only if they lower the inertia over all points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.display import DisplayFormat, nearest_displayable
from clquant.color.values import as_rgba
from clquant.kmeans.lloyd import Lloyd
from clquant.runtime import bound

Colors = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]

# Alpha values with the same highest bits share a cell; how many bits these are.
_ALPHA_BITS = 3
# Cells whose distances the second cache holds.
_CELLS_AT_ONCE = 512
# Means are known to this part of a point's unit.
_PART = 256


class RestrictedLloyd:
    """Steps of entries that a display can show; changes the centers of `lloyd`. `pinned` entries (f, 4) stay."""

    # `colors` (n, 4) and `weights` (n,), which add up to at most 2^39, are those of the points of `lloyd`.

    def __init__(
        self, lloyd: Lloyd, pinned: Colors, display: DisplayFormat, colors: Colors, weights: npt.NDArray[Any]
    ) -> None:
        self._lloyd = lloyd
        self._points = lloyd.points
        self._pinned = pinned
        self._display = display
        self.steps = 0
        keys = display.codes(colors).astype(np.int64) << _ALPHA_BITS | colors[:, 3] >> 8 - _ALPHA_BITS
        _, cell = np.unique(keys, return_inverse=True)
        # Sums are below 2^39 2^12 = 2^51, so that fp64 holds them.
        mass = weights.astype(np.int64)
        factors = [mass, *(mass * axis for axis in self._points.places(colors).T)]
        total, *sums = (np.bincount(cell, factor).astype(np.int64) for factor in factors)
        means = np.stack(sums, axis=1) * _PART // total[:, None]
        # Each cell's displayable colour, (m, 4), the mean of its points, in their units, and its weight.
        self._cell_colors = as_rgba(self._displayable(means, _PART))
        self._cell_places, self._cell_weights = means // _PART, total

    def _displayable(self, points: Int, part: int = 1) -> Colors:
        """The displayable colours nearest to points in parts of their unit, (n, dims)."""
        return nearest_displayable(self._display, self._points.space, points, self._points.scale * part)

    def run(self, max_iter: int) -> Colors:
        """Do steps and swaps, at most `max_iter` steps; returns the entries, pinned ones first, without unused ones."""
        pinned = len(self._pinned)
        colors = self._displayable(self._lloyd.get_centers())
        colors[:pinned] = self._pinned[:, : colors.shape[1]]
        best, inertia = self._settled(colors, max_iter)
        swaps = len(best) - pinned
        few = len(best) * len(self._cell_colors) <= bound("restricted.distances")
        while few and swaps and self.steps < max_iter:
            tried, swaps = self._swapped(best, swaps)
            if swaps:
                colors, found = self._settled(tried, max_iter)
                if found < inertia:
                    best, inertia = colors, found
                else:
                    swaps //= 2
        used = self._totals(best)[0, pinned:] > 0
        return np.concatenate([best[:pinned], best[pinned:][used]])

    def _settled(self, colors: Colors, max_iter: int) -> tuple[Colors, int]:
        """Entries of the lowest inertia of the steps until nothing moves, and that inertia."""
        totals = self._totals(colors)
        while self.steps < max_iter:
            moved = self._moved(totals, colors)
            if np.array_equal(moved, colors):
                break
            after = self._totals(moved)
            if self._inertia(after) >= self._inertia(totals):
                break
            colors, totals = moved, after
        return colors, self._inertia(totals)

    def _totals(self, colors: Colors) -> npt.NDArray[np.uint64]:
        """The statistics of entries, as `Lloyd.totals`: a step."""
        lloyd = self._lloyd
        lloyd.set_centers(self._points.places(colors))
        lloyd.restart()
        lloyd.step(by_axis=True, still=True)
        self.steps += 1
        return lloyd.get_totals()

    def _inertia(self, totals: npt.NDArray[np.uint64]) -> int:
        return int(totals[1 + self._points.space.dims :].sum())

    def _moved(self, totals: npt.NDArray[np.uint64], colors: Colors) -> Colors:
        """The entries at the means of their points; those without points stay."""
        dims = self._points.space.dims
        weights = totals[0].astype(np.int64)
        moves = np.flatnonzero(weights[len(self._pinned) :]) + len(self._pinned)
        # Sums are below 2^39 2^12, and _PART times as much below 2^63.
        means = totals[1 : 1 + dims, moves].T.astype(np.int64) * _PART // weights[moves][:, None]
        found: Colors = colors.copy()
        found[moves] = self._displayable(means, _PART)
        return found

    def _distances(self, colors: Colors) -> tuple[Int, Int, Int]:
        """Each cell's nearest entry (ties: the lowest), its squared distance, and that of the next one."""
        points = self._points.places(colors).astype(np.float64)
        places, lengths = self._cell_places.astype(np.float64), (points**2).sum(axis=1)
        count = len(places)
        nearest, first, second = (np.empty(count, np.int64) for _ in range(3))
        for begin in range(0, count, _CELLS_AT_ONCE):
            here = slice(begin, begin + _CELLS_AT_ONCE)
            # Whole numbers below 2^26: exact.
            squared = places[here] @ (-2 * points.T)
            squared += (places[here] ** 2).sum(axis=1)[:, None]
            squared += lengths
            rows = np.arange(len(squared))
            nearest[here] = squared.argmin(axis=1)
            first[here] = squared[rows, nearest[here]]
            squared[rows, nearest[here]] = np.inf
            others = squared.min(axis=1)
            second[here] = np.where(np.isfinite(others), others, 1 << 24)
        return nearest, first, second

    def _swapped(self, colors: Colors, most: int) -> tuple[Colors, int]:
        """The entries after up to `most` swaps that promise to gain, and how many these were."""
        shown, weights, pinned = self._cell_colors, self._cell_weights, len(self._pinned)
        nearest, first, second = self._distances(colors)
        losses = np.zeros(len(colors), np.int64)
        # Weights add up to 2^39 at most and squared distances are below 2^24: sums are below 2^63.
        np.add.at(losses, nearest, weights * (second - first))
        gains = weights * (first - ((self._cell_places - self._points.places(shown)) ** 2).sum(axis=1))
        gains[np.isin(_packed(shown), _packed(colors))] = 0
        wanted = np.argsort(-gains, kind="stable")[:most]
        given = np.argsort(losses[pinned:], kind="stable")[: len(wanted)] + pinned
        pays = gains[wanted] > losses[given]
        count = int(np.argmin(pays)) if not pays.all() else len(pays)
        found = colors.copy()
        found[given[:count]] = shown[wanted[:count], : colors.shape[1]]
        return found, count


def _packed(colors: Colors) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(as_rgba(colors)).view(np.uint32)[:, 0]
