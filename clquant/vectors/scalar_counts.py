"""Optimal codebooks of long rows of 8- and 16-bit numbers, which the device counts instead of sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import Array, InvalidArgument, Kernel, Session
from clquant.vectors.scalar_runs import find_runs, group_size, run_means

LEAST_COUNTED = 1024  # numbers of a row for which looking through all keys pays
_MOST_COUNTED = 1 << 16
_KINDS = {"u": 0, "i": 1, "f": 2}  # KIND in cl/vectors/scalar_counts.cl


def is_counted(rows: npt.NDArray[Any] | Array) -> bool:
    """Whether rows without weights are of this kind."""
    return rows.dtype.itemsize <= 2 and LEAST_COUNTED <= rows.shape[1] <= _MOST_COUNTED


def counted_codebooks(session: Session, rows: npt.NDArray[Any] | Array, k: int) -> npt.NDArray[np.float64]:
    """(m, k) codebooks; entries may repeat before the last."""
    (count, n), kind = rows.shape, _KINDS[rows.dtype.kind]
    word = rows.dtype.kind + "2"

    def build(local: int) -> Kernel:
        return session.program("vectors/scalar_counts.cl", LOCAL=local, KIND=kind).kernel("scalar_counts")

    kernel, local = session.kernel_for_group(group_size(session.limits), build)
    with session.scope() as scope:
        first = 0 if isinstance(rows, np.ndarray) else rows.offset // 2
        given = (
            scope.upload(rows.astype(word, order="C", copy=False)) if isinstance(rows, np.ndarray) else rows.base_data
        )
        keys, numbers, counts = (scope.empty(size * count * n) for size in (2, 4, 4))
        lengths = scope.empty(4 * count)
        made = {"keys": keys, "numbers": numbers, "counts": counts, "lengths": lengths}
        session.launch(kernel, count * local, local, given=given, first=np.uint64(first), **made, n=np.uint32(n))
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
        is_wrong = session.download(lengths, count, np.uint32) == 0
    if is_wrong.any():
        wrong = params.array("values", rows[int(is_wrong.argmax())], "numbers")
        raise InvalidArgument(f"values has the value {wrong[~np.isfinite(wrong)][0]}; allowed: finite numbers")
    means = run_means(found, mass, mass > 0)
    return np.ldexp(means, -24) if kind == _KINDS["f"] else means
