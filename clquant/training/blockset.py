"""The training blocks of many pictures on the device, in pieces that respect its limits, and samples of them."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.flow import PictureSource
from clquant.images import Picture
from clquant.runtime import Buffer, InvalidArgument, Scope, Session, philox4x32, seed_key
from clquant.training.blocks import BlockShape, Places, Rows, Weights

MAX_WEIGHT = 1 << 30
MAX_PIECE = 1 << 22  # blocks; keeps 32-bit sums of cl/training/accumulate.h exact
_ERROR_BITS, _LEAST_WEIGHTED_BITS = 63, 10  # of the sum of all squared errors; of numbers beside weights
_SAMPLING = 3  # purpose of random numbers


def whole_weights(values: npt.NDArray[np.float64], components: int, bits: int) -> tuple[Weights, float]:
    """Weights as whole numbers of at most 2^30, and what 1 stands for; None if all weights are equal.

    The unit is a power of two: the least one, or 1 for whole weights. It grows while sums of squared errors of numbers
    of `bits` do not fit, up to 2^-12 of the largest weight and 2^-4 of the least one above 0, and further where numbers
    had less than 10 bits. No weight above 0 becomes 0.
    """
    largest, least = float(values.max()), float(values[values > 0].min())
    if bool((values == largest).all()):
        return None, largest
    exponent = math.frexp(largest)[1] - MAX_WEIGHT.bit_length() + 1
    if bool((values == np.floor(values)).all()):
        exponent = max(exponent, 0)
    bound = math.ldexp(min(largest / 256, least), -4)
    while True:
        whole = np.maximum(np.rint(np.ldexp(values, -exponent)), values > 0)
        left = number_bits(int(whole.sum()), components)
        if left >= bits or (left >= _LEAST_WEIGHTED_BITS and math.ldexp(1.0, exponent) >= bound):
            return whole.astype(np.uint32), math.ldexp(1.0, exponent)
        exponent += 1


def number_bits(mass: int, components: int) -> int:
    """Bits of numbers that sums of squared errors leave, of blocks whose weights add up to `mass`."""
    return (_ERROR_BITS - (mass * components).bit_length()) // 2


def sample_places(count: int, weights: Weights, size: int, stage: int, seed: int) -> Places | None:
    """The increasing numbers of the blocks of a sample; None if no more blocks than `size` have weight."""
    able = None if weights is None else np.flatnonzero(weights)
    number = count if able is None else len(able)
    if number <= size:
        return None
    ends = np.arange(size + 1, dtype=np.int64) * number // size
    counters = np.zeros((-(-size // 4), 4), np.uint32)
    counters[:, 0], counters[:, 2], counters[:, 3] = np.arange(len(counters)), stage, _SAMPLING
    words = philox4x32(counters, seed_key(seed)).ravel()[:size]
    places = ends[:-1] + words.astype(np.int64) % np.diff(ends)
    return places if able is None else able[places]


@dataclass
class BlockRun:
    """Up to `MAX_PIECE` blocks on the device."""

    blocks: Buffer  # rows of K bytes
    weights: Buffer  # a uint32 per block; unused if blocks have none
    indices: Buffer  # a uint16 per block, the codeword that a search gives it
    capacity: int  # blocks there is room for
    count: int = 0  # blocks that are there


def _strided(which: Any, distance: int, turn: int) -> Any:
    """Index of sample `which`: one out of each `distance`, whose offset moves on with `turn`."""
    return which * distance + (which + turn) % distance


class Blocks(abc.ABC):
    """Numbered blocks, of which samples are taken to the device."""

    def __init__(self, shape: BlockShape, count: int, weights: Weights) -> None:
        # Errors, and the sums of squares they are made from, are unsigned 64-bit numbers on the device.
        self.shape, self.count, self.weights = shape, count, weights
        most = (1 << 63) // (shape.largest**2 * shape.components)
        if self.total_weight > most:
            raise InvalidArgument(f"there are {count} blocks or rows; allowed: a weight of at most {most} together")

    @property
    def total_weight(self) -> int:
        """The sum of the weights; the number of blocks if they have none."""
        return self.count if self.weights is None else int(self.weights.sum(dtype=np.int64))

    def sample(self, scope: Scope, size: int, stage: int, seed: int) -> BlockSet:
        """Return about evenly spread blocks: one drawn from each of `size` runs of those that have weight, or all."""
        places = sample_places(self.count, self.weights, size, stage, seed)
        return self._whole(scope) if places is None else self._at(scope, places)

    def in_turn(self, scope: Scope, size: int, turns: int) -> list[BlockSet]:
        """Return sets of `size` strided blocks among those that have weight, beginning with other ones each."""
        able = None if self.weights is None else np.flatnonzero(self.weights)
        distance = (self.count if able is None else len(able)) // size
        return [self._every(scope, able, distance, turn, size) for turn in range(turns)]

    def _every(self, scope: Scope, able: Places | None, distance: int, turn: int, size: int) -> BlockSet:
        numbers = _strided(np.arange(size), distance, turn)
        return self._at(scope, numbers if able is None else able[numbers])

    @abc.abstractmethod
    def read(self) -> Rows:
        """Return all blocks, on the host."""

    @abc.abstractmethod
    def _whole(self, scope: Scope) -> BlockSet:
        """Return all blocks that have weight, or all."""

    @abc.abstractmethod
    def _at(self, scope: Scope, places: Places) -> BlockSet:
        """Return some blocks by their increasing numbers, with their weights."""


class BlockSet(Blocks):
    """Blocks on the device, numbered through all pieces."""

    def __init__(self, session: Session, scope: Scope, shape: BlockShape, count: int, weights: Weights) -> None:
        super().__init__(shape, count, weights)
        self._session = session
        self._most = max(1, min(MAX_PIECE, session.limits.max_alloc // max(shape.nbytes, 8)))
        self.pieces: list[BlockRun] = []
        for first in range(0, count, self._most):
            capacity = min(self._most, count - first)
            own = scope.empty(4 * capacity if weights is not None else 4)
            if weights is not None:
                session.write(own, weights[first : first + capacity].astype(np.uint32, copy=False))
            blocks, indices = scope.empty(capacity * shape.nbytes), scope.empty(2 * capacity)
            self.pieces.append(BlockRun(blocks, own, indices, capacity))

    @classmethod
    def of_pictures(
        cls, session: Session, scope: Scope, pictures: Sequence[Picture], weights: Weights, shape: BlockShape
    ) -> BlockSet:
        """All blocks of some pictures, in raster order."""
        count = sum(int(np.prod(shape.table_shape(p.height, p.width))) for p in pictures)
        blocks = cls(session, scope, shape, count, weights)
        for picture in pictures:
            blocks.add(picture)
        return blocks

    @classmethod
    def of_rows(cls, session: Session, scope: Scope, shape: BlockShape, rows: Rows, weights: Weights) -> BlockSet:
        """Blocks of the host."""
        blocks = cls(session, scope, shape, len(rows), weights)
        blocks.add_rows(rows)
        return blocks

    def runs(self) -> Iterator[tuple[int, Buffer, int]]:
        """The number of each piece's first block, its buffer, and how many blocks it has."""
        first = 0
        for piece in self.pieces:
            yield first, piece.blocks, piece.count
            first += piece.count

    def read(self) -> Rows:
        """Wait for all blocks, and download them."""
        size, dtype = self.shape.components, self.shape.dtype
        return np.concatenate([self._session.download(own, (count, size), dtype) for _, own, count in self.runs()])

    def add(self, picture: Picture) -> None:
        """Append a picture's blocks, as rows of K bytes, in bands of block rows."""
        session, shape, width = self._session, self.shape, picture.width
        columns = shape.table_shape(picture.height, width)[1]
        row_bytes = columns * shape.columns * shape.channels
        for cut in PictureSource(picture).portions(session, shape.rows, row_bytes=row_bytes, whole=True):
            row0, row1 = cut.row0, cut.row1
            count, taken = shape.table_shape(row1 - row0, width)[0] * columns, 0
            with session.scope() as scope:
                pixels = picture.upload(session, scope, row0, row1)
                for piece in self.pieces:
                    share = min(count - taken, piece.capacity - piece.count)
                    if share:
                        sizes = (np.uint32(n) for n in (row1 - row0, width, columns, taken, share))
                        target = piece.blocks, np.uint32(piece.count)
                        self._launch("vq_blocks", share * shape.words, pixels, *sizes, *target)
                        piece.count += share
                        taken += share

    def add_rows(self, rows: Rows) -> None:
        """Append blocks of the host."""
        taken = 0
        for piece in self.pieces:
            share = min(len(rows) - taken, piece.capacity - piece.count)
            if share:
                own = np.ascontiguousarray(rows[taken : taken + share])
                self._session.write(piece.blocks, own, piece.count * self.shape.nbytes)
                piece.count += share
                taken += share

    def _whole(self, scope: Scope) -> BlockSet:  # noqa: ARG002
        return self

    def _every(self, scope: Scope, able: Places | None, distance: int, turn: int, size: int) -> BlockSet:
        if able is not None:
            return super()._every(scope, able, distance, turn, size)

        def first_at(row: int) -> int:
            return row // distance + int(_strided(row // distance, distance, turn) < row)

        chosen = BlockSet(self._session, scope, self.shape, size, None)
        for source, done, share, target in self._shares(chosen, lambda i: _strided(i, distance, turn), first_at):
            place = np.uint64(source * self._most), np.uint64(done), *map(np.uint32, (distance, turn, share))
            self._launch("vq_gather_every", share * self.shape.components, self.pieces[source].blocks, *place, *target)
        return chosen

    def _at(self, scope: Scope, places: Places) -> BlockSet:
        weights = None if self.weights is None else self.weights[places]
        chosen = BlockSet(self._session, scope, self.shape, len(places), weights)
        for source, done, share, target in self._shares(chosen, places.__getitem__, partial(np.searchsorted, places)):
            with self._session.scope() as inner:
                rows = inner.copy_of((places[done : done + share] - source * self._most).astype(np.uint32))
                given = self.pieces[source].blocks, rows, np.uint32(share)
                self._launch("vq_gather", share * self.shape.components, *given, *target)
        return chosen

    def _shares(
        self, chosen: BlockSet, number: Callable[[int], Any], first_at: Callable[[int], Any]
    ) -> Iterator[tuple[int, int, int, tuple[Buffer, np.uint32]]]:
        """Runs of an empty set's blocks, each from one piece to one: that piece, blocks before, how many, and where."""
        done = 0
        for target in chosen.pieces:
            while target.count < target.capacity:
                source = int(number(done)) // self._most
                end = min(int(first_at((source + 1) * self._most)), chosen.count)
                share = min(end - done, target.capacity - target.count)
                yield source, done, share, (target.blocks, np.uint32(target.count))
                target.count += share
                done += share

    def _launch(self, name: str, items: int, *given: Any) -> None:
        """Queue a kernel of `cl/training/blockset.cl`."""
        session = self._session
        kernel = session.program("training/blockset.cl", **self.shape.constants()).kernel(name)
        session.launch(kernel, items, session.work_group_size(kernel, session.tuned("vq.train_group")), *given)
