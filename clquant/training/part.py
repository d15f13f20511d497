"""Parts of training pictures, which may be anywhere: sums, worst blocks and samples of what a part has.

What a part holds on its device stays there between steps.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import DeviceMemoryError, Session, open_session, seed_key
from clquant.training.blocks import BlockShape
from clquant.training.blockset import BlockSet
from clquant.training.codewords import Codewords
from clquant.training.lines import Lines
from clquant.training.lloyd import Lloyd
from clquant.training.spacing import Spacing

Rows = npt.NDArray[np.integer[Any]]
# Of some blocks among others.
Positions = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Worst:
    """The worst block of each codeword."""

    levels: npt.NDArray[np.uint32]  # (size,), of the block's error; 0: the codeword has no block with an error
    numbers: npt.NDArray[np.int64]  # (size,), the block's, among all blocks
    rows: Rows  # (size, K), the block

    def worse(self, other: Worst) -> Worst:
        """The worse of two per codeword, at equal levels the one that comes first among all blocks."""
        theirs = (other.levels > self.levels) | ((other.levels == self.levels) & (other.numbers < self.numbers))
        return Worst(
            np.where(theirs, other.levels, self.levels),
            np.where(theirs, other.numbers, self.numbers),
            np.where(theirs[:, None], other.rows, self.rows),
        )


class Part:
    """Pieces of pictures that are cut at whole blocks, and their buffers on a device."""

    def __init__(
        self,
        pieces: Sequence[npt.NDArray[np.uint8]],
        weights: Sequence[npt.NDArray[np.uint16]] | None,
        block: tuple[int, int],
        lines: Lines,
        session: Session | None = None,
    ) -> None:
        self.session = session
        self.pieces = [np.ascontiguousarray(piece) for piece in pieces]
        self.weights = None if weights is None else list(weights)
        self.shape = BlockShape(*block, self.pieces[0].shape[2])
        self.lines = lines
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
        """Sums of the blocks of each codeword, (size, K + 1), the last column their weights."""
        with self._lock:
            return self._ready(capacity).statistics(codebook)

    def squares(self, capacity: int) -> int:
        """The weighted sum of the blocks' squared lengths."""
        with self._lock:
            return self._ready(capacity).squares()

    def worst(self, codebook: Rows, capacity: int) -> Worst:
        """Of each codeword its worst block, if any codeword is dead."""
        with self._lock:
            levels, places = self._ready(capacity).worst(codebook)
        places = np.where(levels > 0, places, 0)
        return Worst(levels, self.lines.numbers(places), self.rows(places))

    def sample(self, places: npt.NDArray[np.int64]) -> Rows:
        """Blocks by their increasing places, (count, K): from the device, or the host if that has no room."""
        if not len(places):
            return np.empty((0, self.shape.components), np.uint8)
        with self._lock, contextlib.suppress(DeviceMemoryError):
            return self._ready(0).rows(places)
        return self.rows(places)

    def every(self, spacing: Spacing, size: int) -> Part:
        """Subset of this part's weighted blocks selected by a stride; one without weight if it takes none."""
        p, q = self.shape.rows, self.shape.columns
        flat = self._flat_weights()
        places, _ = self.lines.every(spacing, size, flat)
        if not len(places):
            flat, places = np.zeros(1, np.uint16), np.zeros(1, np.int64)
        weights = None if flat is None else [flat[places][:, None]]
        stacked = self.sample(places).reshape(len(places) * p, q, self.shape.channels).astype(np.uint8, copy=False)
        lines = Lines(self.lines.numbers(places), np.ones(len(places), np.int64))
        return Part([stacked], weights, (p, q), lines, self.session)

    def spaced(self, spacings: Sequence[Spacing], size: int) -> list[tuple[Positions, Rows]]:
        """This part's blocks of some strided samples: for each sample the positions there, and the blocks."""
        return [self._spaced(spacing, size) for spacing in spacings]

    def _spaced(self, spacing: Spacing, size: int) -> tuple[Positions, Rows]:
        run = self.lines.run(spacing, size)
        if run:
            with self._lock, contextlib.suppress(DeviceMemoryError):
                return slice(run.start, run.stop), self._ready(0).spaced(spacing, run, int(self.lines.first[0]))
        places, which = self.lines.every(spacing, size, self._flat_weights())
        return which, self.sample(places)

    def _flat_weights(self) -> npt.NDArray[np.uint16] | None:
        return None if self.weights is None else np.concatenate([own.ravel() for own in self.weights])

    def rows(self, places: npt.NDArray[np.int64]) -> Rows:
        """Some blocks, from the host."""
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

    def _ready(self, capacity: int) -> _OnDevice:
        """Return the buffers for codebooks of so many codewords; idle parts give up theirs if room is short."""
        try:
            return self._held(capacity)
        except DeviceMemoryError:
            self._on_device = None
            if not self._drop_others():
                raise
            return self._held(capacity)

    def _held(self, capacity: int) -> _OnDevice:
        if self._on_device is None:
            self._on_device = _OnDevice(self)
            _ON_DEVICES.add(self)
        self._on_device.prepare(capacity)
        return self._on_device

    def _drop_others(self) -> bool:
        """Release the device memory of this process's idle other parts; return whether there was any."""
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
    """A part's blocks, and a codebook with its sums, on this process's device while the part lives."""

    def __init__(self, part: Part) -> None:
        self._capacity = 0
        self._searched: bytes | None = None
        with contextlib.ExitStack() as inside:
            self._session = session = part.session or open_session()
            self._scope = inside.enter_context(session.scope())
            pictures = [
                Picture(piece.shape[0], piece.shape[1], piece.shape[2], piece.shape[2] == 1, array=piece)
                for piece in part.pieces
            ]
            self._blocks = BlockSet.of_pictures(session, self._scope, pictures, part.weights, part.shape)
            session.finish()
            self._end = weakref.finalize(self, inside.pop_all().close)

    def prepare(self, capacity: int) -> None:
        if capacity > self._capacity:
            self._words = Codewords(self._session, self._scope, self._blocks.shape, capacity)
            self._lloyd = Lloyd(self._session, self._scope, self._blocks, self._words, seed_key(0))
            self._session.finish()
            self._capacity, self._searched = capacity, None

    def rows(self, places: npt.NDArray[np.int64]) -> Rows:
        with self._session.scope() as scope:
            return self._blocks.at(scope, places).read(len(places))

    def spaced(self, spacing: Spacing, which: range, begin: int) -> Rows:
        with self._session.scope() as scope:
            return self._blocks.spaced(scope, spacing, which, begin).read(len(which))

    def squares(self) -> int:
        return self._lloyd.read_squares()

    def statistics(self, codebook: Rows) -> npt.NDArray[np.uint64]:
        self._search(codebook)
        return self._lloyd.read_totals()

    def worst(self, codebook: Rows) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        self._search(codebook)
        return self._lloyd.read_worst()

    def _search(self, codebook: Rows) -> None:
        given = codebook.tobytes()
        if given == self._searched:
            return
        self._session.write(self._words.moved, codebook)
        self._words.commit(len(codebook))
        self._lloyd.queue_statistics()
        self._searched = given
