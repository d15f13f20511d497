"""Sums of the blocks of each codeword on the device: their tables and launches.

The kernels are in `cl/training/accumulate.h`, which the program of the Lloyd steps includes.
"""

from __future__ import annotations

import numpy as np

from clquant.runtime import LocalMemory, PreparedLaunch, Program, Scope, Session
from clquant.training.blockset import BlockSet, Piece

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

    def prepare(self, scope: Scope, program: Program, piece: Piece) -> list[PreparedLaunch]:
        """The launches for a piece of the blocks, in order, of the program of `cl/training/lloyd.cl`."""
        count, capacity = np.uint32(piece.count), np.uint32(self._capacity)
        if self._in_parts:
            share = np.uint32(-(-piece.count // self.parts))
            arguments = piece.blocks, piece.indices, count, piece.weights, self.tables, share, capacity
            kernel = program.kernel("vq_accumulate_parts")
            return [self._session.prepare(scope, kernel, self.parts, 1, *arguments)]

        def prepared(name: str, items: int, *given: object) -> PreparedLaunch:
            kernel = program.kernel(name)
            group = self._session.work_group_size(kernel, _GROUP)
            return self._session.prepare(scope, kernel, items, group, *given)

        rows = piece.blocks, self._order, piece.indices, count
        table = piece.weights, self.tables, capacity
        components = piece.count * self._blocks.shape.components
        if components <= _MOST_COMPONENTS and piece.count <= _MOST_ALONE:
            items = piece.count * self._blocks.shape.words
            return [prepared("vq_accumulate", items, *rows, np.uint32(1), *table)]
        starts = program.kernel("vq_starts")
        lanes = self._session.work_group_size(starts, _GROUP, 4)
        within = self._capacity <= min(_MOST_BINS, self._session.limits.local_memory // 8)
        bins = np.uint32(self._capacity if within else 0), LocalMemory(4 * self._capacity if within else 4)
        each = _MANY_EACH if piece.count >= _MANY and self._capacity > _MANY_BINS else _EACH
        runs = -(-piece.count // RUN) * self._blocks.shape.words
        return [
            prepared(
                *("vq_count", -(-piece.count // each), piece.indices, count, self._counts, self._ranks),
                *(np.uint32(each), *bins),
            ),
            self._session.prepare(
                *(scope, starts, lanes, lanes, self._counts, capacity, self._starts), LocalMemory(4 * lanes)
            ),
            prepared("vq_order", piece.count, piece.indices, count, self._starts, self._ranks, self._order),
            prepared("vq_accumulate", runs, *rows, np.uint32(RUN), *table),
        ]
