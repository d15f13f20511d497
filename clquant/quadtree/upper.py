"""The levels above a subtree's tiles, and above the subtrees of a picture that is cut."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.device_layout import STOP, record_dtype
from clquant.quadtree.geometry import cells, grid, root_level
from clquant.quadtree.plan import Launch

Statistics = npt.NDArray[np.uint64]
Nodes = npt.NDArray[np.uint32]


def upper_span(limits: runtime.Limits, bands: int) -> int:
    """How many levels above the tiles one launch makes, as local memory admits."""
    for span in (4, 3, 2):
        if (4 ** (span - 1) * 4 // 3 + 1) * (18 * bands + 4) <= limits.local_memory:
            return span
    return 1


def upper_launch(
    session: runtime.Session,
    constants: dict[str, int | str],
    shape: tuple[int, int],
    first: int,
    levels: int,
    criterion: Criterion,
    below: tuple[runtime.Buffer, int, bool],
    stats: tuple[runtime.Buffer, int],
    nodes: tuple[runtime.Buffer, int, int],
    extents: tuple[runtime.Buffer, int, int],
) -> Launch:
    """Return the launch of `quadtree_upper`: it computes `levels` levels from `first` on out of the level below."""
    # `below` is the buffer of level first - 1, its place in 64-bit words, and whether a word holds both sums as those
    # of tiles do; `stats` the buffer and the first level's place. `nodes` and `extents` are buffers with the places, in
    # entries, of level first - 1, which is read, and of level `first`.
    height, width = shape
    span = upper_span(session.limits, criterion.bands(int(constants["CHANNELS"])))
    upper = {**constants, "ALIGNED": 0, "SPAN": span}  # it reads no pixels: one build for both
    kernel, group = runtime.kernel_for_group(
        session,
        session.tuned("quadtree.upper_group"),
        lambda group: session.program("quadtree/upper.cl", **upper, GROUP=group).kernel("quadtree_upper"),
    )
    buffers = {"below": below[0], "stats": stats[0], "nodes": nodes[0], "extents": extents[0]}
    numbers = {
        "below_at": below[1],
        "packed": below[2],
        "stats_at": stats[1],
        "below_nodes_at": nodes[1],
        "nodes_at": nodes[2],
        "below_extents_at": extents[1],
        "extents_at": extents[2],
        "width": width,
        "height": height,
        "first": first,
        "levels": levels,
        "floor_level": criterion.floor_level,
    }
    given = {**buffers, **{name: np.uint32(number) for name, number in numbers.items()}}
    items = cells(height, width, first + span - 1) * group
    return Launch(kernel, items, group, {**given, "bound": np.uint64(criterion.bound)})


@dataclass(frozen=True)
class Crown:
    """The nodes above the subtrees of a level; uniform ones take the place of the leaves under them."""

    shape: tuple[int, int, int]  # of the picture
    gray: bool
    level: int
    above: dict[int, tuple[Statistics, Nodes]] = field(default_factory=dict)  # by level

    def kept(self, corner: tuple[int, int], leaves: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Leaves of the subtree (x, y); below a uniform node the first subtree has that node, and the others none."""
        x, y = corner
        for level in sorted(self.above, reverse=True):
            shift = level - self.level
            if self.above[level][1][y >> shift, x >> shift] >= STOP:
                first = (x >> shift << shift, y >> shift << shift) == corner
                return self._leaf(x >> shift, y >> shift, level) if first else leaves[:0]
        return leaves

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
    height, width, channels = shape
    bands, crown = len(roots), Crown(shape, gray, level)
    constants = {**criterion.constants(channels), "TILE_LEVEL": 4, "ALIGNED": 0}
    below, nodes_below, extents_below = roots, np.zeros(roots.shape[2:], np.uint32), extents
    with session.scope() as scope:
        for upper in range(level + 1, root_level(height, width) + 1):
            rows, columns = grid(height, width, upper)
            count = rows * columns
            stats = scope.empty(16 * bands * count)
            nodes = scope.copy_of(np.concatenate([nodes_below.ravel(), np.zeros(count, np.uint32)]))
            tail = np.zeros((channels * count, 2), np.uint8)
            made = scope.copy_of(np.concatenate([extents_below.reshape(-1, 2), tail]))
            kernel, items, group, arguments = upper_launch(
                session,
                constants,
                (height, width),
                upper,
                1,
                criterion,
                (scope.copy_of(below), 0, False),
                (stats, 0),
                (nodes, 0, nodes_below.size),
                (made, 0, extents_below.size // 2),
            )
            session.launch(kernel, items, group, **arguments)
            nodes_below = session.download(nodes, (rows, columns), np.uint32, 4 * nodes_below.size)
            extents_below = session.download(made, (channels, rows, columns, 2), np.uint8, extents_below.size)
            below = session.download(stats, (bands, 2, rows, columns), np.uint64)
            crown.above[upper] = below, nodes_below
    return crown
