"""Training on blocks that lie in parts elsewhere: steps here, sums and worst blocks there.

A step needs of the blocks no more than sums of integers per codeword, and for dead codewords the worst block of each.
So parts may be anywhere, in any number, and made anew at any time: the codebook is the same bits. What a part holds on
its device stays there between steps.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import DeviceError, DeviceMemoryError, InvalidArgument, Scope, Session, open_session, seed_key
from clquant.vq.blocks import BlockShape
from clquant.vq.blockset import BlockSet, check_bound, places_at_distance, sample_places
from clquant.vq.codewords import Codewords
from clquant.vq.lloyd import PLACE_BITS, PLACE_MASK, Lloyd

Rows = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Worst:
    """Of each codeword its worst block.

    Attributes
    ----------
    levels : ndarray of uint32, shape (size,)
        Of the block's error; 0: the codeword has no block with an error.
    numbers : ndarray of int64, shape (size,)
        The block's, among all blocks.
    rows : ndarray of uint8, shape (size, K)
        The block.
    """

    levels: npt.NDArray[np.uint32]
    numbers: npt.NDArray[np.int64]
    rows: Rows

    def worse(self, other: Worst) -> Worst:
        """The worse of two per codeword, at equal levels the one that comes first among all blocks.

        Parameters
        ----------
        other : Worst
        """
        theirs = (other.levels > self.levels) | ((other.levels == self.levels) & (other.numbers < self.numbers))
        return Worst(
            np.where(theirs, other.levels, self.levels),
            np.where(theirs, other.numbers, self.numbers),
            np.where(theirs[:, None], other.rows, self.rows),
        )


@dataclass(frozen=True)
class Tile:
    """Where a piece of a picture has its blocks among those of all pictures.

    Attributes
    ----------
    first : int
        The number of its first block.
    stride : int
        Blocks in a row of the whole picture.
    """

    first: int
    stride: int


class Part:
    """Pieces of pictures that are cut at whole blocks, and what a device holds of them.

    Parameters
    ----------
    pieces : sequence of ndarray of uint8
        (h, w, C) each. Edge blocks are completed as those of whole pictures.
    weights : sequence of ndarray of uint16, or None
        (block rows, block columns) per piece.
    block : pair of int
        (rows, columns) of a block.
    session : Session, optional
        Default: one of this process's own device, wherever the part is.
    """

    def __init__(
        self,
        pieces: Sequence[npt.NDArray[np.uint8]],
        weights: Sequence[npt.NDArray[np.uint16]] | None,
        block: tuple[int, int],
        session: Session | None = None,
    ) -> None:
        self.session = session
        self.pieces = [np.ascontiguousarray(piece) for piece in pieces]
        self.weights = None if weights is None else list(weights)
        self.shape = BlockShape(*block, self.pieces[0].shape[2])
        self.tables = [self.shape.table_shape(*piece.shape[:2]) for piece in self.pieces]
        self._starts = np.concatenate([[0], np.cumsum([rows * columns for rows, columns in self.tables])])
        self._on_device: _OnDevice | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """For `pickle`: what the host holds; elsewhere the blocks are sent to a device again."""
        return {**self.__dict__, "_on_device": None, "_lock": None, "session": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __sizeof__(self) -> int:
        return sum(piece.nbytes for piece in self.pieces) + sum(each.nbytes for each in self.weights or ())

    def statistics(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        """Sums of the blocks of each codeword, (size, K + 1), the last column their weights.

        Parameters
        ----------
        codebook : ndarray of uint8, shape (size, K)
        capacity : int
            Most codewords that later steps may have.
        """
        with self._lock:
            return self._held(capacity).statistics(codebook)

    def squares(self, capacity: int) -> int:
        """The weighted sum of the blocks' squared lengths.

        Parameters
        ----------
        capacity : int
        """
        with self._lock:
            return self._held(capacity).lloyd.read_squares()

    def worst(self, codebook: Rows, capacity: int, tiles: Sequence[Tile]) -> Worst:
        """Of each codeword its worst block, if any codeword is dead.

        Parameters
        ----------
        codebook, capacity
            As `statistics` takes them.
        tiles : sequence of Tile
            Per piece.
        """
        with self._lock:
            levels, places = self._held(capacity).worst(codebook)
        places = np.where(levels > 0, places, 0)
        return Worst(levels, self._numbers(places, tiles), self.rows(places))

    def rows(self, places: npt.NDArray[np.int64]) -> Rows:
        """Some blocks.

        Parameters
        ----------
        places : ndarray of int64
            Their numbers within this part, in any order.

        Returns
        -------
        ndarray of uint8, shape (len(places), K)
        """
        p, q = self.shape.rows, self.shape.columns
        made = np.empty((len(places), p, q, self.shape.channels), np.uint8)
        which = np.searchsorted(self._starts, places, side="right") - 1
        for i in np.unique(which):
            piece, mine = self.pieces[i], which == i
            row, column = np.divmod(places[mine] - self._starts[i], self.tables[i][1])
            down = np.minimum(row[:, None] * p + np.arange(p), piece.shape[0] - 1)
            across = np.minimum(column[:, None] * q + np.arange(q), piece.shape[1] - 1)
            made[mine] = piece[down[:, :, None], across[:, None, :]]
        return made.reshape(len(places), self.shape.components)

    def _numbers(self, places: npt.NDArray[np.int64], tiles: Sequence[Tile]) -> npt.NDArray[np.int64]:
        """Numbers within this part -> among all blocks."""
        which = np.searchsorted(self._starts, places, side="right") - 1
        columns = np.array([table[1] for table in self.tables])[which]
        row, column = np.divmod(places - self._starts[which], columns)
        first, stride = (np.array([getattr(t, name) for t in tiles])[which] for name in ("first", "stride"))
        numbers: npt.NDArray[np.int64] = first + row * stride + column
        return numbers

    def _held(self, capacity: int) -> _OnDevice:
        if self._on_device is None or self._on_device.capacity < capacity:
            self._on_device = None
            try:
                self._on_device = _OnDevice(self, capacity)
            except DeviceMemoryError:
                if not self._drop_others():
                    raise
                self._on_device = _OnDevice(self, capacity)
            _ON_DEVICES.add(self)
        return self._on_device

    def _drop_others(self) -> bool:
        """Give back what other parts of this process hold on the device and do not use now; whether there was any."""
        dropped = False
        for other in list(_ON_DEVICES):
            if other is not self and other._lock.acquire(blocking=False):
                try:
                    dropped |= other._on_device is not None
                    other._on_device = None
                finally:
                    other._lock.release()
        return dropped


# Parts of this process that hold device memory.
_ON_DEVICES: weakref.WeakSet[Part] = weakref.WeakSet()


class _OnDevice:
    """A part's blocks, and a codebook with its sums, on this process's device until nobody holds the part."""

    def __init__(self, part: Part, capacity: int) -> None:
        self.capacity = capacity
        self._searched: bytes | None = None
        with contextlib.ExitStack() as inside:
            self._session = session = part.session or open_session()
            scope = inside.enter_context(session.scope())
            pictures = [
                Picture(piece.shape[0], piece.shape[1], piece.shape[2], piece.shape[2] == 1, array=piece)
                for piece in part.pieces
            ]
            blocks = BlockSet.of_pictures(session, scope, pictures, part.weights, part.shape)
            self._words = Codewords(session, scope, part.shape, capacity)
            self.lloyd = Lloyd(session, scope, blocks, self._words, seed_key(0))
            session.finish()
            self._end = weakref.finalize(self, inside.pop_all().close)

    def statistics(self, codebook: Rows) -> npt.NDArray[np.uint64]:
        self._search(codebook)
        return self.lloyd.read_totals()

    def worst(self, codebook: Rows) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        self._search(codebook)
        return self.lloyd.read_worst()

    def _search(self, codebook: Rows) -> None:
        given = codebook.tobytes()
        if given == self._searched:
            return
        self._session.write(self._words.moved, codebook)
        self._words.commit(len(codebook))
        self.lloyd.queue_statistics()
        self._searched = given


@dataclass(frozen=True)
class Elsewhere:
    """What asks the parts.

    Attributes
    ----------
    sums : callable
        From a codebook (size, K) and the most codewords to the sum of `Part.statistics` over all parts.
    worst : callable
        From the same to the `Worst` over all parts.
    squares : callable
        From the most codewords to the sum of `Part.squares`.
    rows : callable
        From increasing numbers of blocks among all to these, (count, K).
    """

    sums: Callable[[Rows, int], npt.NDArray[np.uint64]]
    worst: Callable[[Rows, int], Worst]
    squares: Callable[[int], int]
    rows: Callable[[npt.NDArray[np.int64]], Rows]


class PartedBlocks:
    """What a training wants to know of blocks that are elsewhere, as `BlockSet` has it.

    Parameters
    ----------
    session : Session
    scope : Scope
        Holds samples.
    shape : BlockShape
    count : int
    weights : ndarray of uint16, shape (count,), or None
    elsewhere : Elsewhere
    """

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
        """As `BlockSet.read`."""
        rows = self.elsewhere.rows(np.arange(self.count))
        return np.concatenate([rows, np.repeat(rows[:1], number - self.count, axis=0)])

    def sample(self, scope: Scope, size: int, stage: int, seed: int) -> BlockSet:
        """As `BlockSet.sample`; if no more blocks than `size` have weight, a set of all these."""
        places = sample_places(self.count, self.weights, size, stage, seed)
        return self.gathered(scope) if places is None else self._here(scope, places)

    def every(self, scope: Scope, size: int, turn: int) -> BlockSet:
        """As `BlockSet.every`."""
        able = self._able()
        return self._here(scope, able[places_at_distance(len(able), size, turn)])

    def gathered(self, scope: Scope) -> BlockSet:
        """All blocks that have weight, held by a scope."""
        return self._here(scope, self._able())

    def _able(self) -> npt.NDArray[np.int64]:
        return np.arange(self.count) if self.weights is None else np.flatnonzero(self.weights)

    def _here(self, scope: Scope, places: npt.NDArray[np.int64]) -> BlockSet:
        weights = None if self.weights is None else self.weights[places]
        return BlockSet.of_rows(self._session, scope, self.shape, self.elsewhere.rows(places), weights)


class PartedLloyd(Lloyd):
    """Steps that fit codewords to `PartedBlocks`.

    The set of blocks that the kernels here see has the worst block of each codeword at the codeword's index.

    Parameters
    ----------
    session, scope, words, key
        As `Lloyd` takes them.
    blocks : PartedBlocks
    """

    def __init__(
        self, session: Session, scope: Scope, blocks: PartedBlocks, words: Codewords, key: npt.NDArray[np.uint32]
    ) -> None:
        empty = np.zeros((words.capacity, blocks.shape.components), np.uint8)
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
        """Ask the parts for the worst blocks, if any codeword is dead."""
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
    """The steps for blocks that are elsewhere, and for samples of them, as `training.train_on` takes them."""
    kind = PartedLloyd if isinstance(blocks, PartedBlocks) else Lloyd
    return kind(session, scope, blocks, words, key)
