"""A subtree on the device: reduction of its levels, its leaves, its statistics.

A picture that fits the device is one subtree. Otherwise it is cut into squares of a power of two, each of which is a
subtree of the picture's tree; the nodes above them come last (`clquant.quadtree.assembly`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.quadtree.geometry import grid
from clquant.quadtree.levels import Words, unpack
from clquant.quadtree.plan import STOP, Plan
from clquant.quadtree.tiles import launch_tiles
from clquant.quadtree.upper import FEW_NODES, PACKED, PAIRS, Places, launch_upper

COUNT_MASK = np.uint32(STOP - 1)
# Sums and squares of a region, (bands, 2), and its channels' least and greatest values, (C, 2).
Root = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]
MIN_LEVEL = 3  # of a subtree: below it a picture's device has no memory to speak of


@dataclass(frozen=True)
class StoredWords:
    """Statistics of a level on the device."""

    buffer: runtime.Buffer
    begin: int  # of the level, in words
    form: int  # 0 pixels, 1 narrow words, 2 wide ones, 3 pairs of words (cl/quadtree/quadtree.h)


@dataclass
class Subtree:
    """The levels of one region on the device; `scope` owns all buffers."""

    plan: Plan
    scope: runtime.Scope
    store_low: bool
    buffers: dict[str, runtime.Buffer] = field(init=False)

    def __post_init__(self) -> None:
        self.session = self.plan.session
        self.buffers = {name: self.scope.empty(nbytes) for name, nbytes in self._sizes().items()}

    def _sizes(self) -> dict[str, int]:
        """Bytes of the buffers: statistics of levels 1 and 2, flags, statistics and leaf counts of the others."""
        plan = self.plan
        ranged = plan.criterion.name == "range"
        return {
            "low": 4 * plan.bands * (plan.cells[1] + plan.cells[2]) if self.store_low else 1,
            "flags": plan.cells[2],
            "stats": 8 * plan.bands * plan.cells_from(3, plan.tile + 1),
            "nodes": 4 * plan.cells_from(3, plan.last + 1),
            "upper": 16 * plan.bands * plan.cells_from(plan.tile + 1, plan.last + 1),
            "extents": 2 * plan.channels * plan.cells_from(plan.tile, plan.last + 1) if ranged else 1,
        }

    def reduce(self) -> None:
        """Queue every level bottom-up (Masina and Stedile, Algorithm 2 and section 5)."""
        launch_tiles(self.plan, self.buffers, self.store_low)
        level = self.plan.tile + 1
        while level <= self.plan.last:
            levels = self.plan.last + 1 - level if self.plan.cells[level] <= FEW_NODES else 1
            self._reduce_upper(level, levels)
            level += levels

    def _reduce_upper(self, level: int, levels: int) -> None:
        plan = self.plan
        shape = plan.region.height, plan.region.width, plan.channels
        kind = PACKED if level == plan.tile + 1 else PAIRS
        places, no_means = (self._places(level - 1), self._places(level)), self.buffers["flags"]
        launch_upper(self.session, plan.criterion, shape, level, levels, kind, *places, no_means)

    def _places(self, level: int) -> Places:
        """Buffers and offsets of a level from the tiles' up."""
        plan, words = self.plan, self.words_of(level)
        return {
            "stats": (words.buffer, words.begin),
            "nodes": (self.buffers["nodes"], plan.cells_from(3, level)),
            "extents": (self.buffers["extents"], plan.channels * plan.cells_from(plan.tile, level)),
        }

    def count(self) -> int:
        """Number of leaves; waits for the reduction."""
        at = 4 * self.plan.cells_from(3, self.plan.last)
        return int(self.session.download(self.buffers["nodes"], 1, np.uint32, at)[0] & COUNT_MASK)

    def statistics(self) -> dict[int, Words]:
        """Return every level's words from 1 on, without luma; needs `store_low`."""
        plan = self.plan
        height, width, top = plan.region.height, plan.region.width, plan.top
        words: dict[int, Words] = {}
        # Levels of a buffer, axes of one before its rows and columns, type: one copy for all that are in a buffer.
        for name, first, last, planes, dtype in (
            ("low", 1, min(2, top), (plan.bands,), np.uint32),
            ("stats", 3, min(plan.tile, top), (plan.bands,), np.uint64),
            ("upper", plan.tile + 1, min(plan.last, top), (plan.bands, 2), np.uint64),
        ):
            stored = self.session.download(
                self.buffers[name], math.prod(planes) * plan.cells_from(first, last + 1), dtype
            )
            for level in range(first, last + 1):
                shape = (*planes, *grid(height, width, level))
                own, stored = np.split(stored, [math.prod(shape)])
                words[level] = own.reshape(shape)[: plan.channels]
        return words

    def words_of(self, level: int) -> StoredWords:
        """Buffer and offset of a level's statistics, the pixels at level 0; of levels 1 and 2 with `store_low`."""
        plan = self.plan
        if level == 0:
            return StoredWords(plan.region.pixels, plan.region.origin, 0)
        if level <= 2:
            return StoredWords(self.buffers["low"], 0 if level == 1 else plan.bands * plan.cells[1], 1)
        if level <= plan.tile:
            return StoredWords(self.buffers["stats"], plan.bands * plan.cells_from(3, level), 2)
        return StoredWords(self.buffers["upper"], 2 * plan.bands * plan.cells_from(plan.tile + 1, level), 3)

    def root(self) -> Root:
        """Totals of the whole region; zeros below `MIN_LEVEL`, extents with the range criterion alone."""
        plan, extents = self.plan, np.zeros((self.plan.channels, 2), np.uint8)
        if plan.top < MIN_LEVEL:
            return np.zeros((plan.bands, 2), np.uint64), extents
        words = self.words_of(plan.top)
        planes = (plan.bands,) if plan.top <= plan.tile else (plan.bands, 2)
        stored = self.session.download(words.buffer, (*planes, 1, 1), np.uint64, 8 * words.begin)
        if plan.criterion.name == "range":
            at = 2 * plan.channels * plan.cells_from(plan.tile, plan.last)
            extents = self.session.download(self.buffers["extents"], extents.shape, np.uint8, at)
        return np.stack(unpack(stored), 1)[..., 0, 0], extents
