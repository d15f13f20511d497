"""Places of a quadtree's nodes: grids of levels, Morton codes, the paper's order of children.

Levels are counted from the pixels: a node of level k is a square of 2^k pixels per side, clipped to the picture. Depth
is counted from the root, the smallest power of two that covers the picture.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_SIDE = 65535  # so that a picture has fewer than 2^32 pixels, which bounds every sum (cl/quadtree/quadtree.h)
MAX_CHANNELS = 16

Integers = npt.NDArray[np.int64]


def root_level(height: int, width: int) -> int:
    """Level of the root: the least k with 2^k at least `height` and `width`."""
    return (max(height, width) - 1).bit_length()


def grid(height: int, width: int, level: int) -> tuple[int, int]:
    """Rows and columns of the nodes of a level that meet the picture."""
    return -(-height >> level), -(-width >> level)


def cells(height: int, width: int, level: int) -> int:
    """Number of a level's nodes that meet the picture."""
    rows, columns = grid(height, width, level)
    return rows * columns


def node_pixels(x: Integers, y: Integers, size: Integers | int, height: int, width: int) -> Integers:
    """Pixels inside the picture of the squares with top-left pixel (x, y) and side `size`."""
    counts: Integers = np.minimum(size, width - x) * np.minimum(size, height - y)
    return counts


def grid_pixels(height: int, width: int, level: int) -> Integers:
    """Pixels inside the picture of every node of a level, (rows, columns)."""
    rows, columns = grid(height, width, level)
    size = 1 << level
    y, x = np.arange(rows, dtype=np.int64) * size, np.arange(columns, dtype=np.int64) * size
    return node_pixels(x[None, :], y[:, None], size, height, width)


@functools.cache
def _spread_table() -> npt.NDArray[np.uint64]:
    """(65536,): bit i of a 16-bit value becomes bit 2i."""
    spread = np.arange(1 << 16, dtype=np.uint64)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        spread = (spread | (spread << np.uint64(shift))) & np.uint64(mask)
    return spread


def morton(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Morton codes: the bits of x and y interleaved, x lowest (top-left, top-right, bottom-left, bottom-right)."""
    spread = _spread_table()
    codes: npt.NDArray[np.uint64] = spread[x] | (spread[y] << np.uint64(1))
    return codes


def paper_positions(rows: int, columns: int) -> Integers:
    """Return each node's index in its level, in the paper's order of children."""
    # Masina and Stedile, section 5.1: the children of i lie at 4i + 1 to 4i + 4, top-left, top-right, bottom-right,
    # bottom-left. So a step down to (x, y) within its parent is the digit 2y + (x xor y), to the base 4.
    y, x = np.arange(rows, dtype=np.int64)[:, None], np.arange(columns, dtype=np.int64)[None, :]
    return morton(x ^ y, y).astype(np.int64)
