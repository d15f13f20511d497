"""Opaque pixels are shown by opaque entries alone (`cl/mapping/nearest.h`), so learned palettes have some for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.palette.host_clusters import nearest_centers, sum_clusters

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
    labels = nearest_centers(points, space.coordinates(colors))
    total = np.bincount(labels, weights, len(colors))
    opaque = np.bincount(labels, weights * is_opaque, len(colors))
    settled: Colors = colors.copy()
    settled[free & (opaque > 0) & (2 * opaque >= total), 3] = 255
    if not (settled[:, 3] == 255).any():
        settled[np.where(free, opaque, -1).argmax(), 3] = 255
    soft = free & (opaque > 0) & (settled[:, 3] < 255)
    if soft.any():
        own = soft[labels] & ~is_opaque
        times, sums = sum_clusters(points[own], weights[own], labels[own], len(colors))
        settled[soft] = space.colors((2 * sums[soft] + times[soft, None]) // (2 * times[soft, None]))
    return settled
