"""Starting centers by cutting boxes of weighted points in two, again and again: median cut, and Wu's least variance.

P. Heckbert, "Color image quantization for frame buffer display", SIGGRAPH 1982; X. Wu, "Efficient statistical
computations for optimal color quantization", Graphics Gems II, 1991. Sums are 64-bit integers and the rest are single
operations of IEEE doubles, so the result is the same on every host.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
# The order along which a box is cut, and how many of its points come before the cut.
Cut = tuple[Int, int]


def box_centers(points: Int, weights: Int, k: int, rule: str) -> Int:
    """Means of k boxes.

    Parameters
    ----------
    points : ndarray
        (n, dims) int64, 0 to 2^12.
    weights : ndarray
        (n,) int64 above 0, adding up to less than 2^32.
    k : int
        1 to n.
    rule : str
        ``"median-cut"``: the box of the longest side is cut there at its weighted median.
        ``"wu"``: the box of the largest sum of squared differences is cut across the axis, and at the place, where the
        least of it remains.

    Returns
    -------
    ndarray
        (k, dims) int64, rounded half up, in the order in which the boxes arose. Ties go to the lowest axis, the
        earliest box, and the lowest place.
    """
    urgency, cut = (_longest_side, _median_cut) if rule == "median-cut" else (_squared_differences, _least_variance_cut)
    boxes: list[Int] = [np.arange(len(points))]
    queue: list[tuple[float, int]] = [(-urgency(points, weights), 0)]
    while len(boxes) < k:
        _, index = heapq.heappop(queue)
        box = boxes[index]
        order, first = cut(points[box], weights[box])
        boxes[index] = np.sort(box[order[:first]])
        boxes.append(np.sort(box[order[first:]]))
        for part in (index, len(boxes) - 1):
            inside = boxes[part]
            # A box of one point is cut last of all: never, since k <= n.
            urgent = urgency(points[inside], weights[inside]) if len(inside) > 1 else -1.0
            heapq.heappush(queue, (-urgent, part))
    return np.array([_mean(points[box], weights[box]) for box in boxes])


def _mean(points: Int, weights: Int) -> Int:
    total = weights.sum()
    mean: Int = (2 * (points * weights[:, None]).sum(axis=0) + total) // (2 * total)
    return mean


def _longest_side(points: Int, weights: Int) -> float:  # noqa: ARG001
    return float((points.max(axis=0) - points.min(axis=0)).max())


def _squared_differences(points: Int, weights: Int) -> float:
    """About the rounded mean, in integers: below 2^56."""
    return float((((points - _mean(points, weights)) ** 2).sum(axis=1) * weights).sum())


def _median_cut(points: Int, weights: Int) -> Cut:
    axis = int(np.argmax(points.max(axis=0) - points.min(axis=0)))
    order = np.argsort(points[:, axis], kind="stable")
    passed = np.cumsum(weights[order])
    first = int(np.searchsorted(2 * passed, passed[-1], side="left")) + 1
    return order, min(max(first, 1), len(points) - 1)


def _least_variance_cut(points: Int, weights: Int) -> Cut:
    best: tuple[float, Cut] | None = None
    for axis in range(points.shape[1]):
        order = np.argsort(points[:, axis], kind="stable")
        mass = np.cumsum(weights[order])
        sums = np.cumsum(points[order] * weights[order, None], axis=0)
        kept = _energy(sums[:-1], mass[:-1]) + _energy(sums[-1] - sums[:-1], mass[-1] - mass[:-1])
        place = int(np.argmax(kept))
        if best is None or kept[place] > best[0]:
            best = float(kept[place]), (order, place + 1)
    assert best is not None
    return best[1]


def _energy(sums: Int, mass: Int) -> npt.NDArray[np.float64]:
    """|sum|^2 / weight: what a part takes off the sum of squares when its mean stands for it."""
    energy = np.zeros(len(sums))
    for axis in range(sums.shape[1]):
        energy = energy + sums[:, axis].astype(np.float64) ** 2 / mass
    return energy
