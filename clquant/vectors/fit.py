"""The training of a quantizer of rows, in memory or by portions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant.flow.queues import QueueThreads
from clquant.flow.residents import InTurn, OnQueues
from clquant.runtime import (
    Array,
    CommandQueue,
    Progress,
    QueueLike,
    Scope,
    Session,
    bound,
    is_several,
    open_session,
    queues_of,
)
from clquant.training import training
from clquant.training.blocks import Weights
from clquant.training.blockset import BlockSet
from clquant.training.shares import MERGES, Band, Share, SharedBlocks, Sums
from clquant.vectors.device_rows import DeviceRows
from clquant.vectors.distances import Labels, all_distances, nearest, runs_of, squared_error
from clquant.vectors.fixed_point import Ends, FixedPoint, join_ends
from clquant.vectors.rows import RowSource

T = TypeVar("T")
Words = npt.NDArray[np.integer[Any]]
_DEVICE_SHARE = 3  # rows take at most a third of a device's memory, beside samples and what steps need
_MOST_OF_CHUNKS = 1 << 28  # of rows that are whole chunks of a store, which reads several at the same time


@contextlib.contextmanager
def rows_of(source: RowSource, queue: QueueLike, memory: int, size: int) -> Iterator[Any]:
    """Open rows for training and searching by so many codewords: `HeldRows` of one queue, `SharedRows` of several."""
    elsewhere = source.spread(queue)
    if elsewhere is not None:
        yield elsewhere
        return
    if is_several(queue) and not source.is_on_device and source.count >= len(queues_of(queue)):
        with QueueThreads(queues_of(queue)) as threads, contextlib.ExitStack() as stack:
            numbers = source.count * source.components
            if threads.pays(numbers * size, 2 * numbers):
                yield SharedRows(source, queue, memory, threads, stack)
                return
    with _held_rows(source, queue, memory) as held:
        yield held


@contextlib.contextmanager
def _held_rows(source: RowSource, queue: QueueLike, memory: int) -> Iterator[HeldRows]:
    """Open rows for one queue."""
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
    return max(1, min(room, bound("rows.portion")) // (source.components * max(source.dtype.itemsize, 2)))


class HeldRows:
    """Rows that one device looks at, all at once or in portions; lazy ones may take so much host memory."""

    def __init__(self, rows: DeviceRows, memory: int) -> None:
        self._rows, self._session, self._source, self._memory = rows, rows.session, rows.source, memory

    def ends(self) -> Ends:
        """The least and the largest number of each column; raises where one is not finite."""
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
                shares, runs = self._in_turn(fixed, weights), runs_of(self._rows, fixed)
                best = training.train(session, shares, plans, progress)
            else:
                blocks = self.share(fixed, weights, 0).blocks(session, scope)
                best = training.train(session, blocks, plans, progress)
                runs = ((*run, None) for run in blocks.runs())
            labels = nearest(session, best.codebook, fixed, runs, source.count, source.is_on_device)
        return best, labels

    def totals(self, fixed: FixedPoint, weights: Weights, words: Words) -> npt.NDArray[np.uint64]:
        """Sums of the rows of each codeword, (k, d + 1), the last column their weights."""
        sums: Sums = self._in_turn(fixed, weights).residents.call("sums", words, len(words))
        return sums.totals

    def share(self, fixed: FixedPoint, weights: Weights, first: int) -> RowShare:
        """All rows as whole numbers on the device; `first` is the number of the first among all."""
        return RowShare(self._rows, fixed, weights, (0, self._source.count), first)

    def nearest(self, _: Any, fixed: FixedPoint, words: Words) -> Labels:
        """The index of the nearest codeword of each row."""
        source, runs = self._source, runs_of(self._rows, fixed)
        return nearest(self._session, words, fixed, runs, source.count, source.is_on_device)

    def distances(self, _: Any, fixed: FixedPoint, words: Words) -> npt.NDArray[np.float64] | Array:
        """Squared distances of each row to each codeword."""
        source, runs = self._source, runs_of(self._rows, fixed)
        return all_distances(self._session, words, fixed, runs, source.count, source.is_on_device)

    def error(self, _: Any, fixed: FixedPoint, words: Words, weights: Weights, labels: Labels | None = None) -> int:
        """The weighted sum of squared distances to the nearest codewords; see `squared_error`."""
        return squared_error(self._rows, words, fixed, weights, labels)

    def _in_turn(self, fixed: FixedPoint, weights: Weights) -> SharedBlocks:
        """All rows in portions, each of which is sent to the device when its turn comes."""
        cuts = list(self._rows.steps(0, self._source.count))

        def make(number: int) -> RowShare:
            first, end = cuts[number]
            own = None if weights is None else weights[first:end]
            return RowShare(self._rows, fixed, own, (first, end), first)

        shape, counts = fixed.shape(self._source.components), [end - first for first, end in cuts]
        return SharedBlocks(self._session, shape, counts, weights, InTurn(MERGES, len(cuts), make))


class RowShare(Share):
    """Consecutive rows of a source, half-open, that the device makes whole numbers of."""

    def __init__(self, rows: DeviceRows, fixed: FixedPoint, weights: Weights, own: tuple[int, int], first: int) -> None:
        nothing = np.empty((0, rows.source.components, 1), np.uint8)
        super().__init__([Band(nothing, first)], weights, fixed.shape(rows.source.components), rows.session)
        self._rows, self._fixed, self._own = rows, fixed, own
        self.starts = [0, own[1] - own[0]]

    def blocks(self, session: Session, scope: Scope) -> BlockSet:
        """All rows, on the device."""
        first, blocks = self._own[0], BlockSet(session, scope, self.shape, self.starts[1], self.weights)
        for piece in blocks.pieces:
            self._rows.write(self._fixed, first, first + piece.capacity, piece.blocks)
            piece.count = piece.capacity
            first += piece.count
        return blocks

    def _rows_of(self, band: Band, places: npt.NDArray[np.int64]) -> Words:  # noqa: ARG002
        first = self._own[0]
        return self._fixed.encode(self._rows.pick(first + places))


class SharedRows:
    """Rows shared out among several queues, with the methods of `HeldRows`: each queue has some for good."""

    def __init__(
        self,
        source: RowSource,
        queue: QueueLike,
        memory: int,
        threads: QueueThreads,
        stack: contextlib.ExitStack,
    ) -> None:
        self._source, self._threads, self._cuts = source, threads, threads.shares_of(source.count)
        self._session = open_session(queue)

        def hold(number: int, own: CommandQueue) -> HeldRows:
            return stack.enter_context(_held_rows(source.part(*self._cuts[number]), own, memory // len(threads)))

        self._held = threads.each(hold)

    def ends(self) -> Ends:
        """The least and the largest number of each column; raises where one is not finite."""
        return join_ends(self._each(lambda held, _: held.ends()))

    def train(
        self, fixed: FixedPoint, weights: Weights, plans: Sequence[training.Plan], progress: Progress
    ) -> tuple[training.Trained, None]:
        """The training of least error, the first of equals; labels are found when they are asked for."""
        residents = OnQueues(MERGES, self._threads, lambda number, _: self._share(number, fixed, weights))
        shape, counts = fixed.shape(self._source.components), [end - first for first, end in self._cuts]
        blocks = SharedBlocks(self._session, shape, counts, weights, residents)
        return training.train(self._session, blocks, plans, progress), None

    def totals(self, fixed: FixedPoint, weights: Weights, words: Words) -> npt.NDArray[np.uint64]:
        """Sums of the rows of each codeword, (k, d + 1), the last column their weights."""
        found = self._each(lambda held, own: held.totals(fixed, own, words), weights)
        return functools.reduce(np.add, found)

    def nearest(self, model: Any, fixed: FixedPoint, words: Words) -> npt.NDArray[np.int32]:
        """The index of the nearest codeword of each row."""
        return np.concatenate(self._each(lambda held, _: held.nearest(model, fixed, words)))

    def distances(self, model: Any, fixed: FixedPoint, words: Words) -> npt.NDArray[np.float64]:
        """Squared distances of each row to each codeword."""
        return np.concatenate(self._each(lambda held, _: held.distances(model, fixed, words)))

    def error(self, model: Any, fixed: FixedPoint, words: Words, weights: Weights, _: Labels | None = None) -> int:
        """The weighted sum of squared distances to the nearest codewords; see `squared_error`."""
        return sum(self._each(lambda held, own: held.error(model, fixed, words, own), weights))

    def _each(self, work: Callable[[HeldRows, Weights], T], weights: Weights = None) -> list[T]:
        """Call `work` with what each queue holds, and the weights of its rows."""

        def call(number: int, _: CommandQueue) -> T:
            first, end = self._cuts[number]
            return work(self._held[number], None if weights is None else weights[first:end])

        return self._threads.each(call)

    def _share(self, number: int, fixed: FixedPoint, weights: Weights) -> RowShare:
        first, end = self._cuts[number]
        return self._held[number].share(fixed, None if weights is None else weights[first:end], first)
