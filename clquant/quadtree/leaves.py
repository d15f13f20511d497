"""The list of a reduced subtree's leaves."""

from __future__ import annotations

from collections.abc import Mapping

from clquant import runtime
from clquant.quadtree.plan import Plan, tiles_at_once

MAX_LISTED = 8  # tiles whose leaves per work-item of the form for CPUs lists, one after another

# The kernel decides nothing: one build for all criteria.
NO_CRITERION: dict[str, int | str] = {"CRITERION": 0, "WEIGHT_LIST": "0"}

VARIANTS = (
    runtime.Variant("lanes", "quadtree/leaves.cl", runtime.Limits.has_lanes, {"LANES": 1, "ALIGNED": 0}, gain=1.8),
    runtime.Variant("portable", "quadtree/leaves.cl", constants={"LANES": 0}),
)


def leaf_level(limits: runtime.Limits, channels: int, tile: int) -> int:
    """Side of the squares whose leaves one work-group gathers, as a level: the greatest that local memory admits."""
    for level in (5, 4):
        if level <= tile and 4**level * (3 + 4 * -(-channels // 4)) + 1024 <= limits.local_memory:
            return level
    return 3


def launch_leaves(plan: Plan, buffers: Mapping[str, runtime.Buffer], records: runtime.Buffer) -> None:
    """Queue `quadtree_leaves`, which writes the leaves to `records`, x and y in the whole picture's pixels."""
    session = plan.session
    variant = session.choose(VARIANTS)
    lanes, tiles = variant.name == "lanes", plan.cells[plan.tile]
    wanted = 1 if lanes else session.tuned("quadtree.leaf_group")
    gathered = leaf_level(session.limits, plan.channels, plan.tile)
    constants = {**variant.constants, **NO_CRITERION, "LEAF_LEVEL": gathered}
    kernel, group = plan.kernel(variant.file, "quadtree_leaves", wanted, **constants)
    groups = -(-tiles // tiles_at_once(session.limits, tiles, MAX_LISTED)) if lanes else tiles
    known = {**plan.arguments(), **buffers, "leaves": records}
    session.launch(kernel, groups * group, group, **kernel.among(known))
