"""Training on pictures that do not fit memory: each step reads them in bands, and adds up integers per codeword."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import Progress, Scope, Session
from clquant.training import training
from clquant.training.blocks import BlockShape
from clquant.training.part import MERGES, Part, Rows
from clquant.training.parted import PartedBlocks, Parts, steps_on

# Pictures are read whole if memory holds this many copies of them.
COPIES_IN_MEMORY = 4


@dataclass(frozen=True)
class _Band:
    """Rows of whole blocks."""

    picture: int  # its number
    row0: int  # of pixels
    row1: int  # likewise


class LazyBlocks(Parts):
    """The blocks of pictures of which some are read in parts."""

    def __init__(
        self,
        session: Session,
        pictures: Sequence[Picture],
        weights: list[npt.NDArray[np.uint16]] | None,
        shape: BlockShape,
    ) -> None:
        self._session, self._pictures, self._weights = session, pictures, weights
        high = min(self._rows_at_once(picture, shape) for picture in pictures)
        self._bands = [
            _Band(number, row, min(row + high, picture.height))
            for number, picture in enumerate(pictures)
            for row in range(0, picture.height, high)
        ]
        widths = [picture.width for picture in pictures]
        tables = [shape.table_shape(band.row1 - band.row0, widths[band.picture]) for band in self._bands]
        super().__init__(shape, [rows * columns for rows, columns in tables])

    @staticmethod
    def _rows_at_once(picture: Picture, shape: BlockShape) -> int:
        """Of a band: whole blocks."""
        if picture.lazy is None:
            return -(-picture.height // shape.rows) * shape.rows
        columns = shape.table_shape(picture.height, picture.width)[1]
        return picture.lazy.rows_at_once(columns * shape.columns * shape.channels, shape.rows)

    def train(self, scope: Scope, plan: training.Plan, progress: Progress) -> training.Trained:
        """Train like `training.train`."""
        flat = None if self._weights is None else np.concatenate([own.ravel() for own in self._weights])
        blocks = PartedBlocks(self._session, scope, self.shape, self.count, flat, self)
        return training.train_on(self._session, scope, blocks, plan, progress, steps_on)

    def reduced(self, method: str, *args: Any) -> Any:
        """Call a method of each part, one part at a time, and merge the results."""
        found: Any = None
        for number in range(len(self._bands)):
            own = getattr(self._part(number), method)(*args)
            found = own if found is None else MERGES[method]([found, own])
        return found

    def picked(self, wanted: dict[int, npt.NDArray[np.int64]]) -> Sequence[Rows]:
        """Blocks of some parts; the others are not read."""
        return [self._part(number).rows(places) for number, places in wanted.items()]

    def _part(self, number: int) -> Part:
        band, shape = self._bands[number], self.shape
        picture = self._pictures[band.picture]
        if picture.lazy is not None:
            pixels = picture.lazy.rows(band.row0, band.row1)
        else:
            pixels = picture.on_host(self._session)[band.row0 : band.row1]
        own = None
        if self._weights is not None:
            own = self._weights[band.picture][band.row0 // shape.rows : -(-band.row1 // shape.rows)]
        return Part(pixels, own, shape, int(self.starts[number]), self._session)
