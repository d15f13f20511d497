"""Arrays of a subtree as the device stores them: records of leaves, levels one after another."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.quadtree.geometry import cells, grid
from clquant.quadtree.levels import Words

STOP = np.uint32(1 << 31)


@functools.cache
def record_dtype(channels: int, gray: bool) -> np.dtype[np.void]:
    """Return the leaves' dtype as `quadtree_leaves` writes them; `gray` makes `mean` a number, not an array of one."""
    mean: Any = "u1" if gray else ("u1", (channels,))
    return np.dtype(
        {
            "names": ["x", "y", "size", "mean"],
            "formats": ["<i4", "<i4", "<i4", mean],
            "offsets": [0, 4, 8, 12],
            "itemsize": 12 + 4 * -(-channels // 4),
        }
    )


def stored_stops(
    height: int, width: int, flags: npt.NDArray[np.uint8], nodes: npt.NDArray[np.uint32], level: int
) -> npt.NDArray[np.bool_]:
    """Return which nodes of a level from 1 to the root's stop a split."""
    # `flags` has a byte per node of level 2 (cl/quadtree/tiles.cl); `nodes` the levels from 3 on, with the bit `STOP`.
    rows, columns = grid(height, width, level)
    if level == 1:
        quadrants = np.empty((2 * flags.shape[0], 2 * flags.shape[1]), np.bool_)
        for q in range(4):
            quadrants[q >> 1 :: 2, q & 1 :: 2] = flags >> q & 1
        return quadrants[:rows, :columns]
    if level == 2:
        return (flags >> 4 & 1).astype(np.bool_)
    at = sum(cells(height, width, below) for below in range(3, level))
    stops: npt.NDArray[np.bool_] = (nodes[at : at + rows * columns] >= STOP).reshape(rows, columns)
    return stops


def split_words(
    height: int, width: int, first: int, whole: npt.NDArray[Any], planes: tuple[int, ...], channels: int
) -> dict[int, Words]:
    """Return views of the levels that a flat array holds from `first` on; `planes` are a level's first axes."""
    found: dict[int, Words] = {}
    at, level = 0, first
    while at < whole.size:
        shape = (*planes, *grid(height, width, level))
        count = math.prod(shape)
        found[level] = whole[at : at + count].reshape(shape)[:channels]
        at, level = at + count, level + 1
    return found
