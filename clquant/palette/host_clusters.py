"""Clusters of few points on the host: k-means++ and some steps of Lloyd's algorithm on a sample, in whole numbers.

All sums are whole numbers below 2^53, which fp64 holds exactly, whatever the order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.runtime import philox4x32, seed_key

Points = npt.NDArray[np.int64]

# Most colours that are clustered; if there are more, this many are drawn at random.
SAMPLE = 4096
# The weights of all together are about this.
_TOTAL = 1 << 20
_CANDIDATES = 4
# Points whose distances to all centers are in a processor's cache at once.
_BLOCK = 256
_MIDDLE = 1 << 10
_STEPS = 8
_DRAW_COLORS, _DRAW_CENTERS = 0x636F_6C6F, 0x6365_6E74


def sample_of(counts: npt.NDArray[np.unsignedinteger], seed: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """Return which colours are clustered, ascending, and their weights; counts add up to at most 2^39."""
    total = int(counts.sum(dtype=np.uint64))
    if len(counts) <= SAMPLE:
        return np.arange(len(counts)), -(-counts.astype(np.int64) * _TOTAL // total)
    words = philox4x32(_counters(SAMPLE, _DRAW_COLORS), seed_key(seed))[:, 0]
    drawn = np.searchsorted(np.cumsum(counts, dtype=np.uint64), stretches(total, words).astype(np.uint64), side="right")
    which, times = np.unique(drawn, return_counts=True)
    return which, times.astype(np.int64)


def centers_of(points: Points, weights: npt.NDArray[np.int64], fixed: Points, k: int, seed: int) -> Points:
    """Cluster (n, dims) int64 points below 2^11: the fixed centers, then up to k others by k-means++ and Lloyd."""
    words = philox4x32(_counters(k, _DRAW_CENTERS), seed_key(seed))
    centers = [*fixed]
    nearest = np.full(len(points), 1 << 24, np.int64)
    for center in fixed:
        nearest = np.minimum(nearest, ((points - center) ** 2).sum(axis=1))
    for word in words:
        shares = np.cumsum(nearest * weights)
        if shares[-1] == 0:
            break
        drawn = [int(w) * int(shares[-1]) >> 32 for w in word[:_CANDIDATES]]
        candidates = points[np.searchsorted(shares, drawn, side="right")]
        left = np.minimum(nearest, ((points - candidates[:, None]) ** 2).sum(axis=2))
        best = int((left @ weights).argmin())
        centers.append(candidates[best])
        nearest = left[best]
    return _lloyd(points, weights, np.array(centers), len(fixed))


def _lloyd(points: Points, weights: npt.NDArray[np.int64], centers: Points, pinned: int) -> Points:
    """Centers after some steps; ties go to the lowest index, means are rounded half up, the first stay."""
    for _ in range(_STEPS):
        total, sums = sum_clusters(points, weights, nearest_centers(points, centers), len(centers))
        means = (2 * sums + total[:, None]) // np.maximum(2 * total, 1)[:, None]
        moved = np.where(total[:, None] > 0, means, centers)
        moved[:pinned] = centers[:pinned]
        if np.array_equal(moved, centers):
            break
        centers = moved
    return centers


def nearest_centers(points: npt.NDArray[np.integer], centers: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Return the index of each point's nearest center, the lowest of equals; up to four coordinates of 2^11 at most."""
    # From the middle on: 2 p c and c^2 of four coordinates add up to less than 2^24, which fp32 holds exactly.
    scored = np.ones((len(points), points.shape[1] + 1), np.float32)
    scored[:, :-1] = points - _MIDDLE
    moved = (centers - _MIDDLE).T
    by_center = np.vstack([-2 * moved, (moved**2).sum(axis=0)]).astype(np.float32)
    labels = np.empty(len(points), np.intp)
    for first in range(0, len(points), _BLOCK):
        (scored[first : first + _BLOCK] @ by_center).argmin(axis=1, out=labels[first : first + _BLOCK])
    return labels


def sum_clusters(
    points: npt.NDArray[np.integer], weights: npt.NDArray[np.integer], labels: npt.NDArray[np.intp], k: int
) -> tuple[npt.NDArray[np.int64], Points]:
    """Return the weight (k,) and the weighted sums of coordinates (k, dims) of each label's points."""
    sums = np.stack([np.bincount(labels, weights * axis, k) for axis in points.T], axis=1)
    return np.bincount(labels, weights, k).astype(np.int64), sums.astype(np.int64)


def _counters(n: int, purpose: int) -> npt.NDArray[np.uint32]:
    counters = np.zeros((n, 4), np.uint32)
    counters[:, 0], counters[:, 3] = np.arange(n), purpose
    return counters


def stretches(total: int, words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Draw whole numbers below `total`, one of each of n stretches of equal length, by (n,) uint32 random words."""
    draws, high, low = words.astype(np.uint64), np.uint64(total >> 32), np.uint64(total & 0xFFFFFFFF)
    within = draws * high + (draws * low >> np.uint64(32))
    places: npt.NDArray[np.int64] = (np.arange(len(words)) * total + within.astype(np.int64)) // len(words)
    return places
