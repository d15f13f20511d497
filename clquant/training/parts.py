"""Training on blocks that lie in parts, which may be anywhere: steps here, sums and worst blocks there.

A step needs of the blocks no more than sums of integers per codeword, and for dead codewords the worst block of each.
So parts may be in any number, and made anew at any time: the codebook is the same bits. Samples are brought here, and
steps on these ask nobody. What a part holds on its device stays there between steps.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import DeviceMemoryError, Scope, Session, open_session, seed_key
from clquant.training.blocks import BlockShape, Key, Places, Rows, Weights
from clquant.training.blockset import Blocks, BlockSet
from clquant.training.lloyd import PLACE_BITS, PLACE_MASK, Lloyd
from clquant.training.search import Codewords

T = TypeVar("T")


@dataclass(frozen=True)
class Worst:
    """The worst block of each codeword."""

    levels: npt.NDArray[np.uint32]  # (size,), of the block's error; 0: the codeword has no block with an error
    numbers: Places  # (size,), the block's, among all blocks
    rows: Rows  # (size, K), the block

    def worse(self, other: Worst) -> Worst:
        """The worse of two per codeword, at equal levels the one that comes first among all blocks."""
        theirs = (other.levels > self.levels) | ((other.levels == self.levels) & (other.numbers < self.numbers))
        return Worst(
            np.where(theirs, other.levels, self.levels),
            np.where(theirs, other.numbers, self.numbers),
            np.where(theirs[:, None], other.rows, self.rows),
        )


# How the results of a method of some parts become one.
MERGES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "sums": sum,
    "squares": sum,
    "worst": functools.partial(functools.reduce, Worst.worse),
}


class Part:
    """Rows of a picture that are whole blocks, (H, W, C), or rows of numbers, (n, d, 1); and buffers on a device."""

    def __init__(
        self, pixels: npt.NDArray[Any], weights: Weights, shape: BlockShape, first: int, session: Session | None = None
    ) -> None:
        self.pixels = np.ascontiguousarray(pixels)
        self.weights = weights  # of each block
        self.shape = shape
        self.first = first  # the number of the first block among all
        self.session = session  # by default on this process's best device
        self._on_device: _OnDevice | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """For `pickle`: what the host holds; elsewhere the blocks are sent to a device again."""
        return {**self.__dict__, "session": None, "_on_device": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __sizeof__(self) -> int:
        return self.pixels.nbytes + (0 if self.weights is None else self.weights.nbytes)

    def sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        """Sums of the blocks of each codeword, (size, K + 1), the last column their weights."""
        return self._found(Lloyd.read_totals, capacity, codebook)

    def squares(self, capacity: int) -> int:
        """The weighted sum of the blocks' squared lengths."""
        return self._found(Lloyd.squares, capacity)

    def worst(self, codebook: Rows, capacity: int) -> Worst:
        """Find each codeword's worst block, if any codeword is dead."""
        levels, places = self._found(Lloyd.read_worst, capacity, codebook)
        places = np.where(levels > 0, places, 0)
        return Worst(levels, self.first + places, self.rows(places))

    def rows(self, places: Places) -> Rows:
        """Some blocks, from the host."""
        (height, width), shape = self.pixels.shape[:2], self.shape
        row, column = np.divmod(places, shape.table_shape(height, width)[1])
        down = np.minimum(row[:, None] * shape.rows + np.arange(shape.rows), height - 1)
        across = np.minimum(column[:, None] * shape.columns + np.arange(shape.columns), width - 1)
        blocks: Rows = self.pixels[down[:, :, None], across[:, None, :]].reshape(len(places), shape.components)
        return blocks

    def blocks(self, session: Session, scope: Scope) -> BlockSet:
        """All blocks, on a device."""
        if self.shape.rows == 1 and self.pixels.shape[1:] == (self.shape.columns, 1):
            rows = self.pixels.reshape(len(self.pixels), -1)
            return BlockSet.of_rows(session, scope, self.shape, rows, self.weights)
        height, width, channels = self.pixels.shape
        picture = Picture(height, width, channels, channels == 1, array=self.pixels)
        return BlockSet.of_pictures(session, scope, [picture], self.weights, self.shape)

    def _found(self, asked: Callable[[Lloyd], T], capacity: int, codebook: Rows | None = None) -> T:
        """Read a result of steps on the blocks; idle parts of this process release device memory if it is short."""
        with self._lock:
            try:
                return asked(self._lloyd(capacity, codebook))
            except DeviceMemoryError:
                self._on_device = None
                for other in list(_ON_DEVICES - {self}):
                    other._release_if_idle()
                return asked(self._lloyd(capacity, codebook))

    def _lloyd(self, capacity: int, codebook: Rows | None) -> Lloyd:
        if self._on_device is None:
            self._on_device = _OnDevice(self)
            _ON_DEVICES.add(self)
        return self._on_device.lloyd(capacity, codebook)

    def _release_if_idle(self) -> None:
        if self._lock.acquire(blocking=False):
            self._on_device = None
            self._lock.release()


# Parts of this process that may hold device memory.
_ON_DEVICES: weakref.WeakSet[Part] = weakref.WeakSet()


