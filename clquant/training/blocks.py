"""The geometry of blocks: how a picture divides into them and what the kernels are told about it."""

from __future__ import annotations

from dataclasses import dataclass

from clquant.params import integer, shown
from clquant.runtime import InvalidArgument, InvalidType

MAX_SIDE = 32
MAX_PIXELS = 256


@dataclass(frozen=True)
class BlockShape:
    """Blocks of `rows` x `columns` pixels of `channels` bytes.

    Attributes
    ----------
    rows, columns : int
        1..32 each, 256 pixels at most.
    channels : int
        1, 3 or 4.
    """

    rows: int
    columns: int
    channels: int

    @property
    def components(self) -> int:
        """Bytes of a block, K: at most 1024."""
        return self.rows * self.columns * self.channels

    @property
    def words(self) -> int:
        """Words of four components that hold a block."""
        return -(-self.components // 4)

    def table_shape(self, height: int, width: int) -> tuple[int, int]:
        """(rows, columns) of blocks that cover a picture; edge blocks repeat its last row and column.

        Parameters
        ----------
        height, width : int
            In pixels.
        """
        return -(-height // self.rows), -(-width // self.columns)

    def constants(self, width: int) -> dict[str, int]:
        """What cl/training/block.h wants to know.

        Parameters
        ----------
        width : int
            Of the picture in pixels.
        """
        line = self.columns * self.channels
        aligned = line % 4 == 0 and width * self.channels % 4 == 0 and width % self.columns == 0
        return {"P": self.rows, "Q": self.columns, "C": self.channels, "ALIGNED": int(aligned)}

    def codeword_shape(self) -> tuple[int, ...]:
        """The shape in which people see a block: (p, q) for one channel, else (p, q, C)."""
        shape = (self.rows, self.columns)
        return shape if self.channels == 1 else (*shape, self.channels)


def check_block_shape(value: object) -> tuple[int, int]:
    """A block shape that a person gave: (rows, columns), 1..32 each and 256 pixels at most.

    Parameters
    ----------
    value : pair of int

    Raises
    ------
    InvalidType, InvalidArgument
        If it is none.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidType(f"block_shape is {shown(value)}; allowed: a pair (rows, columns)")
    rows, columns = (integer(f"block_shape[{i}]", side, 1, MAX_SIDE) for i, side in enumerate(value))
    if rows * columns > MAX_PIXELS:
        raise InvalidArgument(f"block_shape is {shown(value)}; allowed: at most {MAX_PIXELS} pixels")
    return rows, columns
