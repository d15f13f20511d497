"""Median cut and Wu's cut in Python integers and fractions: the reference for clquant.kmeans.box_cut."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tests.reference.kmeans import rounded_mean


def mean(points: list, weights: list) -> list[int]:
    total = sum(weights)
    return [
        rounded_mean(sum(w * p[d] for p, w in zip(points, weights, strict=True)), total) for d in range(len(points[0]))
    ]


def squared_differences(points: list, weights: list) -> int:
    center = mean(points, weights)
    return sum(
        w * sum((a - b) ** 2 for a, b in zip(p, center, strict=True)) for p, w in zip(points, weights, strict=True)
    )


def energy(points: list, weights: list) -> Fraction:
    sums = [sum(w * p[d] for p, w in zip(points, weights, strict=True)) for d in range(len(points[0]))]
    return Fraction(sum(s * s for s in sums), sum(weights))


def median_cut(points: list, weights: list) -> tuple[list[int], int]:
    sides = [max(p[d] for p in points) - min(p[d] for p in points) for d in range(len(points[0]))]
    axis = sides.index(max(sides))
    order = sorted(range(len(points)), key=lambda i: points[i][axis])
    passed = 0
    for first, i in enumerate(order, start=1):
        passed += weights[i]
        if 2 * passed >= sum(weights):
            return order, min(first, len(points) - 1)
    raise AssertionError


def wu_cut(points: list, weights: list) -> tuple[list[int], int]:
    best = None
    for axis in range(len(points[0])):
        order = sorted(range(len(points)), key=lambda i, axis=axis: points[i][axis])
        for first in range(1, len(points)):
            parts = order[:first], order[first:]
            kept = sum(energy([points[i] for i in part], [weights[i] for i in part]) for part in parts)
            if best is None or kept > best[0]:
                best = kept, order, first
    return best[1], best[2]


def box_centers(points: np.ndarray, weights: np.ndarray, k: int, rule: str) -> np.ndarray:
    where, mass = points.tolist(), weights.tolist()
    boxes = [list(range(len(where)))]

    def urgency(box: list[int]) -> float:
        if len(box) == 1:
            return -1
        inside = [where[i] for i in box]
        if rule == "median-cut":
            return max(max(p[d] for p in inside) - min(p[d] for p in inside) for d in range(len(inside[0])))
        return squared_differences(inside, [mass[i] for i in box])

    while len(boxes) < k:
        index = max(range(len(boxes)), key=lambda b: (urgency(boxes[b]), -b))
        box = boxes[index]
        cut = median_cut if rule == "median-cut" else wu_cut
        order, first = cut([where[i] for i in box], [mass[i] for i in box])
        boxes[index] = sorted(box[i] for i in order[:first])
        boxes.append(sorted(box[i] for i in order[first:]))
    return np.array([mean([where[i] for i in box], [mass[i] for i in box]) for box in boxes])
