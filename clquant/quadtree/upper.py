"""The levels above a subtree's tiles, and above the subtrees of a picture that is cut."""

from __future__ import annotations

import numpy as np

from clquant import runtime
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.geometry import cells
from clquant.quadtree.plan import Launch


def upper_span(limits: runtime.Limits, bands: int) -> int:
    """How many levels above the tiles one launch makes, as local memory admits."""
    for span in (4, 3, 2):
        if (4 ** (span - 1) * 4 // 3 + 1) * (18 * bands + 4) <= limits.local_memory:
            return span
    return 1


def upper_launch(
    session: runtime.Session,
    constants: dict[str, int | str],
    shape: tuple[int, int],
    first: int,
    levels: int,
    criterion: Criterion,
    below: tuple[runtime.Buffer, int, bool],
    stats: tuple[runtime.Buffer, int],
    nodes: tuple[runtime.Buffer, int, int],
    extents: tuple[runtime.Buffer, int, int],
) -> Launch:
    """Return the launch of `quadtree_upper`: it computes `levels` levels from `first` on out of the level below."""
    # `below` is the buffer of level first - 1, its place in 64-bit words, and whether a word holds both sums as those
    # of tiles do; `stats` the buffer and the first level's place. `nodes` and `extents` are buffers with the places, in
    # entries, of level first - 1, which is read, and of level `first`.
    height, width = shape
    span = upper_span(session.limits, criterion.bands(int(constants["CHANNELS"])))
    upper = {**constants, "ALIGNED": 0, "SPAN": span}  # it reads no pixels: one build for both
    kernel, group = runtime.kernel_for_group(
        session,
        session.tuned("quadtree.upper_group"),
        lambda group: session.program("quadtree/upper.cl", **upper, GROUP=group).kernel("quadtree_upper"),
    )
    buffers = {"below": below[0], "stats": stats[0], "nodes": nodes[0], "extents": extents[0]}
    numbers = {
        "below_at": below[1],
        "packed": below[2],
        "stats_at": stats[1],
        "below_nodes_at": nodes[1],
        "nodes_at": nodes[2],
        "below_extents_at": extents[1],
        "extents_at": extents[2],
        "width": width,
        "height": height,
        "first": first,
        "levels": levels,
        "floor_level": criterion.floor_level,
    }
    given = {**buffers, **{name: np.uint32(number) for name, number in numbers.items()}}
    items = cells(height, width, first + span - 1) * group
    return Launch(kernel, items, group, {**given, "bound": np.uint64(criterion.bound)})
