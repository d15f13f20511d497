"""k-means over weighted points in NumPy and Python integers: the reference for clquant.kmeans and its parts.

Points and centers are integer arrays in units of 1/scale of a coordinate; every step is written from its definition.
"""

from __future__ import annotations

import math

import numpy as np

from tests.reference.counting import z_order
from tests.reference.philox import philox4x32, seed_key


def squared_distances(points: np.ndarray, centers: np.ndarray) -> np.ndarray:
    return ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)


def assign(points: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """The nearest center of every point, ties to the lowest index."""
    return np.argmin(squared_distances(points, centers), axis=1)


def totals_of(points: np.ndarray, weights: np.ndarray, centers: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(1 + 2 dims, k): weight, sums of coordinates, sums of squared differences by axis."""
    k, dims = centers.shape
    totals = np.zeros((1 + 2 * dims, k), np.int64)
    np.add.at(totals[0], labels, weights)
    for d in range(dims):
        np.add.at(totals[1 + d], labels, weights * points[:, d])
        np.add.at(totals[1 + dims + d], labels, weights * (points[:, d] - centers[labels, d]) ** 2)
    return totals


def rounded_mean(total: int, weight: int) -> int:
    return (2 * int(total) + int(weight)) // (2 * int(weight))


def move_apart(centers: np.ndarray, giver: int, taker: int, offset: np.ndarray, extent: tuple[int, ...]) -> None:
    """Put `taker` above and `giver` below the giver's center."""
    centers[taker] = np.minimum(centers[giver] + offset, extent)
    centers[giver] = np.maximum(centers[giver] - offset, 0)


def split(centers: np.ndarray, totals: np.ndarray, giver: int, taker: int, extent: tuple[int, ...]) -> None:
    """Move the two apart by one standard deviation on the widest axis."""
    dims = centers.shape[1]
    axis = int(np.argmax(totals[1 + dims :, giver]))
    offset = np.zeros(dims, np.int64)
    offset[axis] = max(math.isqrt(int(totals[1 + dims + axis, giver]) // int(totals[0, giver])), 1)
    move_apart(centers, giver, taker, offset, extent)


def repair(centers: np.ndarray, totals: np.ndarray, giver: int, taker: int, extent: tuple[int, ...]) -> None:
    """Move the two apart by the mean standard deviation on every axis."""
    dims = centers.shape[1]
    inertia = int(totals[1 + dims :, giver].sum())
    offset = max(math.isqrt(inertia // (int(totals[0, giver]) * dims)), 1)
    move_apart(centers, giver, taker, np.full(dims, offset), extent)


def step(points: np.ndarray, weights: np.ndarray, centers: np.ndarray, extent: tuple[int, ...]) -> tuple:
    """One step of Lloyd's algorithm: new centers, totals about the old ones, inertia, whether it changed anything."""
    dims = centers.shape[1]
    totals = totals_of(points, weights, centers, assign(points, centers))
    inertia = int(totals[1 + dims :].sum())
    moved = centers.copy()
    for j in np.flatnonzero(totals[0]):
        moved[j] = [rounded_mean(totals[1 + d, j], totals[0, j]) for d in range(dims)]
    changed = bool((moved != centers).any())
    empty = np.flatnonzero(totals[0] == 0)
    own = totals[1 + dims :].sum(axis=0)
    givers = np.flatnonzero(own >= max(inertia // len(centers), 1))
    if inertia:
        for taker, giver in zip(empty, givers, strict=False):
            repair(moved, totals, int(giver), int(taker), extent)
    done = inertia == 0 or (len(empty) == 0 and not changed)
    return moved, totals, inertia, len(empty), done


def lloyd(
    points: np.ndarray,
    weights: np.ndarray,
    centers: np.ndarray,
    extent: tuple[int, ...],
    max_iter: int,
    tol: float = 0.0,
) -> tuple:
    """Steps until nothing changes or the inertia hardly falls: centers, totals and inertia of the last one, steps."""
    before, steps, done = None, 0, False
    while steps < max_iter and not done:
        steps += 1
        centers, totals, inertia, empty, done = step(points, weights, centers, extent)
        if before is not None and tol and not empty:
            done |= before - inertia <= before * int(tol * 2**64) // 2**64
        before = inertia
    return centers, totals, inertia, steps


def sketch(points: np.ndarray, weights: np.ndarray, colors: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of the occupied cells of a grid of 2^level cells an axis; colours in Z-order."""
    codes = z_order(colors) >> (colors.shape[1] * (8 - level))
    _, first = np.unique(codes, return_index=True)
    ends = np.append(first[1:], len(codes))
    means, mass = [], []
    for begin, end in zip(first, ends, strict=True):
        weight = weights[begin:end].sum()
        sums = (points[begin:end] * weights[begin:end, None]).sum(axis=0)
        means.append([rounded_mean(s, weight) for s in sums])
        mass.append(weight)
    return np.array(means), np.array(mass)


def sample_centers(points: np.ndarray, weights: np.ndarray, k: int, seed: int, rounds: int = 16) -> np.ndarray:
    """k-means++ in rounds; the draws of a round come from equal strata of one distribution."""
    distances = np.ones(len(points), np.int64)
    chosen: list[int] = []
    count = 1
    while len(chosen) < k:
        first = len(chosen)
        sums = np.cumsum(weights * distances)
        total = int(sums[-1])
        stratum = max(total // count, 1)
        for j in range(count):
            words = philox4x32([first + j, 0, 0, 0], seed_key(seed))
            random = (int(words[1]) << 32) | int(words[0])
            target = min(j * stratum + (random * stratum >> 64), max(total - 1, 0))
            chosen_one = int(np.searchsorted(sums, target, side="right")) if total else 0
            chosen.append(chosen_one)
        distances = squared_distances(points, points[chosen]).min(axis=1)
        count = min(k - len(chosen), max(1, -(-(k - 1) // rounds)))
    return points[chosen]


def change(centers: np.ndarray, totals: np.ndarray, swaps: int, first: int, extent: tuple[int, ...]) -> np.ndarray:
    """Merge up to `swaps` pairs of centers and split as many others, each from rank `first` on."""
    k, dims = centers.shape
    distances = squared_distances(centers, centers)
    np.fill_diagonal(distances, 2**62)
    neighbours = np.argmin(distances, axis=1) if k > 1 else np.zeros(1, int)
    mass = [int(n) for n in totals[0]]
    costs = np.array(
        [
            mass[j] * mass[neighbours[j]] // max(mass[j] + mass[neighbours[j]], 1) * int(distances[j, neighbours[j]])
            for j in range(k)
        ]
    )
    by_cost = np.argsort(costs, kind="stable")
    goes: list[int] = []
    touched = np.zeros(k, bool)
    tried = [int(j) for j in by_cost[first : first + swaps]]
    for rank, j in enumerate(tried):
        earlier = set(tried[:rank]) | {int(neighbours[i]) for i in tried[:rank]}
        if j not in earlier and int(neighbours[j]) not in earlier:
            goes.append(j)
            touched[[j, neighbours[j]]] = True
    gains = totals[1 + dims :].max(axis=0)
    givers = [int(j) for j in np.argsort(-gains, kind="stable") if not touched[j]]
    changed = centers.copy()
    for turn, j in enumerate(goes):
        partner = neighbours[j]
        weight = totals[0, j] + totals[0, partner]
        if weight:
            changed[partner] = [rounded_mean(totals[1 + d, j] + totals[1 + d, partner], weight) for d in range(dims)]
        if turn + first < len(givers) and totals[0, givers[turn + first]]:
            split(changed, totals, givers[turn + first], j, extent)
    return changed


def swap_centers(
    points: np.ndarray, weights: np.ndarray, centers: np.ndarray, extent: tuple[int, ...], rounds: int, steps: int
) -> np.ndarray:
    """Rounds of swaps with steps of Lloyd's algorithm before each and after the last; the best centers."""
    swaps, first = max(1, len(centers) // 3), 0
    lowest = None
    for remaining in range(rounds, -1, -1):
        centers, totals, inertia, _ = lloyd(points, weights, centers, extent, steps)
        if lowest is None or inertia < lowest:
            lowest, best, best_totals, first = inertia, centers, totals, 0
        elif swaps > 1:
            swaps //= 2
        else:
            first = (first + 1) % len(centers)
        if remaining:
            centers = change(best, best_totals, swaps, first, extent)
    return best
