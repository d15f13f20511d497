"""Sums of the blocks of each codeword on the device: their tables and launches.

The kernels are in `cl/training/accumulate.h`, which the program of the Lloyd steps includes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from clquant.runtime import LocalMemory, PreparedLaunch, Scope, Session
from clquant.training.blockset import BlockSet, Piece

if TYPE_CHECKING:
    from clquant.training.lloyd import Lloyd

RUN = 64  # blocks in the order of codewords that a work-item adds up
_MOST_ALONE, _MOST_COMPONENTS = 1 << 16, 1 << 20  # blocks, and their components, that are added without sorting
_EACH, _MANY_EACH = 16, 64  # blocks that a work-item counts; of many blocks where there are many codewords
_MANY, _MANY_BINS, _MOST_BINS = 1 << 20, 1024, 8192  # the last: codewords up to which groups count by themselves first
_GROUP = 256


class Sums:
    """Adds up the blocks of each codeword: `parts` tables of sums in the layout of `cl/training/lloyd.cl`."""

    def __init__(self, session: Session, scope: Scope, blocks: BlockSet, capacity: int, in_parts: bool) -> None:
        self._session = session
        self._blocks = blocks
        self._capacity = capacity
        self._in_parts = in_parts
        halves = 2 if blocks.weights is not None or blocks.shape.is_deep else 1
        each = 4 * halves * capacity * (blocks.shape.components + 1)
        self.parts = 1
        if in_parts:
            room = session.limits.max_alloc // each
            self.parts = max(1, min(session.limits.compute_units, room, blocks.count // capacity))
        else:
            largest = max(piece.count for piece in blocks.pieces)
            self._order, self._ranks = scope.empty(8 * largest), scope.empty(4 * largest)
            self._counts, self._starts = scope.zeros(4 * capacity), scope.empty(4 * capacity)
        self.tables = scope.zeros(self.parts * each)

    def prepare(self, lloyd: Lloyd, piece: Piece, own: Mapping[str, Any]) -> list[PreparedLaunch]:
        """The launches for a piece of the blocks, in order; `own` are the piece's arguments by their names."""
        if self._in_parts:
            share = np.uint32(-(-piece.count // self.parts))
            return [lloyd.prepare("vq_accumulate_parts", self.parts, 1, share=share, **own)]

        def prepared(name: str, items: int, **more: object) -> PreparedLaunch:
            sorting = {"order": self._order, "ranks": self._ranks, "counts": self._counts, "starts": self._starts}
            return lloyd.prepare(name, items, lloyd.lanes(name, _GROUP), **{**own, **sorting, **more})

        words, capacity = self._blocks.shape.words, self._capacity
        if piece.count * self._blocks.shape.components <= _MOST_COMPONENTS and piece.count <= _MOST_ALONE:
            return [prepared("vq_accumulate", piece.count * words, run=np.uint32(1))]
        within = capacity <= min(_MOST_BINS, self._session.limits.local_memory // 8)
        bins = {"bins": np.uint32(capacity if within else 0), "own": LocalMemory(4 * capacity if within else 4)}
        each = _MANY_EACH if piece.count >= _MANY and capacity > _MANY_BINS else _EACH
        lanes = lloyd.lanes("vq_starts", _GROUP)
        return [
            prepared("vq_count", -(-piece.count // each), each=np.uint32(each), **bins),
            prepared("vq_starts", lanes, sums=LocalMemory(4 * lanes)),
            prepared("vq_order", piece.count),
            prepared("vq_accumulate", -(-piece.count // RUN) * words, run=np.uint32(RUN)),
        ]
