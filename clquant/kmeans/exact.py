"""Palettes of the lowest inertia there is, of colours for which they can be found directly.

Gray levels lie on a line, so that the pixels of an entry are a run of neighbouring levels and dynamic programming finds
the best runs: X. Wu, "Optimal quantization by matrix searching", Journal of Algorithms 12 (1991); H. Wang, M. Song,
"Ckmeans.1d.dp: optimal k-means clustering in one dimension by dynamic programming", The R Journal 3 (2011). With
one colour more than entries, exactly two share an entry, and all pairs are compared.

Inertia is that of 8-bit entries, so their rounding is part of what is minimized.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.runtime import bound

Colors = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]

GRAYS = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
# Comparing all pairs of more colours takes longer than k-means.
MAX_MERGE_COLORS = 2048
# The relative error that a float64 estimate of a cost may have.
_SLACK = 1e-9


def are_gray(colors: Colors) -> bool:
    """Whether all of (n, 4) colours are opaque grays."""
    return bool((colors[:, :1] == colors[:, 1:3]).all() and (colors[:, 3] == 255).all())


def gray_levels(colors: Colors, weights: npt.NDArray[np.unsignedinteger], k: int, space: Space) -> Colors:
    """Return the k grays of the lowest inertia, (k, 3) uint8 ascending, for distinct (n, 4) grays."""
    # Weights are above 0 and add up to at most 2^39. Of equally good entries of a run the highest, as means are rounded
    # half up; of equally good runs, the last are the longest.
    order = np.argsort(colors[:, 0])
    levels, mass = colors[order, 0], weights[order].astype(np.int64)
    places = space.coordinates(GRAYS).astype(np.int64)
    squared = ((places[levels][:, None] - places[None]) ** 2).sum(axis=2)
    # Cost of the levels before i with entry p: at most 2^39 2^24.
    passed = np.zeros((len(levels) + 1, 256), np.int64)
    np.cumsum(mass[:, None] * squared, axis=0, out=passed[1:])
    cost, entry = _run_costs(passed)
    ends = best_runs(cost, k)
    chosen = [entry[begin, end] for begin, end in itertools.pairwise(ends)]
    return GRAYS[chosen]


def _run_costs(passed: Int) -> tuple[Int, Int]:
    """For the levels i to j - 1: the least cost of a common entry, and that entry, (n + 1, n + 1) each."""
    n = len(passed) - 1
    cost = np.full((n + 1, n + 1), np.iinfo(np.int64).max // 2, np.int64)
    entry = np.zeros((n + 1, n + 1), np.int64)
    downwards = np.ascontiguousarray(passed[:, ::-1])
    for begin in range(n):
        costs = downwards[begin + 1 :] - downwards[begin]
        lowest = costs.argmin(axis=1)
        entry[begin, begin + 1 :] = 255 - lowest
        cost[begin, begin + 1 :] = costs[np.arange(len(costs)), lowest]
    return cost, entry


def best_runs(cost: npt.NDArray[Any], k: int) -> list[int]:
    """Return the bounds of the k runs of the least total cost, `cost[begin, end]` each: k + 1 ascending places."""
    n = len(cost) - 1
    by_end = np.ascontiguousarray(cost.T)  # a row holds all beginnings of the runs with one end
    least = cost[0].copy()
    begins = np.zeros((k, n + 1), np.int64)
    for run in range(1, k):
        # The last of run + 1 runs ends at place j > run, and begins at `run` or later, since every run has a level.
        # Sums stay below 2^63: the impossible is at most half of that, and the best run costs a quarter of 2^39 2^24.
        totals = by_end[run + 1 :, run:] + least[run:]
        chosen = totals.argmin(axis=1)
        begins[run, run + 1 :] = chosen + run
        least[run + 1 :] = totals[np.arange(len(chosen)), chosen]
    ends = [n]
    for run in range(k - 1, -1, -1):
        ends.append(int(begins[run, ends[-1]]))
    return ends[::-1]


def merged_pair(colors: Colors, weights: npt.NDArray[np.unsignedinteger], space: Space) -> Colors:
    """Return all colours, but the cheapest pair shares one entry in the place of its first; ties: the first pair."""
    # Colours are distinct, at most `MAX_MERGE_COLORS`; weights are above 0 and add up to at most 2^39.
    places, mass = space.coordinates(colors).astype(np.int64), weights.astype(np.int64)
    first, second = np.triu_indices(len(colors), 1)
    squared = ((places[first] - places[second]) ** 2).sum(axis=1)
    # Ward's cost, of an entry at the mean: no other place costs less.
    ward = mass[first].astype(np.float64) * mass[second] / (mass[first] + mass[second]) * squared
    order = np.argsort(ward, kind="stable")
    best = (np.iinfo(np.int64).max, -1)
    entry = colors[:1]
    for at in range(0, len(order), bound("exact.pairs")):
        pairs = order[at : at + bound("exact.pairs")]
        if ward[pairs[0]] * (1 - _SLACK) > best[0]:
            break
        i, j = first[pairs], second[pairs]
        both = (mass[i] + mass[j])[:, None]
        means = (2 * (places[i] * mass[i][:, None] + places[j] * mass[j][:, None]) + both) // (2 * both)
        entries = space.colors(means)
        shared = space.coordinates(entries).astype(np.int64)
        costs = mass[i] * ((places[i] - shared) ** 2).sum(axis=1) + mass[j] * ((places[j] - shared) ** 2).sum(axis=1)
        # A chunk's pairs are not in their own order: among equals the first pair is taken.
        at_least = np.lexsort((pairs, costs))[0]
        if (int(costs[at_least]), int(pairs[at_least])) < best:
            best = int(costs[at_least]), int(pairs[at_least])
            entry = entries[at_least]
    rest = colors[:, : entry.shape[-1]].copy()
    rest[first[best[1]]] = entry
    return np.delete(rest, second[best[1]], axis=0)
