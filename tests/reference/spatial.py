"""The refit of a palette to a dithered picture, slow: sums over all pairs, and a solve in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tests.reference.search import gather


def sums(errors, indices, alpha, weights, k):
    """A (k, k), counts (k), S (k, dims) of errors (H, W, dims) and indices (H, W); no pixels of alpha 0 count."""
    height, width = indices.shape
    reach = len(weights) // 2
    pairs, counts = np.zeros((k, k), np.int64), np.zeros(k, np.int64)
    slopes = np.zeros((k, errors.shape[2]), np.int64)
    for y in range(height):
        for x in range(width):
            if alpha[y, x] == 0:
                continue
            counts[indices[y, x]] += 1
            slopes[indices[y, x]] += gather(errors, weights, y, x)
            for dy in range(-reach, reach + 1):
                for dx in range(-reach, reach + 1):
                    v, u = y + dy, x + dx
                    if 0 <= v < height and 0 <= u < width and alpha[v, u] > 0:
                        pairs[indices[y, x], indices[v, u]] += weights[dy + reach, dx + reach]
    return pairs, counts, slopes


def best_changes(pairs, counts, slopes, middle, free):
    """Fractions (k, dims): the solution of (A + middle / 10 diag(counts)) x = -S over the free entries that occur."""
    moved = [j for j in range(len(counts)) if free[j] and counts[j] > 0]
    n, dims = len(moved), slopes.shape[1]
    rows = [
        [Fraction(int(pairs[j, m])) + (Fraction(int(middle * counts[j]), 10) if j == m else 0) for m in moved]
        + [Fraction(-int(s)) for s in slopes[j]]
        for j in moved
    ]
    for i in range(n):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    found = [[Fraction(0)] * dims for _ in counts]
    for j, row in zip(moved, rows, strict=True):
        found[j] = row[n:]
    return found
