"""A subtree on the device: reduction of its levels, its leaves, its statistics.

A picture that fits the device is one subtree. Otherwise it is cut into squares of a power of two, each of which is a
subtree of the picture's tree; the nodes above them come last (`clquant.quadtree.assembly`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.device_layout import STOP, StoredStops, split_words
from clquant.quadtree.forms import (
    LEAF_VARIANTS,
    MAX_TILE_LEVEL,
    MOST_LISTED,
    TILE_VARIANTS,
    TOTAL_VARIANTS,
    group_kernel,
    leaf_level,
    most_tiles,
    tile_level,
    tiles_at_once,
    totals_group,
    upper_span,
)
from clquant.quadtree.geometry import cells, grid
from clquant.quadtree.levels import Words
from clquant.quadtree.region import Region
from clquant.quadtree.upper import Launch, upper_launch

COUNT_MASK = np.uint32(STOP - 1)
# For kernels that decide nothing: one build for all criteria.
_NO_CRITERION: dict[str, int | str] = {"CRITERION": 0, "WEIGHT_LIST": "0"}


@dataclass(frozen=True)
class StoredWords:
    """Statistics of a level on the device.

    Attributes
    ----------
    buffer : pyopencl.Buffer
    begin : int
        Of the level, in words.
    form : int
        1 narrow words, 2 wide ones, 3 pairs of words (cl/quadtree/quadtree.h).
    """

    buffer: runtime.Buffer
    begin: int
    form: int


@dataclass
class Subtree:
    """The levels of one region while they are on the device. All buffers belong to `scope`.

    Where it is `kept`, it may work on one region of the same shape after another, and its launches are made once. What
    a job takes away, `low`, is not kept.
    """

    session: runtime.Session
    scope: runtime.Scope
    region: Region
    channels: int
    criterion: Criterion
    store_low: bool
    kept: bool = False
    tile: int = 0
    buffers: dict[str, runtime.Buffer] = field(default_factory=dict)
    prepared: dict[str, runtime.PreparedLaunch] = field(default_factory=dict)
    low: tuple[runtime.HostResult, runtime.Buffer] | None = None

    def __post_init__(self) -> None:
        region = self.region
        self.bands = self.criterion.bands(self.channels)
        self.tile = tile_level(self.session.limits, self.bands)
        self.top = region.level
        self.last = max(self.top, self.tile)
        levels = range(1, self.last + 1)
        self.cells = {level: cells(region.height, region.width, level) for level in levels}
        self.sizes = self._sizes()
        self.buffers = {name: self.scope.empty(nbytes) for name, nbytes in self.sizes.items() if name != "low"}
        self.climbs = self._tile_form(TILE_VARIANTS).name == "climbing"
        if self.climbs:
            self.buffers["arrived"] = self.scope.zeros(4 * self._cells_from(self.tile + 1, self.last + 1))

    def _sizes(self) -> dict[str, int]:
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
        """The arguments that all kernels which read pixels begin with; the first two are `_pixels`."""
        region = self.region
        return (*self._pixels(), np.uint32(region.pitch), np.uint32(region.width), np.uint32(region.height))

    def _pixels(self) -> tuple[Any, ...]:
        return self.region.pixels, np.uint64(self.region.origin)

    def _queue(self, name: str, make: Callable[[], Launch], now: Mapping[int, tuple[Any, ...]]) -> None:
        """Queue a launch: one that was prepared under this name, with the arguments `now` from the given places on."""
        if name in self.prepared:
            for place, arguments in now.items():
                self.prepared[name].set(place, *arguments)
            self.prepared[name].queue()
            return
        kernel, items, group, arguments = make()
        self.session.launch(kernel, items, group, *arguments)
        if self.kept:
            # A launch keeps what it was prepared with: no pixels or records, which are other jobs' next time.
            own = list(arguments)
            for place, others in now.items():
                own[place : place + len(others)] = [
                    self.buffers["flags"] if isinstance(other, runtime.Buffer) else other for other in others
                ]
            self.prepared[name] = self.session.prepare(self.scope, kernel, items, group, *own)

    def reduce(self, scope: runtime.Scope | None = None) -> None:
        """Bottom-up: every level from the pixels to the root (Masina and Stedile, Algorithm 2 and section 5).

        Parameters
        ----------
        scope : Scope, optional
            The job's: it takes the statistics of levels 1 and 2 away, so CPUs write them where it finds them.
        """
        self.low = None
        if scope is not None and runtime.HostResult.in_place(self.session.limits, self.sizes["low"]):
            words = self.sizes["low"] // 4
            host = runtime.HostResult(self.session, (words,), np.uint32)
            self.low = host, host.room(scope, 0, words)
        self._reduce_tiles(None)
        if not self.climbs:
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
        self._queue("tiles", partial(self._tiles, tiles), {0: self._pixels(), 8: (self._low(),)})

    def _low(self) -> runtime.Buffer:
        """Where the statistics of levels 1 and 2 go."""
        if self.low is not None:
            return self.low[1]
        if "low" not in self.buffers:
            self.buffers["low"] = self.scope.empty(self.sizes["low"])
        return self.buffers["low"]

    def _tiles(self, tiles: npt.NDArray[np.uint32] | None) -> Launch:
        variant = self._tile_form(TILE_VARIANTS)
        lanes = variant.name in ("climbing", "lanes")
        most = most_tiles(self.session.limits, self.bands) if lanes else 1
        kernel, group = self._group_kernel(
            variant.file,
            "quadtree_tiles",
            1 if lanes else self.session.tuned("quadtree.tile_group"),
            **variant.constants,
            STORE_LOW=int(self.store_low),
            MOST_TILES=most,
        )
        names = ("flags", "stats", "nodes", "extents")
        across = tiles_at_once(self.session.limits, self.cells[self.tile], most) if tiles is None else 1
        climbs = self.climbs and tiles is None
        rows, columns = grid(self.region.height, self.region.width, self.tile)
        groups = rows * -(-columns // across) if tiles is None else tiles.size
        arguments = (
            *self._geometry(),
            np.uint32(self.criterion.floor_level),
            np.uint32(self.top),
            np.uint64(self.criterion.bound),
            self._low(),
            *(self.buffers[name] for name in names),
            np.uint32(tiles is not None),
            self.buffers["flags"] if tiles is None else self.scope.copy_of(tiles),
            np.uint32(across),
            np.uint32(self.last if climbs else self.tile),
            self.buffers["upper"],
            self.buffers["arrived" if climbs else "flags"],
        )
        return kernel, groups * group, group, arguments

    def _reduce_upper(self) -> None:
        span = upper_span(self.session.limits, self.bands)
        for first in range(self.tile + 1, self.last + 1, span):
            self._queue(f"upper {first}", partial(self._upper, first, min(span, self.last + 1 - first)), {})

    def _upper(self, first: int, levels: int) -> Launch:
        packed = first == self.tile + 1
        below_at = (
            self.bands * self._cells_from(3, self.tile)
            if packed
            else 2 * self.bands * self._cells_from(self.tile + 1, first - 1)
        )
        return upper_launch(
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
        corner = (np.uint32(self.region.left), np.uint32(self.region.top))
        self._queue("leaves", partial(self._leaves, records), {0: self._pixels(), 5: corner, 12: (records,)})

    def _leaves(self, records: runtime.Buffer) -> Launch:
        session, region = self.session, self.region
        variant = session.choose(LEAF_VARIANTS)
        serial, tiles = variant.name == "lanes", self.cells[self.tile]
        kernel, group = self._group_kernel(
            variant.file,
            "quadtree_leaves",
            1 if serial else session.tuned("quadtree.leaf_group"),
            **variant.constants,
            **_NO_CRITERION,
            LEAF_LEVEL=leaf_level(session.limits, self.channels, self.tile),
        )
        arguments = (
            *self._geometry(),
            np.uint32(region.left),
            np.uint32(region.top),
            np.uint32(self.last),
            *(self.buffers[name] for name in ("flags", "stats", "upper", "nodes")),
            records,
        )
        groups = -(-tiles // tiles_at_once(session.limits, tiles, MOST_LISTED)) if serial else tiles
        return kernel, groups * group, group, arguments

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
        kernel = self.session.program("quadtree/totals.cl", **constants).kernel("quadtree_leaf_sums")
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

    def statistics(self) -> tuple[dict[int, Words], Mapping[int, npt.NDArray[np.bool_]]]:
        """The statistics of every level from 1 to the root's, and which of its nodes stop a split; with `store_low`.

        Returns
        -------
        dict of int to ndarray
            Of the channels without luma, in the device's own words, as `clquant.quadtree.levels.unpack` takes them.
        mapping of int to ndarray of bool
        """
        height, width, top = self.region.height, self.region.width, self.top
        # Levels of a buffer, axes of one before its rows and columns, type: one copy for all that are in a buffer.
        stored = (
            ("low", 1, min(2, top), (self.bands,), np.uint32),
            ("stats", 3, min(self.tile, top), (self.bands,), np.uint64),
            ("upper", self.tile + 1, min(self.last, top), (self.bands, 2), np.uint64),
        )
        wanted: list[tuple[runtime.Buffer, int | tuple[int, ...], Any]] = [
            (self.buffers[name], math.prod(planes) * self._cells_from(first, last + 1), dtype)
            for name, first, last, planes, dtype in stored
            if name != "low" or self.low is None
        ]
        flags_shape = grid(height, width, 2) if top >= 1 else (0, 0)
        wanted.append((self.buffers["flags"], flags_shape, np.uint8))
        wanted.append((self.buffers["nodes"], self._cells_from(3, top + 1), np.uint32))
        *arrays, flags, nodes = self.session.download_all(wanted)
        if self.low is not None:
            host, buffer = self.low
            host.store(self.scope, 0, self.sizes["low"] // 4, buffer)
            arrays.insert(0, host.array())
            self.low = None
        words: dict[int, Words] = {}
        for (_, first, _, planes, _), array in zip(stored, arrays, strict=True):
            words |= split_words(height, width, first, array, planes, self.channels)
        return words, StoredStops(height, width, top, flags, nodes)

    def words_of(self, level: int) -> StoredWords:
        """Where the statistics of a level from 1 to the root's are on the device; with `store_low` for 1 and 2."""
        if level <= 2:
            return StoredWords(self._low(), 0 if level == 1 else self.bands * self.cells[1], 1)
        if level <= self.tile:
            return StoredWords(self.buffers["stats"], self.bands * self._cells_from(3, level), 2)
        return StoredWords(self.buffers["upper"], 2 * self.bands * self._cells_from(self.tile + 1, level), 3)

    def root_words(self) -> npt.NDArray[Any]:
        """The statistics of the root, all bands, likewise; of a root of level 3 or more."""
        shape = (self.bands, *grid(self.region.height, self.region.width, self.top))
        if self.top <= self.tile:
            at = 8 * self.bands * self._cells_from(3, self.top)
            return self.session.download(self.buffers["stats"], shape, np.uint64, at)
        at = 16 * self.bands * self._cells_from(self.tile + 1, self.top)
        return self.session.download(self.buffers["upper"], (self.bands, 2, *shape[1:]), np.uint64, at)

    def root_extents(self) -> npt.NDArray[np.uint8]:
        """Least and greatest value of every channel over the whole region, (C, 2); with the range criterion."""
        at = 2 * self.channels * self._cells_from(self.tile, self.last)
        return self.session.download(self.buffers["extents"], (self.channels, 2), np.uint8, at)
