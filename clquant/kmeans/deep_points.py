"""Points of 16-bit colours on the device, sorted by the cells of a grid over their space (`cl/kmeans/deep_points.cl`).

Photographs of 16 bits have nearly as many colours as pixels, so pixels are taken as they come: sums over points do not
ask whether two are equal. The points of a cell mostly have one center, so that a step needs the cell's sums alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.histogram.merging import MAX_NARROW, HostCounts, colors_of
from clquant.images import Picture
from clquant.kmeans.points import cut_cells
from clquant.mapping.candidates_lanes import int4
from clquant.runtime import Buffer, Kernel, Scope, Session

FILE = "kmeans/deep_points.cl"
LOW_BITS = 18
POINT_BYTES = 8
SEGMENT = 1024
"""Points of a segment at most: sums of so many places within cells fit 32 bits."""
LANES = 8
"""Points are readable so far beyond their end."""
MAX_CELLS, MIN_CELLS, POINTS_PER_CELL = 1 << 18, 1 << 9, 4
# Log2 of a cell's side.
_MIN_SHIFT, _MAX_SHIFT = 1, 16
# Points of a part, whose places fit 32 bits.
_MAX_POINTS = 1 << 30
_RUN_ON_CPUS, _MAX_ITEMS_ON_CPUS = 1 << 10, 16
_GROUP, _NOTERS = 64, 1 << 14

Weights = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Chunk:
    """Some rows of a picture, and their weights, (rows, W) uint32 or uint64, or None."""

    picture: Picture
    row0: int
    row1: int
    weights: Weights | None = None

    @property
    def pixels(self) -> int:
        """Number of pixels in these rows."""
        return (self.row1 - self.row0) * self.picture.width

    def upload(self, session: Session, scope: Scope) -> Buffer:
        """The rows, 16 bits a value; v of 8 bits becomes 257 v."""
        picture = self.picture
        if picture.bits == 16:
            return picture.upload(session, scope, self.row0, self.row1)
        if picture.lazy is not None:
            values = picture.lazy.rows(self.row0, self.row1)
        else:
            values = picture.on_host(session)[self.row0 : self.row1]
        return scope.upload(values.astype(np.uint16) * np.uint16(257))


class DeepColors:
    """The source of 16-bit points: pixels of pictures of 8 or 16 bits, lazy ones too, all with weights or none."""

    def __init__(self, session: Session, pictures: Sequence[Picture], weights: Sequence[Weights] | None = None) -> None:
        self._session = session
        self.chunks: list[Chunk] = []
        self.wide = any(given.dtype.itemsize == 8 for given in weights or ())
        most = _most_points(session)
        for i, picture in enumerate(pictures):
            rows = max(1, most // picture.width)
            if picture.lazy is not None:
                rows = min(rows, picture.lazy.rows_at_once(2 * POINT_BYTES * picture.width))
            for row in range(0, picture.height, rows):
                end = min(row + rows, picture.height)
                self.chunks.append(Chunk(picture, row, end, None if weights is None else weights[i][row:end]))

    @classmethod
    def of_counts(cls, session: Session, counted: HostCounts) -> DeepColors:
        """Counted colours, a row each, with their counts as weights."""
        colors = colors_of(counted.widened().codes)[:, None]
        counts = counted.counts[:, None].astype(np.uint64 if counted.total > MAX_NARROW else np.uint32)
        return cls(session, [Picture(len(colors), 1, 4, False, array=colors)], [counts])

    def are_partial(self) -> bool:
        """Whether some alpha is neither 0 nor 65535, whatever it weighs."""
        session = self._session
        with session.scope() as scope:
            notes = scope.zeros(4)
            constants = {"BITS": 16, "SPACE": 0, "SPACE_ALPHA": 0, "CHANNELS": 4, "WEIGHTED": 0, "RUN": 1, "ALONE": 0}
            kernel = session.program(FILE, **constants).kernel("note_alphas")
            group = session.work_group_size(kernel, _GROUP)
            for chunk in self.chunks:
                if chunk.picture.channels == 4:
                    with session.scope() as one:
                        items = min(chunk.pixels, _NOTERS)
                        given = chunk.upload(session, one), np.uint32(chunk.pixels), notes
                        session.launch(kernel, items, group, *given)
            return bool(session.download(notes, 1, np.uint32)[0])

    def fit(self) -> bool:
        """Whether all points may stay on the device: half of it, and of lazy pictures what their jobs may take."""
        most = self._session.limits.global_memory // 2
        if self._session.limits.unified_memory:
            most = min([most, *(chunk.picture.lazy.memory for chunk in self.chunks if chunk.picture.lazy is not None)])
        weight_bytes = 0 if not self.chunks or self.chunks[0].weights is None else 8
        return sum(chunk.pixels for chunk in self.chunks) * (POINT_BYTES + weight_bytes) <= most

    def parts(self) -> Iterator[list[Chunk]]:
        """The chunks in lists whose points fit one buffer; those of lazy pictures one at a time."""
        waiting: list[Chunk] = []
        room = most = _most_points(self._session)
        for chunk in self.chunks:
            if waiting and (chunk.pixels > room or chunk.picture.lazy is not None):
                yield waiting
                waiting, room = [], most
            waiting.append(chunk)
            room -= chunk.pixels
        if waiting:
            yield waiting


@dataclass(frozen=True)
class CellGrid:
    """Cells of a space: log2 of their side, and how many there are along each of 4 axes."""

    shift: int
    cells: tuple[int, ...]

    @classmethod
    def of(cls, space: Space, points: int, most_bytes: int) -> CellGrid:
        """The finest that is worthwhile for so many points, whose counters fit a buffer."""
        most = min(MAX_CELLS, max(MIN_CELLS, points // POINTS_PER_CELL), max(1, most_bytes // 4))
        extent = (*space.extent, 0)[:4]
        for shift in range(_MIN_SHIFT, _MAX_SHIFT + 1):
            cells = tuple((e >> shift) + 1 for e in extent)
            if math.prod(cells) <= most:
                break
        return cls(shift, cells)

    @property
    def total(self) -> int:
        """Number of cells."""
        return math.prod(self.cells)

    @property
    def arguments(self) -> dict[str, npt.NDArray[np.int32] | np.int32]:
        """The grid as kernels take it, by name."""
        return {"grid": int4(self.cells), "shift": np.int32(self.shift)}


@dataclass(frozen=True)
class DeepPoints:
    """Points of one part in the cells of a grid (`cl/kmeans/deep_lloyd.h`); their memory belongs to a scope."""

    grid: CellGrid
    segments: Buffer  # (n_segments) uint4: cell, first point, end
    n_segments: int
    n_points: int
    points: Buffer  # uint64
    weights: Buffer | None
    sums: Buffer  # (n_segments, 1 + dims) uint64
    squares: int  # sum of the weighted squared distances from the space's origin


class PointSorter:
    """Sorts the 16-bit colours of chunks, which fit one buffer, into cells of a space; `wide` weights have 64 bits."""

    def __init__(
        self, session: Session, scope: Scope, space: Space, tables: Buffer, chunks: Sequence[Chunk], wide: bool
    ) -> None:
        self._session, self._scope, self._space, self._tables = session, scope, space, tables
        self._chunks, self._weighted, self._wide = chunks, chunks[0].weights is not None, wide
        count, limits = sum(chunk.pixels for chunk in chunks), session.limits
        self._grid = CellGrid.of(space, count, limits.max_alloc)
        self._is_cpu = limits.has_lanes()
        self._run, self._copies = 1, 1
        if self._is_cpu:
            self._run = _RUN_ON_CPUS
            items = min(limits.compute_units, _MAX_ITEMS_ON_CPUS, -(-count // self._run))
            self._copies = max(1, min(items, limits.max_alloc // (4 * self._grid.total)))

    def sort(self) -> DeepPoints | None:
        """Return the points; None if all are transparent."""
        session, shape = self._session, (self._copies, self._grid.total)
        with session.scope() as inner:
            counters = inner.zeros(4 * self._copies * self._grid.total)
            sent = [chunk.upload(session, inner) for chunk in self._chunks]
            for chunk, pixels in zip(self._chunks, sent, strict=True):
                self._launch("count_cells", chunk, pixels, counts=counters)
            counted = session.download(counters, shape, np.uint32)
            per_cell = counted.sum(axis=0, dtype=np.uint32)
            ends = np.cumsum(per_cell, dtype=np.uint32)
            n = int(ends[-1])
            if n == 0:
                return None
            begins = np.cumsum(counted, axis=0, dtype=np.uint32)
            begins -= counted
            begins += ends - per_cell
            session.write(counters, begins)
            points = self._scope.empty(POINT_BYTES * (n + LANES))
            placed = self._scope.empty((8 if self._wide else 4) * n) if self._weighted else None
            own = {"begins": counters, "points": points, "placed": placed or points}
            for chunk, pixels in zip(self._chunks, sent, strict=True):
                with session.scope() as one:
                    weights = self._tables
                    if chunk.weights is not None:
                        dtype = np.uint64 if self._wide else np.uint32
                        weights = one.upload(np.ascontiguousarray(chunk.weights, dtype))
                    self._launch("place_points", chunk, pixels, weights=weights, **own)
        return self._summed(_segments(per_cell, ends), n, points, placed)

    def _kernel(self, name: str, chunk: Chunk) -> Kernel:
        constants = {"WEIGHTED": int(self._weighted), "WIDE_WEIGHTS": int(self._wide), **self._space.constants()}
        own = {"CHANNELS": chunk.picture.channels, "RUN": self._run, "ALONE": int(self._is_cpu)}
        return self._session.program(FILE, **constants, **own).kernel(name)

    def _launch(self, name: str, chunk: Chunk, pixels: Buffer, **own: Buffer) -> None:
        """Run a kernel over a chunk, its work-items in the same places every time."""
        session, kernel = self._session, self._kernel(name, chunk)
        items = min(self._copies, -(-chunk.pixels // self._run)) if self._is_cpu else chunk.pixels
        group = 1 if self._is_cpu else session.work_group_size(kernel, _GROUP)
        n, copies = np.uint32(chunk.pixels), np.uint32(self._copies)
        given = {"pixels": pixels, "n": n, "tables": self._tables, "copies": copies, **self._grid.arguments, **own}
        session.launch(kernel, items, group, **given)

    def _summed(self, segments: npt.NDArray[np.uint32], n: int, points: Buffer, weights: Buffer | None) -> DeepPoints:
        """The points with the sums of their segments."""
        session, count = self._session, len(segments)
        kernel = self._kernel("sum_segments", self._chunks[0])
        group = session.work_group_size(kernel, _GROUP)
        where = self._scope.copy_of(segments)
        sums = self._scope.empty(8 * count * (1 + self._space.dims))
        with session.scope() as inner:
            squares = inner.zeros(16)
            given = {"segments": where, "n_segments": np.uint32(count), "points": points, "weights": weights or points}
            session.launch(kernel, count, group, **given, **self._grid.arguments, sums=sums, squares=squares)
            low, high = (int(part) for part in session.download(squares, 2, np.uint64))
        return DeepPoints(self._grid, where, count, n, points, weights, sums, low + (high << LOW_BITS))


def _most_points(session: Session) -> int:
    return max(1, min(_MAX_POINTS, session.limits.max_alloc // POINT_BYTES - LANES))


def _segments(per_cell: npt.NDArray[np.uint32], ends: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """(n, 4): cell, first point, end and 0 of runs of at most `SEGMENT` points, cell by cell."""
    cell, first = cut_cells(per_cell, SEGMENT)
    first += (ends - per_cell)[cell]
    return np.column_stack([cell, first, np.append(first[1:], ends[-1]), np.zeros_like(cell)]).astype(np.uint32)
