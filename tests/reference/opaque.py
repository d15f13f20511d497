"""Learned palettes' opaque entries for opaque pixels, colour by colour."""

from __future__ import annotations

import numpy as np


def settle_opaque(palette, colors, weights, space):
    """A palette (k, 4), learned of colours (n, 4) of whole weights, with entries that opaque pixels may take."""
    points, places = space.coordinates(colors).astype(int), space.coordinates(palette).astype(int)
    kinds = [{True: [], False: []} for _ in palette]  # of each entry its opaque and its other colours
    for i, point in enumerate(points):
        kinds[int(np.argmin(((places - point) ** 2).sum(axis=1)))][bool(colors[i, 3] == 255)].append(i)
    masses = [[int(weights[kind[is_opaque]].sum()) for is_opaque in (True, False)] for kind in kinds]
    settled = palette.copy()
    if not (colors[:, 3] == 255).any():
        return settled
    for entry, (opaque, soft) in enumerate(masses):
        if 0 < opaque >= soft:
            settled[entry, 3] = 255
    if not (settled[:, 3] == 255).any():
        settled[int(np.argmax([opaque for opaque, _ in masses])), 3] = 255
    for entry, (opaque, soft) in enumerate(masses):
        if opaque and settled[entry, 3] < 255:
            own = kinds[entry][False]
            mean = [(2 * int(weights[own] @ points[own, d]) + soft) // (2 * soft) for d in range(4)]
            settled[entry] = space.colors(np.array([mean]))[0]
    return settled
