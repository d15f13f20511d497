"""Counts of opaque colours that go from device to device, and are added up there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.histogram.bins import CELLS, CODES, Bins
from clquant.histogram.counting import count_colors
from clquant.histogram.counts import CLEAR, ColorCounts
from clquant.histogram.device_table import add_counts
from clquant.histogram.merging import MAX_NARROW, HostCounts, codes_of, colors_of
from clquant.images import Picture
from clquant.runtime import Scope, Session

# Colours of all parts together from which the table is faster than the host.
LEAST_COLORS = 1 << 18
_TYPES = {"uint8": "uchar", "uint16": "ushort", "uint32": "uint"}


@dataclass(frozen=True)
class DeviceCounts:
    """Counts of opaque colours, on the host in a device's order."""

    colors: npt.NDArray[np.uint32]  # (n,) uint32, R | G << 8 | B << 16, in Z-order
    counts: npt.NDArray[np.unsignedinteger[Any]]  # (n,) of the smallest unsigned type that holds them
    total: int
    transparent: int  # pixels of alpha 0
    clear: bool

    @classmethod
    def of(cls, session: Session, counted: ColorCounts) -> DeviceCounts:
        """Copy opaque colours that are not `wide`."""
        colors = session.download(counted.colors, counted.n_colors, np.uint32)
        counts = session.download(counted.counts, counted.n_colors, np.uint32)
        smallest = np.min_scalar_type(int(counts.max(initial=0)))
        return cls(colors, counts.astype(smallest), counted.total, counted.transparent, counted.clear)

    @classmethod
    def of_host(cls, counted: HostCounts) -> DeviceCounts | None:
        """Convert counts; None if they are not of opaque colours of 8 bits, or too many."""
        if counted.bits != 8 or counted.partial or counted.total > MAX_NARROW:
            return None
        colors = colors_of(counted.codes).view(np.uint32).ravel() & np.uint32(0xFFFFFF)
        smallest = np.min_scalar_type(int(counted.counts.max(initial=0)))
        return cls(colors, counted.counts.astype(smallest), counted.total, counted.transparent, counted.clear)

    def on_host(self) -> HostCounts:
        """Convert to `HostCounts`."""
        opaque = self.colors | np.uint32(0xFF000000)
        codes = codes_of(opaque.view(np.uint8).reshape(-1, 4))
        return HostCounts(codes, self.counts.astype(np.uint64), self.transparent, partial=False, clear=self.clear)


def counted(session: Session, pictures: Sequence[Picture]) -> DeviceCounts | HostCounts:
    """Count pictures of 8 bits a value, in the form that adds up best."""
    with session.scope() as scope:
        found = count_colors(session, scope, pictures)
        return HostCounts.of(session, found) if found.partial or found.wide else DeviceCounts.of(session, found)


def can_add(session: Session, parts: Sequence[DeviceCounts]) -> bool:
    """Whether a device adds up some counts, and sooner than the host."""
    limits = session.limits
    has_room = min(limits.max_alloc, limits.global_memory // 8) >= 4 * CODES
    is_large = sum(len(part.colors) for part in parts) >= LEAST_COLORS
    return has_room and is_large and sum(part.total for part in parts) <= MAX_NARROW


def added(session: Session, scope: Scope, parts: Sequence[DeviceCounts]) -> ColorCounts:
    """Add up counts for which `can_add` holds; `scope` owns the result."""
    with session.scope() as inner:
        bins = Bins(session, inner, CELLS)
        for part in parts:
            n = len(part.colors)
            with session.scope() as own:
                if n:
                    given = own.upload(part.colors), own.upload(part.counts), n, _TYPES[part.counts.dtype.name]
                    add_counts(session, given, (bins.buffer, "uint"))
        where, starts, _ = bins.starts(inner)
        colors, counts = bins.collected(scope, 0, where, int(starts[-1]))
    transparent, clear = sum(part.transparent for part in parts), any(part.clear for part in parts)
    weight = transparent + sum(part.total for part in parts)
    return ColorCounts.of_notes(colors, counts, starts, weight, (transparent, CLEAR * clear))
