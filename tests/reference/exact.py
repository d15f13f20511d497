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
    weighted = weights[:, None] * ((places[levels][:, None] - places[None]) ** 2).sum(axis=2)
    entries, column = np.arange(256), levels[:, None]
    # between[q, p]: the levels in q + 1 .. p, each with the nearer of the entries q and p, of which q is the lower one.
    between = np.full((256, 256), 1 << 56)
    for q in range(255):
        nearer = np.where((column > q) & (column <= entries), np.minimum(weighted, weighted[:, q : q + 1]), 0).sum(
            axis=0
        )
        between[q, q + 1 :] = nearer[q + 1 :]
    # best[p]: the levels below entry p and itself, with p the last entry.
    best = np.where(column <= entries, weighted, 0).sum(axis=0)
    for _ in range(k - 1):
        best = (best[:, None] + between).min(axis=0)
    above = np.where(column > entries, weighted, 0).sum(axis=0)
    return int((best + above).min())


def lowest_merge_inertia(colors: np.ndarray, weights: np.ndarray) -> int:
    """In sRGB: one pair of colours shares the 8-bit entry nearest to its mean, all others stay."""
    found = []
    for i, j in itertools.combinations(range(len(colors)), 2):
        total = 0
        for a, b in zip(colors[i].astype(int), colors[j].astype(int), strict=True):
            total += min(weights[i] * (a - p) ** 2 + weights[j] * (b - p) ** 2 for p in range(min(a, b), max(a, b) + 1))
        found.append(int(total))
    return min(found)
