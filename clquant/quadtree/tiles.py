"""The levels of a subtree up to its tiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clquant import runtime
from clquant.quadtree.geometry import grid
from clquant.quadtree.plan import MAX_TILE_LEVEL, Plan, tiles_at_once

# The form for CPUs does not load pixels in words, so that ALIGNED makes no difference: one build does for all.
VARIANTS = (
    runtime.Variant("lanes", "quadtree/tiles.cl", runtime.Limits.has_lanes, {"LANES": 1, "ALIGNED": 0}, gain=2.46),
    runtime.Variant("portable", "quadtree/tiles.cl", constants={"LANES": 0}),
)


def max_tiles(limits: runtime.Limits, bands: int) -> int:
    """Most tiles side by side that a work-item of the form for CPUs reduces, row by row: what a first cache holds."""
    nodes = 64 + 16 + 4 + 1 + 1  # cells of 8x8 pixels of a tile, nodes above, and a place that stays free
    return max(min(8, min(limits.local_memory, 32768) // (nodes * (8 * bands + 4))), 1)


def launch_tiles(plan: Plan, buffers: Mapping[str, runtime.Buffer], store_low: bool) -> None:
    """Queue `quadtree_tiles`; `low` gets the statistics of levels 1 and 2 if `store_low`."""
    # The form for CPUs is for the largest tiles, of sums.
    is_plain = plan.criterion.name == "range" or plan.tile < MAX_TILE_LEVEL
    variant = VARIANTS[-1] if is_plain else plan.session.choose(VARIANTS)
    lanes = variant.name == "lanes"
    limits = plan.session.limits
    most = max_tiles(limits, plan.bands) if lanes else 1
    wanted = 1 if lanes else plan.session.tuned("quadtree.tile_group")
    constants = {**variant.constants, "STORE_LOW": int(store_low), "MAX_TILES": most}
    kernel, group = plan.kernel(variant.file, "quadtree_tiles", wanted, **constants)
    rows, columns = grid(plan.region.height, plan.region.width, plan.tile)
    across = tiles_at_once(limits, plan.cells[plan.tile], most)
    known = {**plan.arguments(), **buffers, "across": np.uint32(across)}
    plan.session.launch(kernel, rows * -(-columns // across) * group, group, **kernel.among(known))
