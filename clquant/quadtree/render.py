"""Pictures of a tree: leaves in their means, outlines, one frame a level."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from clquant.quadtree.geometry import grid, root_level
from clquant.quadtree.levels import FORK, LEAF, Levels


def doubled(canvas: npt.NDArray[Any], rows: int, columns: int) -> npt.NDArray[Any]:
    """Every cell as 2 x 2 cells, cut to `rows` x `columns`."""
    return canvas.repeat(2, 0).repeat(2, 1)[:rows, :columns]


def paint(height: int, width: int, leaves: npt.NDArray[np.void], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A picture whose leaves hold `values` (one entry a leaf), from the root down.

    Returns
    -------
    ndarray, (height, width) + values.shape[1:]
    """
    root = root_level(height, width)
    canvas = np.zeros((1, 1, *values.shape[1:]), values.dtype)
    for level in range(root, -1, -1):
        if level < root:
            canvas = doubled(canvas, *grid(height, width, level))
        own = leaves["size"] == 1 << level
        canvas[leaves["y"][own] >> level, leaves["x"][own] >> level] = values[own]
    return canvas


def edges(height: int, width: int, leaves: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Pixels whose left or upper neighbour belongs to another leaf, (height, width)."""
    owner = paint(height, width, leaves, np.arange(len(leaves), dtype=np.int32))
    border = np.zeros((height, width), np.bool_)
    border[:, 1:] = owner[:, 1:] != owner[:, :-1]
    border[1:] |= owner[1:] != owner[:-1]
    return border


def as_rgb(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """An RGB copy, (H, W, 3): gray thrice, the first channel thrice for two bands, else the first three."""
    if picture.ndim == 2:
        return np.repeat(picture[..., None], 3, axis=2)
    if picture.shape[2] < 3:
        return np.repeat(picture[..., :1], 3, axis=2)
    copied: npt.NDArray[np.uint8] = picture[..., :3].copy()
    return copied


class Frames(Sequence[npt.NDArray[np.uint8]]):
    """One picture a depth, root first: leaves so far, and what is still to be split in its mean.

    Each is painted when it is asked for, so that a large picture's frames need not all be held at once.

    Parameters
    ----------
    levels : Levels
        Of the tree, root first.
    height, width : int
        Of the picture.
    gray : bool
        Whether the pictures are (H, W) instead of (H, W, C).
    """

    def __init__(self, levels: Levels, height: int, width: int, gray: bool) -> None:
        self._levels = levels
        self._height = height
        self._width = width
        self._gray = gray

    def __len__(self) -> int:
        return len(self._levels)

    @overload
    def __getitem__(self, depth: int) -> npt.NDArray[np.uint8]: ...

    @overload
    def __getitem__(self, depth: slice) -> list[npt.NDArray[np.uint8]]: ...

    def __getitem__(self, depth: int | slice) -> npt.NDArray[np.uint8] | list[npt.NDArray[np.uint8]]:
        chosen = range(len(self))[depth]
        return [self._paint(one) for one in chosen] if isinstance(chosen, range) else self._paint(chosen)

    def _paint(self, depth: int) -> npt.NDArray[np.uint8]:
        picture: npt.NDArray[np.uint8] = self._levels[0].means.copy()
        for level in islice(self._levels, 1, depth + 1):
            picture = doubled(picture, *level.kinds.shape)
            own = (level.kinds == FORK) | (level.kinds == LEAF)
            picture[own] = level.means[own]
        for above in range(len(self) - 2 - depth, -1, -1):
            picture = doubled(picture, *grid(self._height, self._width, above))
        return picture[..., 0] if self._gray else picture
