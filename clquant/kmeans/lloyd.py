"""Lloyd's algorithm over weighted points on the device: exact, deterministic, without a trip to the host in a step.

`cl/kmeans/lloyd.cl` has the source and the bounds that make steps exact.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.histogram.counts import ColorCounts
from clquant.kmeans.lloyd_grid import GRID, LloydGrid
from clquant.kmeans.lloyd_grid import MAX_CENTERS as MAX_IN_GRID
from clquant.kmeans.points import GROUP, PADDING, TILE, Points, Tiles, points_of, points_program, tiles_of
from clquant.mapping.candidates_lanes import int4
from clquant.runtime import Limits, LocalMemory, PreparedLaunch, Progress, Readback, Scope, Session, Variant

SLOTS = 16
STATE_WORDS = 4
DONE, STEPS, INERTIA = 0, 1, 2

# Forms of a step: `LANES` is shaped for CPUs; `GRID` does many in one launch, of points whose weights are 32-bit.
LANES = Variant("lanes", "kmeans/lloyd_lanes.cl", Limits.has_lanes, gain=7.0)
PORTABLE = Variant("portable", "kmeans/lloyd.cl")
VARIANTS = (LANES, GRID, PORTABLE)


class Lloyd:
    """Centers of weighted points, and the steps that move them."""

    # The first `pinned` of the k centers (1 to 65536) never move, and take no part in repairs. `tiles`, if given, are
    # of the points, in a scope that lasts as long. `centers` is (dims, k_stride) float32 planes of integers, in units
    # of the points. `totals` is (1 + 2 dims, k) uint64 of the last step: each center's weight, sums of coordinates, and
    # sums of squared differences by axis about the center as it was before the step (or, in the first of these, of
    # squared distances). `grid` does many steps in one launch; None in the other forms.

    def __init__(
        self, session: Session, scope: Scope, points: Points, k: int, pinned: int = 0, tiles: Tiles | None = None
    ) -> None:
        dims = points.space.dims
        self._session = session
        self._scope = scope
        self.points = points
        self.k = k
        self.pinned = pinned
        self.k_stride = -(-k // PADDING) * PADDING
        self.centers = (scope.zeros if k < self.k_stride else scope.empty)(4 * dims * self.k_stride)
        self.totals = scope.empty(8 * (1 + 2 * dims) * k)
        self.state = scope.empty(4 * STATE_WORDS)
        self._tiles = tiles
        in_grid = k <= MAX_IN_GRID[dims] and not points.wide
        self._variant = session.choose([v for v in VARIANTS if in_grid or v.file != GRID.file])
        self.grid = LloydGrid(session, scope, self, self._variant) if self._variant.file == GRID.file else None

    @functools.cached_property
    def tiles(self) -> Tiles:
        """The points' tiles, made at the first step: starting centers are found without."""
        largest = TILE if self.grid is None else self.grid.tile
        return self._tiles or tiles_of(self._session, self._scope, self.points, largest)

    def set_centers(self, centers: npt.NDArray[np.int64]) -> None:
        """Start from given centers, (k, dims) int64 in units of the points."""
        planes = np.zeros((self.points.space.dims, self.k_stride), np.float32)
        planes[:, : self.k] = centers.T
        self._session.write(self.centers, planes)

    def pick_centers(self, chosen: npt.NDArray[np.int64]) -> None:
        """Start from the points of some indices, (k,) int64."""
        session, points = self._session, self.points
        kernel = points_program(session, points.space, points.wide).kernel("pick_points")
        with session.scope() as scope:
            which, sizes = scope.copy_of(chosen.astype(np.uint32)), (np.uint32(self.k), np.uint32(self.k_stride))
            given = points.coordinates, np.uint32(points.stride), which, *sizes, self.centers
            session.launch(kernel, self.k, session.work_group_size(kernel, GROUP), *given)

    def get_centers(self) -> npt.NDArray[np.int64]:
        """(k, dims) integers in units of the points."""
        planes = self._session.download(self.centers, (self.points.space.dims, self.k_stride), np.float32)
        centers: npt.NDArray[np.int64] = planes[:, : self.k].T.astype(np.int64)
        return centers

    def get_totals(self) -> npt.NDArray[np.uint64]:
        """(1 + 2 dims, k): see `totals`."""
        return self._session.download(self.totals, (1 + 2 * self.points.space.dims, self.k), np.uint64)

    def restart(self) -> None:
        """Reset the step state; call before the first step."""
        if self.grid is not None:
            self.grid.fresh = True
            return
        self._session.fill(self.state, np.zeros(1, np.uint32), 4 * STATE_WORDS)

    def step(self, by_axis: bool = False, still: bool = False, tolerance: int = 0, count: int = 1) -> None:
        """Queue steps: assign all points, move each center to its points' mean, and repair centers without points."""
        # Nothing happens if the steps since `restart` are done, unless `by_axis`, which sums squared differences for
        # each axis and takes longer. `tolerance` is 2^64 times the relative fall of inertia at which the steps are
        # done. With `still` all centers stay, so that only their statistics are computed.
        if self.grid is not None:
            self.grid.steps(count, by_axis, tolerance, self.k if still else self.pinned)
            return
        assign, update = self._launches
        assign.set(by_axis=np.uint32(by_axis))
        pinned = self.k if still else self.pinned
        update.set(forced=np.uint32(by_axis), tolerance=np.uint64(tolerance), pinned=np.uint32(pinned))
        for _ in range(count):
            assign.queue()
            update.queue()

    def prepare(self) -> None:
        """Make what steps need, while the device has something else to do."""
        _ = self._launches if self.grid is None else self.grid.launch  # made at their first use

    @functools.cached_property
    def _launches(self) -> tuple[PreparedLaunch, PreparedLaunch]:
        """Assigning points and moving centers, but for what `step` sets."""
        session, scope, points, k, dims = self._session, self._scope, self.points, self.k, self.points.space.dims
        lanes = self._variant.file == LANES.file
        assign = session.program(self._variant.file, DIMS=dims, **points.weight_constants).kernel("assign_tiles")
        update = session.program("kmeans/lloyd_update.cl", DIMS=dims).kernel("update_centers")
        group = session.work_group_size(assign, 1 if lanes else session.tuned("kmeans.group"), 8)
        update_group = session.work_group_size(update, session.tuned("kmeans.update_group"), 24)
        # Groups share the tiles among them; each has lists of up to k centers, in the lanes form its own sums as well.
        list_bytes, sum_bytes = 12 * (1 + dims) * self.k_stride if lanes else 2 * k, 8 * (1 + 2 * dims) * k
        largest = max(list_bytes, sum_bytes) if lanes else list_bytes
        most = min(session.tuned("kmeans.groups_a_unit") * session.limits.compute_units, self.tiles.n)
        groups = max(1, min(most, session.limits.max_alloc // largest))
        copies = groups if lanes else 1
        known = {
            **points.arguments,
            **self.tiles.arguments,
            "centers": self.centers,
            "k": np.uint32(k),
            "k_stride": np.uint32(self.k_stride),
            "extents": int4(points.extent),
            "state": self.state,
            "totals": self.totals,
            "lists": scope.empty(list_bytes * groups),
            "sums": scope.zeros(sum_bytes * copies),
            "replicas": np.uint32(copies),
            "pairs": scope.empty(8 * k),
            **dict.fromkeys(("by_axis", "forced", "pinned"), np.uint32(0)),
            "tolerance": np.uint64(0),
            "keys": LocalMemory(8 * group),
            "local_sums": LocalMemory(8 * SLOTS * (1 + 2 * dims)),
            "partial": LocalMemory(24 * update_group),
        }
        return (
            session.prepare(scope, assign, groups * group, group, **assign.among(known)),
            session.prepare(scope, update, update_group, update_group, **update.among(known)),
        )

    def copy_centers(self, other: Lloyd) -> None:
        """Copy the centers of another set of as many, in the same space."""
        self._session.copy(self.centers, other.centers, 4 * self.points.space.dims * self.k_stride)

    def run(
        self,
        max_iter: int,
        tol: float = 0.0,
        progress: Progress | None = None,
        position: tuple[int, int] = (0, 0),
        meanwhile: Callable[[], None] | None = None,
    ) -> int:
        """Step until no center moves, or until the inertia falls by a part of at most `tol`; returns the steps."""
        # Progress goes from `position[0]` on out of `position[1]`. `meanwhile` is called when the first steps are
        # queued, before the device is waited for.
        self.restart()
        tolerance = int(tol * 2**64)
        queued = steps = 0
        reports = self.grid is None or (progress is not None and progress.wanted)
        batch = self._session.tuned("kmeans.steps_a_wait" if reports else "kmeans.steps_a_launch")
        ahead = 0 if self._session.limits.unified_memory else 1
        states: collections.deque[Readback] = collections.deque()
        while queued < max_iter or states:
            if queued < max_iter:
                count = min(batch, max_iter - queued)
                self.step(tolerance=tolerance, count=count)
                queued += count
                states.append(self._read_state())
                # The device has the next steps, which change nothing after the last one, before it is waited for.
                if len(states) <= ahead:
                    continue
            if meanwhile is not None:
                meanwhile()
                meanwhile = None
            state = states.popleft().array()
            steps = int(state[STEPS])
            if progress is not None:
                progress.report(position[0] + steps, position[1])
            if state[DONE]:
                break
        return steps

    def inertia_later(self) -> Callable[[], int]:
        """Queue the measurement of the inertia, in units of the points; the returned callable waits for the device."""
        self.restart()
        self.step(still=True)
        state = self._read_state()
        return lambda: int(state.array()[INERTIA : INERTIA + 2].view(np.uint64)[0])

    def _read_state(self) -> Readback:
        return Readback(self._session, self.state, STATE_WORDS, np.uint32)


class LloydSets:
    """Sets of centers for the points of counted colours, made when they are asked for first; they share the tiles."""

    def __init__(self, session: Session, scope: Scope, counts: ColorCounts, space: Space) -> None:
        self.counts = counts
        self.points = points_of(session, scope, counts, space)
        self._session = session
        self._scope = scope
        self._made: dict[tuple[int, int], Lloyd] = {}

    def lloyd(self, k: int, pinned: int = 0) -> Lloyd:
        """The set of k centers, of which the first `pinned` never move."""
        if (k, pinned) not in self._made:
            tiles = next((lloyd.tiles for lloyd in self._made.values()), None)
            self._made[k, pinned] = Lloyd(self._session, self._scope, self.points, k, pinned, tiles)
        return self._made[k, pinned]

    def inertia_later(self, colors: npt.NDArray[np.uint8], pinned: int) -> Callable[[], int]:
        """Queue the measurement of the inertia of colours as centers, like `Lloyd.inertia_later`."""
        lloyd = self.lloyd(len(colors), pinned)
        lloyd.set_centers(self.points.places(colors))
        return lloyd.inertia_later()
