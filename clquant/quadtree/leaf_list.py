"""A tree's leaves on the host, and the pieces of a picture that a device has room for with their leaves."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params, runtime
from clquant.quadtree.geometry import Integers, grid, morton, root_level
from clquant.quadtree.levels import FORK, Level
from clquant.runtime import InvalidArgument

MIN_PIECE_LEVEL = 6
SQUARE, CPU_SQUARE = 8, 32  # pixels per side of what a work-item looks at


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


@dataclass(frozen=True)
class LeafRun:
    """A rectangle of a picture, and the leaves that meet it."""

    left: int
    top: int
    height: int
    width: int
    records: npt.NDArray[np.uint8]  # the leaves' bytes, in Morton order
    count: int

    def arguments(self, scope: runtime.Scope) -> tuple[runtime.Buffer | np.uint32, ...]:
        """Return the first arguments of cl/quadtree's kernels: leaves, count, left, top, width, height."""
        numbers = (self.count, self.left, self.top, self.width, self.height)
        return (scope.upload(self.records), *(np.uint32(number) for number in numbers))

    def squares(self, side: int) -> int:
        """Squares of a side that cover it."""
        return -(-self.height // side) * -(-self.width // side)


class LeafList:
    """All leaves of a picture in Morton order, read-only."""

    def __init__(self, height: int, width: int, channels: int, records: npt.NDArray[np.void]) -> None:
        self.height, self.width, self.channels = height, width, channels
        self.records = records

    @functools.cached_property
    def codes(self) -> npt.NDArray[np.uint64]:
        """Morton codes, ascending."""
        return morton(self.records["x"], self.records["y"])

    def find(self, x: Integers, y: Integers) -> Integers:
        """Places of the leaves that hold pixels."""
        found: Integers = np.searchsorted(self.codes, morton(x, y), side="right").astype(np.int64) - 1
        return found

    def neighbours(self, leaf: int) -> Integers:
        """Places of the leaves that share a part of an edge with a leaf, ascending."""
        record = self.records[leaf]
        left, top, size = int(record["x"]), int(record["y"]), int(record["size"])
        right, bottom = left + size, top + size
        columns = np.arange(left, min(right, self.width))
        rows = np.arange(top, min(bottom, self.height))
        sides = [self.find(columns, np.full_like(columns, y)) for y in (top - 1, bottom) if 0 <= y < self.height]
        sides += [self.find(np.full_like(rows, x), rows) for x in (left - 1, right) if 0 <= x < self.width]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *sides]))

    def down_to(self, level: Level) -> LeafList:
        """The leaves of the tree that ends at a level: its forks there are leaves of their means."""
        size = level.size
        y, x = np.nonzero(level.kinds == FORK)
        forks = np.zeros(len(x), self.records.dtype)
        forks["x"], forks["y"], forks["size"] = x * size, y * size, size
        forks["mean"] = level.means[y, x].reshape(forks["mean"].shape)
        both = np.concatenate([part.view(np.uint8) for part in (self.records[self.records["size"] >= size], forks)])
        records = both.view(self.records.dtype)
        order = np.argsort(morton(records["x"], records["y"]), kind="stable")
        return LeafList(self.height, self.width, self.channels, records[order])

    def pieces(self, session: runtime.Session, bytes_per_pixel: int) -> Iterator[LeafRun]:
        """Yield the picture whole, or in squares that fit the device, in Morton order; the bytes exclude leaves."""
        limits, packed = session.limits, self.records.view(np.uint8).reshape(len(self.records), -1)
        pixels = self.height * self.width
        room = min(limits.max_alloc, (1 << 32) - 1)
        needed = pixels * bytes_per_pixel
        if max(packed.nbytes, needed) <= room and packed.nbytes + needed <= limits.global_memory * 4 // 5:
            yield LeafRun(0, 0, self.height, self.width, packed.reshape(-1), len(packed))
            return
        level = root_level(self.height, self.width)
        while level > MIN_PIECE_LEVEL and max(packed.shape[1], bytes_per_pixel) << 2 * level > room:
            level -= 1
        rows, columns = grid(self.height, self.width, level)
        for index in range(rows * columns):
            top, left = (place << level for place in divmod(index, columns))
            code = int(morton(np.array([left]), np.array([top]))[0])
            bounds = np.array([code, code + (1 << 2 * level)], np.uint64)
            first = int(np.searchsorted(self.codes, bounds[0], side="right")) - 1
            last = int(np.searchsorted(self.codes, bounds[1], side="left"))
            height, width = min(1 << level, self.height - top), min(1 << level, self.width - left)
            yield LeafRun(left, top, height, width, packed[first:last].reshape(-1), last - first)


def square_side(session: runtime.Session) -> int:
    """Side of the squares that work-items look at: few leaves each where there are many work-items."""
    return CPU_SQUARE if session.limits.is_cpu else SQUARE


def pixel_places(x: Any, y: Any, width: int, height: int) -> tuple[Integers, Integers]:
    """Return coordinates as two integer arrays, checked to be of one shape and inside the picture."""
    columns, rows = (params.array(name, values, "integers", "iu") for name, values in (("x", x), ("y", y)))
    for name, values, limit in (("x", columns, width), ("y", rows, height)):
        if values.size and (values.min() < 0 or values.max() >= limit):
            raise InvalidArgument(f"{name} goes from {values.min()} to {values.max()}; allowed: 0 to {limit - 1}")
    if columns.shape != rows.shape:
        raise InvalidArgument(f"x and y have the shapes {columns.shape} and {rows.shape}; allowed: one shape")
    return columns, rows
