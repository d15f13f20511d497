"""Steps of Lloyd's algorithm over colours of 16 bits per value: exact integers, with means taken on the host.

The sums of a step are the device's (`cl/kmeans/deep_lloyd.cl`): in integers, as the floats that hold squared distances
of 8-bit values exactly are too short for those of 16 bits. It waits for the host in every step; there are few, since
centers start from those of 8-bit values.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.kmeans.deep_points import DeepColors, DeepPoints, PointSorter
from clquant.mapping.candidates import CandidateGrid, CandidateLister
from clquant.mapping.candidates_lanes import int4
from clquant.runtime import Limits, LocalMemory, Scope, Session, Variant

VARIANTS = (
    Variant("lanes", "kmeans/deep_lloyd.cl", Limits.has_lanes, {"LANES": 8, "RUN": 16}, gain=1.74),
    Variant("portable", "kmeans/deep_lloyd.cl", constants={"LANES": 1}),
)
# Cells of candidates are this many times as long as those of points, as a power of two.
_LIST_STEP = 2
# Copies of the sums for a compute unit, and most bytes of all.
_COPIES_PER_UNIT, _MAX_SUM_BYTES = 8, 1 << 25
# Work-items of a segment: about as many as it has points.
_GROUP, _MIN_GROUP = 64, 4
# Local memory of a work-item: where it finds a pivot, and how far that is.
_LOCAL_BYTES = 4 + 8

Int = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DeepStep:
    """The result of a step."""

    weights: Int  # (k,) int64 of the colours nearest to each center
    sums: Int  # (k, dims) int64, their weighted coordinates
    inertia: int  # sum of weight times squared distance to the nearest center, in the space's units

    def means(self, centers: Int) -> Int:
        """Return the means (k, dims), rounded half up; a center without colours stays where it is."""
        mass = np.maximum(self.weights, 1)[:, None]
        means = (2 * self.sums + mass) // (2 * mass)
        return np.where(self.weights[:, None] > 0, means, centers)


class DeepLloyd:
    """Lloyd steps over 16-bit colours in one space; `scope` owns their points if these fit the device."""

    def __init__(self, session: Session, scope: Scope, colors: DeepColors, space: Space) -> None:
        self._session = session
        self._space = space
        self._colors = colors
        self._tables = scope.copy_of(space.tables())
        self._kept = list(self._sorted(scope)) if colors.fit() else None

    @property
    def is_empty(self) -> bool:
        """Whether it is known that no colour is left, as all are transparent."""
        return self._kept is not None and not self._kept

    def _sorted(self, owner: Scope | None = None) -> Iterator[DeepPoints]:
        """Read and sort the points of all parts; without an owner each lasts until the next one."""
        session, space = self._session, self._space
        for chunks in self._colors.parts():
            with session.scope() as scope:
                sorter = PointSorter(session, owner or scope, space, self._tables, chunks, self._colors.wide)
                part = sorter.sort()
                if part is not None:
                    yield part

    def step(self, centers: Int) -> DeepStep:
        """Return the sums of each center's colours, for (k, dims) int64 centers; ties go to the lowest index."""
        session, k, dims = self._session, len(centers), self._space.dims
        sum_bytes = 8 * (1 + dims) * k
        units = _COPIES_PER_UNIT * session.limits.compute_units
        copies = max(1, min(units, _MAX_SUM_BYTES // sum_bytes))
        with session.scope() as scope:
            points = np.zeros((k, 4), np.int32)
            points[:, :dims] = centers
            where = scope.copy_of(points)
            lister = CandidateLister(session, scope, self._space.extent, self._space.bits, where, k, np.arange(k))
            lists = functools.cache(lambda shift: lister.whole() if shift is None else lister.fine(shift))
            sums, inertia = scope.zeros(copies * sum_bytes), 0
            own = {"centers": where, "k": np.uint32(k), "copies": np.uint32(copies), "sums": sums}
            for part in self._sorted() if self._kept is None else self._kept:
                in_cells = part.n_points * k >= session.tuned("mapping.grid_pays")
                self._launch(part, own, lists(part.grid.shift + _LIST_STEP if in_cells else None))
                inertia += part.squares
            totals = session.download(sums, (copies, k, 1 + dims), np.uint64).sum(axis=0, dtype=np.uint64)
        signed = totals.astype(np.int64)
        # The sum of |p|^2 - 2 c.p + |c|^2 over all points.
        mass, moments, places = (a.astype(object) for a in (signed[:, 0], signed[:, 1:], centers))
        inertia += int(((places * places).sum(axis=1) * mass).sum() - 2 * (places * moments).sum())
        return DeepStep(signed[:, 0], signed[:, 1:], inertia)

    def _launch(self, part: DeepPoints, own: dict[str, Any], cells: CandidateGrid) -> None:
        """Queue `sum_points`; `own` has its centers, and where it leaves sums."""
        session = self._session
        form = session.choose(VARIANTS)
        weighted = {"WEIGHTED": int(part.weights is not None), "WIDE_WEIGHTS": int(self._colors.wide)}
        program = session.program(form.file, **form.constants, **self._space.constants(), **weighted)
        kernel = program.kernel("sum_points")
        given = {
            "segments": part.segments,
            "n_segments": np.uint32(part.n_segments),
            "points": part.points,
            "weights": part.weights or part.points,
            "segment_sums": part.sums,
            **part.grid.arguments,
            "extent": int4(self._space.extent),
            "starts": cells.starts,
            "list": cells.entries,
            "list_grid": int4(cells.cells),
            "list_shift": np.int32(cells.shift),
            **own,
        }
        groups, group = int(own["copies"]), 1
        if form.name == "portable":
            wanted = min(_GROUP, max(_MIN_GROUP, part.n_points // part.n_segments))
            groups, group = part.n_segments, session.work_group_size(kernel, wanted, _LOCAL_BYTES)
        given |= {"found": LocalMemory(4 * group), "least": LocalMemory(8 * group)}
        session.launch(kernel, groups * group, group, **given)
