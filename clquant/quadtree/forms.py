"""The forms of the quadtree kernels, and the sizes that a device's local memory and work-groups admit."""

from __future__ import annotations

from clquant import runtime

# Work-group size of the portable form of `quadtree_totals`.
GROUP = 128
MAX_TILE_LEVEL = 6  # tiles of 64 pixels a side; the variants below are for these
MOST_LISTED = 8  # tiles whose leaves a work-item of the form for CPUs lists, one after another


def _vector_cpu(limits: runtime.Limits) -> bool:
    """Whether a device is a CPU whose compiler is for vectors."""
    return limits.is_cpu and not limits.is_simulator


def _fencing_cpu(limits: runtime.Limits) -> bool:
    """Whether it is one where work-groups can hand each other what they wrote: a fence of its compiler is known."""
    return _vector_cpu(limits) and limits.is_pocl


_LANES: dict[str, int | str] = {"DP4A": 0, "LANES": 1, "ALIGNED": 0}

# The forms for CPUs do not load pixels in words, so that ALIGNED makes no difference: one build does for every picture.
TILE_VARIANTS = (
    runtime.Variant("dp4a", "quadtree/tiles.cl", lambda limits: limits.is_nvidia, {"DP4A": 1, "LANES": 0}),
    runtime.Variant("climbing", "quadtree/tiles.cl", _fencing_cpu, {**_LANES, "CLIMB": 1}),
    runtime.Variant("lanes", "quadtree/tiles.cl", _vector_cpu, {**_LANES, "CLIMB": 0}),
    runtime.Variant("portable", "quadtree/tiles.cl", constants={"DP4A": 0, "LANES": 0}),
)
TOTAL_VARIANTS = (
    runtime.Variant("lanes", "quadtree/totals.cl", _vector_cpu, {"LANES": 1, "ALIGNED": 0}),
    runtime.Variant("portable", "quadtree/totals.cl", constants={"LANES": 0}),
)
LEAF_VARIANTS = (
    runtime.Variant("unrolled", "quadtree/leaves.cl", lambda limits: limits.is_nvidia, {"SERIAL": 0, "UNROLLED": 1}),
    runtime.Variant("lanes", "quadtree/leaves.cl", _vector_cpu, {"SERIAL": 1, "ALIGNED": 0}),
    runtime.Variant("portable", "quadtree/leaves.cl", constants={"SERIAL": 0, "UNROLLED": 0}),
)


def totals_group(limits: runtime.Limits, bands: int) -> int:
    """Most work-items of the portable form of `quadtree_totals` that local memory admits."""
    return max(min(GROUP, limits.local_memory // (10 * bands)), 1)


def tile_level(limits: runtime.Limits, bands: int) -> int:
    """Side of the tiles that one work-group reduces, as a level: the greatest whose local memory the device has."""
    for level in (MAX_TILE_LEVEL, 5):
        cells = 4 ** (level - 3)
        if (cells * 4 // 3 + 1) * (10 * bands + 4) <= limits.local_memory:
            return level
    return 4


def most_tiles(limits: runtime.Limits, bands: int) -> int:
    """Most tiles side by side that a work-item of the form for CPUs reduces, row by row: what a first cache holds."""
    nodes = 64 + 16 + 4 + 1 + 1  # cells of 8x8 pixels of a tile, nodes above, and a place that stays free
    return max(min(8, min(limits.local_memory, 32768) // (nodes * (8 * bands + 4))), 1)


def tiles_at_once(limits: runtime.Limits, tiles: int, most: int) -> int:
    """How many tiles a work-item of a form for CPUs works on, up to `most`: few where few work-items would be left."""
    return max(min(tiles // (16 * limits.compute_units), most), 1)


def leaf_level(limits: runtime.Limits, channels: int, tile: int) -> int:
    """Side of the squares whose leaves one work-group gathers, as a level: the greatest that local memory admits."""
    for level in (5, 4):
        if level <= tile and 4**level * (3 + 4 * -(-channels // 4)) + 1024 <= limits.local_memory:
            return level
    return 3


def upper_span(limits: runtime.Limits, bands: int) -> int:
    """How many levels above the tiles one launch makes, as local memory admits."""
    for span in (4, 3, 2):
        if (4 ** (span - 1) * 4 // 3 + 1) * (18 * bands + 4) <= limits.local_memory:
            return span
    return 1


def group_kernel(
    session: runtime.Session, file: str, name: str, wanted: int, constants: dict[str, int | str]
) -> tuple[runtime.Kernel, int]:
    """A kernel that is built for its work-group size, and that size: `wanted`, halved until the device takes it."""
    group = 1 << (min(wanted, session.limits.work_group).bit_length() - 1)
    while True:
        kernel = session.program(file, **constants, GROUP=group).kernel(name)
        if group <= session.work_group_size(kernel, group):
            return kernel, group
        group //= 2
