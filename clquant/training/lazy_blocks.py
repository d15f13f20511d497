"""Training on pictures that do not fit memory: each step reads them in bands, and adds up integers per codeword."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import Progress, Scope, Session
from clquant.training import training
from clquant.training.blocks import BlockShape
from clquant.training.lines import Lines
from clquant.training.part import Part, Rows, Worst
from clquant.training.parted import Elsewhere, PartedBlocks, steps_on

# Pictures are read whole if memory holds this many copies of them.
COPIES_IN_MEMORY = 4


@dataclass(frozen=True)
class _Band:
    """Rows of whole blocks."""

    picture: int  # its number
    row0: int  # of pixels
    row1: int  # likewise
    first: int  # its first block among those of all pictures
    count: int  # its blocks


class LazyBlocks:
    """The blocks of pictures of which some are read in parts."""

    def __init__(
        self,
        session: Session,
        pictures: Sequence[Picture],
        weights: list[npt.NDArray[np.uint16]] | None,
        shape: BlockShape,
    ) -> None:
        self._session, self._pictures, self._weights, self._shape = session, pictures, weights, shape
        rows = min(self._rows_at_once(picture) for picture in pictures)
        self._bands: list[_Band] = []
        self.count = 0
        for number, picture in enumerate(pictures):
            for row in range(0, picture.height, rows):
                end = min(row + rows, picture.height)
                blocks = int(np.prod(shape.table_shape(end - row, picture.width)))
                self._bands.append(_Band(number, row, end, self.count, blocks))
                self.count += blocks

    def _rows_at_once(self, picture: Picture) -> int:
        """Of a band: whole blocks."""
        shape = self._shape
        if picture.lazy is None:
            return -(-picture.height // shape.rows) * shape.rows
        columns = shape.table_shape(picture.height, picture.width)[1]
        return picture.lazy.rows_at_once(columns * shape.columns * shape.channels, shape.rows)

    def train(self, scope: Scope, plan: training.Plan, progress: Progress) -> training.Trained:
        """Train like `training.train`."""
        flat = None if self._weights is None else np.concatenate([own.ravel() for own in self._weights])
        asked = Elsewhere(self._sums, self._worst, self._squares, self._rows, lambda *_: None)
        blocks = PartedBlocks(self._session, scope, self._shape, self.count, flat, asked)
        return training.train_on(self._session, scope, blocks, plan, progress, steps_on)

    def _part(self, band: _Band) -> Part:
        picture = self._pictures[band.picture]
        if picture.lazy is not None:
            pixels = picture.lazy.rows(band.row0, band.row1)
        else:
            pixels = picture.on_host(self._session)[band.row0 : band.row1]
        own = None
        if self._weights is not None:
            rows = slice(band.row0 // self._shape.rows, -(-band.row1 // self._shape.rows))
            own = [self._weights[band.picture][rows]]
        lines = Lines(np.array([band.first]), np.array([band.count]))
        return Part([pixels], own, (self._shape.rows, self._shape.columns), lines, self._session)

    def _parts(self) -> Iterator[Part]:
        """Yield all bands, each kept until the next one is read."""
        return map(self._part, self._bands)

    def _sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        total = np.zeros((len(codebook), codebook.shape[1] + 1), np.uint64)
        for part in self._parts():
            total += part.statistics(codebook, capacity)
        return total

    def _squares(self, capacity: int) -> int:
        return sum(part.squares(capacity) for part in self._parts())

    def _worst(self, codebook: Rows, capacity: int) -> Worst:
        found = (part.worst(codebook, capacity) for part in self._parts())
        return functools.reduce(Worst.worse, found)

    def _rows(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Blocks by their increasing numbers among all; bands without any are not read."""
        rows = np.empty((len(numbers), self._shape.components), np.uint8)
        for band in self._bands:
            low, high = np.searchsorted(numbers, (band.first, band.first + band.count))
            if low < high:
                rows[low:high] = self._part(band).rows(numbers[low:high] - band.first)
        return rows
