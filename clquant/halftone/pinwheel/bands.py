"""Bands of rows of blocks: how a picture is cut into them, and what the launches of one take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow
from clquant.flow import Portion

MAX_SIDE = 1 << 30  # kernels count a side's pixels in 32 bits, and those of the last work-group's blocks beyond it


def half_blocks(width: int, block: int) -> int:
    """Blocks of one phase in a row of blocks, at most."""
    return (-(-width // block) + 1) // 2


def edge_row_bytes(width: int, block: int, edge_bytes: int) -> int:
    """Return the bytes of a pixel row's errors: more than it has pixels where blocks are small."""
    return 4 * half_blocks(width, block) * edge_bytes


class BlockMap(flow.Map):
    """A map whose job has blocks of a side in its `settings`, of two phases as on a checkerboard."""

    settings: Any

    max_side = MAX_SIDE

    @property
    def grid(self) -> int:
        """Side of two blocks, as phases alternate."""
        return int(2 * self.settings.block_size)

    @property
    def halo(self) -> int:
        """Two blocks: those at a part's edge take it for the picture's, so that those beside them are wrong."""
        return self.grid


@dataclass(frozen=True)
class BandBlocks:
    """A band as its launches take it (`cl/halftone/halftone.h`)."""

    picture: npt.NDArray[np.int32]  # (4,): height, width, channels, the band's first row
    ranges: tuple[tuple[int, int], tuple[int, int]]  # rows of blocks to halftone, by phase; the inward ones are right
    block: int
    half: int  # blocks of one phase in a row of blocks, at most
    corner: npt.NDArray[np.uint32]  # (2,), column and row of the first block in the picture that this is cut from

    @classmethod
    def of(cls, portion: Portion, block: int) -> BandBlocks:
        """Return the arguments of a band's launches; `block` is a block's side in pixels."""
        picture, loaded, asked = portion.picture, (portion.first, portion.last), (portion.row0, portion.row1)
        shape = np.array([picture.height, picture.width, picture.channels, portion.first], np.int32)
        outward, inward = ((begin // block, -(-end // block)) for begin, end in (loaded, asked))
        corner = np.array(picture.origin[::-1], np.uint32) // block  # parts begin at multiples of `BlockMap.grid`
        return cls(shape, (outward, inward), block, half_blocks(picture.width, block), corner)

    def key(self, seed: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the kernels' `key` (`cl/halftone/halftone.h`), (4,) uint32, from a seed of `runtime.seed_key`."""
        return np.concatenate([seed, self.corner])

    @property
    def rows(self) -> int:
        """Block rows in `edges`: those of the outward phase."""
        return self.ranges[0][1] - self.ranges[0][0]

    def edge_bytes(self, one: int) -> int:
        """Return the size of the kernels' `edges`; an error that a block leaves to another has `one` bytes."""
        return 4 * self.block * self.rows * self.half * one

    def blocks(self, row: int) -> npt.NDArray[np.int32]:
        """Return the kernels' `blocks` (`cl/halftone/halftone.h`), (4,) int32, of a launch from a row of blocks on."""
        return np.array([row, self.ranges[0][0], self.rows, self.half], np.int32)
