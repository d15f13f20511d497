"""The geometry of blocks: how a picture divides into them and what the kernels are told about it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.params import integer, shown
from clquant.runtime import InvalidArgument, InvalidType

MAX_SIDE = 32
MAX_PIXELS = 256

Rows = npt.NDArray[np.integer[Any]]  # (count, K), blocks or codewords
Codebook = npt.NDArray[np.uint8]  # (N, K), or (N, p, q) or (N, p, q, C)
Weights = npt.NDArray[np.uint32] | None  # of each block
Places = npt.NDArray[np.int64]  # numbers of blocks
Key = npt.NDArray[np.uint32]  # of random numbers, by `seed_key`


@dataclass(frozen=True)
class BlockShape:
    """Blocks of `rows` x `columns` pixels of `channels` components of `bits`: 8, or more in 16-bit numbers."""

    # A row of d numbers is a block of one row, d columns and one channel.

    rows: int
    columns: int
    channels: int
    bits: int = 8

    @functools.cached_property
    def components(self) -> int:
        """Numbers of a block, K: at most 2048."""
        return self.rows * self.columns * self.channels

    @property
    def words(self) -> int:
        """Words of four components that hold a block."""
        return -(-self.components // 4)

    @functools.cached_property
    def is_deep(self) -> bool:
        """Whether components take two bytes."""
        return self.bits > 8

    @property
    def largest(self) -> int:
        """The largest component."""
        return (1 << self.bits) - 1

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of components."""
        return np.dtype(np.uint16 if self.is_deep else np.uint8)

    @functools.cached_property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return self.components * self.dtype.itemsize

    @property
    def sides(self) -> dict[str, int]:
        """The constants P, Q and C of kernels."""
        return {"P": self.rows, "Q": self.columns, "C": self.channels}

    def table_shape(self, height: int, width: int) -> tuple[int, int]:
        """(rows, columns) of blocks that cover a picture; edge blocks repeat its last row and column."""
        return -(-height // self.rows), -(-width // self.columns)

    def constants(self, width: int | None = None) -> dict[str, int]:
        """Return the constants of cl/training/block.h for pictures of a width; by default without alignment."""
        line = self.columns * self.channels
        aligned = width is not None and line % 4 == 0 and width * self.channels % 4 == 0 and width % self.columns == 0
        return {**self.sides, "ALIGNED": int(aligned), "DEEP": int(self.is_deep)}

    def codeword_shape(self) -> tuple[int, ...]:
        """The shape in which people see a block: (p, q) for one channel, else (p, q, C)."""
        shape = (self.rows, self.columns)
        return shape if self.channels == 1 else (*shape, self.channels)


def check_block_shape(value: object) -> tuple[int, int]:
    """A block shape that a person gave: (rows, columns), 1..32 each and 256 pixels at most."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidType(f"block_shape is {shown(value)}; allowed: a pair (rows, columns)")
    rows, columns = (integer(f"block_shape[{i}]", side, 1, MAX_SIDE) for i, side in enumerate(value))
    if rows * columns > MAX_PIXELS:
        raise InvalidArgument(f"block_shape is {shown(value)}; allowed: at most {MAX_PIXELS} pixels")
    return rows, columns
