"""Counting colours with alpha on CPUs: runs of equal pixels are partitioned by cell of the RGBA cube, then sorted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clquant.histogram.bins import NOTES
from clquant.histogram.counts import CLEAR, PARTIAL, ColorCounts
from clquant.histogram.merging import spread_bits
from clquant.images import Picture
from clquant.runtime import Buffer, LocalMemory, Scope, Session

CELLS = 1 << 16
_DIGITS = 256
_FILE = "histogram/runs.cl"
# Most counters that the work-groups may need together.
_MOST_COUNTERS = 1 << 24
Band = tuple[Picture, int, int]  # and its rows, half-open


class RunCounter:
    """Counts pictures of less than 2^32 pixels on a CPU; `scope` owns the result."""

    def __init__(self, session: Session, scope: Scope, pictures: Sequence[Picture]) -> None:
        self._session = session
        self._scope = scope
        self._pictures = pictures
        self._bands = [(p, *rows) for p in pictures for rows in p.bands(session)]
        groups = session.tuned("counting.groups_a_unit") * session.limits.compute_units
        self._groups = min(groups, _MOST_COUNTERS // (CELLS * len(self._bands)))

    @property
    def fits(self) -> bool:
        """Whether there is room for the counters, and for as many runs as there are pixels."""
        pixels = sum(picture.pixels for picture in self._pictures)
        counters = len(self._bands) * self._groups * CELLS
        return self._groups > 0 and 4 * max(pixels, counters) <= self._session.limits.max_alloc

    def count(self) -> ColorCounts:
        """The distinct colours, as `clquant.histogram.counting.count_colors` gives them where some have alpha."""
        session, groups = self._session, self._groups
        with session.scope() as inner:
            notes = inner.zeros(4 * NOTES)
            partition = Partition(session, inner, self._bands, groups, _FILE, 4)
            partition.launch("count_runs", notes)
            begins = partition.begins()
            runs = int(begins[-1])
            places, lengths = inner.empty(2 * runs), inner.empty(4 * runs)
            partition.launch("place_runs", places, lengths)
            program = session.program(_FILE, CHANNELS=self._pictures[-1].channels)
            where, occupied = inner.copy_of(begins), inner.empty(4 * CELLS)
            spare = inner.empty(2 * runs), inner.empty(4 * runs)
            given = where, places, lengths, *spare, occupied, LocalMemory(4 * _DIGITS)
            session.launch(program.kernel("sort_runs"), groups, 1, *given)
            starts = starts_of(session.download(occupied, CELLS, np.uint32))
            n = int(starts[-1])
            colors, counts = self._scope.empty(4 * n), self._scope.empty(4 * n)
            collected = where, places, lengths, inner.copy_of(starts), colors, counts
            session.launch(program.kernel("collect_runs"), groups, 1, *collected)
            transparent, alphas, _ = (int(v) for v in session.download(notes, NOTES, np.uint32))
        return ColorCounts(
            n_colors=n,
            colors=colors,
            counts=counts,
            cell_starts=starts,
            total=sum(picture.pixels for picture in self._pictures) - transparent,
            transparent=transparent,
            partial=bool(alphas & PARTIAL),
            clear=bool(alphas & CLEAR),
        )


class Partition:
    """Pixels of bands put in order of the cells of their colours, by work-groups with counters of their own."""

    def __init__(
        self, session: Session, scope: Scope, bands: list[Band], groups: int, file: str, channels: int
    ) -> None:
        self._session, self._bands, self._groups, self._file = session, bands, groups, file
        self._shape = len(bands) * groups, 1 << 4 * channels
        self._counters = scope.zeros(4 * self._shape[0] * self._shape[1])
        self._spread = scope.copy_of(spread_bits(channels))

    def launch(self, name: str, *results: Buffer) -> None:
        """Run a kernel over every band, each with its own rows of counters."""
        session, groups = self._session, self._groups
        for number, (picture, row0, row1) in enumerate(self._bands):
            with session.scope() as scope:
                pixels = picture.upload(session, scope, row0, row1)
                kernel = session.program(self._file, CHANNELS=picture.channels).kernel(name)
                size, row = np.uint32((row1 - row0) * picture.width), np.uint32(number * groups)
                session.launch(kernel, groups, 1, pixels, size, self._spread, row, self._counters, *results)

    def begins(self) -> npt.NDArray[np.uint32]:
        """Turn counts into the place where each group's pixels of a cell begin; return where cells begin."""
        counted = self._session.download(self._counters, self._shape, np.uint32)
        begins = starts_of(counted.sum(axis=0, dtype=np.uint64))
        self._session.write(self._counters, begins[:-1] + (np.cumsum(counted, axis=0, dtype=np.uint32) - counted))
        return begins


def starts_of(occupied: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.uint32]:
    """Exclusive prefix sums with the total, which is below 2^32, at the end."""
    starts = np.zeros(len(occupied) + 1, np.uint32)
    np.cumsum(occupied, dtype=np.uint32, out=starts[1:])
    return starts
