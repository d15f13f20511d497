"""Merging codewords with their nearest neighbours, where that costs least error.

W. H. Equitz, "A new vector quantization clustering algorithm", IEEE Transactions on Acoustics, Speech, and Signal
Processing 37 (1989). The kernels are in `cl/training/merging.cl`.
"""

from __future__ import annotations

import functools

import numpy as np

from clquant.runtime import Buffer, PreparedLaunch, Scope, Session
from clquant.training.blocks import BlockShape
from clquant.training.search import Codewords
from clquant.training.selection import Selection

_WEIGHT_BITS = 27  # of the weights that costs are computed from
_DISTANCE_BITS = 26  # of squared distances of 16-bit components, in cl/training/merging.cl
_KEY_DIGITS = 8


class Merging:
    """Chooses which of a codebook's codewords to remove."""

    def __init__(self, session: Session, scope: Scope, shape: BlockShape, words: Codewords, totals: Buffer) -> None:
        self._session = session
        self._scope = scope
        self._shape = shape
        self._words = words
        self._totals = totals
        self._keys = scope.empty(8 * words.capacity)
        self._selection = Selection(session, scope, self._keys, words.capacity, _KEY_DIGITS)
        self.places = self._selection.places  # a uint32 per codeword: its new index, or 2^32 - 1 if it goes

    @functools.cached_property
    def _launches(self) -> tuple[PreparedLaunch, PreparedLaunch]:
        """Prepare the search for each codeword's neighbour, and the keys, for the largest number of codewords."""
        scope, session, shape, words = self._scope, self._session, self._shape, self._words
        neighbours, zero = scope.empty(2 * words.capacity), np.uint32(0)
        own = scope.copy_of(np.arange(words.capacity, dtype=np.uint16))
        height = words.capacity * shape.rows
        search = words.search.prepare(scope, words.codebook, height, shape.columns, neighbours, own)
        largest = shape.largest**2 * shape.components
        distance_shift = max(0, largest.bit_length() - _DISTANCE_BITS)
        program = session.program("training/merging.cl", **shape.constants(), DISTANCE_SHIFT=distance_shift)
        kernel = program.kernel("vq_merge_keys")
        group = session.work_group_size(kernel, session.tuned("vq.train_group"))
        given = words.codebook, neighbours, self._totals, zero, zero, self._keys
        return search, session.prepare(scope, kernel, words.capacity, group, *given)

    def queue(self, number: int, total_weight: int) -> None:
        """Queue the choice of some of the codewords, over which the last search was."""
        search, keys = self._launches
        self._words.search.queue_search(search)
        shift = max(0, total_weight.bit_length() - _WEIGHT_BITS)
        keys.set(size=np.uint32(self._words.size), shift=np.uint32(shift))
        keys.queue()
        self._selection.queue(self._words.size, number)
