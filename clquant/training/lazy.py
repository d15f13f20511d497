"""Training on blocks that do not fit memory: each step reads them in portions, and adds up integers per codeword."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import Scope, Session, seed_key
from clquant.training.blocks import BlockShape
from clquant.training.blockset import BlockSet
from clquant.training.lloyd import Lloyd
from clquant.training.parts import Parts, Rows, Worst, blocks_at
from clquant.training.search import Codewords

# Pictures are read whole if memory holds this many copies of them.
COPIES_IN_MEMORY = 4
_MOST_SIZES = 2  # of portions whose buffers are kept; at least two, as totals go from one to the next
Weights = npt.NDArray[np.uint16] | None


class LazyBlocks(Parts):
    """Blocks in portions, each of which is sent to the device when its turn comes."""

    def __init__(
        self, session: Session, scope: Scope, shape: BlockShape, counts: Sequence[int], weights: Weights
    ) -> None:
        super().__init__(session, shape, counts, weights)
        self._scope = scope
        self._words: Codewords | None = None
        self._held: dict[int, tuple[Scope, BlockSet, Lloyd]] = {}
        scope.at_end(lambda: self._release(0))

    def write(self, number: int, blocks: BlockSet) -> None:
        """Fill a set, which has room for just a portion's blocks."""
        raise NotImplementedError

    def blocks_of(self, number: int, places: npt.NDArray[np.int64]) -> Rows:
        """Return some of a portion's blocks, (count, K)."""
        raise NotImplementedError

    def picked(self, wanted: dict[int, npt.NDArray[np.int64]]) -> Sequence[Rows]:
        """Blocks of some portions; others are not read."""
        return [self.blocks_of(number, places) for number, places in wanted.items()]

    def sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        """Sums of the blocks of each codeword, (size, K + 1), the last column their weights."""
        before: Lloyd | None = None
        for number, lloyd in self._steps(capacity, codebook):
            if before is not None and before is not lloyd:
                self.session.copy(lloyd.totals, before.totals, 8 * len(codebook) * (codebook.shape[1] + 1))
            lloyd.queue_sums(adds=number > 0)
            before = lloyd
        assert before is not None, "there are blocks"
        return before.read_totals()

    def worst(self, codebook: Rows, capacity: int) -> Worst:
        """Find the worst block of each codeword, if any codeword is dead."""
        found: Worst | None = None
        for number, lloyd in self._steps(capacity, codebook):
            lloyd.queue_statistics()
            levels, places = lloyd.read_worst()
            places = np.where(levels > 0, places, 0)
            own = Worst(levels, self.starts[number] + places, self.blocks_of(number, places))
            found = own if found is None else found.worse(own)
        assert found is not None, "there are blocks"
        return found

    def squares(self, capacity: int) -> int:
        """The weighted sum of the blocks' squared lengths."""
        total = 0
        for _, lloyd in self._steps(capacity):
            total += lloyd.squares()
        return total

    def _steps(self, capacity: int, codebook: Rows | None = None) -> Iterator[tuple[int, Lloyd]]:
        """Each portion's number, and steps on its blocks over a codebook."""
        if self._words is None or capacity > self._words.capacity:
            self._release(0)
            self._words = Codewords(self.session, self._scope, self.shape, capacity)
        if codebook is not None:
            self.session.write(self._words.moved, np.ascontiguousarray(codebook))
            self._words.commit(len(codebook))
        for number, (first, end) in enumerate(itertools.pairwise(self.starts.tolist())):
            blocks, lloyd = self._steps_of(end - first, self._words)
            self.write(number, blocks)
            for piece in blocks.pieces:
                if self.weights is not None:
                    self.session.write(piece.weights, self.weights[first : first + piece.count])
                first += piece.count
            yield number, lloyd

    def _steps_of(self, count: int, words: Codewords) -> tuple[BlockSet, Lloyd]:
        """A set with room for a portion, and steps on it."""
        if count not in self._held:
            self._release(_MOST_SIZES - 1)
            weights = None if self.weights is None else np.ones(count, np.uint16)
            scope = self.session.scope().__enter__()
            blocks = BlockSet(self.session, scope, self.shape, count, weights)
            for piece in blocks.pieces:
                piece.count = piece.capacity
            self._held[count] = scope, blocks, Lloyd(self.session, scope, blocks, words, seed_key(0))
        self._held[count] = self._held.pop(count)
        return self._held[count][1:]

    def _release(self, most: int) -> None:
        """Release the buffers of the sizes that were used longest ago."""
        while len(self._held) > most:
            self._held.pop(next(iter(self._held)))[0].__exit__(None, None, None)


class PictureBands(LazyBlocks):
    """The blocks of pictures of which some are read in bands."""

    def __init__(
        self,
        session: Session,
        scope: Scope,
        pictures: Sequence[Picture],
        weights: Weights,
        shape: BlockShape,
    ) -> None:
        self._last: tuple[int, npt.NDArray[Any]] | None = None
        high = min(_rows_at_once(picture, shape) for picture in pictures)
        self._bands = [
            (picture, row, min(row + high, picture.height))
            for picture in pictures
            for row in range(0, picture.height, high)
        ]
        tables = [shape.table_shape(row1 - row0, picture.width) for picture, row0, row1 in self._bands]
        super().__init__(session, scope, shape, [rows * columns for rows, columns in tables], weights)

    def write(self, number: int, blocks: BlockSet) -> None:
        """See `LazyBlocks`."""
        pixels = self._pixels(number)
        height, width, channels = pixels.shape
        for piece in blocks.pieces:
            piece.count = 0
        blocks.add(Picture(height, width, channels, channels == 1, array=pixels))

    def blocks_of(self, number: int, places: npt.NDArray[np.int64]) -> Rows:
        """See `LazyBlocks`."""
        return blocks_at(self._pixels(number), self.shape, places)

    def _pixels(self, number: int) -> npt.NDArray[Any]:
        """A band's pixels; those of the last one stay in memory."""
        if self._last is None or self._last[0] != number:
            self._last = None
            picture, row0, row1 = self._bands[number]
            lazy = picture.lazy
            pixels = picture.on_host(self.session)[row0:row1] if lazy is None else lazy.rows(row0, row1)
            self._last = number, pixels
        return self._last[1]


def _rows_at_once(picture: Picture, shape: BlockShape) -> int:
    """Return the rows of a band, a multiple of the block's."""
    if picture.lazy is None:
        return -(-picture.height // shape.rows) * shape.rows
    columns = shape.table_shape(picture.height, picture.width)[1]
    return picture.lazy.rows_at_once(columns * shape.columns * shape.channels, shape.rows)
