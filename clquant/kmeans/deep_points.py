"""Points of 16-bit colours on the device, sorted by the cells of a grid over their space (`cl/kmeans/deep_points.cl`).

Photographs of 16 bits have nearly as many colours as pixels, so pixels are taken as they come: sums over points do not
ask whether two are equal. The points of a cell mostly have one center, so that a step needs the cell's sums alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.histogram.counts import PARTIAL
from clquant.histogram.merging import MAX_NARROW, HostCounts, colors_of
from clquant.images import Picture
from clquant.mapping.candidates_lanes import int4
from clquant.runtime import Buffer, Scope, Session

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
    """The source of 16-bit points: chunks of pixels or of counted colours, all with weights, or none."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks
        self.wide = any(chunk.weights is not None and chunk.weights.dtype.itemsize == 8 for chunk in chunks)

    @classmethod
    def of_pictures(
        cls, session: Session, pictures: Sequence[Picture], weights: Sequence[Weights] | None = None
    ) -> DeepColors:
        """The pixels of pictures of 8 or 16 bits, lazy ones too; v of 8 bits counts as 257 v."""
        chunks: list[Chunk] = []
        most = _most_points(session)
        for i, picture in enumerate(pictures):
            rows = max(1, most // picture.width)
            if picture.lazy is not None:
                rows = min(rows, picture.lazy.rows_at_once(2 * POINT_BYTES * picture.width))
            for row in range(0, picture.height, rows):
                end = min(row + rows, picture.height)
                chunks.append(Chunk(picture, row, end, None if weights is None else weights[i][row:end]))
        return cls(chunks)

    @classmethod
    def of_counts(cls, session: Session, counted: HostCounts) -> DeepColors:
        """Counted colours, with their counts as weights."""
        deep, most = counted.widened(), _most_points(session)
        dtype = np.uint64 if deep.total > MAX_NARROW else np.uint32
        chunks = []
        for first in range(0, len(deep.codes), most):
            colors = np.ascontiguousarray(colors_of(deep.codes[first : first + most])[None])
            counts = deep.counts[None, first : first + most].astype(dtype)
            chunks.append(Chunk(Picture(1, colors.shape[1], 4, False, array=colors), 0, 1, counts))
        return cls(chunks)

    def are_partial(self, session: Session) -> bool:
        """Whether some alpha is neither 0 nor 65535, whatever it weighs."""
        with session.scope() as scope:
            notes = scope.zeros(4)
            kernel = session.program(FILE, BITS=16, SPACE=0, SPACE_ALPHA=0, CHANNELS=4).kernel("note_alphas")
            group = session.work_group_size(kernel, _GROUP)
            for chunk in self.chunks:
                if chunk.picture.channels == 4:
                    with session.scope() as one:
                        items = min(chunk.pixels, _NOTERS)
                        given = chunk.upload(session, one), np.uint32(chunk.pixels), notes
                        session.launch(kernel, items, group, *given)
            return bool(session.download(notes, 1, np.uint32)[0] & PARTIAL)

    def fit(self, session: Session) -> bool:
        """Whether all points may stay on the device: half of it, and of lazy pictures what their jobs may take."""
        most = session.limits.global_memory // 2
        if session.limits.unified_memory:
            most = min([most, *(chunk.picture.lazy.memory for chunk in self.chunks if chunk.picture.lazy is not None)])
        weight_bytes = 0 if not self.chunks or self.chunks[0].weights is None else 8
        return sum(chunk.pixels for chunk in self.chunks) * (POINT_BYTES + weight_bytes) <= most

    def parts(self, session: Session) -> Iterator[list[Chunk]]:
        """The chunks in lists whose points fit one buffer; those of lazy pictures one at a time."""
        waiting: list[Chunk] = []
        room = most = _most_points(session)
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
    """Sorts 16-bit colours into cells of a space."""

    def __init__(self, session: Session, scope: Scope, space: Space, tables: Buffer) -> None:
        self._session = session
        self._scope = scope
        self._space = space
        self._tables = tables
        self._is_cpu = session.limits.is_cpu and not session.limits.is_simulator

    def sort(self, chunks: Sequence[Chunk], wide: bool) -> DeepPoints | None:
        """Return the points of chunks that fit one buffer; None if all are transparent. `wide` weights have 64 bits."""
        session, weighted = self._session, chunks[0].weights is not None
        count = sum(chunk.pixels for chunk in chunks)
        grid = CellGrid.of(self._space, count, session.limits.max_alloc)
        copies = 1
        if self._is_cpu:
            items = min(session.limits.compute_units, _MAX_ITEMS_ON_CPUS, -(-count // _RUN_ON_CPUS))
            copies = max(1, min(items, session.limits.max_alloc // (4 * grid.total)))
        with session.scope() as inner:
            counters = inner.zeros(4 * copies * grid.total)
            sent = [chunk.upload(session, inner) for chunk in chunks]
            for chunk, pixels in zip(chunks, sent, strict=True):
                self._launch("count_cells", chunk, pixels, grid, copies, {"counts": counters}, wide)
            counted = session.download(counters, (copies, grid.total), np.uint32)
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
            placed = self._scope.empty((8 if wide else 4) * n) if weighted else None
            for chunk, pixels in zip(chunks, sent, strict=True):
                with session.scope() as one:
                    weights = self._tables
                    if chunk.weights is not None:
                        dtype = np.uint64 if wide else np.uint32
                        weights = one.upload(np.ascontiguousarray(chunk.weights, dtype))
                    own = {"weights": weights, "begins": counters, "points": points, "placed": placed or points}
                    self._launch("place_points", chunk, pixels, grid, copies, own, wide)
        segments = _segments(per_cell, ends)
        return self._summed(grid, segments, n, points, placed, wide)

    def _launch(
        self,
        name: str,
        chunk: Chunk,
        pixels: Buffer,
        grid: CellGrid,
        copies: int,
        own: Mapping[str, Buffer],
        wide: bool,
    ) -> None:
        """Run a kernel over a chunk, its work-items in the same places every time."""
        session = self._session
        run = _RUN_ON_CPUS if self._is_cpu else 1
        items = min(copies, -(-chunk.pixels // run)) if self._is_cpu else chunk.pixels
        constants = {
            **self._space.constants(),
            "CHANNELS": chunk.picture.channels,
            "WEIGHTED": int(chunk.weights is not None),
            "WIDE_WEIGHTS": int(wide),
            "RUN": run,
            "ALONE": int(self._is_cpu),
        }
        kernel = session.program(FILE, **constants).kernel(name)
        group = 1 if self._is_cpu else session.work_group_size(kernel, _GROUP)
        session.launch(
            *(kernel, items, group),
            pixels=pixels,
            n=np.uint32(chunk.pixels),
            tables=self._tables,
            grid=int4(grid.cells),
            shift=np.int32(grid.shift),
            copies=np.uint32(copies),
            **own,
        )

    def _summed(
        self,
        grid: CellGrid,
        segments: npt.NDArray[np.uint32],
        n: int,
        points: Buffer,
        weights: Buffer | None,
        wide: bool,
    ) -> DeepPoints:
        """The points with the sums of their segments."""
        session, count = self._session, len(segments)
        constants = {**self._space.constants(), "WEIGHTED": int(weights is not None), "WIDE_WEIGHTS": int(wide)}
        kernel = session.program(FILE, **constants).kernel("sum_segments")
        group = session.work_group_size(kernel, _GROUP)
        where = self._scope.copy_of(segments)
        sums = self._scope.empty(8 * count * (1 + self._space.dims))
        with session.scope() as inner:
            squares = inner.zeros(16)
            given = where, np.uint32(count), points, weights or points, int4(grid.cells), np.int32(grid.shift)
            session.launch(kernel, count, group, *given, sums, squares)
            low, high = (int(part) for part in session.download(squares, 2, np.uint64))
        return DeepPoints(grid, where, count, n, points, weights, sums, low + (high << LOW_BITS))


def _most_points(session: Session) -> int:
    return max(1, min(_MAX_POINTS, session.limits.max_alloc // POINT_BYTES - LANES))


def _segments(per_cell: npt.NDArray[np.uint32], ends: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """(n, 4): cell, first point, end and 0 of runs of at most `SEGMENT` points, cell by cell."""
    cells = np.flatnonzero(per_cell)
    pieces = (per_cell[cells].astype(np.int64) + SEGMENT - 1) // SEGMENT
    cell = np.repeat(cells, pieces)
    number = np.arange(len(cell)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    end = ends[cell].astype(np.int64)
    first = end - per_cell[cell] + SEGMENT * number
    table = np.zeros((len(cell), 4), np.uint32)
    table[:, 0], table[:, 1], table[:, 2] = cell, first, np.minimum(first + SEGMENT, end)
    return table
