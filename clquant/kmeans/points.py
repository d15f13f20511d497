"""Weighted points of a colour space on the device: what palettes are fitted to.

Coordinates are those of `clquant.color.spaces` times a power of two, so that means may lie between colours, as
integers whose squared distances stay below 2^24. Points are in Z-order of their colours, and come in tiles: runs of
neighbours with the box around them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space, scale_of
from clquant.histogram.counts import ColorCounts
from clquant.runtime import Buffer, LocalMemory, Program, Scope, Session

# A tile has at most `TILE` points, and cells with fewer than about `MIN_TILE` share one.
TILE = 256
MIN_TILE = 32
GROUP = 64
PADDING = 16
# Grids whose occupied cells `count_groups` of `cl/kmeans/points.cl` counts at once.
MAX_LEVELS = 4


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

    @property
    def weight_constants(self) -> dict[str, int]:
        """Return the build constants of programs that read the weights (`cl/kmeans/weights.h`)."""
        return {"WIDE_WEIGHTS": int(self.wide)}

    @property
    def arguments(self) -> dict[str, Any]:
        """Coordinates and weights as kernels take them, by name."""
        return {"points": self.coordinates, "stride": np.uint32(self.stride), "weights": self.weights}

    @property
    def weight_type(self) -> type[np.uint32 | np.uint64]:
        """Type of the weights."""
        return np.uint64 if self.wide else np.uint32

    def to_host(self, session: Session) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Copy coordinates (n, dims) and weights (n,) to the host, int64 each."""
        planes = session.download(self.coordinates, (self.space.dims, self.stride), np.float32)
        weights = session.download(self.weights, self.n, self.weight_type)
        return planes[:, : self.n].T.astype(np.int64), weights.astype(np.int64)


@dataclass(frozen=True)
class Tiles:
    """Groups of neighbouring points, and the boxes around them."""

    n: int
    starts: Buffer  # (n + 1,) uint32, where their points begin
    boxes: Buffer  # (2 * dims, n) float32 planes, lowest coordinates then highest


def points_program(session: Session, space: Space, wide: bool) -> Program:
    """The kernels of points, built once for a space and a type of weights, whichever of them reads weights."""
    return session.program("kmeans/points.cl", **space.constants(), WIDE_WEIGHTS=int(wide))


def points_of(session: Session, scope: Scope, counts: ColorCounts, space: Space) -> Points:
    """Return the points of at least one counted colour; `scope` owns the buffers, `counts` must live as long."""
    scale = scale_of(space)
    n = counts.n_colors
    stride = _stride(n)
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


class Sketcher:
    """Means of points over the cells of finer grids; `scope` owns what all sketches need."""

    # A grid of level l, 4 to 8, has 2^l cells an axis of the RGB (or RGBA) cube.

    def __init__(self, session: Session, scope: Scope, counts: ColorCounts, points: Points) -> None:
        self._session = session
        self._scope = scope
        self._counts = counts
        self._points = points
        self._program = points_program(session, points.space, points.wide)

    @functools.cached_property
    def _cells(self) -> Buffer:
        return self._scope.copy_of(self._points.cells)

    def occupied(self, levels: Sequence[int]) -> npt.NDArray[np.uint32]:
        """Count each grid's occupied cells within each cell of the points: (levels, cells) uint32."""
        kernel = self._program.kernel("count_groups")
        group = self._session.work_group_size(kernel, min(GROUP, self._session.tuned("kmeans.sketch_group")), 4)
        cells = len(self._points.cells) - 1
        groups = self._scope.empty(4 * cells * len(levels))
        masks = np.zeros(MAX_LEVELS, np.uint32)
        masks[: len(levels)] = [self._mask(level) for level in levels]
        sizes = (cells * group, len(levels))
        given = (self._counts.colors, self._cells, masks, groups, LocalMemory(4 * group))
        self._session.launch(kernel, sizes, (group, 1), *given)
        return self._session.download(groups, (len(levels), cells), np.uint32)

    def sketch(self, scope: Scope, level: int, occupied: npt.NDArray[np.uint32]) -> Points:
        """Return the means of a grid's occupied cells; `occupied` is that level's row of `Sketcher.occupied`."""
        session, points = self._session, self._points
        kernel = self._program.kernel("mean_of_groups")
        group_starts = np.zeros(len(occupied) + 1, np.uint32)
        np.cumsum(occupied, out=group_starts[1:])
        n = int(group_starts[-1])
        stride = _stride(n)
        means = scope.empty(4 * points.space.dims * stride)
        weights = scope.empty(np.dtype(points.weight_type).itemsize * n)
        group = session.work_group_size(kernel, session.tuned("kmeans.sketch_group"), 4)
        session.launch(
            kernel,
            len(occupied) * group,
            group,
            colors=self._counts.colors,
            starts=self._cells,
            mask=np.uint32(self._mask(level)),
            **points.arguments,
            group_starts=self._scope.copy_of(group_starts),
            mean_stride=np.uint32(stride),
            means=means,
            mean_weights=weights,
            counts=LocalMemory(4 * group),
        )
        return Points(points.space, points.scale, n, stride, means, weights, points.wide, group_starts, points.blocks)

    def _mask(self, level: int) -> int:
        """The bits of a packed colour in which the colours of a grid's cell agree."""
        kept_bits = 256 - (1 << (8 - level))
        return kept_bits * (0x01010101 if self._counts.partial else 0x00010101)


def _stride(n: int) -> int:
    return -(-n // PADDING) * PADDING + PADDING


def tiles_of(session: Session, scope: Scope, points: Points, largest: int = TILE) -> Tiles:
    """Join small cells of a block, cut large ones into tiles of nearly equal size, and bound them."""
    # Cells of differing blocks may be far from each other, and many centers near to the box around them.
    cells = points.cells
    firsts, blocks = cells[:-1] // MIN_TILE, points.blocks
    begins = np.append(True, (firsts[1:] != firsts[:-1]) | (blocks[1:] != blocks[:-1]))
    cells = np.append(cells[:-1][begins], cells[-1:])
    sizes = cells[1:].astype(np.int64) - cells[:-1]
    pieces = -(-sizes // largest)
    piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cell = np.repeat(np.arange(len(sizes)), pieces)
    starts = np.append(cells[:-1][cell] + piece * sizes[cell] // pieces[cell], points.n).astype(np.uint32)
    n, dims = len(starts) - 1, points.space.dims
    kernel = points_program(session, points.space, points.wide).kernel("bound_tiles")
    where, boxes = scope.copy_of(starts), scope.empty(8 * dims * n)
    group = session.work_group_size(kernel, min(GROUP, session.tuned("kmeans.sketch_group")))
    session.launch(kernel, n, group, points.coordinates, np.uint32(points.stride), where, np.uint32(n), boxes)
    return Tiles(n, where, boxes)
