"""From a picture to its leaves and levels: one subtree where the device has room, else several and a crown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.flow.source import PORTIONS_IN_MEMORY, PictureSource, Window
from clquant.images import Picture, buffer_of
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.geometry import cells, grid, morton, root_level
from clquant.quadtree.leaf_list import record_dtype
from clquant.quadtree.leaves import launch_leaves
from clquant.quadtree.levels import Words
from clquant.quadtree.plan import MAX_TILE_LEVEL, Plan, Region
from clquant.quadtree.subtree import MIN_LEVEL, Root, Subtree
from clquant.quadtree.upper import Crown, crown_of


@dataclass
class TreeJob:
    """A picture to decompose; with `levels`, the statistics of every node are kept besides the leaves."""

    picture: Picture
    criterion: Criterion
    levels: bool


@dataclass
class Decomposition:
    """The result of a `TreeJob`."""

    leaves: Any  # of `record_dtype`, in Morton order
    words: dict[int, Words] = field(default_factory=dict)  # by level from 1 on, where every level is kept


def _buffer_bytes(job: TreeJob, height: int, width: int, leaves: int | None = None) -> list[int]:
    """Bytes of the greatest buffers that a subtree of so many pixels needs, for so many leaves or as many as can be."""
    channels = job.picture.channels
    bands = job.criterion.bands(channels)
    low = 4 * bands * (cells(height, width, 1) + cells(height, width, 2)) if job.levels else 0
    listed = cells(height, width, job.criterion.floor_level) if leaves is None else leaves
    records = listed * record_dtype(channels, False).itemsize
    stats = 8 * bands * sum(cells(height, width, level) for level in range(3, MAX_TILE_LEVEL + 1))
    return [height * width * channels, low, records, stats, cells(height, width, 2)]


def _fits(session: runtime.Session, needed: list[int]) -> bool:
    """Whether the device has room for buffers of so many bytes, which kernels address by 32 bits."""
    limits = session.limits
    return max(needed) <= min(limits.max_alloc, (1 << 32) - 1) and sum(needed) <= limits.global_memory * 4 // 5


def _is_readable(job: TreeJob, height: int, width: int) -> bool:
    """Whether so many pixels may be on the host at once; always of a picture that is in memory."""
    source = PictureSource(job.picture)
    return not source.is_stored or height * width * job.picture.channels * PORTIONS_IN_MEMORY <= source.memory


def subtree_level(session: runtime.Session, job: TreeJob) -> int:
    """Level of the subtrees that the device, and of a lazy picture the host, has room for, whatever it holds."""
    height, width = job.picture.height, job.picture.width
    level = root_level(height, width)
    while level > MIN_LEVEL:
        side = 1 << level
        shape = min(side, height), min(side, width)
        if _is_readable(job, *shape) and _fits(session, _buffer_bytes(job, *shape)):
            break
        level -= 1
    return level


def corners_of(height: int, width: int, level: int) -> list[tuple[int, int]]:
    """(x, y) of the subtrees of a level, in grid units and Morton order."""
    rows, columns = grid(height, width, level)
    y, x = np.divmod(np.arange(rows * columns), columns)
    order = np.argsort(morton(x, y))
    return list(zip(x[order].tolist(), y[order].tolist(), strict=True))


def window_of(picture: Picture, x: int, y: int, level: int) -> Window:
    """Rows and columns of the subtree (x, y) of a level."""
    left, top = x << level, y << level
    return (top, min(top + (1 << level), picture.height)), (left, min(left + (1 << level), picture.width))


def region_of(
    session: runtime.Session,
    scope: runtime.Scope,
    picture: Picture,
    x: int,
    y: int,
    level: int,
    window: npt.NDArray[np.uint8] | None = None,
) -> Region:
    """Put the pixels of subtree (x, y) on the device; `window` has those of a lazy picture."""
    (top, bottom), (left, right) = window_of(picture, x, y, level)
    size, whole, origin = (bottom - top, right - left), None, 0
    if picture.device_array is not None:
        whole, origin = buffer_of(picture.device_array), picture.device_array.offset
    elif window is None and picture.array is not None and picture.array.nbytes <= session.limits.max_alloc:
        whole = scope.wrapped(picture.array)
    if whole is not None:
        row_bytes = picture.width * picture.channels
        origin += top * row_bytes + left * picture.channels
        return Region(whole, origin, row_bytes, *size, left, top, level)
    if window is None:
        window = PictureSource(picture).fetch(top, bottom)[:, left:right]
    pixels = scope.upload(np.ascontiguousarray(window))
    return Region(pixels, 0, size[1] * picture.channels, *size, left, top, level)


def decompose(session: runtime.Session, job: TreeJob, progress: runtime.Progress) -> Decomposition:
    """Build the tree of a picture."""
    picture = job.picture
    height, width = picture.height, picture.width
    if _is_readable(job, height, width) and _fits(session, _buffer_bytes(job, height, width, leaves=0)):
        with session.scope() as scope:
            subtree = reduce_region(
                session, scope, job, region_of(session, scope, picture, 0, 0, root_level(height, width))
            )
            count = subtree.count()
            progress.report(1, 2)
            if _fits(session, _buffer_bytes(job, height, width, count)):
                result = _finish(subtree, job, count, picture.on_device)
                progress.report(2, 2)
                return result
    return _in_squares(session, job, subtree_level(session, job), progress)


def reduce_region(session: runtime.Session, scope: runtime.Scope, job: TreeJob, region: Region) -> Subtree:
    """Queue the reduction of a region."""
    subtree = Subtree(Plan(session, region, job.picture.channels, job.criterion), scope, job.levels)
    subtree.reduce()
    return subtree


def whole_subtree(
    session: runtime.Session, scope: runtime.Scope, picture: Picture, criterion: Criterion
) -> Subtree | None:
    """Reduce a picture on the device as one subtree with all statistics; None if there is no room."""
    job = TreeJob(picture, criterion, levels=True)
    if not _fits(session, _buffer_bytes(job, picture.height, picture.width, leaves=0)):
        return None
    region = region_of(session, scope, picture, 0, 0, root_level(picture.height, picture.width))
    return reduce_region(session, scope, job, region)


def _finish(subtree: Subtree, job: TreeJob, count: int, on_device: bool) -> Decomposition:
    """Return a subtree's leaves and the statistics that the job needs; only with `on_device` the leaves stay there."""
    session, dtype = subtree.session, record_dtype(subtree.plan.channels, job.picture.gray)
    leaves: Any
    if on_device:
        leaves = session.new_array((count,), dtype)
        launch_leaves(subtree.plan, subtree.buffers, buffer_of(leaves))
        session.hand_over(leaves)
    else:
        host = runtime.HostResult(session, (count,), dtype)
        records = host.room(subtree.scope, 0, count)
        launch_leaves(subtree.plan, subtree.buffers, records)
        host.store(subtree.scope, 0, count, records)
        leaves = host.array()
    return Decomposition(leaves, subtree.statistics() if job.levels else {})


