"""Palettes of the lowest inertia, by trying everything: the reference for clquant.kmeans.exact."""

from __future__ import annotations

import itertools

import numpy as np


def inertia_of(where: np.ndarray, weights: np.ndarray, entries: np.ndarray) -> int:
    """Sum of weight times squared distance to the nearest entry, all in the units of a space."""
    squared = ((where[:, None].astype(np.int64) - entries[None]) ** 2).sum(axis=2).min(axis=1)
    return sum(int(w) * int(d) for w, d in zip(weights, squared, strict=True))


def lowest_gray_inertia(levels: np.ndarray, weights: np.ndarray, k: int, places: np.ndarray) -> int:
    """Of all k of 256 gray entries, whose places in a space are given: by recursion over ascending entries."""
    squared = ((places[levels][:, None] - places[None]) ** 2).sum(axis=2)
    # best[p]: the levels below entry p and itself, with p the last entry.
    best = {p: cost(levels, weights, squared, -1, p, None) for p in range(256)}
    for _ in range(k - 1):
        before, best = best, {}
        for p in range(256):
            options = [before[q] + cost(levels, weights, squared, q, p, q) for q in range(p) if q in before]
            if options:
                best[p] = min(options)
    ends = []
    for p, value in best.items():
        above = levels > p
        ends.append(value + int((weights[above] * squared[above, p]).sum()))
    return min(ends)


def cost(levels: np.ndarray, weights: np.ndarray, squared: np.ndarray, low: int, high: int, other: int | None) -> int:
    """The levels in low + 1 .. high, each with the nearer of the entries `other` and `high`."""
    inside = (levels > low) & (levels <= high)
    least = squared[inside, high] if other is None else np.minimum(squared[inside, high], squared[inside, other])
    return int((weights[inside] * least).sum())


def lowest_merge_inertia(colors: np.ndarray, weights: np.ndarray) -> int:
    """In sRGB: one pair of colours shares the 8-bit entry nearest to its mean, all others stay."""
    found = []
    for i, j in itertools.combinations(range(len(colors)), 2):
        total = 0
        for a, b in zip(colors[i].astype(int), colors[j].astype(int), strict=True):
            total += min(weights[i] * (a - p) ** 2 + weights[j] * (b - p) ** 2 for p in range(min(a, b), max(a, b) + 1))
        found.append(int(total))
    return min(found)
