"""Merging codewords with their nearest neighbours, where that costs least error.

W. H. Equitz, "A new vector quantization clustering algorithm", IEEE Transactions on Acoustics, Speech, and Signal
Processing 37 (1989). The kernels are in `cl/vq/merging.cl`.
"""

from __future__ import annotations

import numpy as np

from clquant.runtime import Buffer, LocalMemory, Scope, Session
from clquant.vq.blocks import BlockShape
from clquant.vq.encode import Search

_WEIGHT_BITS = 27  # of the weights that costs are computed from
_GROUP = 256


class Merging:
    """Which of a codebook's codewords go.

    Parameters
    ----------
    session : Session
    scope : Scope
        Holds what it needs.
    shape : BlockShape
    codebook : pyopencl.Buffer
        `capacity` codewords of K bytes.
    totals : pyopencl.Buffer
        (capacity, K + 1) uint64, the last column their weights.
    capacity : int

    Attributes
    ----------
    places : pyopencl.Buffer
        A uint32 per codeword: its new index, or 2^32 - 1 if it goes.
    """

    def __init__(
        self, session: Session, scope: Scope, shape: BlockShape, codebook: Buffer, totals: Buffer, capacity: int
    ) -> None:
        self._session = session
        self._shape = shape
        self._codebook = codebook
        self._totals = totals
        self._capacity = capacity
        self.places = scope.empty(4 * capacity)

    def queue(self, size: int, number: int, total_weight: int) -> None:
        """Queue the choice.

        Parameters
        ----------
        size : int
            Codewords there are.
        number : int
            How many go, fewer than `size`.
        total_weight : int
            Of all blocks.
        """
        session, shape = self._session, self._shape
        constants = {"P": shape.rows, "Q": shape.columns, "C": shape.channels, "ALIGNED": 0}
        program = session.program("vq/merging.cl", **constants)
        many = np.uint32(size)
        with session.scope() as scope:
            own, neighbours = scope.empty(2 * size), scope.empty(2 * size)
            costs, keys = scope.empty(8 * size), scope.empty(8 * size)

            def launch(name: str, *arguments: object) -> None:
                kernel = program.kernel(name)
                group = session.work_group_size(kernel, session.tuned("vq.train_group"))
                session.launch(kernel, size, group, *arguments)

            launch("vq_count", own, many)
            search = Search(session, scope, self._capacity, shape, excluding=True)
            search.load(self._codebook, size)
            search.run(self._codebook, size * shape.rows, shape.columns, neighbours, own=own, index="ushort")
            shift = np.uint32(max(0, total_weight.bit_length() - _WEIGHT_BITS))
            launch("vq_merge_costs", self._codebook, neighbours, self._totals, many, shift, costs)
            launch("vq_merge_keys", costs, neighbours, many, keys)
            launch("vq_merge_marks", keys, many, np.uint32(number), self.places)
            kernel = program.kernel("vq_merge_places")
            group = session.work_group_size(kernel, _GROUP, 4)
            session.launch(kernel, group, group, self.places, many, LocalMemory(4 * group))
