"""Merging codewords with their nearest neighbours, where that costs least error.

W. H. Equitz, "A new vector quantization clustering algorithm", IEEE Transactions on Acoustics, Speech, and Signal
Processing 37 (1989). The kernels are in `cl/training/merging.cl`.
"""

from __future__ import annotations

import functools

import numpy as np

from clquant.runtime import Buffer, PreparedLaunch, Scope, Session
from clquant.training.blocks import BlockShape
from clquant.training.search import Search
from clquant.training.selection import Selection

_WEIGHT_BITS = 27  # of the weights that costs are computed from
_DISTANCE_BITS = 26  # of squared distances of 16-bit components, in cl/training/merging.cl
_KEY_DIGITS = 8


class Merging:
    """Chooses which of a codebook's codewords to remove."""

    def __init__(
        self, session: Session, scope: Scope, shape: BlockShape, codebook: Buffer, totals: Buffer, capacity: int
    ) -> None:
        self._session = session
        self._scope = scope
        self._shape = shape
        self._codebook = codebook
        self._totals = totals
        self._capacity = capacity
        self._keys = scope.empty(8 * capacity)
        self._selection = Selection(session, scope, self._keys, capacity, _KEY_DIGITS)
        self.places = self._selection.places  # a uint32 per codeword: its new index, or 2^32 - 1 if it goes

    @functools.cached_property
    def _search(self) -> Search:
        return Search(self._session, self._scope, self._capacity, self._shape, excluding=True)

    @functools.cached_property
    def _launches(self) -> dict[str, PreparedLaunch]:
        """Prepare the launches of a choice, in order, for the largest number of codewords."""
        largest = self._shape.largest**2 * self._shape.components
        scope, session, shape, capacity = self._scope, self._session, self._shape, self._capacity
        program = session.program(
            "training/merging.cl", **shape.constants(), DISTANCE_SHIFT=max(0, largest.bit_length() - _DISTANCE_BITS)
        )
        zero, codebook = np.uint32(0), self._codebook
        neighbours, costs = scope.empty(2 * capacity), scope.empty(8 * capacity)
        own = scope.copy_of(np.arange(capacity, dtype=np.uint16))

        def prepared(name: str, *arguments: object) -> PreparedLaunch:
            kernel = program.kernel(name)
            group = session.work_group_size(kernel, session.tuned("vq.train_group"))
            return session.prepare(scope, kernel, capacity, group, *arguments)

        return {
            "load": self._search.prepare_load(scope, codebook),
            "search": self._search.prepare(scope, codebook, capacity * shape.rows, shape.columns, neighbours, own),
            "costs": prepared("vq_merge_costs", codebook, neighbours, self._totals, zero, zero, costs),
            "keys": prepared("vq_merge_keys", costs, neighbours, zero, self._keys),
        }

    def queue(self, size: int, number: int, total_weight: int) -> None:
        """Queue the choice."""
        launches, many = self._launches, np.uint32(size)
        shift = np.uint32(max(0, total_weight.bit_length() - _WEIGHT_BITS))
        self._search.queue_load(launches["load"], size)
        self._search.queue_search(launches["search"])
        launches["costs"].set(size=many, shift=shift)
        launches["costs"].queue()
        launches["keys"].set(size=many)
        launches["keys"].queue()
        self._selection.queue(size, number)
