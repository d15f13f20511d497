"""Median cut and Wu's cut, a box at a time, in NumPy: the reference for clquant.kmeans.box_cut."""

from __future__ import annotations

import numpy as np


def mean(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rounded half up."""
    return (2 * weights @ points + weights.sum()) // (2 * weights.sum())


def squared_differences(points: np.ndarray, weights: np.ndarray) -> int:
    return int(weights @ ((points - mean(points, weights)) ** 2).sum(axis=1))


def median_cut(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, int]:
    order = np.argsort(points[:, np.ptp(points, axis=0).argmax()], kind="stable")
    first = 1 + int((2 * np.cumsum(weights[order]) >= weights.sum()).argmax())
    return order, min(first, len(points) - 1)


def kept(sums: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """|sum|^2 / weight in doubles, axis by axis: what a part takes off the sum of squares by its mean."""
    squares = np.zeros(len(mass))
    for axis in sums.T.astype(np.float64):
        squares = squares + axis * axis
    return squares / mass.astype(np.float64)


def wu_cut(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, int]:
    best = None
    for axis in points.T:
        order = np.argsort(axis, kind="stable")
        sums = np.cumsum(points[order] * weights[order, None], axis=0)
        mass = np.cumsum(weights[order])
        values = kept(sums[:-1], mass[:-1]) + kept(sums[-1] - sums[:-1], mass[-1] - mass[:-1])
        if best is None or values.max() > best[0]:
            best = values.max(), order, int(values.argmax()) + 1
    return best[1], best[2]


def box_centers(points: np.ndarray, weights: np.ndarray, k: int, rule: str) -> np.ndarray:
    """Points (n, dims) and weights (n,) int64."""
    boxes = [np.arange(len(points))]

    def urgency(box: np.ndarray) -> float:
        if len(box) == 1:
            return -1.0
        by_variance = rule == "wu"
        inside = points[box]
        return float(squared_differences(inside, weights[box]) if by_variance else np.ptp(inside, axis=0).max())

    urgencies = [urgency(boxes[0])]
    while len(boxes) < k:
        index = int(np.argmax(urgencies))
        box = boxes[index]
        cut = wu_cut if rule == "wu" else median_cut
        order, first = cut(points[box], weights[box])
        boxes[index] = np.sort(box[order[:first]])
        boxes.append(np.sort(box[order[first:]]))
        urgencies[index] = urgency(boxes[index])
        urgencies.append(urgency(boxes[-1]))
    return np.array([mean(points[box], weights[box]) for box in boxes])
