"""Where the blocks of a part of pictures are among those of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from clquant.training.spacing import Spacing


@dataclass(frozen=True)
class Tile:
    """A rectangle of a picture's blocks."""

    first: int  # the number of its first block among those of all pictures
    stride: int  # blocks in a row of the whole picture
    rows: int  # of blocks
    columns: int  # likewise


@dataclass(frozen=True)
class Lines:
    """Rows of blocks that are neighbours both in a part and among all."""

    first: npt.NDArray[np.int64]  # (lines,), the number of each line's first block among all
    lengths: npt.NDArray[np.int64]  # (lines,)
    ranks: npt.NDArray[np.int64] | None = None  # (lines,), weighted blocks preceding each line, over all parts

    @classmethod
    def of_tiles(cls, tiles: Sequence[Tile], ranks: npt.NDArray[np.int64] | None) -> Lines:
        """The rows of some tiles, one tile after another; those that are neighbours are one line."""
        first = np.concatenate([tile.first + tile.stride * np.arange(tile.rows) for tile in tiles])
        lengths = np.repeat([tile.columns for tile in tiles], [tile.rows for tile in tiles])
        begin = np.flatnonzero(np.diff(first, prepend=-1) != np.append(0, lengths[:-1]))
        first, lengths = first[begin], np.add.reduceat(lengths, begin)
        return cls(first, lengths, None if ranks is None else ranks[first])

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Places within the part at which lines begin, and its end."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def numbers(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Numbers among all."""
        line = np.searchsorted(self._starts, places, side="right") - 1
        return self.first[line] + (places - self._starts[line])

    def every(
        self, spacing: Spacing, size: int, weights: npt.NDArray[np.uint16] | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return this part's share of the weighted blocks that a stride selects."""
        with_weight = None if weights is None else np.flatnonzero(weights)
        starts = self._starts if with_weight is None else np.searchsorted(with_weight, self._starts)
        begin, counts = self.first if self.ranks is None else self.ranks, np.diff(starts)
        low = np.minimum(begin // spacing.distance, size)
        high = np.minimum(-(-(begin + counts) // spacing.distance), size)
        line = np.repeat(np.arange(len(low)), high - low)
        which = np.arange(len(line)) + np.repeat(high - np.cumsum(high - low), high - low)
        within = spacing.numbers(which) - begin[line]
        mine = (within >= 0) & (within < counts[line])
        chosen: npt.NDArray[np.int64] = (starts[line] + within)[mine]
        return chosen if with_weight is None else with_weight[chosen], which[mine]

    def run(self, spacing: Spacing, size: int) -> range | None:
        """Return which strided numbers this part has, if it is one line and all blocks weigh the same."""
        if len(self.first) != 1 or self.ranks is not None:
            return None
        ends = self.first[0], self.first[0] + self.lengths[0]
        low, high = (min(spacing.first_at(int(end)), size) for end in ends)
        return range(low, high)
