"""Weighted points of a colour space on the device: what palettes are fitted to.

Coordinates are those of `clquant.color.spaces` times a power of two, so that means may lie between colours, as
integers whose squared distances stay below 2^24. Points are in Z-order of their colours, and come in tiles: runs of
neighbours with the box around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space, scale_of
from clquant.histogram.counts import ColorCounts
from clquant.runtime import Buffer, Program, Scope, Session

# A tile has at most `TILE` points, and cells with fewer than about `MIN_TILE` share one.
TILE = 256
MIN_TILE = 32
GROUP = 64
PADDING = 16


@dataclass(frozen=True)
class Points:
    """Weighted points on the device."""

    space: Space
    scale: int  # units of a coordinate of the space
    n: int  # points
    stride: int  # floats from one plane to the next
    coordinates: Buffer  # (dims, stride) float32 planes of integers, 0 to `extent`
    weights: Buffer  # (n,) uint32, or uint64 if `wide`; they add up to at most 2^39
    wide: bool
    cells: npt.NDArray[np.uint32]  # (cells + 1,), where the points of each occupied cell of the coarse grid begin
    blocks: npt.NDArray[np.uint32]  # (cells,), which block, of two cells an axis, each cell is in

    @property
    def extent(self) -> tuple[int, ...]:
        """Largest coordinate of each axis."""
        return tuple(e * self.scale for e in self.space.extent)

    def places(self, colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Coordinates of (n, 3 or 4) colours in units of the points, (n, dims) int64."""
        return self.space.coordinates(colors).astype(np.int64) * self.scale

    @property
    def weight_constants(self) -> dict[str, int]:
        """Return the build constants of programs that read the weights (`cl/kmeans/weights.h`)."""
        return {"WIDE_WEIGHTS": int(self.wide)}

    @property
    def arguments(self) -> dict[str, Any]:
        """Coordinates and weights as kernels take them, by name."""
        return {"points": self.coordinates, "stride": np.uint32(self.stride), "weights": self.weights}


@dataclass(frozen=True)
class Tiles:
    """Groups of neighbouring points, and the boxes around them."""

    n: int
    starts: Buffer  # (n + 1,) uint32, where their points begin
    boxes: Buffer  # (2 * dims, n) float32 planes, lowest coordinates then highest

    @property
    def arguments(self) -> dict[str, Any]:
        """Tiles as kernels take them, by name."""
        return {"starts": self.starts, "boxes": self.boxes, "n_tiles": np.uint32(self.n)}


def points_program(session: Session, space: Space, wide: bool) -> Program:
    """The kernels of points, built once for a space and a type of weights, whichever of them reads weights."""
    return session.program("kmeans/points.cl", **space.constants(), WIDE_WEIGHTS=int(wide))


def points_of(session: Session, scope: Scope, counts: ColorCounts, space: Space) -> Points:
    """Return the points of at least one counted colour; `scope` owns the buffers, `counts` must live as long."""
    scale = scale_of(space)
    n = counts.n_colors
    stride = stride_of(n)
    coordinates = scope.empty(4 * space.dims * stride)
    kernel = points_program(session, space, counts.wide).kernel("points_of_colors")
    group = session.work_group_size(kernel, GROUP)
    tables = scope.copy_of(space.tables())
    session.launch(
        kernel, n, group, counts.colors, np.uint32(n), tables, np.int32(scale), np.uint32(stride), coordinates
    )
    starts = counts.cell_starts
    occupied = np.flatnonzero(starts[1:] != starts[:-1])
    blocks = (occupied >> (4 if counts.partial else 3)).astype(np.uint32)
    cells = np.append(starts[occupied], starts[-1:])
    return Points(space, scale, n, stride, coordinates, counts.counts, counts.wide, cells, blocks)


def stride_of(n: int) -> int:
    """Floats of a plane of n points, some of which may be read beyond them."""
    return -(-n // PADDING) * PADDING + PADDING


def cut_cells(sizes: npt.NDArray[np.uint32], most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut cells into pieces of nearly equal size, at most `most` points: each one's cell, and its first point there."""
    points = sizes.astype(np.int64)
    pieces = -(-points // most)
    cell = np.repeat(np.arange(len(points)), pieces)
    piece = np.arange(len(cell)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return cell, piece * points[cell] // pieces[cell]


def tiles_of(session: Session, scope: Scope, points: Points, largest: int = TILE) -> Tiles:
    """Join small cells of a block, cut large ones into tiles of nearly equal size, and bound them."""
    # Cells of differing blocks may be far from each other, and many centers near to the box around them.
    cells = points.cells
    firsts, blocks = cells[:-1] // MIN_TILE, points.blocks
    begins = np.append(True, (firsts[1:] != firsts[:-1]) | (blocks[1:] != blocks[:-1]))
    cells = np.append(cells[:-1][begins], cells[-1:])
    cell, first = cut_cells(np.diff(cells), largest)
    starts = np.append(cells[:-1][cell] + first, points.n).astype(np.uint32)
    n, dims = len(starts) - 1, points.space.dims
    kernel = points_program(session, points.space, points.wide).kernel("bound_tiles")
    where, boxes = scope.copy_of(starts), scope.empty(8 * dims * n)
    group = session.work_group_size(kernel, min(GROUP, session.tuned("kmeans.sketch_group")))
    session.launch(kernel, n, group, points.coordinates, np.uint32(points.stride), where, np.uint32(n), boxes)
    return Tiles(n, where, boxes)
