"""Statistics of a tree's levels: kept for every node (bottom-up), or derived from those of the leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from clquant.quadtree.geometry import Integers, grid, grid_pixels, morton, node_pixels, root_level

FORK, LEAF, INSIDE = 1, 2, 3
Words = npt.NDArray[Any]
Sums = npt.NDArray[np.uint64]
Item = TypeVar("Item")


def unpack(words: Words) -> tuple[Sums, Sums]:
    """Split a level's packed words (cl/quadtree/quadtree.h) into exact sums and squares, (bands, rows, columns)."""
    if words.ndim == 4:
        return words[:, 0], words[:, 1]
    shift = 20 if words.dtype == np.uint32 else 32
    wide = words.astype(np.uint64)
    return wide >> np.uint64(shift), wide & np.uint64((1 << shift) - 1)


def deviations(sums: Sums, squares: Sums, counts: Integers) -> npt.NDArray[np.float64]:
    """Return standard deviations in gray levels: the root of the exact integer n * squares - sum^2, over n."""
    n = np.broadcast_to(counts[..., None], sums.shape).astype(np.uint64)
    scaled = (n * squares - sums * sums).astype(np.float64)  # exact before the conversion where n < 2^24
    for at in zip(*np.nonzero(n >= 1 << 24), strict=True):
        scaled[at] = float(int(n[at]) * int(squares[at]) - int(sums[at]) ** 2)
    result: npt.NDArray[np.float64] = np.sqrt(scaled) / n
    return result


@dataclass(frozen=True)
class Level:
    """One level of a tree as arrays, read-only, over the grid of its nodes (rows, columns).

    Attributes
    ----------
    size : int
        Side of the nodes in pixels.
    kinds : ndarray of uint8, (rows, columns)
        `FORK` (1), `LEAF` (2), or `INSIDE` (3): within a greater leaf, so no node of the tree.
    counts : ndarray of int64, (rows, columns)
        Pixels of the picture in each node.
    sums, squares : ndarray of uint64, (rows, columns, C)
        Exact sums of values and of their squares; 0 at `INSIDE` nodes of a tree that was not built bottom-up.
    """

    size: int
    kinds: npt.NDArray[np.uint8]
    counts: Integers
    sums: Sums
    squares: Sums

    def __post_init__(self) -> None:
        for array in (self.kinds, self.counts, self.sums, self.squares):
            array.flags.writeable = False  # some are views of what the tree keeps

    @property
    def means(self) -> npt.NDArray[np.uint8]:
        """Means rounded half up, (rows, columns, C) uint8."""
        n = self.counts[..., None].astype(np.uint64)
        return np.asarray((self.sums * np.uint64(2) + n) // (n * np.uint64(2)), np.uint8)

    @property
    def deviations(self) -> npt.NDArray[np.float64]:
        """Standard deviations in gray levels, (rows, columns, C) float64."""
        return deviations(self.sums, self.squares, self.counts)


class Lazy(Sequence[Item]):
    """Items by depth, each made when it is asked for, so that not all need be in memory at once."""

    def __init__(self, count: int, make: Callable[[int], Item]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        chosen: Any = range(self._count)[index]
        return [self._make(one) for one in chosen] if isinstance(chosen, range) else self._make(chosen)


class Levels(Lazy[Level]):
    """A tree's levels from the root (0) to the pixels."""


class Kinds:
    """Kinds of the nodes of a tree's levels, from its leaves."""

    def __init__(self, height: int, width: int, leaves: npt.NDArray[np.void]) -> None:
        self._sides, self._leaves = (height, width), leaves
        levels = np.frexp(leaves["size"])[1].astype(np.uint8) - np.uint8(1)
        self._places = [np.flatnonzero(levels == level) for level in range(root_level(height, width) + 1)]

    def _leaf_mask(self, level: int) -> npt.NDArray[np.bool_]:
        mask = np.zeros(grid(*self._sides, level), np.bool_)
        own = self._leaves[self._places[level]]
        mask[own["y"] >> level, own["x"] >> level] = True
        return mask

    def level(self, level: int) -> npt.NDArray[np.uint8]:
        """Return the kinds of a level's nodes, (rows, columns)."""
        exists = np.ones((1, 1), np.bool_)
        for above in range(root_level(*self._sides), level, -1):
            rows, columns = grid(*self._sides, above - 1)
            forks = exists & ~self._leaf_mask(above)
            exists = forks.repeat(2, 0).repeat(2, 1)[:rows, :columns]
        own = np.where(self._leaf_mask(level), LEAF, FORK).astype(np.uint8) if level else np.uint8(LEAF)
        return np.where(exists, own, np.uint8(INSIDE))


class LeafStatistics:
    """Statistics of a tree's nodes over the picture painted with its leaves' means; leaves in Morton order."""

    def __init__(self, height: int, width: int, channels: int, leaves: npt.NDArray[np.void]) -> None:
        self.height, self.width, self.leaves = height, width, leaves
        self.kinds = Kinds(height, width, leaves)
        x, y, size = (leaves[name].astype(np.int64) for name in ("x", "y", "size"))
        n = node_pixels(x, y, size, height, width).astype(np.uint64)[:, None]
        means = leaves["mean"].reshape(len(leaves), channels).astype(np.uint64)
        self.sums, self.squares = means * n, means * means * n

    def level(self, level: int) -> Level:
        """Return a level, counted from the pixels; sums and squares are 0 inside greater leaves."""
        size, channels = 1 << level, self.sums.shape[1]
        rows, columns = grid(self.height, self.width, level)
        sums = np.zeros((rows, columns, channels), np.uint64)
        squares = np.zeros_like(sums)
        within = np.flatnonzero(self.leaves["size"] <= size)
        if within.size:
            x, y = self.leaves["x"][within] >> level, self.leaves["y"][within] >> level
            codes = morton(x, y)
            starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
            at = (y[starts], x[starts])
            sums[at] = np.add.reduceat(self.sums[within], starts, axis=0)
            squares[at] = np.add.reduceat(self.squares[within], starts, axis=0)
        return Level(size, self.kinds.level(level), grid_pixels(self.height, self.width, level), sums, squares)