class _OnDevice:
    """A part's blocks, and a codebook with its sums, on a device while the part lives."""

    def __init__(self, part: Part) -> None:
        self._capacity = 0
        self._searched: bytes | None = None
        with contextlib.ExitStack() as inside:
            self._session = session = part.session or open_session()
            self._scope = inside.enter_context(session.scope())
            self._blocks = part.blocks(session, self._scope)
            session.finish()
            weakref.finalize(self, inside.pop_all().close)

    def lloyd(self, capacity: int, codebook: Rows | None) -> Lloyd:
        """Steps with room for so many codewords, which know the statistics of a codebook, if one is given."""
        if capacity > self._capacity:
            self._words = Codewords(self._session, self._scope, self._blocks.shape, capacity)
            self._lloyd = Lloyd(self._session, self._scope, self._blocks, self._words, seed_key(0))
            self._session.finish()
            self._capacity, self._searched = capacity, None
        if codebook is not None and codebook.tobytes() != self._searched:
            self._session.write(self._words.moved, np.ascontiguousarray(codebook))
            self._words.commit(len(codebook))
            self._lloyd.queue_statistics()
            self._searched = codebook.tobytes()
        return self._lloyd


class Parts(Blocks):
    """Blocks in parts that follow each other, wherever these are."""

    def __init__(self, session: Session, shape: BlockShape, counts: Sequence[int], weights: Weights) -> None:
        self.starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        super().__init__(shape, int(self.starts[-1]), weights)
        self.session = session

    @abc.abstractmethod
    def reduced(self, method: str, *args: Any) -> Any:
        """Call a method of each `Part`, and merge the results by `MERGES`."""

    @abc.abstractmethod
    def picked(self, wanted: dict[int, Places]) -> Sequence[Rows]:
        """Return blocks of some parts by their places in these."""

    def rows(self, numbers: Places) -> Rows:
        """Return blocks (count, K) by their increasing numbers, each from the part that has it."""
        cuts = itertools.pairwise(np.searchsorted(numbers, self.starts))
        found = self.picked({i: numbers[low:high] - self.starts[i] for i, (low, high) in enumerate(cuts) if low < high})
        return np.concatenate([np.empty((0, self.shape.components), self.shape.dtype), *found])

    def read(self) -> Rows:
        """Return all blocks."""
        return self.rows(np.arange(self.count))

    def _whole(self, scope: Scope) -> BlockSet:
        return self._at(scope, np.arange(self.count) if self.weights is None else np.flatnonzero(self.weights))

    def _at(self, scope: Scope, places: Places) -> BlockSet:
        weights = None if self.weights is None else self.weights[places]
        return BlockSet.of_rows(self.session, scope, self.shape, self.rows(places), weights)


class LazyParts(Parts):
    """Parts that are made when their turn comes, by their number, weights and first block, and dropped after it."""

    def __init__(
        self,
        session: Session,
        shape: BlockShape,
        counts: Sequence[int],
        weights: Weights,
        make: Callable[[int, Weights, int], Part],
    ) -> None:
        super().__init__(session, shape, counts, weights)
        self._make = make

    def reduced(self, method: str, *args: Any) -> Any:
        """See `Parts`."""
        found: Any = None
        for number in range(len(self.starts) - 1):
            own = getattr(self._part(number), method)(*args)
            found = own if number == 0 else MERGES[method]([found, own])
        return found

    def picked(self, wanted: dict[int, Places]) -> Sequence[Rows]:
        """Blocks of some parts; others are not read."""
        return [self._part(number).rows(places) for number, places in wanted.items()]

    def _part(self, number: int) -> Part:
        first, end = self.starts[number : number + 2].tolist()
        return self._make(number, None if self.weights is None else self.weights[first:end], first)


class PartedLloyd(Lloyd):
    """Steps that fit codewords to blocks in parts."""

    # The set of blocks that the kernels here see has the worst block of each codeword at the codeword's index.

    def __init__(self, session: Session, scope: Scope, blocks: Parts, words: Codewords, key: Key) -> None:
        empty = np.zeros((words.capacity, blocks.shape.components), blocks.shape.dtype)
        self._worst_rows = BlockSet.of_rows(session, scope, blocks.shape, empty, None)
        self._parts = blocks
        self._answers: dict[str, tuple[bytes, Any]] = {}
        super().__init__(session, scope, self._worst_rows, words, key, blocks.total_weight)

    def squares(self) -> int:
        """The weighted sum of the squared lengths of the parts' blocks."""
        return int(self._parts.reduced("squares", self._words.capacity))

    def _answer(self, method: str, codebook: Rows) -> Any:
        """Merge the results of all parts for a codebook, or repeat the last: steps may go on where nothing moves."""
        known, given = self._answers.get(method), codebook.tobytes()
        if known is None or known[0] != given:
            known = self._answers[method] = given, self._parts.reduced(method, codebook, self._words.capacity)
        return known[1]

    def _queue_sums(self) -> None:
        codebook = self._words.read()
        totals = self._answer("sums", codebook)
        words = codebook.astype(np.uint64)
        # |c|^2 n - 2 c.S, which may wrap below 0, as in vq_fold.
        errors = (words * words).sum(1, dtype=np.uint64) * totals[:, -1]
        errors -= np.uint64(2) * (words * totals[:, :-1]).sum(1, dtype=np.uint64)
        self._session.write(self.totals, np.ascontiguousarray(totals))
        self._session.write(self._errors, errors)

    def _queue_worst(self) -> None:
        """Fetch the worst blocks from the parts, if any codeword is dead."""
        codebook = self._words.read()
        if bool((self._answer("sums", codebook)[:, -1] > 0).all()):
            return
        found = self._answer("worst", codebook)
        packed = found.levels << PLACE_BITS | (PLACE_MASK - np.arange(len(codebook), dtype=np.uint32))
        self._session.write(self._worst, packed.astype(np.uint32))
        self._session.write(self._worst_rows.pieces[0].blocks, np.ascontiguousarray(found.rows))
