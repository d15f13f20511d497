"""Training on blocks that lie in parts elsewhere: steps here, sums and worst blocks there.

A step needs of the blocks no more than sums of integers per codeword, and for dead codewords the worst block of each.
So parts may be anywhere, in any number, and made anew at any time: the codebook is the same bits. Samples are brought
here, and steps on these ask nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import DeviceError, InvalidArgument, Scope, Session
from clquant.training.blocks import BlockShape
from clquant.training.blockset import Blocks, BlockSet
from clquant.training.codewords import Codewords
from clquant.training.lloyd import PLACE_BITS, PLACE_MASK, Lloyd
from clquant.training.part import Rows, Worst

Numbers = npt.NDArray[np.int64]


class Parts(Blocks):
    """Blocks in parts that follow each other, wherever these are; `capacity` is the most codewords that will come."""

    def __init__(
        self, session: Session, shape: BlockShape, counts: Sequence[int], weights: npt.NDArray[np.uint16] | None
    ) -> None:
        self.starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        super().__init__(shape, int(self.starts[-1]), weights)
        self.session = session

    def reduced(self, method: str, *args: Any) -> Any:
        """Call a method of each part, and merge the results by `part.MERGES`."""
        raise NotImplementedError

    def picked(self, wanted: dict[int, Numbers]) -> Sequence[Rows]:
        """Return blocks of some parts by their places in these."""
        raise NotImplementedError

    def sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        """Add up `Part.sums` for a codebook (size, K)."""
        found: npt.NDArray[np.uint64] = self.reduced("sums", codebook, capacity)
        return found

    def worst(self, codebook: Rows, capacity: int) -> Worst:
        """Find the worst block of each codeword."""
        found: Worst = self.reduced("worst", codebook, capacity)
        return found

    def squares(self, capacity: int) -> int:
        """Add up the weighted squared lengths of all blocks."""
        return int(self.reduced("squares", capacity))

    def rows(self, numbers: Numbers) -> Rows:
        """Return blocks (count, K) by their increasing numbers, each from the part that has it."""
        cuts = itertools.pairwise(np.searchsorted(numbers, self.starts))
        found = self.picked({i: numbers[low:high] - self.starts[i] for i, (low, high) in enumerate(cuts) if low < high})
        return np.concatenate([np.empty((0, self.shape.components), self.shape.dtype), *found])

    def read(self, number: int) -> Rows:
        """Return blocks like `BlockSet.read`."""
        rows = self.rows(np.arange(self.count))
        return np.concatenate([rows, np.repeat(rows[:1], number - self.count, axis=0)])

    def _whole(self, scope: Scope) -> BlockSet:
        return self._at(scope, np.arange(self.count) if self.weights is None else np.flatnonzero(self.weights))

    def _at(self, scope: Scope, places: Numbers) -> BlockSet:
        weights = None if self.weights is None else self.weights[places]
        return BlockSet.of_rows(self.session, scope, self.shape, self.rows(places), weights)


class PartedLloyd(Lloyd):
    """Steps that fit codewords to blocks in parts."""

    # The set of blocks that the kernels here see has the worst block of each codeword at the codeword's index.

    def __init__(
        self, session: Session, scope: Scope, blocks: Parts, words: Codewords, key: npt.NDArray[np.uint32]
    ) -> None:
        empty = np.zeros((words.capacity, blocks.shape.components), blocks.shape.dtype)
        self._worst_rows = BlockSet.of_rows(session, scope, blocks.shape, empty, None)
        if len(self._worst_rows.pieces) != 1:
            raise DeviceError(f"the device holds no {words.capacity} codewords of {blocks.shape.components} bytes")
        self._parts = blocks
        self._answer: tuple[bytes, npt.NDArray[np.uint64]] | None = None
        self._worst_of: bytes | None = None
        super().__init__(session, scope, self._worst_rows, words, key, blocks.total_weight)

    def squares(self) -> int:
        """The weighted sum of the squared lengths of the parts' blocks."""
        return self._parts.squares(self._words.capacity)

    def _queue_sums(self) -> None:
        codebook = self._words.read()
        if self._answer is None or self._answer[0] != codebook.tobytes():
            self._answer = codebook.tobytes(), self._parts.sums(codebook, self._words.capacity)
        totals = self._answer[1]
        words = codebook.astype(np.uint64)
        # |c|^2 n - 2 c.S, which may wrap below 0, as in vq_fold.
        errors = (words * words).sum(1, dtype=np.uint64) * totals[:, -1]
        errors -= np.uint64(2) * (words * totals[:, :-1]).sum(1, dtype=np.uint64)
        self._session.write(self.totals, np.ascontiguousarray(totals))
        self._session.write(self._errors, errors)

    def _queue_worst(self) -> None:
        """Fetch the worst blocks from the parts, if any codeword is dead."""
        if self._answer is None or bool((self._answer[1][:, -1] > 0).all()):
            return
        codebook = self._words.read()
        if self._worst_of == codebook.tobytes():
            return
        self._worst_of = codebook.tobytes()
        found = self._parts.worst(codebook, self._words.capacity)
        if found.levels.max() >> (32 - PLACE_BITS):
            raise InvalidArgument("levels of errors do not fit 10 bits")
        packed = found.levels << PLACE_BITS | (PLACE_MASK - np.arange(len(codebook), dtype=np.uint32))
        self._session.write(self._worst, packed.astype(np.uint32))
        self._session.write(self._worst_rows.pieces[0].blocks, np.ascontiguousarray(found.rows))


def steps_on(session: Session, scope: Scope, blocks: Any, words: Codewords, key: npt.NDArray[np.uint32]) -> Lloyd:
    """Return the steps on blocks in parts, or on the device."""
    kind = PartedLloyd if isinstance(blocks, Parts) else Lloyd
    return kind(session, scope, blocks, words, key)
