"""Sums of the blocks of each codeword on the device: their tables and launches.

The kernels are in `cl/vq/accumulate.h`, which the program of the Lloyd steps includes.
"""

from __future__ import annotations

import numpy as np

from clquant.runtime import LocalMemory, PreparedLaunch, Program, Scope, Session
from clquant.vq.blockset import BlockSet, Piece

_LOCAL_BYTES = 49152  # of a group's table
_LOCAL_GROUP, _GROUPS_PER_UNIT = 512, 4
LOCAL_BLOCKS = 32  # per codeword, from which on tables in local memory are worth their emptying
_SHARE = 2  # blocks per row of a table at least


class Sums:
    """What adds up the blocks of each codeword.

    Parameters
    ----------
    session : Session
    scope : Scope
        Holds the tables.
    blocks : BlockSet
    capacity : int
        Most codewords.
    form : {"parts", "local", "portable"}
        With "local", sets of few blocks per codeword and those that it does not admit take the portable form.

    Attributes
    ----------
    tables : pyopencl.Buffer
        Of sums, all 0, in the layout of `cl/vq/lloyd.cl`.
    parts : int
        How many of these there are.
    takes_size : bool
        Whether launches are told how many codewords there are, as their argument ``size``.
    """

    def __init__(self, session: Session, scope: Scope, blocks: BlockSet, capacity: int, form: str) -> None:
        self._session = session
        self._blocks = blocks
        self._capacity = capacity
        self._words = self._words_per_slice()
        self._in_parts = form == "parts"
        self.takes_size = form == "local" and self._words > 0
        halves = 1 if blocks.weights is None else 2
        each = 4 * halves * capacity * (blocks.shape.components + 1)
        self.parts = 1
        if self._in_parts:
            room = session.limits.max_alloc // each
            self.parts = max(1, min(session.limits.compute_units, room, blocks.count // capacity))
        self.tables = scope.zeros(self.parts * each)

    def _words_per_slice(self) -> int:
        """Words of codewords for which a table fits local memory, at most all; 0 if that form does not do."""
        shape, capacity = self._blocks.shape, self._capacity
        if self._blocks.weights is not None or shape.components % 4 or self._blocks.count < LOCAL_BLOCKS * capacity:
            return 0
        room = min(self._session.limits.local_memory, _LOCAL_BYTES) // (4 * capacity)
        return min(shape.words, max(room - 1, 0) // 4)

    def prepare(self, scope: Scope, program: Program, piece: Piece) -> PreparedLaunch:
        """The launch for a piece of the blocks.

        Parameters
        ----------
        scope : Scope
        program : Program
            Of `cl/vq/lloyd.cl`.
        piece : Piece
        """
        session, capacity = self._session, np.uint32(self._capacity)
        count, rows = np.uint32(piece.count), (piece.blocks, piece.indices)
        if self.takes_size:
            return self._prepare_local(scope, program, piece)
        share = np.uint32(-(-piece.count // self.parts))
        arguments = *rows, count, piece.weights, self.tables, share, capacity
        if self._in_parts:
            return session.prepare(scope, program.kernel("vq_accumulate_parts"), self.parts, 1, *arguments)
        kernel = program.kernel("vq_accumulate")
        group = session.work_group_size(kernel, session.tuned("vq.train_group"))
        return session.prepare(scope, kernel, piece.count * self._blocks.shape.components, group, *arguments)

    def _prepare_local(self, scope: Scope, program: Program, piece: Piece) -> PreparedLaunch:
        session = self._session
        slices = -(-self._blocks.shape.words // self._words)
        groups = session.limits.compute_units * _GROUPS_PER_UNIT // slices
        stretches = max(1, min(groups, piece.count // (_SHARE * self._capacity)))
        share = -(-piece.count // stretches)
        kernel = program.kernel("vq_accumulate_local")
        group = session.work_group_size(kernel, _LOCAL_GROUP)
        sizes = np.uint32(share), np.uint32(0), np.uint32(slices), np.uint32(self._words)
        rows = piece.blocks, piece.indices, np.uint32(piece.count), self.tables
        table = LocalMemory(4 * self._capacity * (4 * self._words + 1))
        return session.prepare(scope, kernel, stretches * slices * group, group, *rows, *sizes, table)
