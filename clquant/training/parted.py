"""Training on blocks that lie in parts elsewhere: steps here, sums and worst blocks there.

A step needs of the blocks no more than sums of integers per codeword, and for dead codewords the worst block of each.
So parts may be anywhere, in any number, and made anew at any time: the codebook is the same bits. Samples are brought
here, and steps on these ask nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clquant.runtime import DeviceError, InvalidArgument, Progress, Scope, Session
from clquant.training import training
from clquant.training.blocks import BlockShape
from clquant.training.blockset import BlockSet, check_bound, sample_places
from clquant.training.codewords import Codewords
from clquant.training.lloyd import PLACE_BITS, PLACE_MASK, Lloyd
from clquant.training.part import Rows, Worst
from clquant.training.spacing import Spacing

Numbers = npt.NDArray[np.int64]


class Elsewhere(Protocol):
    """What computes over all parts, wherever these are; `capacity` is the most codewords that will come."""

    def sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        """Add up `Part.sums` for a codebook (size, K)."""

    def worst(self, codebook: Rows, capacity: int) -> Worst:
        """Find the worst block of each codeword."""

    def squares(self, capacity: int) -> int:
        """Add up the weighted squared lengths of all blocks."""

    def rows(self, numbers: Numbers) -> Rows:
        """Return blocks (count, K) by their increasing numbers among all."""


def cut_numbers(numbers: Numbers, starts: Numbers) -> Iterator[tuple[int, Numbers]]:
    """The parts that have some of increasing numbers, each with its own, counted from where it starts."""
    ends = np.searchsorted(numbers, starts)
    for i, (low, high) in enumerate(itertools.pairwise(ends)):
        if low < high:
            yield i, numbers[low:high] - starts[i]


class Parts:
    """Blocks in parts that follow each other: `Elsewhere` by reductions over the parts."""

    def __init__(self, shape: BlockShape, counts: Sequence[int]) -> None:
        self.shape = shape
        self.starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return int(self.starts[-1])

    def train(
        self, session: Session, weights: Any, plans: Sequence[training.Plan], progress: Progress
    ) -> training.Trained:
        """Train by each plan like `training.train`; return the training of least error, the first of equals."""
        found = list[training.Trained]()
        for plan, own in training.each_of(plans, progress):
            with session.scope() as scope:
                blocks = PartedBlocks(session, scope, self.shape, self.count, weights, self)
                found.append(training.train_on(session, scope, blocks, plan, own, steps_on))
        return min(found, key=lambda trained: trained.mse)

    def reduced(self, method: str, *args: Any) -> Any:
        """Call a method of each part, and merge the results by `part.MERGES`."""
        raise NotImplementedError

    def picked(self, wanted: dict[int, Numbers]) -> Sequence[Rows]:
        """Return blocks of some parts by their places in these."""
        raise NotImplementedError

    def sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        """Add up `Part.sums`."""
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
        """Return blocks by their numbers, each from the part that has it."""
        found = self.picked(dict(cut_numbers(numbers, self.starts)))
        return np.concatenate([np.empty((0, self.shape.components), self.shape.dtype), *found])


class PartedBlocks:
    """Blocks that parts have, with the methods of `BlockSet` that a training calls."""

    def __init__(
        self,
        session: Session,
        scope: Scope,
        shape: BlockShape,
        count: int,
        weights: npt.NDArray[np.uint16] | None,
        elsewhere: Elsewhere,
    ) -> None:
        check_bound(shape, count, weights)
        self._session = session
        self._scope = scope
        self.shape = shape
        self.count = count
        self.weights = weights
        self.elsewhere = elsewhere

    @property
    def total_weight(self) -> int:
        """The sum of the weights; the number of blocks if they have none."""
        return self.count if self.weights is None else int(self.weights.sum(dtype=np.int64))

    def read(self, number: int) -> Rows:
        """Return blocks like `BlockSet.read`."""
        rows = self.elsewhere.rows(np.arange(self.count))
        return np.concatenate([rows, np.repeat(rows[:1], number - self.count, axis=0)])

    def sample(self, scope: Scope, size: int, stage: int, seed: int) -> BlockSet:
        """Sample like `BlockSet.sample`; if no more blocks than `size` have weight, return all of them."""
        places = sample_places(self.count, self.weights, size, stage, seed)
        return self._here(scope, self._able() if places is None else places)

    def in_turn(self, scope: Scope, size: int, turns: int) -> list[BlockSet]:
        """Sample like `BlockSet.in_turn`."""
        able = self._able()
        spacings = [Spacing(len(able) // size, turn) for turn in range(turns)]
        return [self._here(scope, able[spacing.numbers(np.arange(size))]) for spacing in spacings]

    def _able(self) -> npt.NDArray[np.int64]:
        return np.arange(self.count) if self.weights is None else np.flatnonzero(self.weights)

    def _here(self, scope: Scope, places: npt.NDArray[np.int64]) -> BlockSet:
        weights = None if self.weights is None else self.weights[places]
        return BlockSet.of_rows(self._session, scope, self.shape, self.elsewhere.rows(places), weights)


class PartedLloyd(Lloyd):
    """Steps that fit codewords to `PartedBlocks`."""

    # The set of blocks that the kernels here see has the worst block of each codeword at the codeword's index.

    def __init__(
        self, session: Session, scope: Scope, blocks: PartedBlocks, words: Codewords, key: npt.NDArray[np.uint32]
    ) -> None:
        empty = np.zeros((words.capacity, blocks.shape.components), blocks.shape.dtype)
        self._worst_rows = BlockSet.of_rows(session, scope, blocks.shape, empty, None)
        if len(self._worst_rows.pieces) != 1:
            raise DeviceError(f"the device holds no {words.capacity} codewords of {blocks.shape.components} bytes")
        self._total = blocks.total_weight
        self._elsewhere = blocks.elsewhere
        self._answer: tuple[bytes, npt.NDArray[np.uint64]] | None = None
        self._worst_of: bytes | None = None
        super().__init__(session, scope, self._worst_rows, words, key)
        self._session.write(self._squares, np.array([self._elsewhere.squares(words.capacity)], np.uint64))

    def _weight(self) -> int:
        return self._total

    def _queue_sums(self) -> None:
        codebook = self._words.read()
        if self._answer is None or self._answer[0] != codebook.tobytes():
            self._answer = codebook.tobytes(), self._elsewhere.sums(codebook, self._words.capacity)
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
        found = self._elsewhere.worst(codebook, self._words.capacity)
        if found.levels.max() >> (32 - PLACE_BITS):
            raise InvalidArgument("levels of errors do not fit 10 bits")
        packed = found.levels << PLACE_BITS | (PLACE_MASK - np.arange(len(codebook), dtype=np.uint32))
        self._session.write(self._worst, packed.astype(np.uint32))
        self._session.write(self._worst_rows.pieces[0].blocks, np.ascontiguousarray(found.rows))


def steps_on(session: Session, scope: Scope, blocks: Any, words: Codewords, key: npt.NDArray[np.uint32]) -> Lloyd:
    """Return the steps on parted blocks, or on samples of them, as `training.train_on` takes them."""
    kind = PartedLloyd if isinstance(blocks, PartedBlocks) else Lloyd
    return kind(session, scope, blocks, words, key)
