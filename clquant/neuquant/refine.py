"""The refinement's update of the mini-batch map as a device takes it: work-group size and scratch memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clquant.runtime import Kernel, LocalMemory, Scope, Session, kernel_for_group

# Bytes per colour of each scratch array.
REFINE_SCRATCH = (16, 16, 4, 4, 8, 4, 4)


@dataclass(frozen=True)
class RefineForm:
    """`neuquant_refine` as a device takes it: the kernel, its work-group size, its scratch arguments."""

    kernel: Kernel
    local: int
    scratch: tuple[Any, ...]


def refine_form(session: Session, scope: Scope, n_colors: int, map_constants: dict[str, int]) -> RefineForm:
    """`neuquant_refine` and its scratch memory.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns the scratch memory if local memory does not hold it.
    n_colors : int
    map_constants : dict
        Those of `cl/neuquant/map.h` but ``STAGED``.
    """
    in_local = sum(REFINE_SCRATCH) * n_colors + 64 <= session.limits.local_memory

    def build(local: int) -> Kernel:
        constants = {"STAGED": int(in_local), "LOCAL": local, **map_constants}
        return session.program("neuquant/refine.cl", **constants).kernel("neuquant_refine")

    kernel, local = kernel_for_group(session, session.tuned("neuquant.group"), build)
    make = LocalMemory if in_local else scope.empty
    return RefineForm(kernel, local, tuple(make(size * n_colors) for size in REFINE_SCRATCH))
