"""Points of a NeuQuant map on a device, ordered if searches gain by it (`cl/neuquant/point_order.cl`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from clquant.neuquant.step import STEP_VARIANTS
from clquant.runtime import Buffer, Session

# FEW_NODES of cl/neuquant/search_lanes.h: up to this many nodes, a search compares all of them, whatever the order of
# points.
FEW_NODES = 128
# The kernel has numbers of 16 bits. Smaller parts keep more processors busy.
MAX_PART = 1 << 14
KEPT_BYTES, WORD_BYTES = 8, 4


@dataclass(frozen=True)
class Points:
    """Points that a map learns from."""

    buffer: Buffer  # (count, 4) uint16; 65535 first if passed over
    count: int
    weights: Buffer | None  # (count,) uint32


def order_points(session: Session, points: Points, n_colors: int, dims: int, cuts: Iterable[int] = ()) -> None:
    """Queue the ordering of points between `cuts`, if searches among so many nodes gain by it: on CPUs."""
    # No sum depends on the order, but which points are summed together does: between two cuts, these stay the same.
    if n_colors <= FEW_NODES or session.choose(STEP_VARIANTS).name != "lanes" or not points.count:
        return
    ends = sorted({0, points.count, *(cut for cut in cuts if 0 < cut < points.count)})
    parts = [
        (first, min(MAX_PART, end - first))
        for begin, end in itertools.pairwise(ends)
        for first in range(begin, end, MAX_PART)
    ]
    weighted = points.weights is not None
    kernel = session.program("neuquant/point_order.cl", DIMS=dims, WEIGHTED=int(weighted)).kernel("neuquant_order")
    with session.scope() as scope:
        scratch = [scope.empty(size * points.count) for size in (KEPT_BYTES, WORD_BYTES, WORD_BYTES)]
        # The largest first: they take longest.
        which = np.array(sorted(parts, key=lambda part: -part[1]), np.uint32)
        weights = [points.weights] if weighted else []
        session.launch(kernel, len(parts), 1, points.buffer, scope.copy_of(which), *scratch, *weights)
        session.finish()
