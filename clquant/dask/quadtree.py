"""Leaves of a Dask array's quadtree: a subtree per aligned square on the workers, then the nodes above all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, runtime
from clquant.dask.chunks import checked, parts_of, records
from clquant.dask.work import later
from clquant.quadtree.assembly import TreeJob, build_square, corners_of, crown_over, window_of
from clquant.quadtree.builder import QuadtreeBuilder
from clquant.quadtree.geometry import MAX_CHANNELS, root_level
from clquant.quadtree.leaf_list import record_dtype
from clquant.quadtree.plan import Region
from clquant.quadtree.subtree import Root
from clquant.quadtree.upper import Crown

# Least and largest side of a square that a worker reduces, as powers of two.
LEAST_LEVEL, MOST_LEVEL = 6, 12


def leaves(builder: QuadtreeBuilder, image: Any, **_: Any) -> Any:
    """Build the lazy leaves of a picture that workers have."""
    whole = checked(image)
    height, width, channels = (*whole.shape, 1)[:3]
    job = builder._job(images.Picture(height, width, channels, gray=channels == 1))
    side = min(root_level(*whole.chunksize[:2]), MOST_LEVEL)
    level = min(max(LEAST_LEVEL, side), root_level(height, width))
    corners = corners_of(height, width, level)
    parts = parts_of(whole, [window_of(job.picture, x, y, level) for x, y in corners])
    squares = [
        later(f"part at row {y << level}, column {x << level}", partial(_leaves_and_root, job, (x, y), level), part)
        for part, (x, y) in zip(parts, corners, strict=True)
    ]
    crown = later("image", partial(_crown, job, corners, level), [square[1] for square in squares])
    kept = [
        later("image", Crown.kept, crown, corner, square[0]) for corner, square in zip(corners, squares, strict=True)
    ]
    return records(kept, record_dtype(channels, job.picture.gray))


def _crown(job: TreeJob, corners: Sequence[tuple[int, int]], level: int, roots: Sequence[Root]) -> Crown:
    return crown_over(runtime.open_session(None), job, corners, level, roots)


def _leaves_and_root(
    job: TreeJob, corner: tuple[int, int], level: int, pixels: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.void], Root]:
    """Build the subtree of the square (x, y) of a level from its pixels alone."""
    part, session = images.read(np.atleast_3d(pixels), max_channels=MAX_CHANNELS), runtime.open_session(None)
    with session.scope() as scope:
        assert part.array is not None
        size = part.width * part.channels, part.height, part.width
        region = Region(scope.upload(part.array), 0, *size, corner[0] << level, corner[1] << level, level)
        found, root = build_square(session, scope, job, region)
        return found.leaves, root
