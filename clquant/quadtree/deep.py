"""Leaves of 16-bit pictures: what is uniform is decided from 16 bits, means are rounded to 8.

The device reduces bands of rows, level by level (`cl/quadtree/deep.cl`), then the levels above the bands. The host goes
from the root down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.images import Picture, buffer_of
from clquant.images.decode import narrowed
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.device_layout import record_dtype
from clquant.quadtree.geometry import grid, grid_pixels, morton, root_level

STEPS_PER_LEVEL = 257
"""Of 16-bit values in an 8-bit gray level, the unit of thresholds."""
MIN_BAND_LEVEL, MAX_BAND_LEVEL = 1, 12
_GROUP = 16
_NODE_TYPES = {"sums": np.dtype(np.uint64), "squares": np.dtype(np.uint64), "extents": np.dtype((np.uint16, 2))}
"""Of each statistic of a node and band."""

Nodes = dict[str, runtime.Buffer]


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
        shape = (criterion.bands(picture.channels), *grid(height, width, band_level))
        roots = {name: np.zeros(shape, dtype) for name, dtype in _NODE_TYPES.items()}
        for row in range(shape[1]):
            _reduce_band(session, picture, criterion, band_level, row, levels, roots)
            progress.report(row + 1, shape[1])
        with session.scope() as scope:
            below = {name: scope.copy_of(nodes) for name, nodes in roots.items()}
            part = _Part(below["sums"], 0, height, width)
            _reduce(session, scope, picture, criterion, part, below, range(band_level + 1, top + 1), levels)
    records = _records(session, picture, criterion, top, levels)
    if picture.device_array is None:
        return records
    array = session.new_array(records.shape, records.dtype)
    session.write(buffer_of(array), records)
    return session.hand_over(array)


def _band_level(session: runtime.Session, picture: Picture, criterion: Criterion) -> int:
    """Level of the nodes that a band is high, so that its largest arrays, of level 1, fit the device."""
    bands = criterion.bands(picture.channels)
    for level in range(MAX_BAND_LEVEL, MIN_BAND_LEVEL, -1):
        rows = min(1 << level, picture.height)
        nodes = -(-rows // 2) * -(-picture.width // 2)
        largest = max(8 * bands * nodes, rows * picture.width * picture.pixel_bytes)
        if largest <= session.limits.max_alloc and 8 * largest <= session.limits.global_memory:
            return level
    return MIN_BAND_LEVEL


def _limits(criterion: Criterion, sizes: Sequence[int]) -> npt.NDArray[np.uint64]:
    """(4, 4) uint64: pixels of nodes, and high and low word of the most that n^2 times their variance may be."""
    table = np.zeros((4, 4), np.uint64)
    for i, n in enumerate(sizes):
        most = criterion.bound * STEPS_PER_LEVEL**2 * n * n >> 32
        table[i, :3] = n, most >> 64, most % 2**64
    return table


@dataclass(frozen=True)
class _Part:
    """Rows of a picture on the device."""

    pixels: runtime.Buffer  # read for level 1 alone
    top: int
    height: int
    width: int


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
        part = _Part(picture.upload(session, scope, top, bottom), top, bottom - top, picture.width)
        below = dict.fromkeys(_NODE_TYPES, part.pixels)
        made = _reduce(session, scope, picture, criterion, part, below, range(1, band_level + 1), levels)
        for name, nodes in roots.items():
            nodes[:, row] = session.download(made[name], nodes[:, row].shape, nodes.dtype)


def _reduce(
    session: runtime.Session,
    scope: runtime.Scope,
    picture: Picture,
    criterion: Criterion,
    part: _Part,
    below: Nodes,
    wanted: range,
    levels: _Levels,
) -> Nodes:
    """Reduce a part to the `wanted` levels, from the nodes `below`; returns the last level's nodes."""
    channels, bands = picture.channels, criterion.bands(picture.channels)
    for level in wanted:
        constants = {**criterion.constants(channels), "TILE_LEVEL": 4, "FROM_PIXELS": int(level == 1)}
        kernel = session.program("quadtree/deep.cl", **constants).kernel("deep_level")
        below_rows, below_columns = grid(part.height, part.width, level - 1)
        rows, columns = grid(part.height, part.width, level)
        counts = grid_pixels(part.height, part.width, level)
        sizes = [int(counts[y, x]) for y in (0, -1) for x in (0, -1)]
        nodes = rows * columns
        made = {name: scope.empty(dtype.itemsize * bands * nodes) for name, dtype in _NODE_TYPES.items()}
        means, stops = scope.empty(channels * nodes), scope.empty(nodes)
        session.launch(
            *(kernel, (columns, rows), (session.work_group_size(kernel, _GROUP), 1)),
            pixels=part.pixels,
            **{f"below_{name}": buffer for name, buffer in below.items()},
            below_rows=np.uint32(below_rows),
            below_columns=np.uint32(below_columns),
            rows=np.uint32(rows),
            columns=np.uint32(columns),
            sizes=scope.copy_of(_limits(criterion, sizes)),
            range_bound=np.uint64(criterion.bound * STEPS_PER_LEVEL if criterion.name == "range" else 0),
            **made,
            means=means,
            stops=stops,
        )
        first = part.top >> level
        levels.stops[level][first : first + rows] = session.download(stops, (rows, columns), np.uint8) > 0
        levels.means[level][first : first + rows] = session.download(means, (rows, columns, channels), np.uint8)
        below = made
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
