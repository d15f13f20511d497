"""A tree's nodes in the paper's complete array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, runtime
from clquant.quadtree.assembly import whole_subtree
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.geometry import MAX_CHANNELS, grid, grid_pixels, paper_positions, root_level
from clquant.quadtree.leaf_list import LeafList
from clquant.quadtree.levels import INSIDE, Levels, deviations
from clquant.quadtree.subtree import StoredWords, Subtree
from clquant.runtime import bound

EXACT_LEVELS = 12  # levels whose nodes have fewer than 2^24 pixels, so that n squares - sum^2 fits a word
DEVICE_SHARE = 8  # of the device's memory, for records that are there at once
ITEM_NODES = 16  # nodes per work-item, as in the kernel file
GROUP = 64


def record_dtype(channels: int) -> np.dtype[np.void]:
    """Return the dtype of the complete array's nodes (see `Quadtree.to_array`)."""
    fields: list[Any] = [("kind", "u1"), ("mean", "u1", (channels,)), ("deviation", "f8", (channels,))]
    return np.dtype(fields)


class PaperLayout:
    """The paper's complete array of a tree, computed on a device with doubles."""

    # `pixels` are those that the statistics are of; `complete` gives nodes within leaves statistics too.

    def __init__(
        self,
        session: runtime.Session,
        leaves: LeafList,
        pixels: npt.NDArray[np.uint8],
        criterion: Criterion,
        complete: bool,
    ) -> None:
        self._session, self._leaves, self._pixels = session, leaves, pixels
        self._criterion, self._complete = criterion, complete

    def array(self) -> npt.NDArray[np.void] | None:
        """All nodes; None if the device has no doubles, or no room for the whole tree at once."""
        session, leaves = self._session, self._leaves
        if not session.limits.fp64 or leaves.records.nbytes > session.limits.max_alloc:
            return None
        picture = images.read(self._pixels, max_channels=MAX_CHANNELS)
        with session.scope() as scope:
            subtree = whole_subtree(session, scope, picture, self._criterion)
            if subtree is None:
                return None
            root, dtype = subtree.plan.top, record_dtype(leaves.channels)
            count = (4 ** (root + 1) - 1) // 3
            result = runtime.HostResult(session, (count,), dtype)
            records = scope.upload(leaves.records.view(np.uint8))
            nbytes, limits = count * dtype.itemsize, session.limits
            # All levels in one buffer: CPUs write them where they are to be, and elsewhere one long copy brings them.
            room = limits.max_alloc if result.in_place(limits, nbytes) else limits.global_memory // DEVICE_SHARE
            whole = result.room(scope, 0, count) if nbytes <= min(room, limits.max_alloc) else None
            for level in range(root + 1):
                self._write(level, records, subtree.words_of(level), result, whole)
            if whole is not None:
                result.store(scope, 0, count, whole)
            nodes = result.array()
            for level in range(EXACT_LEVELS, root + 1):
                self._correct(level, subtree, nodes)
        return nodes

    def _write(
        self,
        level: int,
        leaves: runtime.Buffer,
        words: StoredWords,
        result: runtime.HostResult,
        whole: runtime.Buffer | None,
    ) -> None:
        """The records of a level: into the buffer of all, if there is one, else in bands into the result."""
        session, own = self._session, self._leaves
        constants = {"CHANNELS": own.channels, "WORDS": words.form, "COMPLETE": int(self._complete)}
        kernel = session.program("quadtree/paper_layout.cl", **constants).kernel("quadtree_records")
        group, record_bytes = session.work_group_size(kernel, GROUP), record_dtype(own.channels).itemsize
        depth = root_level(own.height, own.width) - level
        begin, count = (4**depth - 1) // 3, 4**depth
        sizes = {"count": len(own.records), "width": own.width, "height": own.height, "level": level}
        picture = {name: np.uint32(number) for name, number in sizes.items()}

        def launch(first: int, nodes: int, target: runtime.Buffer, offset: int) -> None:
            session.launch(
                *(kernel, -(-nodes // ITEM_NODES), group),
                leaves=leaves,
                **picture,
                words=words.buffer,
                begin=np.uint64(words.begin),
                first=np.uint32(first),
                nodes=np.uint32(nodes),
                records=target,
                offset=np.uint64(offset),
            )

        if whole is not None:
            launch(0, count, whole, begin * record_bytes)
            return
        most = min(bound("paper_layout.band"), session.limits.max_alloc) // record_bytes // ITEM_NODES * ITEM_NODES
        for first in range(0, count, most):
            with session.scope() as scope:
                nodes = min(most, count - first)
                target = result.room(scope, begin + first, begin + first + nodes)
                launch(first, nodes, target, 0)
                result.store(scope, begin + first, begin + first + nodes, target)

    def _correct(self, level: int, subtree: Subtree, nodes: npt.NDArray[np.void]) -> None:
        """Deviations of nodes of 2^24 pixels and more, in integers of any length."""
        height, width, channels = self._pixels.shape
        words, rows_columns = subtree.words_of(level), grid(height, width, level)
        shape = (subtree.plan.bands, 2, *rows_columns)
        stored = self._session.download(words.buffer, shape, np.uint64, 8 * words.begin)[:channels]
        sums, squares = (np.moveaxis(stored[:, part], 0, -1) for part in (0, 1))
        found = deviations(sums, squares, grid_pixels(height, width, level))
        depth = root_level(height, width) - level
        at = (4**depth - 1) // 3 + paper_positions(*rows_columns)
        known = np.ones(rows_columns, np.bool_) if self._complete else nodes["kind"][at] != INSIDE
        nodes["deviation"][at[known]] = found[known]


def complete_array(levels: Levels, channels: int) -> npt.NDArray[np.void]:
    """All nodes of the complete tree, the children of i at 4i + 1 to 4i + 4 (see `Quadtree.to_array`), on the host."""
    nodes = np.zeros((4 ** len(levels) - 1) // 3, record_dtype(channels))
    for depth, level in enumerate(levels):
        at = (4**depth - 1) // 3 + paper_positions(*level.kinds.shape)
        nodes["kind"][at], nodes["mean"][at], nodes["deviation"][at] = level.kinds, level.means, level.deviations
    return nodes
