"""Optimal codebooks of long rows of 8- and 16-bit numbers, which the device counts instead of sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import InvalidArgument, Kernel, Session, kernel_for_group
from clquant.vectors.scalar_runs import find_runs, group_count, group_size, run_means

_BINS = 1 << 16
LEAST_COUNTED = 1024  # numbers of a row for which looking through all bins pays
_MOST_COUNTED = 1 << 16
_KINDS = {"u": 0, "i": 1, "f": 2}  # KIND in cl/vectors/scalar_counts.cl


def is_counted(rows: npt.NDArray[Any]) -> bool:
    """Whether rows without weights are of this kind."""
    return rows.itemsize <= 2 and LEAST_COUNTED <= rows.shape[1] <= _MOST_COUNTED


def counted_codebooks(session: Session, rows: npt.NDArray[Any], k: int) -> npt.NDArray[np.float64]:
    """(m, k) codebooks; entries may repeat before the last."""
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise InvalidArgument(f"values has the value {rows[~np.isfinite(rows)][0]}; allowed: finite numbers")
    (count, n), kind = rows.shape, _KINDS[rows.dtype.kind]
    bits = rows.astype(f"{rows.dtype.kind}2", copy=False).view(np.uint16)

    def build(local: int) -> Kernel:
        return session.program("vectors/scalar_counts.cl", LOCAL=local, KIND=kind).kernel("scalar_counts")

    kernel, local = kernel_for_group(session, group_size(session.limits), build)
    groups = group_count(session.limits, count, 4 * _BINS)
    with session.scope() as scope:
        keys, numbers, counts = (scope.empty(size * count * n) for size in (2, 4, 4))
        lengths = scope.empty(4 * count)
        session.launch(
            kernel,
            groups * local,
            local,
            given=scope.upload(np.ascontiguousarray(bits)),
            bins=scope.empty(4 * _BINS * groups),
            keys=keys,
            numbers=numbers,
            counts=counts,
            lengths=lengths,
            sizes=np.array([count, n], np.uint32),
        )
        ends = find_runs(session, scope, numbers, counts, lengths, (count, n, k), total=n)
        sums, masses = scope.empty(8 * count * k), scope.empty(4 * count * k)
        program = session.program("vectors/scalar_counts.cl", LOCAL=local, KIND=kind)
        total = program.kernel("run_sums")
        size = np.array([count, n, k, 0], np.uint32)
        group = session.work_group_size(total, 64)
        session.launch(
            total, count * k, group, keys=keys, counts=counts, ends=ends, sums=sums, masses=masses, sizes=size
        )
        found = session.download(sums, (count, k), np.int64).astype(np.float64)
        mass = session.download(masses, (count, k), np.uint32)
    means = run_means(found, mass, mass > 0)
    return np.ldexp(means, -24) if kind == _KINDS["f"] else means
