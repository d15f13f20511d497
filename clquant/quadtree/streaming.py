"""Trees whose leaves memory does not hold at once: squares of the picture, one after another, in two passes.

The first pass counts leaves and keeps the totals of each square, from which the nodes above the squares follow; the
second lists the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.flow import PictureSource
from clquant.images import Picture
from clquant.quadtree import figures
from clquant.quadtree.assembly import (
    build_square,
    corners_of,
    crown_over,
    reduce_region,
    region_of,
    subtree_level,
    window_of,
)
from clquant.quadtree.builder import QuadtreeBuilder, warn_of_classes
from clquant.quadtree.leaf_list import LeafRun
from clquant.quadtree.render import paint_piece
from clquant.quadtree.subtree import MIN_LEVEL, Root
from clquant.quadtree.upper import Crown

# Bytes of a square for each of its pixels, at most: its leaves in several forms; and, for each value, its pixels.
_LEAF_BYTES, _COPIES = 96, 8
# A row of squares of the drawn picture takes at most this share of the memory.
_ROW_SHARE = 8

Corner = tuple[int, int]


def streamed_bytes(picture: Picture) -> int:
    """Bytes that a whole tree of a picture may take, with its drawing and its pixels."""
    return picture.pixels * (_LEAF_BYTES + _COPIES * picture.channels)


@dataclass(frozen=True)
class Square:
    """An aligned square of the picture, with all leaves that meet it."""

    piece: LeafRun
    leaves: npt.NDArray[np.void]  # the ones that begin in it


class Squares:
    """A picture's tree in squares; iterated, they come in Morton order, and so do their leaves.

    Memory is for squares at work. A picture that is in memory already, as most files' are once decoded, counts beside.

    Attributes
    ----------
    count : int
        Leaves.
    squared_error : int
        Sum of squared differences between the pixels and their leaves' means, over the squares that were yielded.
    """

    def __init__(self, builder: QuadtreeBuilder, picture: Picture, memory: int, progress: runtime.Progress) -> None:
        self._job = builder._job(picture)
        self.session = builder._session(self._job)
        self._progress, self._done, self.squared_error = progress, 0, 0
        self._level = self._level_within(memory)
        self._corners = corners_of(picture.height, picture.width, self._level)
        roots: list[Root] = []
        counts: list[int] = []
        for corner, window in self._windows(self._corners):
            with self.session.scope() as scope:
                region = region_of(self.session, scope, picture, *corner, self._level, window)
                subtree = reduce_region(self.session, scope, self._job, region)
                counts.append(subtree.count())
                roots.append(subtree.root())
        self._crown: Crown = crown_over(self.session, self._job, self._corners, self._level, roots)
        whole = self._crown.cover(self._corners[0])
        if whole is not None and len(self._crown.above) and whole["size"][0] >= max(picture.height, picture.width):
            warn_of_classes(self.session, self._job, whole)
        self.count = sum(self._count(corner, own) for corner, own in zip(self._corners, counts, strict=True))

    def __iter__(self) -> Iterator[Square]:
        return self._squares(self._corners)

    def drawn(self, ink: Sequence[int] | None = None) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield rows of the leaves' picture, (n, W, C), from top to bottom; with RGB ink (n, W, 3) with borders."""
        channels = self._job.picture.channels
        for row in sorted({y for _, y in self._corners}):
            squares = self._squares(sorted(corner for corner in self._corners if corner[1] == row))
            yield np.concatenate([paint_piece(self.session, square.piece, channels, ink) for square in squares], axis=1)

    def tree_bytes(self) -> int:
        """Bytes that the whole tree takes, with its drawing and its pixels, now that its leaves are counted."""
        return self.count * _LEAF_BYTES + self._job.picture.pixels * _COPIES * self._job.picture.channels

    def _level_within(self, memory: int) -> int:
        picture, level = self._job.picture, subtree_level(self.session, self._job)
        pixel = _LEAF_BYTES + _COPIES * picture.channels
        row = _ROW_SHARE * picture.width * (picture.channels + 3)
        while level > MIN_LEVEL and max(pixel << 2 * level, row << level) > memory:
            level -= 1
        return level

    def _windows(self, corners: list[Corner]) -> Iterator[tuple[Corner, npt.NDArray[np.uint8]]]:
        picture = self._job.picture
        wanted = [window_of(picture, x, y, self._level) for x, y in corners]
        source = PictureSource(picture)
        windows = source.windows(wanted)
        if not source.is_stored:
            windows = (source.fetch(*rows)[:, slice(*columns)] for rows, columns in wanted)
        for corner, window in zip(corners, windows, strict=True):
            assert window is not None
            yield corner, window
            self._done += 1
            self._progress.report(self._done, 2 * len(self._corners))

    def _count(self, corner: Corner, own: int) -> int:
        cover = self._crown.cover(corner)
        return own if cover is None else len(self._crown.kept(corner, cover))

    def _squares(self, corners: list[Corner]) -> Iterator[Square]:
        for corner, window in self._windows(corners):
            cover = self._crown.cover(corner)
            if cover is None:
                with self.session.scope() as scope:
                    region = region_of(self.session, scope, self._job.picture, *corner, self._level, window)
                    meeting: Any = build_square(self.session, scope, self._job, region)[0].leaves
            else:
                meeting = cover
            top, left = corner[1] << self._level, corner[0] << self._level
            packed = meeting.view(np.uint8)
            piece = LeafRun(left, top, window.shape[0], window.shape[1], packed, len(meeting))
            self.squared_error += figures.piece_error(self.session, piece, window)
            yield Square(piece, self._crown.kept(corner, meeting))
