"""Training on blocks that are shared out: steps here, sums and worst blocks where the shares lie.

A step needs of the blocks no more than sums of integers per codeword, and for dead codewords the worst block of each.
So shares may be in any number, and made anew at any time: the codebook is the same bits. Samples are brought here, and
steps on these ask nobody. What a share holds on its device stays there between steps.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant.flow.residents import Residents
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


@dataclass(frozen=True)
class Sums:
    """What a step needs of blocks, for each codeword."""

    totals: npt.NDArray[np.uint64]  # (size, K + 1), of the blocks' components; the last column has their weights
    errors: npt.NDArray[np.uint64]  # (size,), |c|^2 n - 2 c.S, which may wrap below 0, as in vq_fold

    def plus(self, other: Sums) -> Sums:
        """The sums of two shares together."""
        return Sums(self.totals + other.totals, self.errors + other.errors)


# How two answers of a method of shares become one.
MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    "sums": Sums.plus,
    "squares": int.__add__,
    "worst": Worst.worse,
}


@dataclass(frozen=True)
class Band:
    """Rows of a picture that are whole blocks, (H, W, C), or rows of numbers, (n, d, 1)."""

    pixels: npt.NDArray[Any]
    first: int  # the number of the first block among all


class Share:
    """Blocks that one device looks at, in bands that follow each other, and buffers on that device."""

    def __init__(
        self, bands: Sequence[Band], weights: Weights, shape: BlockShape, session: Session | None = None
    ) -> None:
        self.bands = sorted(bands, key=lambda band: band.first)
        self.weights = weights  # of each block, in the order of the bands
        self.shape = shape
        self.session = session  # by default on this process's best device
        counts = [int(np.prod(shape.table_shape(*band.pixels.shape[:2]))) for band in self.bands]
        self.starts = [0, *itertools.accumulate(counts)]  # of the bands among the share's blocks
        self._on_device: _OnDevice | None = None
        self._lock = threading.Lock()

    @classmethod
    def joined(cls, shares: Sequence[Share]) -> Share:
        """The blocks of several shares, in the order of their numbers."""
        ordered = sorted(shares, key=lambda share: share.bands[0].first)
        weights = None
        if ordered[0].weights is not None:
            weights = np.concatenate([one.weights for one in ordered if one.weights is not None])
        return cls([band for one in ordered for band in one.bands], weights, ordered[0].shape, ordered[0].session)

    def __getstate__(self) -> dict[str, Any]:
        """For `pickle`: what the host holds; elsewhere the blocks are sent to a device again."""
        return {**self.__dict__, "session": None, "_on_device": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __sizeof__(self) -> int:
        pixels = sum(band.pixels.nbytes for band in self.bands)
        return pixels + (0 if self.weights is None else self.weights.nbytes)

    def sums(self, codebook: Rows, capacity: int) -> Sums:
        """Sums of the blocks of each codeword."""
        return self._ask(lambda lloyd: Sums(lloyd.read_totals(), lloyd.read_errors()), capacity, codebook)

    def squares(self, capacity: int) -> int:
        """The weighted sum of the blocks' squared lengths."""
        return self._ask(Lloyd.squares, capacity)

    def worst(self, codebook: Rows, capacity: int) -> Worst:
        """Find each codeword's worst block, if any codeword is dead."""
        levels, places = self._ask(Lloyd.read_worst, capacity, codebook)
        places = np.where(levels > 0, places, 0)
        return Worst(levels, self.numbers(places), self.rows(places))

    def numbers(self, places: Places) -> Places:
        """The numbers among all blocks of some of the share."""
        band = np.searchsorted(self.starts, places, side="right") - 1
        firsts = np.array([band.first for band in self.bands])
        numbers: Places = firsts[band] + places - np.array(self.starts)[band]
        return numbers

    def places_of(self, numbers: Places) -> Places:
        """The places in the share of blocks that it has, by their numbers among all."""
        firsts = [band.first for band in self.bands]
        band = np.searchsorted(firsts, numbers, side="right") - 1
        places: Places = np.array(self.starts)[band] + numbers - np.array(firsts)[band]
        return places

    def rows(self, places: Places) -> Rows:
        """Some blocks, from the host."""
        made = np.empty((len(places), self.shape.components), self.shape.dtype)
        bands = np.searchsorted(self.starts, places, side="right") - 1
        for number in np.unique(bands):
            own = bands == number
            made[own] = self._rows_of(self.bands[number], places[own] - self.starts[number])
        return made

    def rows_of_numbers(self, numbers: Places) -> Rows:
        """Some blocks that the share has, by their numbers among all."""
        return self.rows(self.places_of(numbers))

    def _rows_of(self, band: Band, places: Places) -> Rows:
        (height, width), shape = band.pixels.shape[:2], self.shape
        row, column = np.divmod(places, shape.table_shape(height, width)[1])
        down = np.minimum(row[:, None] * shape.rows + np.arange(shape.rows), height - 1)
        across = np.minimum(column[:, None] * shape.columns + np.arange(shape.columns), width - 1)
        blocks: Rows = band.pixels[down[:, :, None], across[:, None, :]].reshape(len(places), shape.components)
        return blocks

    def blocks(self, session: Session, scope: Scope) -> BlockSet:
        """All blocks, on a device."""
        made = BlockSet(session, scope, self.shape, self.starts[-1], self.weights)
        for band in self.bands:
            if self.shape.rows == 1 and band.pixels.shape[1:] == (self.shape.columns, 1):
                made.add_rows(band.pixels.reshape(len(band.pixels), -1))
                continue
            height, width, channels = band.pixels.shape
            pixels = np.ascontiguousarray(band.pixels)
            made.add(Picture(height, width, channels, channels == 1, array=pixels))
        return made

    def _ask(self, asked: Callable[[Lloyd], T], capacity: int, codebook: Rows | None = None) -> T:
        """Read a result of steps on the blocks; idle shares of this process release device memory if it is short."""
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


