"""Opaque pixels are shown by opaque entries alone (`cl/mapping/nearest.h`), so learned palettes have some for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space

Colors = npt.NDArray[np.uint8]
Points = npt.NDArray[np.integer]


def settle_opaque(
    colors: Colors, pinned: int, points: Points, weights: npt.NDArray[np.integer], space: Space
) -> Colors:
    """Make those entries opaque that stand for opaque points mostly, one at least; others stand for soft ones alone.

    colors (k, 4), of which the first `pinned` stay; points (n, 4), all or a sample, in a space with alpha, with whole
    weights.
    """
    is_opaque = points[:, 3] == space.extent[3]
    free = np.arange(len(colors)) >= pinned
    if not is_opaque.any() or not free.any():
        return colors
    given, centers = points.astype(np.float64), space.coordinates(colors).astype(np.float64)
    labels = ((centers**2).sum(axis=1) - 2 * (given @ centers.T)).argmin(axis=1)
    total = np.bincount(labels, weights, len(colors))
    opaque = np.bincount(labels, weights * is_opaque, len(colors))
    settled: Colors = colors.copy()
    settled[free & (opaque > 0) & (2 * opaque >= total), 3] = 255
    if not (settled[:, 3] == 255).any():
        settled[np.where(free, opaque, -1).argmax(), 3] = 255
    soft = free & (opaque > 0) & (settled[:, 3] < 255)
    for entry in np.flatnonzero(soft):
        own = (labels == entry) & ~is_opaque
        sums, times = weights[own] @ points[own].astype(np.int64), int(weights[own].sum())
        settled[entry] = space.colors(((2 * sums + times) // (2 * times))[None])[0]
    return settled
