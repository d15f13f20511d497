"""Leaves of quadtrees from Dask arrays: a subtree per aligned square, then the few nodes above all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import delayed
from dask.highlevelgraph import HighLevelGraph

from clquant import images
from clquant.dask.chunks import checked, parts_of
from clquant.dask.work import named, told
from clquant.images import Picture
from clquant.quadtree.assembly import Square, TreeJob, corners_of, square_of, window_of
from clquant.quadtree.builder import QuadtreeBuilder
from clquant.quadtree.device_layout import record_dtype
from clquant.quadtree.geometry import MAX_CHANNELS, grid, root_level
from clquant.quadtree.upper import Crown, crown_of
from clquant.runtime import open_session

# Least and largest side of a square that becomes a task, as powers of two.
LEAST_LEVEL, MOST_LEVEL = 6, 12

Corner = tuple[int, int]


def leaves(engine: QuadtreeBuilder, image: Any, **_: Any) -> Any:
    """Build the lazy leaves of `QuadtreeBuilder.leaves`: one structured chunk per aligned square, in Morton order."""
    whole = checked(image)
    height, width, channels = (*whole.shape, 1)[:3]
    job = engine._job(Picture(height, width, channels, gray=channels == 1))
    wanted = root_level(*whole.chunksize[:2])
    level = min(max(LEAST_LEVEL, min(wanted, MOST_LEVEL)), root_level(height, width))
    corners = list(corners_of(height, width, level))
    parts = parts_of(whole, [window_of(job.picture, *corner, level) for corner in corners])
    build, keep = delayed(named(_square), pure=True), delayed(Crown.kept, pure=True)
    squares = [build(part, job, corner, level) for part, corner in zip(parts, corners, strict=True)]
    crown = delayed(named(_crown), pure=True)([(each.root, each.extents) for each in squares], job, corners, level)
    kept = [keep(crown, corner, square.leaves) for corner, square in zip(corners, squares, strict=True)]
    # `dask.array.concatenate` would give the records another layout.
    name, dtype = f"leaves-{kept[0].key}", record_dtype(channels, job.picture.gray)
    graph = HighLevelGraph.from_collections(name, {(name, i): one.key for i, one in enumerate(kept)}, kept)
    return da.Array(graph, name, ((np.nan,) * len(kept),), dtype, meta=np.empty((0,), dtype))


def _square(part: npt.NDArray[Any], job: TreeJob, corner: Corner, level: int) -> Square:
    with told(f"part at row {corner[1] << level}, column {corner[0] << level}"):
        picture = images.read(np.asarray(part), max_channels=MAX_CHANNELS)
        return square_of(open_session(None), picture, job.criterion, corner, level)


def _crown(roots: Sequence[Any], job: TreeJob, corners: Sequence[Corner], level: int) -> Crown:
    picture, (bands, channels) = job.picture, (len(roots[0][0]), len(roots[0][1]))
    shape = grid(picture.height, picture.width, level)
    sums, extents = np.zeros((bands, 2, *shape), np.uint64), np.zeros((channels, *shape, 2), np.uint8)
    for (root, ends), (x, y) in zip(roots, corners, strict=True):
        sums[:, :, y, x], extents[:, y, x] = root, ends
    size = picture.height, picture.width, channels
    return crown_of(open_session(None), job.criterion, size, picture.gray, level, sums, extents)
