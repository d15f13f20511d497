"""Leaves of 16-bit pictures: what is uniform is decided from 16 bits, means are rounded to 8.

The device reduces bands of rows, level by level (`cl/quadtree/upper.cl`), then the levels above the bands. The host
goes from the root down.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass
class _Levels:
    """By level: which nodes are uniform, (rows, columns) bool; their means, (rows, columns, C) uint8."""

    stops: dict[int, npt.NDArray[np.bool_]]
    means: dict[int, npt.NDArray[np.uint8]]

    @classmethod
    def of(cls, picture: Picture, top: int) -> _Levels:
        """Allocate the levels from 1 to `top`."""
        grids = {level: grid(picture.height, picture.width, level) for level in range(1, top + 1)}
        stops = {level: np.zeros(shape, np.bool_) for level, shape in grids.items()}
        return cls(stops, {level: np.zeros((*shape, picture.channels), np.uint8) for level, shape in grids.items()})


def deep_leaves(
    session: runtime.Session, picture: Picture, criterion: Criterion, progress: runtime.Progress
) -> npt.NDArray[np.void] | runtime.Array:
    """Return the leaves of a picture of 16 bits per value in Morton order; on the device for a device array."""
    height, width = picture.height, picture.width
    top = root_level(height, width)
    levels = _Levels.of(picture, top)
    band_level = min(_band_level(session, picture, criterion), top)
    if top:
        rows, columns = grid(height, width, band_level)
        bands = criterion.bands(picture.channels)
        roots: dict[str, npt.NDArray[Any]] = {
            "stats": np.zeros((bands, 2, rows, columns), np.uint64),
            "nodes": np.zeros((rows, columns), np.uint32),
            "extents": np.zeros((bands, rows, columns), np.uint32),  # two 16-bit values each
        }
        for row in range(rows):
            _reduce_band(session, picture, criterion, band_level, row, levels, roots)
            progress.report(row + 1, rows)
        with session.scope() as scope:
            below = {name: (scope.copy_of(nodes), 0) for name, nodes in roots.items()}
            shape = height, width, picture.channels
            _reduce(session, scope, criterion, shape, 0, below, range(band_level + 1, top + 1), PAIRS, levels)
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
    session: runtime.Session,
    picture: Picture,
    criterion: Criterion,
    band_level: int,
    row: int,
    levels: _Levels,
    roots: dict[str, npt.NDArray[Any]],
) -> None:
    """Reduce the rows of nodes number `row` of `band_level`, from level 1 up; their totals go to `roots`."""
    top, bottom = row << band_level, min(row + 1 << band_level, picture.height)
    with session.scope() as scope:
        below = dict.fromkeys(roots, (picture.upload(session, scope, top, bottom), 0))
        shape = bottom - top, picture.width, picture.channels
        made = _reduce(session, scope, criterion, shape, top, below, range(1, band_level + 1), PIXELS, levels)
        for name, nodes in roots.items():
            nodes[..., row, :] = session.download(made[name][0], nodes[..., row, :].shape, nodes.dtype)


def _reduce(
    session: runtime.Session,
    scope: runtime.Scope,
    criterion: Criterion,
    shape: tuple[int, int, int],
    top: int,
    below: Places,
    wanted: range,
    kind: int,
    levels: _Levels,
) -> Places:
    """Reduce (height, width, channels) pixels from row `top` on to `wanted` levels; returns the last one's nodes."""
    height, width, channels = shape
    for level, below, means in reduce_levels(  # noqa: B020 - the nodes of one level are below the next
        session, scope, criterion, shape, wanted, below, kind, STEPS_PER_LEVEL
    ):
        rows, columns = grid(height, width, level)
        place = slice(top >> level, (top >> level) + rows)
        levels.stops[level][place] = session.download(below["nodes"][0], (rows, columns), np.uint32) >= STOP
        levels.means[level][place] = session.download(means, (rows, columns, channels), np.uint8)
    return below


def _records(
    session: runtime.Session, picture: Picture, criterion: Criterion, top: int, levels: _Levels
) -> npt.NDArray[np.void]:
    """From the root down: nodes that are uniform or as small as can be, and within no other such."""
    found: list[tuple[npt.NDArray[Any], npt.NDArray[Any], int, npt.NDArray[np.uint8]]] = []
    is_node = np.ones((1, 1), np.bool_)
    for level in range(top, criterion.floor_level - 1, -1):
        is_last = level == criterion.floor_level
        is_leaf = is_node if is_last else is_node & levels.stops[level]
        y, x = np.nonzero(is_leaf)
        means = levels.means[level] if level else narrowed(picture.on_host(session))
        found.append((x << level, y << level, 1 << level, means[y, x]))
        if not is_last:
            rows, columns = grid(picture.height, picture.width, level - 1)
            forks = is_node & ~is_leaf
            is_node = forks.repeat(2, axis=0)[:rows].repeat(2, axis=1)[:, :columns]
    records = np.zeros(sum(len(part[0]) for part in found), record_dtype(picture.channels, picture.gray))
    at = 0
    for left, upper, size, part in found:
        place = slice(at, at + len(left))
        records["x"][place], records["y"][place], records["size"][place] = left, upper, size
        records["mean"][place] = part.reshape(records["mean"][place].shape)
        at += len(left)
    order = np.argsort(morton(records["x"], records["y"]))
    sorted_bytes = records.view(np.uint8).reshape(len(records), -1)[order]
    return sorted_bytes.reshape(-1).view(records.dtype)
