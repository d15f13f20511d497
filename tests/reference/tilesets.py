"""Tile palettes, pixel by pixel: which palette a tile takes, and which entries its pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def entries(
    image: npt.NDArray[np.uint8], palettes: npt.NDArray[np.uint8], side: tuple[int, int], space: Any, first: int
) -> tuple[npt.NDArray[Any], int]:
    """Indices (H, W) into all palettes, (palettes, n, 3), in turn, and the sum of squared distances.

    Opaque pixels, of alpha from 128 on, take entries from `first` on; the others entry 0 of their tile's palette.
    """
    height, width = image.shape[:2]
    count = palettes.shape[1]
    found, total = np.zeros((height, width), np.int64), 0
    for y in range(0, height, side[0]):
        for x in range(0, width, side[1]):
            tile = image[y : y + side[0], x : x + side[1]]
            opaque = tile[..., 3] >= 128 if tile.shape[2] == 4 else np.ones(tile.shape[:2], bool)
            points = space.coordinates(tile[opaque][:, :3].reshape(-1, 3)).astype(np.int64)
            distances = [
                ((points[:, None] - space.coordinates(palette[first:]).astype(np.int64)) ** 2).sum(axis=2)
                for palette in palettes
            ]
            costs = [int(one.min(axis=1, initial=1 << 30).sum()) if len(one) else 0 for one in distances]
            best = int(np.argmin(costs))
            chosen = np.full(tile.shape[:2], best * count)
            if len(points):
                chosen[opaque] = best * count + first + distances[best].argmin(axis=1)
            found[y : y + side[0], x : x + side[1]] = chosen
            total += costs[best]
    return found, total
