"""Counts of opaque colours that are added up on the device, in a table of all 2^24 of them."""

from __future__ import annotations

import contextlib

import numpy as np

from clquant.histogram.accumulation import counted_places
from clquant.histogram.counts import ColorCounts
from clquant.histogram.merging import HostCounts
from clquant.runtime import Buffer, DeviceMemoryError, Scope, Session

COLORS = 1 << 24
# Colours of a part from which the table is faster than the host.
_LEAST_COLORS = 1 << 16


class DeviceTable:
    """Adds up parts of a picture in a table of 128 MiB, which `scope` owns."""

    def __init__(self, session: Session, scope: Scope) -> None:
        self._session = session
        self._table = scope.zeros(8 * COLORS)

    @classmethod
    def of(cls, session: Session, held: contextlib.ExitStack) -> DeviceTable | None:
        """A table that lives as long as `held`; None if the device has no room for one."""
        with contextlib.suppress(DeviceMemoryError):
            return cls(session, held.enter_context(session.scope()))
        return None

    @staticmethod
    def takes(session: Session, part: ColorCounts) -> bool:
        """Whether adding a part's counts here is faster than on the host."""
        limits = session.limits
        has_room = min(limits.max_alloc, limits.global_memory // 16) >= 8 * COLORS
        return has_room and not part.partial and not part.wide and part.n_colors >= _LEAST_COLORS

    def add(self, part: ColorCounts) -> None:
        """Queue the addition of some counts."""
        add_counts(self._session, (part.colors, part.counts, part.n_colors, "uint"), (self._table, "ulong"))

    def counted(self) -> HostCounts:
        """The sums, which are read a range at a time."""
        return counted_places(lambda first, n: self._session.download(self._table, n, np.uint64, 8 * first))


def add_counts(session: Session, part: tuple[Buffer, Buffer, int, str], table: tuple[Buffer, str]) -> None:
    """Queue the addition of (colours, counts, their number, their type) to a table in Z-order and its type."""
    (colors, counts, n, count), (sums, sum_type) = part, table
    kernel = session.program("histogram/device_table.cl", COUNT=count, SUM=sum_type).kernel("add_counts")
    session.launch(kernel, n, session.work_group_size(kernel, 256), colors, counts, np.uint32(n), sums)
