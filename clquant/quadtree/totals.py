"""Statistics of tiles alone, from which a top-down decomposition begins, and those of listed leaves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clquant import runtime
from clquant.quadtree.plan import Launch, Plan, is_vector_cpu

GROUP = 128  # most work-items of the portable form
# Constants of kernels that decide nothing: one build for all criteria.
NO_CRITERION: dict[str, int | str] = {"CRITERION": 0, "WEIGHT_LIST": "0"}

VARIANTS = (
    runtime.Variant("lanes", "quadtree/totals.cl", is_vector_cpu, {"LANES": 1, "ALIGNED": 0}, gain=2.1),
    runtime.Variant("portable", "quadtree/totals.cl", constants={"LANES": 0}),
)


def totals_group(limits: runtime.Limits, bands: int) -> int:
    """Most work-items of the portable form that local memory admits."""
    return max(min(GROUP, limits.local_memory // (10 * bands)), 1)


def totals_launch(plan: Plan, buffers: Mapping[str, runtime.Buffer]) -> Launch:
    """The launch of `quadtree_totals`; of the buffers it fills the tiles' part of `stats`, `nodes` and `extents`."""
    variant = plan.form(VARIANTS)
    wanted = 1 if variant.name == "lanes" else totals_group(plan.session.limits, plan.bands)
    kernel, group = plan.kernel(variant.file, "quadtree_totals", wanted, **variant.constants)
    below = plan.cells_from(3, plan.tile)
    stored = {name: buffers[name] for name in ("stats", "nodes", "extents")}
    places = {"stats_at": np.uint32(plan.bands * below), "nodes_at": np.uint32(below)}
    given = {**plan.geometry(), **plan.params(), **stored, **places}
    return Launch(kernel, plan.cells[plan.tile] * group, group, given)


def leaf_sums_launch(
    plan: Plan,
    buffers: Mapping[str, runtime.Buffer],
    leaves: tuple[runtime.Buffer, int],
    results: tuple[runtime.Buffer, runtime.Buffer],
) -> Launch:
    """Return the launch of `quadtree_leaf_sums`: exact sums and squares of the given (records, count)."""
    session, (records, count) = plan.session, leaves
    constants = plan.constants(GROUP=1, LANES=0, **NO_CRITERION)
    kernel = session.program("quadtree/totals.cl", **constants).kernel("quadtree_leaf_sums")
    given = {
        **plan.geometry(),
        **plan.corner(),
        "leaves": records,
        "count": np.uint32(count),
        "stats": buffers["stats"],
        "upper": buffers["upper"],
        "sums": results[0],
        "squares": results[1],
    }
    return Launch(kernel, count, session.work_group_size(kernel, 64), given)
