"""Lloyd's algorithm with rounds of swaps, which move badly placed centers (`cl/kmeans/swaps.cl`, with its sources)."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant.kmeans.lloyd import Lloyd
from clquant.kmeans.lloyd_grid import WORDS_PER_PLACE
from clquant.kmeans.points import GROUP
from clquant.mapping.candidates_lanes import int4
from clquant.runtime import PreparedLaunch, Scope, Session

# Swaps compare every center with every other.
MAX_SWAPPED = 4096
# Up to this many centers, one work-group moves them in one launch.
MAX_IN_ONE_GROUP = 512
# As in `cl/kmeans/swaps.h`.
PHASES = 5
# The first round of swaps moves one of this many centers.
CENTERS_PER_SWAP = 3
# Work-items that keep the best centers, or go back to them.
KEEP_GROUP = 256


def swap_centers(session: Session, scope: Scope, lloyd: Lloyd, rounds: int, steps: int) -> None:
    """Run Lloyd's algorithm with rounds of swaps in between; the centers of the lowest inertia stay."""
    # At most `MAX_SWAPPED` centers. `steps` are of Lloyd's algorithm, before every round and after the last one.
    if lloyd.grid is not None:
        lloyd.grid.swap(rounds, steps, max(1, lloyd.k // CENTERS_PER_SWAP))
        return
    keep, *moves = _launches(session, scope, lloyd)
    lloyd.restart()
    for remaining in range(rounds, -1, -1):
        lloyd.step(count=steps - 1)
        lloyd.step(by_axis=True)  # done in any case: it has the statistics that swaps need
        for launch in [keep, *moves] if remaining else [keep]:
            launch.queue()


def _launches(session: Session, scope: Scope, lloyd: Lloyd) -> list[PreparedLaunch]:
    """Prepare what keeps the present centers, or goes back to better ones, and then what moves some of the best."""
    dims, stride = lloyd.points.space.dims, lloyd.k_stride
    program = session.program("kmeans/swaps.cl", DIMS=dims)
    shared: dict[str, Any] = {
        "centers": lloyd.centers,
        "k": np.uint32(lloyd.k),
        "k_stride": np.uint32(stride),
        "best_centers": scope.empty(4 * dims * stride),
        "best_totals": scope.empty(8 * (1 + 2 * dims) * lloyd.k),
        "swaps": scope.copy_of(np.array([max(1, lloyd.k // CENTERS_PER_SWAP), 0], np.uint32)),
    }
    kernel = program.kernel("keep_best")
    most = session.tuned("kmeans.swap_group")
    group = session.work_group_size(kernel, min(KEEP_GROUP, most))
    own = {"totals": lloyd.totals, "lowest": scope.copy_of(np.array([2**64 - 1], np.uint64)), "state": lloyd.state}
    keep = session.prepare(scope, kernel, group, group, **shared, **own)
    kernel = program.kernel("move_centers")
    shared["room"] = scope.empty(4 * WORDS_PER_PLACE * stride)
    session.fill(shared["room"], np.full(1, 0xFF, np.uint8), 4 * WORDS_PER_PLACE * stride)
    shared["extents"] = int4(lloyd.points.extent)
    at_once = PHASES if lloyd.k <= MAX_IN_ONE_GROUP else 1
    group = session.work_group_size(kernel, most if at_once > 1 else GROUP)
    items = group if at_once > 1 else lloyd.k
    phases = [(np.uint32(first), np.uint32(first + at_once)) for first in range(0, PHASES, at_once)]
    moves = [session.prepare(scope, kernel, items, group, **shared, first=first, end=end) for first, end in phases]
    return [keep, *moves]
