"""A tree's levels from the level below: above tiles, above subtrees of a picture that is cut, of 16-bit pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.geometry import cells, grid, root_level
from clquant.quadtree.leaf_list import record_dtype
from clquant.quadtree.plan import STOP

Statistics = npt.NDArray[np.uint64]
Nodes = npt.NDArray[np.uint32]
# Buffers of a level's "stats", "nodes" and "extents", and where they begin there, in elements.
Places = Mapping[str, tuple[runtime.Buffer, int]]
# Kinds of data below a level, as in `cl/quadtree/upper.cl`.
PIXELS, PACKED, PAIRS = range(3)
# Up to this many nodes of a level, one work-group makes them and all levels above.
FEW_NODES = 256
GROUP = 64


def launch_upper(
    session: runtime.Session,
    criterion: Criterion,
    shape: tuple[int, int, int],
    first: int,
    levels: int,
    kind: int,
    below: Places,
    made: Places,
    means: runtime.Buffer,
    scale: int = 1,
) -> None:
    """Queue the making of levels from `first` on, of (height, width, channels) pixels, of those `below`."""
    # `kind` is `BELOW` of the kernel file; `scale` are steps of the pixels' values in an 8-bit gray level.
    height, width, channels = shape
    constants = {**criterion.constants(channels), "TILE_LEVEL": 4, "BELOW": kind, "DEEP": int(scale > 1)}
    kernel = session.program("quadtree/upper.cl", **constants).kernel("quadtree_upper")
    group = session.work_group_size(kernel, session.tuned("quadtree.upper_group") if levels > 1 else GROUP)
    sizes = {"width": width, "height": height, "first": first, "levels": levels, "floor_level": criterion.floor_level}
    given: dict[str, Any] = {name: np.uint32(size) for name, size in sizes.items()}
    for name, (buffer, at) in below.items():
        prefix = "below" if name == "stats" else f"below_{name}"
        given |= {prefix: buffer, f"{prefix}_at": np.uint32(at)}
    for name, (buffer, at) in made.items():
        given |= {name: buffer, f"{name}_at": np.uint32(at)}
    bound = criterion.bound * (scale if criterion.name == "range" else scale**2)
    given["bound"] = np.array([bound >> 64, bound % 2**64], np.uint64)
    given["means"] = means
    session.launch(kernel, group if levels > 1 else cells(height, width, first), group, **given)


def reduce_levels(
    session: runtime.Session,
    scope: runtime.Scope,
    criterion: Criterion,
    shape: tuple[int, int, int],
    wanted: range,
    below: Places,
    kind: int,
    scale: int = 1,
) -> Iterator[tuple[int, Places, runtime.Buffer]]:
    """Make levels one after another, the first from what is `below`: each with its nodes and, if deep, their means."""
    height, width, channels = shape
    bands = criterion.bands(channels)
    for level in wanted:
        count = cells(height, width, level)
        sizes = {"stats": 16 * bands, "nodes": 4, "extents": 4 * bands}
        made: Places = {name: (scope.empty(nbytes * count), 0) for name, nbytes in sizes.items()}
        means = scope.empty(channels * count if scale > 1 else 1)
        launch_upper(session, criterion, shape, level, 1, kind, below, made, means, scale)
        yield level, made, means
        below, kind = made, PAIRS


@dataclass(frozen=True)
class Crown:
    """The nodes above the subtrees of a level; uniform ones take the place of the leaves under them."""

    shape: tuple[int, int, int]  # of the picture
    gray: bool
    level: int
    above: dict[int, tuple[Statistics, Nodes]] = field(default_factory=dict)  # by level

    def kept(self, corner: tuple[int, int], leaves: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Leaves of the subtree (x, y); below a uniform node the first subtree has that node, and the others none."""
        cover = self.cover(corner)
        if cover is None:
            return leaves
        is_first = (int(cover["x"][0]) >> self.level, int(cover["y"][0]) >> self.level) == corner
        return cover if is_first else leaves[:0]

    def cover(self, corner: tuple[int, int]) -> npt.NDArray[np.void] | None:
        """The leaf above the subtree (x, y), an array of one; None if there is none."""
        x, y = corner
        for level in sorted(self.above, reverse=True):
            shift = level - self.level
            if self.above[level][1][y >> shift, x >> shift] >= STOP:
                return self._leaf(x >> shift, y >> shift, level)
        return None

    def _leaf(self, x: int, y: int, level: int) -> npt.NDArray[np.void]:
        height, width, channels = self.shape
        sums = self.above[level][0][:channels, 0, y, x]
        left, top, size = x << level, y << level, 1 << level
        n = np.uint64(min(size, width - left) * min(size, height - top))
        leaf = np.zeros(1, record_dtype(channels, self.gray))
        leaf["x"], leaf["y"], leaf["size"] = left, top, size
        means = ((sums * np.uint64(2) + n) // (np.uint64(2) * n)).astype(np.uint8)
        leaf["mean"] = means[0] if self.gray else means
        return leaf


def crown_of(
    session: runtime.Session,
    criterion: Criterion,
    shape: tuple[int, int, int],
    gray: bool,
    level: int,
    roots: Statistics,
    extents: npt.NDArray[np.uint8],
) -> Crown:
    """Reduce the roots of subtrees, (bands, 2, rows, columns), on the device as the levels above tiles are."""
    # Which nodes stop a split is all that is asked of these levels: leaves are not counted, as there may be 2^32.
    height, width, _ = shape
    crown = Crown(shape, gray, level)
    with session.scope() as scope:
        zeros = scope.zeros(4 * roots[0, 0].size)
        below = {"stats": (scope.copy_of(roots), 0), "nodes": (zeros, 0), "extents": (scope.copy_of(extents), 0)}
        wanted = range(level + 1, root_level(height, width) + 1)
        for upper, made, _ in reduce_levels(session, scope, criterion, shape, wanted, below, PAIRS):
            sides = grid(height, width, upper)
            stats = session.download(made["stats"][0], (len(roots), 2, *sides), np.uint64)
            crown.above[upper] = stats, session.download(made["nodes"][0], sides, np.uint32)
    return crown
