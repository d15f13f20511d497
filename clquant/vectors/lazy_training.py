"""Training on rows that do not fit memory: each step reads them in portions, and adds up integers per codeword."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from clquant.runtime import Progress, Scope, seed_key
from clquant.training import training
from clquant.training.blockset import BlockSet
from clquant.training.codewords import Codewords
from clquant.training.lloyd import Lloyd
from clquant.training.part import Rows, Worst
from clquant.training.parted import PartedBlocks, steps_on
from clquant.vectors.device_rows import DeviceRows
from clquant.vectors.fixed_point import FixedPoint
from clquant.vectors.rows import finite

Weights = npt.NDArray[np.uint16] | None


class LazySums:
    """Sums over rows that are on the device a portion at a time."""

    def __init__(self, scope: Scope, rows: DeviceRows, fixed: FixedPoint, weights: Weights, capacity: int) -> None:
        self._session, self._scope, self._rows, self._fixed, self._weights = rows.session, scope, rows, fixed, weights
        self.shape, self.capacity = fixed.shape(rows.source.components), capacity
        self._words = Codewords(self._session, scope, self.shape, capacity)
        self._held: dict[int, tuple[BlockSet, Lloyd]] = {}

    def totals(self, codebook: Rows) -> npt.NDArray[np.uint64]:
        """Sums of the rows of each codeword, (size, d + 1), the last column their weights."""
        self._commit(codebook)
        before: Lloyd | None = None
        for first, lloyd in self._portions():
            if before is not None and before is not lloyd:
                self._session.copy(lloyd.totals, before.totals, 8 * len(codebook) * (self.shape.components + 1))
            lloyd.queue_sums(adds=first > 0)
            before = lloyd
        assert before is not None, "there are rows"
        return before.read_totals()

    def worst(self, codebook: Rows) -> Worst:
        """Of each codeword its worst row, if any codeword is dead."""
        self._commit(codebook)
        found: Worst | None = None
        for first, lloyd in self._portions():
            lloyd.queue_statistics()
            levels, places = lloyd.read_worst()
            places = np.where(levels > 0, places, 0)
            own = Worst(levels, first + places, self._read(first + places))
            found = own if found is None else found.worse(own)
        assert found is not None, "there are rows"
        return found

    def squares(self) -> int:
        """The weighted sum of the rows' squared lengths."""
        total = 0
        for _, lloyd in self._portions():
            lloyd.queue_squares()
            total += lloyd.read_squares()
        return total

    def rows(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Rows by their increasing numbers; portions without any are not read."""
        made = np.empty((len(numbers), self.shape.components), self.shape.dtype)
        for first, end in self._rows.steps(0, self._rows.source.count):
            low, high = np.searchsorted(numbers, (first, end))
            if low < high:
                made[low:high] = self._read(numbers[low:high])
        return made

    def _read(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Rows of one portion by their numbers."""
        begin = int(numbers.min())
        rows = self._rows.read(begin, int(numbers.max()) + 1)[numbers - begin]
        return self._fixed.encode(finite(rows, begin), begin)

    def _commit(self, codebook: Rows) -> None:
        self._session.write(self._words.moved, np.ascontiguousarray(codebook))
        self._words.commit(len(codebook))

    def _portions(self) -> Iterator[tuple[int, Lloyd]]:
        """The number of each portion's first row, and steps on its rows."""
        for first, end in self._rows.steps(0, self._rows.source.count):
            blocks, lloyd = self._steps(end - first)
            begin = first
            for piece in blocks.pieces:
                self._rows.write(self._fixed, begin, begin + piece.count, piece.blocks)
                if self._weights is not None:
                    self._session.write(piece.weights, self._weights[begin : begin + piece.count])
                begin += piece.count
            yield first, lloyd

    def _steps(self, count: int) -> tuple[BlockSet, Lloyd]:
        """Blocks with room for a portion, and steps on them."""
        if count not in self._held:
            weights = None if self._weights is None else np.ones(count, np.uint16)
            blocks = BlockSet(self._session, self._scope, self.shape, count, weights)
            for piece in blocks.pieces:
                piece.count = piece.capacity
            self._held[count] = blocks, Lloyd(self._session, self._scope, blocks, self._words, seed_key(0))
        return self._held[count]


class LazyTraining:
    """Trains on rows that are read in portions in each step."""

    def __init__(self, scope: Scope, rows: DeviceRows, fixed: FixedPoint, weights: Weights) -> None:
        self._scope, self._rows, self._fixed, self._weights = scope, rows, fixed, weights
        self._sums: LazySums | None = None

    def train(self, plan: training.Plan, progress: Progress) -> training.Trained:
        """Train as `training.train` does."""
        session, source = self._rows.session, self._rows.source
        blocks = PartedBlocks(
            session, self._scope, self._fixed.shape(source.components), source.count, self._weights, self
        )
        return training.train_on(session, self._scope, blocks, plan, progress, steps_on)

    def sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        """See `Elsewhere`."""
        return self._on(capacity).totals(codebook)

    def worst(self, codebook: Rows, capacity: int) -> Worst:
        """See `Elsewhere`."""
        return self._on(capacity).worst(codebook)

    def squares(self, capacity: int) -> int:
        """See `Elsewhere`."""
        return self._on(capacity).squares()

    def rows(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """See `Elsewhere`."""
        return self._on(1).rows(numbers)

    def _on(self, capacity: int) -> LazySums:
        """Sums for codebooks of up to so many codewords."""
        if self._sums is None or capacity > self._sums.capacity:
            self._sums = LazySums(self._scope, self._rows, self._fixed, self._weights, capacity)
        return self._sums
