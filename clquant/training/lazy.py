"""Training on blocks that do not fit memory: each step reads them in portions, and adds up integers per codeword."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clquant.images import Picture
from clquant.runtime import Session
from clquant.training.blocks import BlockShape, Places, Rows, Weights
from clquant.training.parts import MERGES, Part, Parts

# Pictures are read whole if memory holds this many copies of them.
COPIES_IN_MEMORY = 4


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


def picture_bands(session: Session, pictures: Sequence[Picture], weights: Weights, shape: BlockShape) -> LazyParts:
    """The blocks of pictures of which some are read in bands."""
    high = min(_rows_at_once(picture, shape) for picture in pictures)
    bands = [
        (picture, row, min(row + high, picture.height))
        for picture in pictures
        for row in range(0, picture.height, high)
    ]
    tables = [shape.table_shape(row1 - row0, picture.width) for picture, row0, row1 in bands]

    def make(number: int, own: Weights, first: int) -> Part:
        picture, row0, row1 = bands[number]
        lazy = picture.lazy
        pixels = picture.on_host(session)[row0:row1] if lazy is None else lazy.rows(row0, row1)
        return Part(pixels, own, shape, first, session)

    return LazyParts(session, shape, [rows * columns for rows, columns in tables], weights, make)


def _rows_at_once(picture: Picture, shape: BlockShape) -> int:
    """Return the rows of a band, a multiple of the block's."""
    if picture.lazy is None:
        return -(-picture.height // shape.rows) * shape.rows
    columns = shape.table_shape(picture.height, picture.width)[1]
    return picture.lazy.rows_at_once(columns * shape.columns * shape.channels, shape.rows)
