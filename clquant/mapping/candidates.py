"""Candidate lists: for each cell of a grid over a colour space the palette entries that can be nearest to some point.

`cl/mapping/candidates.cl` says what is listed. A coarser grid is made first, whose lists are shortened for the cells
within.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.mapping.candidates_lanes import int4
from clquant.runtime import Buffer, Kernel, Limits, LocalMemory, Scope, Session, bound

# From this many comparisons on cells are half as long: where both cost the same on an NVIDIA H200.
FINER_PAYS = 1 << 37
# The same number for 16-bit values on CPUs, which compare 64 bits one by one: measured through PoCL.
DEEP_FINER_PAYS_ON_CPUS = 1 << 31
# Cells of the grid that a fine grid's lists are made from are 4 times as long.
PARENT_STEP = 2
# Most work-items that list a cell's candidates, and how many of the parent's each should have to look at.
CELL_GROUP = 256
ENTRIES_PER_ITEM = 4

Cells = tuple[int, int, int, int]


def is_finer(space: Space, searches: int, limits: Limits) -> bool:
    """Whether so many comparisons (pixels times entries) make cells half as long worthwhile."""
    deep_on_cpu = space.bits == 16 and limits.has_lanes()
    return searches >= (min(FINER_PAYS, DEEP_FINER_PAYS_ON_CPUS) if deep_on_cpu else FINER_PAYS)


def fine_shift(space: Space, finer: bool) -> int:
    """log2 of a cell's side."""
    scale_bits = space.scale.bit_length() - 1
    return space.definition.cells[int(space.alpha)] - int(finer) + scale_bits


@dataclass(frozen=True)
class CandidateGrid:
    """Candidate lists of every cell."""

    starts: Buffer  # (cells + 1) uint32 into `entries`
    entries: Buffer  # uint16 palette indices, ascending in each cell
    cells: Cells  # cells along each of 4 axes
    shift: int  # log2 of a cell's side
    length: int  # mean length of the lists, rounded down

    @property
    def nbytes(self) -> int:
        """Approximate bytes of all lists."""
        return (4 + 2 * (self.length + 1)) * math.prod(self.cells)


class CandidateLister:
    """Makes the lists of one palette; their memory belongs to a scope.

    `extent` has the largest coordinate of each axis, `bits` are 8 or 16, `points` a buffer of (k, 4) int32; each of
    `layers` has ascending indices of the entries to list: for all colours, then where alpha is an axis for opaque ones.
    """

    def __init__(
        self,
        session: Session,
        scope: Scope,
        extent: Sequence[int],
        bits: int,
        points: Buffer,
        layers: Sequence[npt.NDArray[np.int64]],
    ) -> None:
        self._session = session
        self._scope = scope
        self._bits = bits
        self._points = points
        self._layers = layers
        self._extent: Cells = (extent[0], extent[1], extent[2], extent[3] if len(extent) == 4 else 0)
        self._distance_bytes = 4 * bits // 8

    def whole(self) -> CandidateGrid:
        """A cell a layer that lists every entry, for few pixels."""
        listed = np.concatenate(self._layers).astype(np.uint16)
        starts = self._scope.copy_of(np.cumsum([0, *map(len, self._layers)]).astype(np.uint32))
        shift = max(extent.bit_length() for extent in self._extent)
        cells = (1, 1, 1, len(self._layers))
        return CandidateGrid(starts, self._scope.copy_of(listed), cells, shift, len(self._layers[0]))

    def fine(self, shift: int) -> CandidateGrid:
        """Make a grid of cells of side 2^`shift`; a coarser one, or one cell, if lists grow too long."""
        whole = self.whole()
        coarse = self._lists(shift + PARENT_STEP, whole)
        if coarse is None:
            return whole
        return self._lists(shift, coarse) or coarse

    def _lists(self, shift: int, parent: CandidateGrid) -> CandidateGrid | None:
        """Lists of a grid, from a parent's lists; None if they are too long."""
        bits = {} if self._bits == 8 else {"BITS": self._bits}
        kernel = self._session.program("mapping/candidates.cl", **bits).kernel("list_candidates")
        wanted = 1 if self._session.limits.is_cpu else max(1, min(CELL_GROUP, parent.length // ENTRIES_PER_ITEM))
        group = self._session.work_group_size(kernel, wanted, 4 + self._distance_bytes)
        cells = self._cells(shift)
        given = {
            "extent": int4(self._extent),
            "grid": int4(cells),
            "shift": np.int32(shift),
            "parent_grid": int4(parent.cells),
            "parent_step": np.int32(parent.shift - shift),
            "parent_starts": parent.starts,
            "parent_list": parent.entries,
        }
        return self._listed(kernel, math.prod(cells), group, given, cells, shift)

    def _cells(self, shift: int) -> Cells:
        cells = [(e >> shift) + 1 for e in self._extent]
        return cells[0], cells[1], cells[2], cells[3] + len(self._layers) - 1

    def _listed(
        self, kernel: Kernel, groups: int, group: int, given: Mapping[str, Any], cells: Cells, shift: int
    ) -> CandidateGrid | None:
        """Count each cell's candidates, then write them where the host says."""
        session = self._session
        total = math.prod(cells)
        if 4 * (total + 1) > session.limits.max_alloc:
            return None
        counts = self._scope.empty(4 * total)
        launch = partial(
            session.launch,
            *(kernel, groups * group, group),
            **given,
            points=self._points,
            counts=counts,
            found=LocalMemory(4 * group),
            least=LocalMemory(self._distance_bytes * group),
        )
        launch(fill=np.int32(0), starts=counts, list=counts)
        ends = np.cumsum(session.download(counts, total, np.uint32), dtype=np.uint64)
        if ends[-1] > bound("candidates.whole") or 2 * int(ends[-1]) > session.limits.max_alloc:
            return None
        starts = self._scope.copy_of(np.concatenate([[0], ends]).astype(np.uint32))
        entries = self._scope.empty(2 * int(ends[-1]))
        launch(fill=np.int32(1), starts=starts, list=entries)
        return CandidateGrid(starts, entries, cells, shift, int(ends[-1]) // total)
