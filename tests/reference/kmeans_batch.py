"""K-means of a small picture as `clquant.kmeans.small_images` defines it, in plain NumPy integers."""

from __future__ import annotations

import numpy as np

from tests.reference.philox import philox4x32, seed_key

PURPOSE = 0x62617463


def cell_points(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean colours in eighths of a gray level and pixel counts of the occupied cells, in cell order."""
    colors = pixels.reshape(-1, 3).astype(np.int64)
    cells = (colors[:, 0] >> 3) << 10 | (colors[:, 1] >> 3) << 5 | colors[:, 2] >> 3
    occupied = np.unique(cells)
    points, weights = [], []
    for cell in occupied:
        inside = colors[cells == cell]
        n = len(inside)
        points.append((8 * inside.sum(0) + n // 2) // n)
        weights.append(n)
    return np.array(points), np.array(weights)


def squared(points: np.ndarray, center: np.ndarray) -> np.ndarray:
    return ((points - center) ** 2).sum(1)


def seed_centers(
    points: np.ndarray, weights: np.ndarray, k: int, start: int, candidates: int, key: np.ndarray
) -> np.ndarray:
    near = None
    chosen: list[int] = []
    for step in range(k):
        errors = weights if near is None else weights * (near >> 6)
        total = int(errors.sum())
        drawn = []
        for c in range(1 if near is None else candidates):
            word = int(philox4x32([start, step, c, PURPOSE], key)[0])
            drawn.append(int(np.searchsorted(np.cumsum(errors), word * total >> 32, side="right")) if total else 0)
        distances = [squared(points, points[i]) for i in drawn]
        if near is not None:
            distances = [np.minimum(near, d) for d in distances]
        best = int(np.argmin([(weights * (d >> 6)).sum() for d in distances])) if near is not None else 0
        near = distances[best]
        chosen.append(drawn[best])
    return points[chosen]


def lloyd(points: np.ndarray, weights: np.ndarray, centers: np.ndarray, steps: int) -> tuple[np.ndarray, int]:
    centers = centers.copy()
    inertia = 0
    for _ in range(steps):
        distances = np.stack([squared(points, c) for c in centers], axis=1)
        labels = distances.argmin(1)
        errors = weights * (distances.min(1) >> 6)
        inertia = int(errors.sum())
        changed = empty = False
        for j in range(len(centers)):
            inside = labels == j
            w = int(weights[inside].sum())
            if w == 0:
                empty = True
                continue
            mean = ((weights[inside, None] * points[inside]).sum(0) + w // 2) // w
            changed |= bool((mean != centers[j]).any())
            centers[j] = mean
        for j in range(len(centers)):
            if not (labels == j).any():
                worst = int(errors.argmax())
                if errors[worst] == 0:
                    break
                errors[worst] = 0
                centers[j] = points[worst]
        if not changed and not empty:
            break
    return centers, inertia


def palette(
    pixels: np.ndarray, k: int, seed: int, few_cells: int, starts: int, candidates: int, steps: int
) -> np.ndarray:
    points, weights = cell_points(pixels)
    if len(points) < few_cells * k:
        distinct, weights = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
        if len(distinct) <= k:
            return distinct
        points = 8 * distinct.astype(np.int64)
    key = seed_key(seed)
    runs = [
        lloyd(points, weights, seed_centers(points, weights, k, start, candidates, key), steps)
        for start in range(starts)
    ]
    best = min(range(starts), key=lambda i: runs[i][1])
    return ((runs[best][0] + 4) >> 3).astype(np.uint8)
