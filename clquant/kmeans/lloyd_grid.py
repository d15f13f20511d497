"""Many steps of Lloyd's algorithm in one launch, in the form whose work-groups meet (`cl/kmeans/lloyd_grid.cl`)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from clquant.kmeans.points import TILE
from clquant.mapping.candidates_lanes import int4
from clquant.runtime import NVIDIA_FENCE, Buffer, Limits, LocalMemory, PreparedLaunch, Scope, Session, Variant

if TYPE_CHECKING:
    from clquant.kmeans.lloyd import Lloyd

# As in `cl/kmeans/lloyd_grid.cl` (sums that steps take in turn, and those of the best centers),
# `cl/common/grid_barrier.h` and `cl/kmeans/swaps.h`.
SUMS = 4
GRID_WORDS = 96
WORDS_PER_PLACE = 10
# Centers of a tile's list that a warp has in local memory.
SHORTLIST = 64
# Points that a work-item takes at a time. One where points are few, four where they are many, gain nothing in a whole
# call and would be further programs. A tile has at least `MIN_POINTS`.
ROWS = 2
MIN_POINTS = 64
# Local memory that is left to the compiler.
SPARE_BYTES = 1024
# A device needs at least this many work-items per group and bytes of local memory.
MIN_GROUP = 128
MIN_LOCAL = 48 << 10


def _admits(limits: Limits) -> bool:
    room = limits.work_group >= MIN_GROUP and limits.local_memory >= MIN_LOCAL
    return limits.is_nvidia and limits.compute_capability >= 80 and limits.int64_atomics and room


_CONSTANTS: dict[str, int | str] = {"DEVICE_FENCE": NVIDIA_FENCE, "WARP": 32, "SHORTLIST": SHORTLIST}
GRID = Variant("grid", "kmeans/lloyd_grid.cl", _admits, _CONSTANTS, gain=1.59)
# With more centers than this, by dimensions, other forms are taken: local memory leaves room for few work-items.
MAX_CENTERS = {3: 512, 4: 256}


class LloydGrid:
    """The launches of one `Lloyd` in the form `GRID`, or one like it."""

    def __init__(self, session: Session, scope: Scope, lloyd: Lloyd, variant: Variant) -> None:
        self._session = session
        self._scope = scope
        self._lloyd = lloyd
        self._variant = variant
        self._dims = lloyd.points.space.dims
        self._warp = int(variant.constants["WARP"])
        self._listed = int(variant.constants["SHORTLIST"])
        # Stride of planes of centers in local memory: whole warps, and vectors of four.
        whole = max(4, self._warp)
        self._stride = -(-lloyd.k // whole) * whole
        self._center_bytes = 8 * self._dims * self._stride  # of these and the best ones
        self.fresh = True

    @functools.cached_property
    def _group(self) -> int:
        """Work-items of a group: as many as their lists leave room for beside the centers."""
        group = min(self._session.tuned("kmeans.grid_group"), self._session.limits.work_group)
        room = self._session.limits.local_memory - self._center_bytes - SPARE_BYTES
        while group > self._warp and self._scratch_bytes(group) > room:
            group //= 2
        return group

    @property
    def tile(self) -> int:
        """Most points of a tile: about one tile per warp of the device."""
        warps = self._most_groups * self._group // self._warp
        return min(TILE, max(MIN_POINTS, 1 << (self._lloyd.points.n // warps).bit_length()))

    @property
    def _most_groups(self) -> int:
        """One per compute unit, so that all are there at once whatever registers and local memory they take."""
        return self._session.limits.compute_units

    def _scratch_bytes(self, group: int) -> int:
        lists = group // self._warp * (self._listed * 18 + self._warp * 32)
        repair = 16 * group + 8 * self._lloyd.k
        return max(lists, repair, 4 * WORDS_PER_PLACE * self._stride)

    @functools.cached_property
    def _memory(self) -> tuple[Buffer, Buffer]:
        """Allocate the sums and the words of the grid barrier."""
        words = self._scope.zeros(4 * GRID_WORDS)
        return self._scope.zeros(8 * SUMS * (1 + 2 * self._dims) * self._lloyd.k), words

    @functools.cached_property
    def launch(self) -> PreparedLaunch:
        """All steps and swaps, but for what `_queue` sets."""
        lloyd, points, tiles, (sums, words) = self._lloyd, self._lloyd.points, self._lloyd.tiles, self._memory
        groups = max(1, min(self._most_groups, tiles.n))
        own = {"DIMS": self._dims, "ROWS": ROWS, "GROUP": self._group}
        program = self._session.program(self._variant.file, **own, **self._variant.constants)
        return self._session.prepare(
            *(self._scope, program.kernel("lloyd_rounds"), groups * self._group, self._group),
            **points.arguments,
            **tiles.arguments,
            centers=lloyd.centers,
            k=np.uint32(lloyd.k),
            k_stride=np.uint32(lloyd.k_stride),
            state=lloyd.state,
            sums=sums,
            totals=lloyd.totals,
            extents=int4(points.extent),
            words=words,
            room=LocalMemory(self._center_bytes),
            place_stride=np.uint32(self._stride),
            scratch=LocalMemory(self._scratch_bytes(self._group)),
            tolerance=np.uint64(0),
            **dict.fromkeys(("pinned", "by_axis", "fresh", "steps", "rounds", "count"), np.uint32(0)),
        )

    def _queue(self, tolerance: int, **numbers: int) -> None:
        self.launch.set(tolerance=np.uint64(tolerance), **{name: np.uint32(value) for name, value in numbers.items()})
        self.launch.queue()

    def steps(self, most: int, by_axis: bool, tolerance: int, pinned: int) -> None:
        """Queue up to `most` steps, with the other arguments of `Lloyd.step`; the first `pinned` centers stay."""
        self._queue(tolerance, pinned=pinned, by_axis=by_axis, fresh=self.fresh, steps=most, rounds=0, count=0)
        self.fresh = False

    def swap(self, rounds: int, steps: int, count: int) -> None:
        """Queue all of `swap_centers`; the first round tries `count` swaps."""
        self._queue(0, pinned=self._lloyd.pinned, by_axis=0, fresh=1, steps=steps, rounds=rounds + 1, count=count)
        self.fresh = True
