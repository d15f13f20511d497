"""The refinement's update of the mini-batch map as a device takes it: work-group size and scratch memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Kernel, LocalMemory, Scope, Session

REFINE_SCRATCH = {"centres": 16, "worth": 16, "axes": 4, "partners": 4, "ranks": 8, "leaving": 4, "split": 4}
"""Bytes per colour of each scratch array of `neuquant_refine`."""


def refine_form(
    session: Session, scope: Scope, n_colors: int, map_constants: dict[str, int]
) -> tuple[Kernel, int, dict[str, Any]]:
    """Return `neuquant_refine`, its group size, its scratch arguments; `scope` owns those local memory cannot hold."""
    in_local = sum(REFINE_SCRATCH.values()) * n_colors + 64 <= session.limits.local_memory

    def build(local: int) -> Kernel:
        constants = {"STAGED": int(in_local), "LOCAL": local, **map_constants}
        return session.program("neuquant/refine.cl", **constants).kernel("neuquant_refine")

    kernel, local = session.kernel_for_group(session.tuned("neuquant.group"), build)
    make = LocalMemory if in_local else scope.empty
    return kernel, local, {name: make(size * n_colors) for name, size in REFINE_SCRATCH.items()}


def scatter(slab: npt.NDArray[np.uint32], pinned: npt.NDArray[np.int32], bits: int) -> int:
    """Sum the squared errors of an assignment, (SLAB_WORDS, K) totals, about means, or about pinned nodes."""
    words = slab.astype(np.uint64)
    counts, sums = words[0], words[1:5]
    squares = words[6:10] + (words[10:14] << np.uint64(bits))
    # Sums are below 2^32.
    errors = squares - sums**2 // np.maximum(counts, 1)
    n, dims = pinned.shape
    places = pinned.T.astype(np.uint64)
    errors[:dims, :n] = squares[:dims, :n] + counts[:n] * places**2 - 2 * places * sums[:dims, :n]
    return int(errors.sum())
