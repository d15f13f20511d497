"""Training on rows that do not fit memory: each step reads them in portions, and adds up integers per codeword."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from clquant.runtime import Progress, Scope, Session, seed_key
from clquant.training import training
from clquant.training.blockset import BlockSet
from clquant.training.codewords import Codewords
from clquant.training.lloyd import Lloyd
from clquant.training.part import Rows, Worst
from clquant.training.parted import Elsewhere, PartedBlocks, steps_on
from clquant.vectors.fixed_point import FixedPoint
from clquant.vectors.rows import RowSource

Weights = npt.NDArray[np.uint16] | None


class PortionSteps:
    """What the device finds of one portion of rows after another, with the codewords of one step."""

    def __init__(self, session: Session, scope: Scope, blocks: BlockSet, capacity: int) -> None:
        self._session = session
        self._blocks = blocks
        self._words = Codewords(session, scope, blocks.shape, capacity)
        self._lloyd = Lloyd(session, scope, blocks, self._words, seed_key(0))

    def load(self, rows: Rows, weights: Weights) -> None:
        """Take other rows, as many as before."""
        first = 0
        for piece in self._blocks.pieces:
            self._session.write(piece.blocks, rows[first : first + piece.count])
            if weights is not None:
                self._session.write(piece.weights, weights[first : first + piece.count])
            first += piece.count

    def totals(self, codebook: Rows) -> npt.NDArray[np.uint64]:
        """Sums of the rows of each codeword, (size, d + 1), the last column their weights."""
        self._session.write(self._words.moved, np.ascontiguousarray(codebook))
        self._words.commit(len(codebook))
        self._lloyd.queue_statistics()
        return self._lloyd.read_totals()

    def worst(self, codebook: Rows) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Of each codeword, the level of its worst row and that row's number, if any codeword is dead here."""
        self.totals(codebook)
        return self._lloyd.read_worst()


class LazyTraining:
    """Trains on rows that are read in portions in each step."""

    def __init__(self, session: Session, scope: Scope, source: RowSource, fixed: FixedPoint, weights: Weights) -> None:
        self._session, self._scope, self._source, self._fixed, self._weights = session, scope, source, fixed, weights
        self._shape = fixed.shape(source.components)
        self._rows_at_once = source.portion_rows()
        self._held: dict[tuple[int, int], PortionSteps] = {}

    def train(self, plan: training.Plan, progress: Progress) -> training.Trained:
        """As `training.train`."""
        elsewhere = Elsewhere(self._sums, self._worst, self._squares, self._rows, lambda *_: None)
        blocks = PartedBlocks(self._session, self._scope, self._shape, self._source.count, self._weights, elsewhere)
        return training.train_on(self._session, self._scope, blocks, plan, progress, steps_on)

    def _portions(self) -> Iterator[tuple[int, Rows, Weights]]:
        for first, rows in self._source.portions(self._rows_at_once):
            weights = None if self._weights is None else self._weights[first : first + len(rows)]
            yield first, self._fixed.encode(rows), weights

    def _steps(self, rows: Rows, weights: Weights, capacity: int) -> PortionSteps:
        """The steps for portions of so many rows, with these rows."""
        key = len(rows), capacity
        if key not in self._held:
            blocks = BlockSet.of_rows(self._session, self._scope, self._shape, rows, weights)
            self._held[key] = PortionSteps(self._session, self._scope, blocks, capacity)
        else:
            self._held[key].load(rows, weights)
        return self._held[key]

    def _sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        total = np.zeros((len(codebook), codebook.shape[1] + 1), np.uint64)
        for _, rows, weights in self._portions():
            total += self._steps(rows, weights, capacity).totals(codebook)
        return total

    def _worst(self, codebook: Rows, capacity: int) -> Worst:
        found: Worst | None = None
        for first, rows, weights in self._portions():
            levels, places = self._steps(rows, weights, capacity).worst(codebook)
            places = np.where(levels > 0, places, 0)
            own = Worst(levels, first + places, rows[places])
            found = own if found is None else found.worse(own)
        assert found is not None, "there are rows"
        return found

    def _squares(self, capacity: int) -> int:  # noqa: ARG002
        total = 0
        for _, rows, weights in self._portions():
            squares = (rows.astype(np.uint64) ** 2).sum(1, dtype=np.uint64)
            total += int((squares if weights is None else squares * weights).sum(dtype=np.uint64))
        return total

    def _rows(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Rows by their increasing numbers; portions without any are not read."""
        made = np.empty((len(numbers), self._shape.components), self._shape.dtype)
        for first in range(0, self._source.count, self._rows_at_once):
            low, high = np.searchsorted(numbers, (first, first + self._rows_at_once))
            if low < high:
                begin, end = int(numbers[low]), int(numbers[high - 1]) + 1
                made[low:high] = self._fixed.encode(self._source.read(begin, end))[numbers[low:high] - begin]
        return made
