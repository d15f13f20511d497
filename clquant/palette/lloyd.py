"""Lloyd's algorithm over weighted points on the device: exact, deterministic, without a trip to the host in a step.

S. P. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28 (1982). The kernels and the
bounds that make them exact are in `cl/lloyd.cl` and `cl/lloyd_update.cl`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.palette.points import MOST_SQUARED, PADDING, Points
from clquant.runtime import LocalMemory, Progress, Scope, Session, Variant

SLOTS = 16
STATE_WORDS = 4
DONE, STEPS = 0, 1

# Forms of the assignment; `LANES` is shaped for CPUs.
LANES = Variant("lanes", "lloyd_lanes.cl", lambda limits: limits.is_cpu and not limits.is_simulator)
PORTABLE = Variant("portable", "lloyd.cl")
VARIANTS = (LANES, PORTABLE)


class Lloyd:
    """Centers of weighted points, and the steps that move them.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns the buffers.
    points : Points
    k : int
        How many centers, 1 to 65536.
    pinned : int
        So many of the first centers never move, and take no part in repairs.

    Attributes
    ----------
    centers : pyopencl.Buffer
        (dims, k_stride) float32 planes of integers, in units of the points.
    totals : pyopencl.Buffer
        (1 + 2 dims, k) uint64, of the last step: each center's weight, sums of coordinates, and sums of squared
        differences by axis about the center as it was before the step (or, in the first of these, of squared
        distances).
    """

    def __init__(self, session: Session, scope: Scope, points: Points, k: int, pinned: int = 0) -> None:
        assert sum(e * e for e in points.extent) < MOST_SQUARED
        dims = points.space.dims
        self._session = session
        self.points = points
        self.k = k
        self.pinned = pinned
        self.k_stride = -(-k // PADDING) * PADDING
        self.centers = scope.zeros(4 * dims * self.k_stride)
        self.totals = scope.empty(8 * (1 + 2 * dims) * k)
        self.state = scope.zeros(4 * STATE_WORDS)
        variant = session.choose(VARIANTS)
        self._assign = session.program(variant.file, DIMS=dims, **variant.constants).kernel("assign_tiles")
        self._update = session.program("lloyd_update.cl", DIMS=dims).kernel("update_centers")
        lanes = variant is LANES
        self._group = 1 if lanes else session.work_group_size(self._assign, session.tuned("kmeans.group"), 8)
        # Groups share the tiles among them; each has lists of up to k centers, in the lanes form its own sums as well.
        list_bytes = 12 * (1 + dims) * self.k_stride if lanes else 2 * k
        groups = session.tuned("kmeans.groups_a_unit") * session.limits.compute_units
        self._groups = max(1, min(points.tiles, groups, session.limits.max_alloc // list_bytes))
        self._replicas = self._groups if lanes else 1
        self._pairs = scope.empty(8 * k)
        self._lists = scope.empty(list_bytes * self._groups)
        self._sums = scope.zeros(8 * (1 + 2 * dims) * k * self._replicas)

    def set_centers(self, centers: npt.NDArray[np.int64]) -> None:
        """Start from given centers.

        Parameters
        ----------
        centers : ndarray
            (k, dims) int64 in units of the points, 0 to their extent.
        """
        planes = np.zeros((self.points.space.dims, self.k_stride), np.float32)
        planes[:, : self.k] = centers.T
        self._session.write(self.centers, planes)

    def get_centers(self) -> npt.NDArray[np.int64]:
        """(k, dims) integers in units of the points."""
        planes = self._session.download(self.centers, (self.points.space.dims, self.k_stride), np.float32)
        centers: npt.NDArray[np.int64] = planes[:, : self.k].T.astype(np.int64)
        return centers

    def get_totals(self) -> npt.NDArray[np.uint64]:
        """(1 + 2 dims, k): see `totals`."""
        return self._session.download(self.totals, (1 + 2 * self.points.space.dims, self.k), np.uint64)

    def restart(self) -> None:
        """Forget that the steps so far were done."""
        self._session.fill(self.state, np.zeros(1, np.uint32), 4 * STATE_WORDS)

    def assign(self, by_axis: bool = False) -> None:
        """Queue the assignment of every point; its sums wait for `update`.

        Parameters
        ----------
        by_axis : bool
            Whether squared differences are summed for each axis, which takes longer; else only squared distances.
        """
        points = self.points
        self._session.launch(
            self._assign,
            self._groups * self._group,
            self._group,
            points.coordinates,
            np.uint32(points.stride),
            points.weights,
            points.starts,
            points.boxes,
            np.uint32(points.tiles),
            self.centers,
            np.uint32(self.k),
            np.uint32(self.k_stride),
            np.uint32(by_axis),
            self.state,
            self._lists,
            self._sums,
            LocalMemory(4 * self._group),
            LocalMemory(4 * self._group),
            LocalMemory(8 * SLOTS * (1 + 2 * points.space.dims)),
        )

    def update(self, tolerance: int = 0) -> None:
        """Queue the move of every center to its points' mean, and the repair of those without points.

        Parameters
        ----------
        tolerance : int
            2^64 times the relative fall of inertia at which the steps are done.
        """
        session = self._session
        group = session.work_group_size(self._update, session.tuned("kmeans.update_group"), 24)
        session.launch(
            self._update,
            group,
            group,
            self._sums,
            np.uint32(self._replicas),
            self.totals,
            self.centers,
            np.uint32(self.k),
            np.uint32(self.k_stride),
            np.uint32(self.pinned),
            np.array((*self.points.extent, 0)[:4], np.int32),
            np.uint64(tolerance),
            self._pairs,
            self.state,
            LocalMemory(24 * group),
        )

    def copy_centers(self, other: Lloyd) -> None:
        """Take the centers of another set.

        Parameters
        ----------
        other : Lloyd
            With as many centers, in the same space.
        """
        self._session.copy(self.centers, other.centers, 4 * self.points.space.dims * self.k_stride)

    def run(
        self, max_iter: int, tol: float = 0.0, progress: Progress | None = None, position: tuple[int, int] = (0, 0)
    ) -> int:
        """Steps until they are done.

        Parameters
        ----------
        max_iter : int
            Most steps.
        tol : float
            0 <= tol < 1: done where a step's inertia is no more than this part below the step's before; with 0
            where no center moves.
        progress : Progress, optional
            Told of the steps, from `position[0]` on out of `position[1]`.
        position : tuple of int

        Returns
        -------
        int
            The steps done.
        """
        self.restart()
        queued = steps = 0
        batch = self._session.tuned("kmeans.steps_a_wait")
        while queued < max_iter:
            # Steps after the one that is done change nothing.
            for _ in range(min(batch, max_iter - queued)):
                self.assign()
                self.update(int(tol * 2**64))
                queued += 1
            state = self._session.download(self.state, STATE_WORDS, np.uint32)
            steps = int(state[STEPS])
            if progress is not None:
                progress.report(position[0] + steps, position[1])
            if state[DONE]:
                break
        return steps

    def inertia(self) -> int:
        """Sum over the points of weight times squared distance to the nearest center, in units of the points."""
        self.restart()
        self.assign()
        before = self._session.download(self.centers, (self.points.space.dims, self.k_stride), np.float32)
        self.update()
        self._session.write(self.centers, before)
        return int(self.get_totals()[1 + self.points.space.dims :].sum())
