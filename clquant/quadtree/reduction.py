"""A subtree on the device: reduction of its levels, its leaves, its statistics.

A picture that fits the device is one subtree. Otherwise it is cut into squares of a power of two, each of which is a
subtree of the picture's tree; the nodes above them come last (`clquant.quadtree.assembly`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.forms import (
    LEAF_VARIANTS,
    MAX_TILE_LEVEL,
    TILE_VARIANTS,
    TOTAL_VARIANTS,
    group_kernel,
    leaf_level,
    tile_level,
    totals_group,
    upper_span,
)
from clquant.quadtree.geometry import cells, grid

STOP = np.uint32(1 << 31)
COUNT_MASK = np.uint32(STOP - 1)
# For kernels that decide nothing: one build for all criteria.
_NO_CRITERION: dict[str, int | str] = {"CRITERION": 0, "WEIGHT_LIST": "0"}


def record_dtype(channels: int, gray: bool) -> np.dtype[np.void]:
    """The leaves' dtype, as `quadtree_leaves` writes them (cl/quadtree_leaves.cl).

    Parameters
    ----------
    channels : int
        The picture's, 1..16.
    gray : bool
        Whether `mean` is a plain number, not an array of one.

    Returns
    -------
    numpy.dtype
        x, y and size (int32, pixels), mean (uint8, one a channel), and padding to whole words, which is 0.
    """
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
class Region:
    """Pixels on the device that one subtree is built of.

    Attributes
    ----------
    pixels : pyopencl.Buffer
    origin, pitch : int
        Byte of the first pixel; bytes from one row to the next.
    height, width : int
        Pixels inside the picture.
    left, top : int
        The subtree's corner in the picture.
    level : int
        Of the subtree's root, which may be wider than the pixels inside.
    """

    pixels: runtime.Buffer
    origin: int
    pitch: int
    height: int
    width: int
    left: int
    top: int
    level: int


def launch_upper(
    session: runtime.Session,
    constants: dict[str, int | str],
    shape: tuple[int, int],
    first: int,
    levels: int,
    criterion: Criterion,
    below: tuple[runtime.Buffer, int, bool],
    stats: tuple[runtime.Buffer, int],
    nodes: tuple[runtime.Buffer, int, int],
    extents: tuple[runtime.Buffer, int, int],
) -> None:
    """Queue the making of some levels above the tiles, or above subtrees, out of the level below (`quadtree_upper`).

    Parameters
    ----------
    session : Session
    constants : dict
        What `cl/quadtree.h` asks for.
    shape : tuple of int
        Height and width of the region, in pixels.
    first, levels : int
        The lowest of them, counted from the pixels, and how many: at most `upper_span`.
    criterion : Criterion
    below : (buffer, int, bool)
        Statistics of level ``first - 1``: the buffer, their place in it in 64-bit words, and whether a word holds both
        sums as those of tiles do.
    stats : (buffer, int)
        For the statistics of these levels, and the place of the first.
    nodes, extents : (buffer, int, int)
        Leaves under a node and stops, and ranges of values: places of level ``first - 1``, which is read, and of level
        `first`, in entries.

    Raises
    ------
    DeviceMemoryError, DeviceError
        If the device refuses.
    """
    height, width = shape
    span = upper_span(session.limits, criterion.bands(int(constants["CHANNELS"])))
    upper = {**constants, "ALIGNED": 0, "SPAN": span}  # it reads no pixels: one build for both
    kernel, group = group_kernel(
        session, "quadtree_upper.cl", "quadtree_upper", session.tuned("quadtree.upper_group"), upper
    )
    places = (*below, *stats, *nodes, *extents)
    session.launch(
        kernel,
        cells(height, width, first + span - 1) * group,
        group,
        *(place if isinstance(place, runtime.Buffer) else np.uint32(place) for place in places),
        np.uint32(width),
        np.uint32(height),
        np.uint32(first),
        np.uint32(levels),
        np.uint32(criterion.floor_level),
        np.uint64(criterion.bound),
    )


@dataclass
class Subtree:
    """The levels of one region while they are on the device. All buffers belong to `scope`."""

    session: runtime.Session
    scope: runtime.Scope
    region: Region
    channels: int
    criterion: Criterion
    store_low: bool
    tile: int = 0
    buffers: dict[str, runtime.Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        region = self.region
        self.bands = self.criterion.bands(self.channels)
        self.tile = tile_level(self.session.limits, self.bands)
        self.top = region.level
        self.last = max(self.top, self.tile)
        levels = range(1, self.last + 1)
        self.cells = {level: cells(region.height, region.width, level) for level in levels}
        self.buffers = {name: self.scope.empty(nbytes) for name, nbytes in self.sizes().items()}

    def sizes(self) -> dict[str, int]:
        """Bytes of the buffers: statistics of levels 1 and 2, flags, statistics and leaf counts of the others."""
        ranged = self.criterion.name == "range"
        return {
            "low": 4 * self.bands * (self.cells[1] + self.cells[2]) if self.store_low else 1,
            "flags": self.cells[2],
            "stats": 8 * self.bands * self._cells_from(3, self.tile + 1),
            "nodes": 4 * self._cells_from(3, self.last + 1),
            "upper": 16 * self.bands * self._cells_from(self.tile + 1, self.last + 1),
            "extents": 2 * self.channels * self._cells_from(self.tile, self.last + 1) if ranged else 1,
        }

    def _cells_from(self, first: int, last: int) -> int:
        return sum(self.cells[level] for level in range(first, last))

    def _constants(self, **more: int | str) -> dict[str, int | str]:
        aligned = self.region.origin % 4 == 0 and self.region.pitch % 4 == 0
        constants = self.criterion.constants(self.channels)
        return {**constants, "TILE_LEVEL": self.tile, "ALIGNED": int(aligned), **more}

    def _group_kernel(self, file: str, name: str, wanted: int, **more: int | str) -> tuple[runtime.Kernel, int]:
        constants = self._constants(**more)
        return group_kernel(self.session, file, name, wanted, constants)

    def _geometry(self) -> tuple[Any, ...]:
        region = self.region
        return (
            region.pixels,
            np.uint64(region.origin),
            np.uint32(region.pitch),
            np.uint32(region.width),
            np.uint32(region.height),
        )

    def reduce(self) -> None:
        """Bottom-up: every level from the pixels to the root (Masina and Stedile, Algorithm 2 and section 5)."""
        self._reduce_tiles(None)
        self._reduce_upper()

    def descend(self) -> None:
        """Top-down: the tiles and what is above them first, then what is under the tiles that are to be split."""
        variant = self._tile_form(TOTAL_VARIANTS)
        wanted = 1 if variant.name == "lanes" else totals_group(self.session.limits, self.bands)
        kernel, group = self._group_kernel(variant.file, "quadtree_totals", wanted, **variant.constants)
        stats_at, nodes_at = self.bands * self._cells_from(3, self.tile), self._cells_from(3, self.tile)
        self.session.launch(
            kernel,
            self.cells[self.tile] * group,
            group,
            *self._geometry(),
            np.uint32(self.criterion.floor_level),
            np.uint32(self.top),
            np.uint64(self.criterion.bound),
            self.buffers["stats"],
            np.uint32(stats_at),
            self.buffers["nodes"],
            np.uint32(nodes_at),
            self.buffers["extents"],
        )
        self._reduce_upper()
        tiles = self._open_tiles()
        if tiles.size:
            self._reduce_tiles(tiles)
            self._reduce_upper()

    def _open_tiles(self) -> npt.NDArray[np.uint32]:
        """Tiles that are to be split: neither they nor a node above them is uniform."""
        shut = np.zeros((1, 1), np.bool_)
        for level in range(self.last, self.tile - 1, -1):
            rows, columns = grid(self.region.height, self.region.width, level)
            shut = shut.repeat(2, 0).repeat(2, 1)[:rows, :columns] | (self.nodes(level) >= STOP)
        return np.flatnonzero(~shut).astype(np.uint32)

    def _tile_form(self, variants: tuple[runtime.Variant, ...]) -> runtime.Variant:
        """The device's form of a kernel of tiles; forms other than the portable one are for the largest, of sums."""
        if self.criterion.name == "range" or self.tile < MAX_TILE_LEVEL:
            return variants[-1]
        return self.session.choose(variants)

    def _reduce_tiles(self, tiles: npt.NDArray[np.uint32] | None) -> None:
        variant = self._tile_form(TILE_VARIANTS)
        kernel, group = self._group_kernel(
            variant.file,
            "quadtree_tiles",
            1 if variant.name == "lanes" else self.session.tuned("quadtree.tile_group"),
            **variant.constants,
            STORE_LOW=int(self.store_low),
        )
        names = ("low", "flags", "stats", "nodes", "extents")
        self.session.launch(
            kernel,
            (self.cells[self.tile] if tiles is None else tiles.size) * group,
            group,
            *self._geometry(),
            np.uint32(self.criterion.floor_level),
            np.uint32(self.top),
            np.uint64(self.criterion.bound),
            *(self.buffers[name] for name in names),
            np.uint32(tiles is not None),
            self.buffers["flags"] if tiles is None else self.scope.copy_of(tiles),
        )

    def _reduce_upper(self) -> None:
        span = upper_span(self.session.limits, self.bands)
        first = self.tile + 1
        while first <= self.last:
            packed = first == self.tile + 1
            below_at = (
                self.bands * self._cells_from(3, self.tile)
                if packed
                else 2 * self.bands * self._cells_from(self.tile + 1, first - 1)
            )
            levels = min(span, self.last + 1 - first)
            launch_upper(
                self.session,
                self._constants(),
                (self.region.height, self.region.width),
                first,
                levels,
                self.criterion,
                (self.buffers["stats" if packed else "upper"], below_at, packed),
                (self.buffers["upper"], 2 * self.bands * self._cells_from(self.tile + 1, first)),
                (self.buffers["nodes"], self._cells_from(3, first - 1), self._cells_from(3, first)),
                (
                    self.buffers["extents"],
                    self.channels * self._cells_from(self.tile, first - 1),
                    self.channels * self._cells_from(self.tile, first),
                ),
            )
            first += levels

    def count(self) -> int:
        """How many leaves there are; waits for the reduction."""
        at = 4 * self._cells_from(3, self.last)
        return int(self.session.download(self.buffers["nodes"], 1, np.uint32, at)[0] & COUNT_MASK)

    def leaves(self, records: runtime.Buffer) -> None:
        """Queue the writing of the leaves' records in Morton order, compacted on the device.

        Parameters
        ----------
        records : pyopencl.Buffer
            Gets `count()` records of `record_dtype`, x and y in the whole picture's pixels.
        """
        session, region = self.session, self.region
        variant = session.choose(LEAF_VARIANTS)
        kernel, group = self._group_kernel(
            variant.file,
            "quadtree_leaves",
            1 if variant.name == "lanes" else session.tuned("quadtree.leaf_group"),
            **variant.constants,
            **_NO_CRITERION,
            LEAF_LEVEL=leaf_level(session.limits, self.channels, self.tile),
        )
        session.launch(
            kernel,
            self.cells[self.tile] * group,
            group,
            *self._geometry(),
            np.uint32(region.left),
            np.uint32(region.top),
            np.uint32(self.last),
            *(self.buffers[name] for name in ("flags", "stats", "upper", "nodes")),
            records,
        )

    def leaf_sums(self, records: runtime.Buffer, count: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Sums and sums of squares of listed leaves.

        Parameters
        ----------
        records : pyopencl.Buffer
            Those of `count` leaves, as `leaves` writes them.
        count : int

        Returns
        -------
        tuple of ndarray of uint64, (count, C)
        """
        constants = self._constants(GROUP=1, LANES=0, **_NO_CRITERION)
        kernel = self.session.program("quadtree_totals.cl", **constants).kernel("quadtree_leaf_sums")
        sums, squares = (self.scope.empty(8 * count * self.channels) for _ in range(2))
        self.session.launch(
            kernel,
            count,
            self.session.work_group_size(kernel, 64),
            *self._geometry(),
            np.uint32(self.region.left),
            np.uint32(self.region.top),
            records,
            np.uint32(count),
            self.buffers["stats"],
            self.buffers["upper"],
            sums,
            squares,
        )
        shape = (count, self.channels)
        return self.session.download(sums, shape, np.uint64), self.session.download(squares, shape, np.uint64)

    def nodes(self, level: int) -> npt.NDArray[np.uint32]:
        """The leaves under every node of a level.

        Parameters
        ----------
        level : int
            Counted from the pixels, 3 or more.

        Returns
        -------
        ndarray of uint32, (rows, columns)
            How many (`COUNT_MASK`), with the bit `STOP` where the node stops a split.
        """
        shape = grid(self.region.height, self.region.width, level)
        return self.session.download(self.buffers["nodes"], shape, np.uint32, 4 * self._cells_from(3, level))

    def stops(self) -> Iterable[tuple[int, npt.NDArray[np.bool_]]]:
        """For every level from 1 to the root's: which nodes stop a split."""
        height, width = self.region.height, self.region.width
        flags = self.session.download(self.buffers["flags"], grid(height, width, 2), np.uint8)
        if self.top >= 1:
            rows, columns = grid(height, width, 1)
            quadrants = np.empty((2 * flags.shape[0], 2 * flags.shape[1]), np.bool_)
            for q in range(4):
                quadrants[q >> 1 :: 2, q & 1 :: 2] = flags >> q & 1
            yield 1, quadrants[:rows, :columns]
        if self.top >= 2:
            yield 2, (flags >> 4 & 1).astype(np.bool_)
        for level in range(3, self.top + 1):
            yield level, self.nodes(level) >= STOP

    def words(self, level: int, bands: int) -> npt.NDArray[Any]:
        """The statistics of a level in the device's own words.

        Parameters
        ----------
        level : int
            Counted from the pixels, 1 or more; 1 and 2 only where `store_low` kept them.
        bands : int
            How many of the first bands.

        Returns
        -------
        ndarray, as `clquant.quadtree.levels.unpack` takes it.
        """
        shape = (bands, *grid(self.region.height, self.region.width, level))
        if level <= 2:
            at = 4 * self.bands * self._cells_from(1, level)
            return self.session.download(self.buffers["low"], shape, np.uint32, at)
        if level <= self.tile:
            at = 8 * self.bands * self._cells_from(3, level)
            return self.session.download(self.buffers["stats"], shape, np.uint64, at)
        at = 16 * self.bands * self._cells_from(self.tile + 1, level)
        return self.session.download(self.buffers["upper"], (bands, 2, *shape[1:]), np.uint64, at)

    def root_extents(self) -> npt.NDArray[np.uint8]:
        """Least and greatest value of every channel over the whole region, (C, 2); with the range criterion."""
        at = 2 * self.channels * self._cells_from(self.tile, self.last)
        return self.session.download(self.buffers["extents"], (self.channels, 2), np.uint8, at)
