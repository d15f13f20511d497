"""The runs of sorted numbers whose means are the best codebook, many rows at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Kernel, Limits, Scope, Session

GROUPS_PER_UNIT = 8
GROUP = 256
_RADIX, _RADIX_OF_CPUS = 8, 2  # of grids: few barriers, or few comparisons


def best_runs(
    session: Session,
    scaled: npt.NDArray[np.uint32],
    mass: npt.NDArray[np.int64] | None,
    lengths: npt.NDArray[np.int64],
    k: int,
) -> npt.NDArray[np.int64]:
    """(m, k) ends of the runs of least squared error of rows of the host; see `cl/vectors/scalar_runs.cl`."""
    with session.scope() as scope:
        numbers, own = scope.upload(scaled), scope.upload(lengths.astype(np.uint32))
        weights = None if mass is None else scope.upload(mass.astype(np.uint32))
        ends = find_runs(session, scope, numbers, weights, own, (*scaled.shape, k), total=0)
        return session.download(ends, (len(scaled), k), np.uint32).astype(np.int64)


def find_runs(
    session: Session,
    scope: Scope,
    numbers: Buffer,
    weights: Buffer | None,
    lengths: Buffer,
    shape: tuple[int, int, int],
    total: int,
) -> Buffer:
    """The ends of runs of rows on the device, (m, k) uint32; `total`, if not 0, is the sum of each row's weights."""
    rows, n, k = shape

    def build(local: int) -> Kernel:
        constants = {
            "LOCAL": local,
            "RADIX": _RADIX_OF_CPUS if session.limits.is_cpu else _RADIX,
            "WEIGHTED": int(weights is not None),
            "DIVIDES": int(weights is not None and not total),
        }
        return session.program("vectors/scalar_runs.cl", **constants).kernel("scalar_codebooks")

    kernel, local = session.kernel_for_group(group_size(session.limits), build)
    groups = group_count(session.limits, rows, (32 + 2 * k + 4) * (n + 1))
    largest = n if weights is None else total
    reciprocals = np.iinfo(np.uint64).max // np.maximum(np.arange(largest + 1, dtype=np.uint64), 1)
    given = {"numbers": numbers, "weights": weights or numbers, "lengths": lengths}
    given["reciprocals"] = scope.upload(reciprocals)
    own = {"scratch": 32 * (n + 1), "mass": 4 if weights is None else 4 * (n + 1), "begins": 2 * k * (n + 1)}
    rooms = {name: scope.empty(groups * nbytes) for name, nbytes in own.items()}
    ends, sizes = scope.empty(4 * rows * k), np.array([rows, n, k, 0], np.uint32)
    session.launch(kernel, groups * local, local, **given, **rooms, ends=ends, sizes=sizes)
    return ends


def group_size(limits: Limits) -> int:
    """Work-items per row: on CPUs, where a work-group is one thread, only one."""
    return 1 if limits.is_cpu else GROUP


def group_count(limits: Limits, rows: int, own: int) -> int:
    """Groups that work on rows, each with so many bytes of its own."""
    room = max(min(limits.global_memory // 4, 4 * limits.max_alloc) // own, 1)
    return min(rows, room, GROUPS_PER_UNIT * limits.compute_units)


def run_means(
    sums: npt.NDArray[np.float64], weight: npt.NDArray[np.integer], is_run: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """(m, k) means of runs; a run without numbers has the mean before it."""
    return repeat_means(sums / np.maximum(weight, 1), is_run)


def repeat_means(means: npt.NDArray[np.float64], is_run: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Means of which that of a run without numbers is the mean before it."""
    last = np.maximum.accumulate(np.where(is_run, np.arange(is_run.shape[1]), 0), axis=1)
    return np.take_along_axis(means, last, axis=1)