# Shares of this process that may hold device memory.
_ON_DEVICES: weakref.WeakSet[Share] = weakref.WeakSet()


class _OnDevice:
    """A share's blocks, and a codebook with its sums, on a device while the share lives."""

    def __init__(self, share: Share) -> None:
        self._capacity = 0
        self._searched: Rows | None = None
        with contextlib.ExitStack() as inside:
            self._session = session = share.session or open_session()
            self._scope = inside.enter_context(session.scope())
            self._blocks = share.blocks(session, self._scope)
            session.finish()
            weakref.finalize(self, inside.pop_all().close)

    def lloyd(self, capacity: int, codebook: Rows | None) -> Lloyd:
        """Steps with room for so many codewords, which know the statistics of a codebook, if one is given."""
        if capacity > self._capacity:
            self._words = Codewords(self._session, self._scope, self._blocks.shape, capacity)
            self._lloyd = Lloyd(self._session, self._scope, self._blocks, self._words, seed_key(0))
            self._session.finish()
            self._capacity, self._searched = capacity, None
        if codebook is not None and not np.array_equal(codebook, self._searched):  # type: ignore[arg-type]
            self._session.write(self._words.moved, np.ascontiguousarray(codebook))
            self._words.commit(len(codebook))
            self._lloyd.queue_statistics()
            self._searched = codebook
        return self._lloyd


class SharedBlocks(Blocks):
    """Blocks in shares, wherever these are: each has the numbers of one or several runs of blocks."""

    def __init__(
        self,
        session: Session,
        shape: BlockShape,
        counts: Sequence[int],
        weights: Weights,
        residents: Residents,
        owners: Sequence[int] | None = None,
    ) -> None:
        self._starts = [0, *itertools.accumulate(map(int, counts))]  # of the runs of blocks
        super().__init__(shape, self._starts[-1], weights)
        self.session, self.residents = session, residents
        self._owners = range(len(counts)) if owners is None else owners  # the number of each run's share

    def rows(self, numbers: Places) -> Rows:
        """Return blocks (count, K) by their increasing numbers, each from the share that has it."""
        owners = np.array(self._owners)[np.searchsorted(self._starts, numbers, side="right") - 1]
        wanted = {int(owner): numbers[owners == owner] for owner in np.unique(owners)}
        made = np.empty((len(numbers), self.shape.components), self.shape.dtype)
        found = self.residents.call_some("rows_of_numbers", wanted)
        for owner, rows in zip(wanted, found, strict=True):
            made[owners == owner] = rows
        return made

    def read(self) -> Rows:
        """Return all blocks."""
        return self.rows(np.arange(self.count))

    def _whole(self, scope: Scope) -> BlockSet:
        return self._at(scope, np.arange(self.count) if self.weights is None else np.flatnonzero(self.weights))

    def _at(self, scope: Scope, places: Places) -> BlockSet:
        weights = None if self.weights is None else self.weights[places]
        return BlockSet.of_rows(self.session, scope, self.shape, self.rows(places), weights)


class SharedLloyd(Lloyd):
    """Steps that fit codewords to blocks in shares."""

    # The set of blocks that the kernels here see: row j is codeword j's worst block.

    def __init__(self, session: Session, scope: Scope, blocks: SharedBlocks, words: Codewords, key: Key) -> None:
        empty = np.zeros((words.capacity, blocks.shape.components), blocks.shape.dtype)
        self._worst_rows = BlockSet.of_rows(session, scope, blocks.shape, empty, None)
        self._residents = blocks.residents
        self._answers: dict[str, tuple[Rows, Any]] = {}
        super().__init__(session, scope, self._worst_rows, words, key, blocks.total_weight)

    def squares(self) -> int:
        """The weighted sum of the squared lengths of the shares' blocks."""
        return int(self._residents.call("squares", self._words.capacity))

    def _answer(self, method: str, codebook: Rows) -> Any:
        """Merge the answers of all shares for a codebook, or repeat the last: steps may go on where nothing moves."""
        known = self._answers.get(method)
        if known is None or not np.array_equal(known[0], codebook):
            answer = self._residents.call(method, codebook, self._words.capacity)
            known = self._answers[method] = codebook, answer
        return known[1]

    def _queue_sums(self) -> None:
        sums: Sums = self._answer("sums", self._words.read())
        self._session.write(self.totals, np.ascontiguousarray(sums.totals))
        self._session.write(self._errors, sums.errors)

    def _queue_worst(self) -> None:
        """Fetch the worst blocks from the shares, if any codeword is dead."""
        codebook = self._words.read()
        if bool((self._answer("sums", codebook).totals[:, -1] > 0).all()):
            return
        found: Worst = self._answer("worst", codebook)
        packed = found.levels << PLACE_BITS | (PLACE_MASK - np.arange(len(codebook), dtype=np.uint32))
        self._session.write(self._worst, packed.astype(np.uint32))
        self._session.write(self._worst_rows.pieces[0].blocks, np.ascontiguousarray(found.rows))