def build_square(
    session: runtime.Session, scope: runtime.Scope, job: TreeJob, region: Region
) -> tuple[Decomposition, Root]:
    """Build the subtree of an aligned square of the picture."""
    subtree = reduce_region(session, scope, job, region)
    return _finish(subtree, job, subtree.count(), False), subtree.root()


def crown_over(
    session: runtime.Session, job: TreeJob, corners: Sequence[tuple[int, int]], level: int, roots: Sequence[Root]
) -> Crown:
    """Build the nodes above the subtrees of a level."""
    picture, (bands, channels) = job.picture, (len(roots[0][0]), len(roots[0][1]))
    shape = grid(picture.height, picture.width, level)
    sums, extents = np.zeros((bands, 2, *shape), np.uint64), np.zeros((channels, *shape, 2), np.uint8)
    for (root, ends), (x, y) in zip(roots, corners, strict=True):
        sums[:, :, y, x], extents[:, y, x] = root, ends
    size = picture.height, picture.width, channels
    return crown_of(session, job.criterion, size, picture.gray, level, sums, extents)


def _in_squares(session: runtime.Session, job: TreeJob, level: int, progress: runtime.Progress) -> Decomposition:
    """Build a tree that the device has no room for at once: subtrees one after another, then the nodes above them."""
    picture = job.picture
    corners = corners_of(picture.height, picture.width, level)
    result = Decomposition(None)
    parts: list[npt.NDArray[np.void]] = []
    roots: list[Root] = []
    wanted = (window_of(picture, x, y, level) for x, y in corners)
    windows = PictureSource(picture).windows(wanted)
    for (x, y), window in zip(corners, windows, strict=False):
        with session.scope() as scope:
            found, root = build_square(session, scope, job, region_of(session, scope, picture, x, y, level, window))
            _take_levels(result.words, picture, level, found.words, x, y)
        parts.append(found.leaves)
        roots.append(root)
        progress.report(len(parts), len(corners))
    crown = crown_over(session, job, corners, level, roots)
    if job.levels:
        result.words |= {above: words[: picture.channels] for above, (words, _) in crown.above.items()}
    chosen = [crown.kept(corner, part) for corner, part in zip(corners, parts, strict=True)]
    # As bytes: concatenating records would leave their padding undefined.
    records = np.concatenate([part.view(np.uint8) for part in chosen])
    result.leaves = records.view(chosen[0].dtype)
    if picture.on_device:
        result.leaves = on_device(session, result.leaves)
    return result


def on_device(session: runtime.Session, records: npt.NDArray[np.void]) -> runtime.Array:
    """Return leaves as a device array."""
    array = session.new_array(records.shape, records.dtype)
    session.write(buffer_of(array), records)
    return session.hand_over(array)


def _take_levels(whole: dict[int, Words], picture: Picture, top: int, part: dict[int, Words], x: int, y: int) -> None:
    """Put the levels of the subtree (x, y), up to its root of level `top`, in their place in the picture's."""
    for level, words in part.items():
        if level not in whole:
            sides = grid(picture.height, picture.width, level)
            whole[level] = np.zeros((*words.shape[:-2], *sides), words.dtype)
        shift, (height, width) = top - level, words.shape[-2:]
        row, column = y << shift, x << shift
        whole[level][..., row : row + height, column : column + width] = words
