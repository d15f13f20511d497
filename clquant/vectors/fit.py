"""The training of a quantizer of rows, in memory or by portions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Array, CommandQueue, Progress, Scope, Session, open_session
from clquant.training import training
from clquant.training.blocks import Weights
from clquant.training.blockset import BlockSet
from clquant.training.parts import LazyParts, Part
from clquant.vectors.device_rows import DeviceRows
from clquant.vectors.distances import Labels, all_distances, nearest, runs_of, squared_errors
from clquant.vectors.fixed_point import FixedPoint
from clquant.vectors.rows import RowSource, finite

Words = npt.NDArray[np.integer[Any]]
_DEVICE_SHARE = 3  # rows take at most a third of a device's memory, beside samples and what steps need
_MOST_AT_ONCE = 1 << 26  # bytes of rows in a portion, or a quarter of the host memory that they may take
_MOST_OF_CHUNKS = 1 << 28  # of rows that are whole chunks of a store, which reads several at the same time


@contextlib.contextmanager
def rows_of(source: RowSource, queue: CommandQueue | None, memory: int) -> Iterator[Any]:
    """Open rows for training and searching: `HeldRows` in this process."""
    elsewhere = source.spread(queue)
    if elsewhere is not None:
        yield elsewhere
        return
    session = open_session(queue, [source.source] if source.is_on_device else [])
    with session.scope() as scope:
        keep = source.dtype.itemsize > 1 and not source.is_stored
        keep = keep and 2 * source.nbytes <= session.limits.global_memory // _DEVICE_SHARE
        most = _rows_at_once(source, min(memory // 4, session.limits.max_alloc))
        yield HeldRows(DeviceRows(session, scope, source, keep, most), memory)


def _rows_at_once(source: RowSource, room: int) -> int:
    """Return the rows of a portion of at most so many bytes: whole chunks of a store, so that none is read twice."""
    chunk = source.chunk_rows
    chunks = min(room, _MOST_OF_CHUNKS) // (source.components * source.dtype.itemsize * chunk)
    if chunk > 1 and chunks > 0:
        return chunks * chunk
    return max(1, min(room, _MOST_AT_ONCE) // (source.components * max(source.dtype.itemsize, 2)))


class HeldRows:
    """Rows that one device looks at, all at once or in portions; lazy ones may take so much host memory."""

    def __init__(self, rows: DeviceRows, memory: int) -> None:
        self._rows, self._session, self._source, self._memory = rows, rows.session, rows.source, memory

    def ends(self) -> tuple[float, float]:
        """The least and the largest number; raises where one is not finite."""
        return self._rows.ends()

    def train(
        self, fixed: FixedPoint, weights: Weights, plans: Sequence[training.Plan], progress: Progress
    ) -> tuple[training.Trained, Labels | None]:
        """The training of least error, the first of equals, and the labels of the rows."""
        session, source = self._session, self._source
        shape = fixed.shape(source.components)
        room = session.limits.global_memory // _DEVICE_SHARE
        in_portions = source.count * shape.nbytes > room or (source.is_stored and source.nbytes > self._memory)
        with session.scope() as scope:
            if in_portions:
                portions, runs = self._portions(fixed, weights), runs_of(self._rows, fixed)
                best = training.train(session, portions, plans, progress)
            else:
                blocks = _RowPart(self._rows, fixed, weights, 0, source.count).blocks(session, scope)
                best, runs = training.train(session, blocks, plans, progress), blocks.runs()
            labels = nearest(session, best.codebook, shape, runs, source.count, source.is_on_device)
        return best, labels

    def totals(self, fixed: FixedPoint, weights: Weights, words: Words) -> npt.NDArray[np.uint64]:
        """Sums of the rows of each codeword, (k, d + 1), the last column their weights."""
        found: npt.NDArray[np.uint64] = self._portions(fixed, weights).reduced("sums", words, len(words))
        return found

    def nearest(self, _: Any, fixed: FixedPoint, words: Words) -> Labels:
        """The index of the nearest codeword of each row."""
        source, runs = self._source, runs_of(self._rows, fixed)
        return nearest(self._session, words, fixed.shape(source.components), runs, source.count, source.is_on_device)

    def distances(self, _: Any, fixed: FixedPoint, words: Words) -> npt.NDArray[np.float64] | Array:
        """Squared distances of each row to each codeword."""
        source, runs = self._source, runs_of(self._rows, fixed)
        given = self._session, words, fixed.shape(source.components), runs, source.count, fixed.scale
        return all_distances(*given, source.is_on_device)

    def error(self, _: Any, fixed: FixedPoint, words: Words, weights: Weights) -> int:
        """The weighted sum of squared distances to the nearest codewords, in squares of the scale."""
        total, runs = 0, runs_of(self._rows, fixed)
        for first, errors in squared_errors(self._session, words, fixed.shape(self._source.components), runs):
            own = errors if weights is None else errors * weights[first : first + len(errors)]
            total += int(own.sum())
        return total

    def _portions(self, fixed: FixedPoint, weights: Weights) -> LazyParts:
        """All rows in portions, each of which is sent to the device when its turn comes."""
        cuts = list(self._rows.steps(0, self._source.count))

        def make(number: int, own: Weights, _: int) -> Part:
            return _RowPart(self._rows, fixed, own, *cuts[number])

        shape, counts = fixed.shape(self._source.components), [end - first for first, end in cuts]
        return LazyParts(self._session, shape, counts, weights, make)


class _RowPart(Part):
    """Consecutive rows that the device makes whole numbers of."""

    def __init__(self, rows: DeviceRows, fixed: FixedPoint, weights: Weights, first: int, end: int) -> None:
        super().__init__(np.empty(0, np.uint8), weights, fixed.shape(rows.source.components), first, rows.session)
        self._rows, self._fixed, self._end = rows, fixed, end

    def blocks(self, session: Session, scope: Scope) -> BlockSet:
        """All rows, on the device."""
        blocks, first = BlockSet(session, scope, self.shape, self._end - self.first, self.weights), self.first
        for piece in blocks.pieces:
            self._rows.write(self._fixed, first, first + piece.capacity, piece.blocks)
            piece.count = piece.capacity
            first += piece.count
        return blocks

    def rows(self, places: npt.NDArray[np.int64]) -> Words:
        """Some rows, from the host."""
        begin = int(self.first + places.min())
        rows = self._rows.read(begin, int(self.first + places.max()) + 1)[places - places.min()]
        return self._fixed.encode(finite(rows, begin), begin)
