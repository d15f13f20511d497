"""Subtrees to work with: new ones, or for small pictures those of earlier ones of the same shape."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from clquant import runtime
from clquant.quadtree import tiles
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.plan import Plan, Region
from clquant.quadtree.subtree import Subtree

MAX_CACHED_VALUES = 1 << 22
"""Values of a region up to which its buffers and launches are kept for the next of its shape: larger ones take so long
that preparing does not count."""


@contextlib.contextmanager
def open_subtree(
    session: runtime.Session, region: Region, channels: int, criterion: Criterion, store_low: bool
) -> Iterator[Subtree]:
    """Lend a region's subtree, its reduction queued, while the block runs; maybe one that another region had."""
    values = region.height * region.width * channels
    if values > MAX_CACHED_VALUES or not session.limits.unified_memory:
        with session.scope() as scope:
            subtree = Subtree(Plan(session, region, channels, criterion), scope, store_low)
            subtree.reduce()
            yield subtree
        return
    shape = (region.height, region.width, region.level, region.pitch, region.origin % 4, channels)
    form = session.choose(tiles.VARIANTS).name  # the leaves' form follows from it
    groups = tuple(session.tuned(f"quadtree.{name}_group") for name in ("tile", "upper", "leaf"))
    key = ("quadtree", shape, criterion, store_low, form, groups)

    def make(scope: runtime.Scope) -> Subtree:
        return Subtree(Plan(session, region, channels, criterion), scope, store_low, cached=True)

    with runtime.cached_job(session, key, make) as subtree:
        idle, subtree.plan.region = subtree.plan.region, region
        try:
            subtree.reduce()
            yield subtree
        finally:
            # The next job brings its own pixels.
            subtree.plan.region = idle if idle is not region else replace(region, pixels=subtree.buffers["flags"])
