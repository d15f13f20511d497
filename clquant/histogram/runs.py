"""Counting colours on CPUs: pixels, or runs of equal ones, are partitioned by cell of the colour cube, then counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from clquant.flow import PictureSource
from clquant.histogram.bins import NOTES
from clquant.histogram.counts import PARTIAL, ColorCounts
from clquant.histogram.merging import spread_bits
from clquant.images import Picture
from clquant.runtime import LocalMemory, Scope, Session

_DIGITS = 256
# Most counters that the work-groups may need together.
_MOST_COUNTERS = 1 << 24


class Partition:
    """Counts pictures of less than 2^32 pixels, by work-groups with counters of their own; `scope` owns the result."""

    file: ClassVar[str]
    channels: ClassVar[int]  # of the cube whose cells have 16 values a side
    # Kernels that count what cells get, place it there, count each cell's colours, and collect these.
    kernels: ClassVar[tuple[str, str, str, str]]
    placed: ClassVar[Mapping[str, int]]  # what is placed in cells, and its bytes per pixel

    def __init__(self, session: Session, scope: Scope, pictures: Sequence[Picture]) -> None:
        self._session = session
        self._scope = scope
        self._pictures = pictures
        self._bands = [
            (picture, cut.row0, cut.row1)
            for picture in pictures
            for cut in PictureSource(picture).portions(session, whole=True)
        ]
        self._cells = 1 << 4 * self.channels
        groups = session.tuned("counting.groups_a_unit") * session.limits.compute_units
        self._groups = min(groups, _MOST_COUNTERS // (self._cells * len(self._bands)))
        self._pixels = sum(picture.pixels for picture in pictures)

    @property
    def fits(self) -> bool:
        """Whether there is room for the counters, and for all pixels in cells."""
        counters = len(self._bands) * self._groups * self._cells
        largest = max(4 * counters, max(self.placed.values()) * self._pixels)
        return self._groups > 0 and largest <= self._session.limits.max_alloc

    def scratch(self, scope: Scope, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return further arguments of the last two kernels, where n pixels or runs are in cells."""
        raise NotImplementedError

    def count(self) -> ColorCounts | None:
        """Count the colours; None if there are partly transparent ones, for which the cube has no cells."""
        session = self._session
        count, place, count_colors, collect = self.kernels
        with session.scope() as inner:
            shape = len(self._bands) * self._groups, self._cells
            counters, notes = inner.zeros(4 * shape[0] * shape[1]), inner.zeros(4 * NOTES)
            partition = inner.copy_of(spread_bits(self.channels)), counters
            self._over_bands(count, *partition, notes=notes)
            transparent, alphas, _ = (int(v) for v in session.download(notes, NOTES, np.uint32))
            if alphas & PARTIAL and self.channels == 3:
                return None
            counted = session.download(counters, shape, np.uint32)
            begins = starts_of(counted.sum(axis=0, dtype=np.uint64))
            # Where each group's part of a cell begins.
            session.write(counters, begins[:-1] + (np.cumsum(counted, axis=0, dtype=np.uint32) - counted))
            placed = {name: inner.empty(nbytes * int(begins[-1])) for name, nbytes in self.placed.items()}
            self._over_bands(place, *partition, **placed)
            # Any number of channels will do; another than the pictures' would be one more program to compile.
            program = session.program(self.file, CHANNELS=self._pictures[-1].channels)
            occupied, cells = inner.empty(4 * self._cells), {**placed, "begins": inner.copy_of(begins)}
            counting, collecting = self.scratch(inner, int(begins[-1]))
            session.launch(program.kernel(count_colors), self._groups, 1, **cells, occupied=occupied, **counting)
            starts = starts_of(session.download(occupied, self._cells, np.uint32))
            n = int(starts[-1])
            found = {"colors": self._scope.empty(4 * n), "counts": self._scope.empty(4 * n)}
            given = {**cells, **found, "starts": inner.copy_of(starts), **collecting}
            session.launch(program.kernel(collect), self._groups, 1, **given)
        return ColorCounts.of_notes(**found, cell_starts=starts, weight=self._pixels, notes=(transparent, alphas))

    def _over_bands(self, name: str, *partition: Any, **results: Any) -> None:
        """Run a kernel over every band, each with its own rows of counters."""
        session, (spread, counters) = self._session, partition
        for number, (picture, row0, row1) in enumerate(self._bands):
            with session.scope() as scope:
                pixels = picture.upload(session, scope, row0, row1)
                kernel = session.program(self.file, CHANNELS=picture.channels).kernel(name)
                size, row = np.uint32((row1 - row0) * picture.width), np.uint32(number * self._groups)
                session.launch(kernel, self._groups, 1, pixels, size, spread, row, counters, **results)


class RunCounter(Partition):
    """Runs of equal pixels by cells of the RGBA cube, which are sorted."""

    file, channels = "histogram/runs.cl", 4
    kernels = "count_runs", "place_runs", "sort_runs", "collect_runs"
    placed: ClassVar = {"places": 2, "lengths": 4}

    def scratch(self, scope: Scope, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return as much room again, and counters of digits."""
        spare = {"spare_places": scope.empty(2 * n), "spare_lengths": scope.empty(4 * n)}
        return {**spare, "digits": LocalMemory(4 * _DIGITS)}, {}


def starts_of(occupied: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.uint32]:
    """Exclusive prefix sums with the total, which is below 2^32, at the end."""
    starts = np.zeros(len(occupied) + 1, np.uint32)
    np.cumsum(occupied, dtype=np.uint32, out=starts[1:])
    return starts
