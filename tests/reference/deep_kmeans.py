"""Refining a palette over 16-bit colours in NumPy and Python integers: the reference for clquant.kmeans.deep_fit."""

from __future__ import annotations

import numpy as np

from clquant.color.spaces import Space
from tests.reference.kmeans import assign, rounded_mean


def step(points: np.ndarray, weights: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, int]:
    """The means of each center's points, itself if it has none; and the inertia of the centers given."""
    labels = assign(points, centers)
    mass = [int(w) for w in weights]
    squared = ((points - centers[labels]) ** 2).sum(axis=1)
    inertia = sum(w * int(d) for w, d in zip(mass, squared, strict=True))
    moved = centers.copy()
    for j in set(labels.tolist()):
        own = np.flatnonzero(labels == j)
        total = sum(mass[i] for i in own)
        for d in range(points.shape[1]):
            moved[j, d] = rounded_mean(sum(mass[i] * int(points[i, d]) for i in own), total) if total else moved[j, d]
    return moved, inertia


def refined(
    colors: np.ndarray,
    weights: np.ndarray,
    entries: np.ndarray,
    moves: np.ndarray,
    space: Space,
    max_iter: int,
    tol: float,
) -> tuple[np.ndarray, int, int]:
    """The better of the entries and of what they end at, (k, 3 or 4) uint8; its inertia; the steps.

    `colors` are distinct ones of 16 bits, or all pixels; `entries` have four channels.
    """
    points = space.coordinates(colors).astype(np.int64)
    centers = start = space.coordinates(entries).astype(np.int64)
    before, steps, first = None, 0, None
    while True:
        moved, inertia = step(points, weights, centers)
        first = inertia if first is None else first
        moved = np.where(moves[:, None], moved, centers)
        slow = before is not None and before - inertia <= before * int(tol * 2**64) // 2**64
        if inertia == 0 or np.array_equal(moved, centers) or slow or steps == max_iter:
            break
        centers, before, steps = moved, inertia, steps + 1
    ended = entries.copy()
    changed = (centers != start).any(axis=1)
    ended[changed, : 3 + space.alpha] = space.colors(centers)[changed]
    after = step(points, weights, space.coordinates(ended).astype(np.int64))[1]
    return (ended, after, steps) if after < first else (entries, first, steps)
