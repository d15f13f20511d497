"""Leaves of 16-bit pictures: what is uniform is decided from 16 bits, means are rounded to 8.

The device reduces bands of rows, level by level (`cl/quadtree/upper.cl`), then the levels above the bands. The host
goes from the root down.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.images import Picture
from clquant.images.decode import narrowed
from clquant.quadtree.assembly import on_device
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.geometry import grid, morton, root_level
from clquant.quadtree.leaf_list import record_dtype
from clquant.quadtree.plan import STOP
from clquant.quadtree.upper import PAIRS, PIXELS, Places, reduce_levels

STEPS_PER_LEVEL = 257
"""Of 16-bit values in an 8-bit gray level, the unit of thresholds."""
MIN_BAND_LEVEL, MAX_BAND_LEVEL = 1, 12


# By level, for bands from top to bottom: which nodes are uniform, (rows, columns); their means, (rows, columns, C).
Levels = dict[int, list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]]]
Nodes = dict[str, npt.NDArray[Any]]


def deep_leaves(
    session: runtime.Session, picture: Picture, criterion: Criterion, progress: runtime.Progress
) -> npt.NDArray[np.void] | runtime.Array:
    """Return the leaves of a picture of 16 bits per value in Morton order; on the device for a device array."""
    height, width = picture.height, picture.width
    top = root_level(height, width)
    levels: Levels = {level: [] for level in range(1, top + 1)}
    if top:
        band_level = min(_band_level(session, picture, criterion), top)
        rows, _ = grid(height, width, band_level)
        roots: list[Nodes] = []
        for row in range(rows):
            roots.append(_reduce_band(session, picture, criterion, band_level, row, levels))
            progress.report(row + 1, rows)
        with session.scope() as scope:
            below = {name: (scope.copy_of(np.concatenate([root[name] for root in roots], -2)), 0) for name in roots[0]}
            shape = height, width, picture.channels
            _reduce(session, scope, criterion, shape, below, range(band_level + 1, top + 1), PAIRS, levels)
    records = _records(session, picture, criterion, top, levels)
    return on_device(session, records) if picture.on_device else records


def _band_level(session: runtime.Session, picture: Picture, criterion: Criterion) -> int:
    """Level of the nodes that a band is high, so that its largest arrays, of level 1, fit the device."""
    bands = criterion.bands(picture.channels)
    for level in range(MAX_BAND_LEVEL, MIN_BAND_LEVEL, -1):
        rows = min(1 << level, picture.height)
        nodes = -(-rows // 2) * -(-picture.width // 2)
        largest = max(16 * bands * nodes, rows * picture.width * picture.pixel_bytes)
        if largest <= session.limits.max_alloc and 4 * largest <= session.limits.global_memory:
            return level
    return MIN_BAND_LEVEL


def _reduce_band(
    session: runtime.Session, picture: Picture, criterion: Criterion, band_level: int, row: int, levels: Levels
) -> Nodes:
    """Reduce the rows of nodes number `row` of `band_level`, from level 1 up; returns their totals."""
    top, bottom = row << band_level, min(row + 1 << band_level, picture.height)
    bands, (_, columns) = criterion.bands(picture.channels), grid(picture.height, picture.width, band_level)
    with session.scope() as scope:
        below = dict.fromkeys(("stats", "nodes", "extents"), (picture.upload(session, scope, top, bottom), 0))
        shape = bottom - top, picture.width, picture.channels
        made = _reduce(session, scope, criterion, shape, below, range(1, band_level + 1), PIXELS, levels)
        return {
            "stats": session.download(made["stats"][0], (bands, 2, 1, columns), np.uint64),
            "nodes": session.download(made["nodes"][0], (1, columns), np.uint32),
            "extents": session.download(made["extents"][0], (bands, 1, columns), np.uint32),  # two 16-bit values each
        }


def _reduce(
    session: runtime.Session,
    scope: runtime.Scope,
    criterion: Criterion,
    shape: tuple[int, int, int],
    below: Places,
    wanted: range,
    kind: int,
    levels: Levels,
) -> Places:
    """Reduce (height, width, channels) pixels to `wanted` levels; returns the last one's nodes."""
    height, width, channels = shape
    for level, below, means in reduce_levels(  # noqa: B020 - the nodes of one level are below the next
        session, scope, criterion, shape, wanted, below, kind, STEPS_PER_LEVEL
    ):
        sides = grid(height, width, level)
        stops = session.download(below["nodes"][0], sides, np.uint32) >= STOP
        levels[level].append((stops, session.download(means, (*sides, channels), np.uint8)))
    return below


def _records(
    session: runtime.Session, picture: Picture, criterion: Criterion, top: int, levels: Levels
) -> npt.NDArray[np.void]:
    """List the leaves from the root down: the largest nodes that are uniform or of the least size."""
    dtype, found, codes = record_dtype(picture.channels, picture.gray), [], []
    is_node = np.ones((1, 1), np.bool_)
    for level in range(top, criterion.floor_level - 1, -1):
        if level:
            stops, means = (np.concatenate(parts) for parts in zip(*levels[level], strict=True))
        else:
            stops, means = is_node, narrowed(picture.on_host(session))
        is_leaf = is_node if level == criterion.floor_level else is_node & stops
        y, x = np.nonzero(is_leaf)
        leaves = np.zeros(len(x), dtype)
        leaves["mean"] = means[y, x].reshape(leaves["mean"].shape)
        x, y = x << level, y << level
        leaves["x"], leaves["y"], leaves["size"] = x, y, 1 << level
        codes.append(morton(x, y))
        found.append(leaves.view(np.uint8).reshape(len(x), dtype.itemsize))  # with their padding
        if level > criterion.floor_level:
            rows, columns = grid(picture.height, picture.width, level - 1)
            is_node = (is_node & ~is_leaf).repeat(2, axis=0)[:rows].repeat(2, axis=1)[:, :columns]
    return np.concatenate(found)[np.argsort(np.concatenate(codes))].reshape(-1).view(dtype)
