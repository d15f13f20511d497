"""Sums of the blocks of each codeword on the device: their tables and launches.

The kernels are in `cl/training/accumulate.h`, which the program of the Lloyd steps includes.
"""

from __future__ import annotations

import numpy as np

from clquant.runtime import PreparedLaunch, Program, Scope, Session
from clquant.training.blockset import BlockSet, Piece


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
        self.tables = scope.zeros(self.parts * each)

    def prepare(self, scope: Scope, program: Program, piece: Piece) -> PreparedLaunch:
        """The launch for a piece of the blocks, of the program of `cl/training/lloyd.cl`."""
        session = self._session
        share = np.uint32(-(-piece.count // self.parts))
        rows = piece.blocks, piece.indices, np.uint32(piece.count), piece.weights
        arguments = *rows, self.tables, share, np.uint32(self._capacity)
        if self._in_parts:
            return session.prepare(scope, program.kernel("vq_accumulate_parts"), self.parts, 1, *arguments)
        kernel = program.kernel("vq_accumulate")
        group = session.work_group_size(kernel, session.tuned("vq.train_group"))
        return session.prepare(scope, kernel, piece.count * self._blocks.shape.components, group, *arguments)
