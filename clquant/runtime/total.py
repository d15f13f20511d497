"""A 64-bit sum over the work-items of several launches."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyopencl import Buffer

from clquant.runtime.memory.scope import Scope
from clquant.runtime.program.kernel import Kernel
from clquant.runtime.session import Session

GROUP = 64  # on CPUs a group is the work of a thread: one work-item
ITEMS_PER_UNIT = 1024  # of a GPU: they hide the latency of loads, and their sums are soon sent
ITEMS_PER_CORE = 16  # of a CPU: few sums, and cores that are late find work left


class Total:
    """A sum of 64 bits over launches: each work-item has its own, and the host adds those."""

    def __init__(self, session: Session, scope: Scope) -> None:
        self._session, self._scope = session, scope
        self._sums: list[tuple[Buffer, int]] = []

    def launch(self, kernel: Kernel, work: int, /, *args: Any, **named: Any) -> None:
        """Queue a kernel whose argument `sums` has a ulong per work-item, which takes every n-th of `work` steps."""
        limits = self._session.limits
        per_unit, most = (ITEMS_PER_CORE, 1) if limits.is_cpu else (ITEMS_PER_UNIT, GROUP)
        wanted = max(1, min(work, limits.compute_units * per_unit))
        group = min(self._session.work_group_size(kernel, most), 1 << (wanted - 1).bit_length())
        items = -(-wanted // group) * group
        sums = self._scope.empty(8 * items)
        self._session.launch(kernel, items, group, *args, **named, sums=sums)
        self._sums.append((sums, items))

    def value(self) -> int:
        """Wait for all launches and return the sum."""
        found = (self._session.download(sums, items, np.uint64) for sums, items in self._sums)
        return sum(int(each.sum(dtype=np.uint64)) for each in found)
