"""Steps of Lloyd's algorithm over colours of 16 bits a value: exact integers, with means taken on the host.

The sums of a step are the device's (`cl/kmeans/deep_lloyd.cl`). It waits for the host in every step; there are few,
since centers start from those of 8-bit values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.histogram.deep_counting import DeepCounts
from clquant.mapping.candidates import CandidateGrid, CandidateLister
from clquant.mapping.candidates_lanes import int4
from clquant.runtime import Scope, Session

LOW_BITS = 18
# Work-groups of a compute unit, and most bytes of the copies of the sums.
_GROUPS_PER_UNIT, _GROUP, _GROUP_ON_CPUS = 8, 64, 1
# Neighbours that are one work-item's.
_RUN, _RUN_ON_CPUS = 1, 1 << 10
_MOST_SUM_BYTES = 1 << 25

Int = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DeepStep:
    """What a step found.

    Attributes
    ----------
    weights : ndarray
        (k,) int64 of the colours nearest to each center.
    sums : ndarray
        (k, dims) int64: their weighted coordinates.
    inertia : int
        Sum of weight times squared distance to the nearest center, in units of the space's coordinates.
    """

    weights: Int
    sums: Int
    inertia: int

    def means(self, centers: Int) -> Int:
        """(k, dims): the means, rounded half up; a center without colours stays where it is.

        Parameters
        ----------
        centers : ndarray
            (k, dims) int64, which the step was of.
        """
        mass = np.maximum(self.weights, 1)[:, None]
        means = (2 * self.sums + mass) // (2 * mass)
        return np.where(self.weights[:, None] > 0, means, centers)


class DeepLloyd:
    """Steps over counted colours in one space.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns the colours' points; `counts` must live as long.
    counts : DeepCounts
    space : Space
        Of 16-bit values; with alpha if some colours have it.
    """

    def __init__(self, session: Session, scope: Scope, counts: DeepCounts, space: Space) -> None:
        self._session = session
        self._counts = counts
        self._space = space
        self._tables = scope.copy_of(space.tables())
        kernel = session.program("kmeans/deep_lloyd.cl", **space.constants()).kernel("points_of_colors")
        group = session.work_group_size(kernel, _GROUP)
        self._points = [scope.empty(16 * n) for _, _, n in counts.parts]
        for (colors, _, n), points in zip(counts.parts, self._points, strict=True):
            session.launch(kernel, n, group, colors, np.uint32(n), self._tables, points)

    def step(self, centers: Int) -> DeepStep:
        """The sums of each center's colours; ties go to the lowest index.

        Parameters
        ----------
        centers : ndarray
            (k, dims) int64, 0 to the space's extent; k from 1 to 65536.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If the device refuses or fails.
        """
        session, k, dims = self._session, len(centers), self._space.dims
        on_cpu = session.limits.is_cpu
        run = _RUN_ON_CPUS if on_cpu else _RUN
        groups = _GROUPS_PER_UNIT * session.limits.compute_units
        sum_bytes = 8 * (1 + dims) * k
        copies = max(1, min(groups, _MOST_SUM_BYTES // sum_bytes))
        alone = {"ALONE": int(on_cpu and copies == groups)}
        constants = {**self._space.constants(), **alone, "WIDE_WEIGHTS": int(self._counts.wide), "RUN": run}
        kernel = session.program("kmeans/deep_lloyd.cl", **constants).kernel("sum_colors")
        group = session.work_group_size(kernel, _GROUP_ON_CPUS if on_cpu else _GROUP)
        with session.scope() as scope:
            points = np.zeros((k, 4), np.int32)
            points[:, :dims] = centers
            where = scope.copy_of(points)
            lister = CandidateLister(session, scope, self._space, where, k, np.arange(k))
            cells = self._cells(lister, k)
            sums, spread = scope.zeros(copies * sum_bytes), scope.zeros(16)
            lists = cells.starts, cells.entries, int4(cells.cells), np.int32(cells.shift), np.int32(-1), spread
            for (_, weights, n), points_of_part in zip(self._counts.parts, self._points, strict=True):
                given = points_of_part, weights, np.uint32(n), np.uint32(k), np.uint32(copies), sums, spread
                items = min(-(-n // run), groups * group)
                session.launch(kernel, items, group, self._tables, where, where, *lists, *given)
            totals = session.download(sums, (copies, k, 1 + dims), np.uint64).sum(axis=0, dtype=np.uint64)
            low, high = (int(part) for part in session.download(spread, 2, np.uint64))
        signed = totals.astype(np.int64)
        return DeepStep(signed[:, 0], signed[:, 1:], low + (high << LOW_BITS))

    def _cells(self, lister: CandidateLister, k: int) -> CandidateGrid:
        colors = sum(part[2] for part in self._counts.parts)
        worthwhile = colors * k >= self._session.tuned("mapping.grid_pays")
        return lister.fine(colors) if worthwhile else lister.whole()
