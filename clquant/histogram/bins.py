"""A histogram of colours on the device: one bin a 24-bit colour, and the occupied ones collected in Z-order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, LocalMemory, Scope, Session, Variant

CODES = 1 << 24
CELLS = 1 << 12
CELL_BINS = CODES // CELLS

# The tiles' table in local memory; COLUMNS of `cl/histogram/bins_tiles.cl`; most rows of a tile; tiles that a compute
# unit should have at least; work-items that share one; and how wide thin pictures are taken to be.
TILE_BYTES = 1 << 15
TILE_COLUMNS = 128
MOST_TILE_ROWS = 64
TILES_PER_UNIT = 4
TILE_GROUP = 512
ANY_WIDTH = 4096
# Work-items that add up how many bins of each cell are occupied; most colours of a cell that wait in local memory until
# they are written side by side, and the bytes of one.
PLACE_GROUP = 256
COLLECTED = 2048
COLLECTED_BYTES = 6

# Words that the kernels note, and bytes of their buffer: the least that is kept for the next job.
NOTES = 3
KEPT_BYTES = 1 << 16

# The form of counting for GPUs: in local memory first. It takes no weights, and wants all bins in one buffer.
TILES = Variant("tiles", "histogram/bins_tiles.cl", lambda limits: limits.local_memory >= TILE_BYTES, gain=8.2)

Uint32 = npt.NDArray[np.uint32]


class Bins:
    """Empty bins of consecutive cells of 16^3 colours; device memory belongs to a scope.

    Collecting what is in them leaves them empty, so that the next job on the queue finds its bins so.

    Parameters
    ----------
    session : Session
    scope : Scope
    cells : int
        How many, a power of two.
    cubes : bool
        Whether bins are as `cl/histogram/bins.h` says, which is for all cells; else in Z-order.
    """

    def __init__(self, session: Session, scope: Scope, cells: int, cubes: bool) -> None:
        self._session = session
        self._scope = scope
        self._cells = cells
        self.size = cells * CELL_BINS
        self._program = session.program("histogram/bins.cl", CELL_BINS=CELL_BINS, CUBES=int(cubes))
        notes = scope.zeros_left(KEPT_BYTES)
        self.notes: Buffer = scope.zeros(KEPT_BYTES) if notes is None else notes
        left = scope.zeros_left(4 * self.size)
        self.buffer: Buffer = scope.empty(4 * self.size) if left is None else left
        if left is None:
            kernel = self._program.kernel("clear_bins")
            group = session.work_group_size(kernel, session.tuned("counting.group"))
            session.launch(kernel, self.size // 4, group, self.buffer, np.uint32(self.size // 4))

    def leave(self) -> None:
        """Leave the buffers to the next job, after the last colours were collected."""
        for buffer in (self.buffer, self.notes):
            self._scope.leave_zeros(buffer)

    def starts(self, scope: Scope) -> tuple[Buffer, Uint32, Uint32]:
        """Where each cell's colours go among the colours of all occupied bins.

        Parameters
        ----------
        scope : Scope
            For what this needs, and of the buffer.

        Returns
        -------
        starts : pyopencl.Buffer
        starts : ndarray
            The same, (cells + 1,) uint32.
        notes : ndarray
            (NOTES,) uint32, which are 0 from now on.
        """
        session, cells = self._session, self._cells
        count_occupied, place = self._program.kernel("count_occupied"), self._program.kernel("place_cells")
        group = session.work_group_size(count_occupied, session.tuned("counting.group"))
        found, starts = scope.empty(4 * cells), scope.empty(4 * (cells + 1 + NOTES))
        session.launch(count_occupied, cells * group, group, self.buffer, found)
        group = session.work_group_size(place, PLACE_GROUP, 8)
        given = found, np.uint32(cells), self.notes, np.uint32(NOTES), starts, LocalMemory(8 * group)
        session.launch(place, group, group, *given)
        both = session.download(starts, cells + 1 + NOTES, np.uint32)
        return starts, both[: cells + 1], both[cells + 1 :]

    def collected(self, owner: Scope, first: int, starts: Buffer, n: int) -> tuple[Buffer, Buffer]:
        """The colours of occupied bins, packed and in Z-order, and what was counted; the bins are empty then.

        Parameters
        ----------
        owner : Scope
            Of the two buffers.
        first : int
            Z-order code of the first bin.
        starts : pyopencl.Buffer
            What the method `starts` gave.
        n : int
            Colours: the last of them.

        Returns
        -------
        colors, counts : pyopencl.Buffer
            (n,) uint32 each.
        """
        kernel = self._program.kernel("collect_occupied")
        group = self._session.work_group_size(kernel, self._session.tuned("counting.group"), 8)
        colors, counts = owner.empty(4 * n), owner.empty(4 * n)
        room = max(1, min(COLLECTED, (self._session.limits.local_memory // 2 - 8 * group) // COLLECTED_BYTES))
        self._session.launch(
            *(kernel, self._cells * group, group),
            bins=self.buffer,
            first_bin=np.uint32(first),
            starts=starts,
            colors=colors,
            counts=counts,
            offsets=LocalMemory(8 * group),
            codes=LocalMemory(2 * room),
            sums=LocalMemory(4 * room),
            room=np.uint32(room),
        )
        return colors, counts


def count_tiles(session: Session, pixels: Buffer, channels: int, width: int, height: int, bins: Bins) -> None:
    """Queue the counting of a picture's pixels into bins of the form `TILES`.

    Parameters
    ----------
    session : Session
    pixels : pyopencl.Buffer
        (height, width, channels) uint8.
    channels, width, height : int
    bins : Bins
        Of all cells, in cubes: added to, as are their notes.
    """
    wide, rows, tiles = tiled(width, height, session.limits.compute_units)
    aligned = int(wide % 4 == 0 and width * height % 4 == 0)
    kernel = session.program(TILES.file, CHANNELS=channels, ALIGNED=aligned).kernel("count_tiles")
    group = session.work_group_size(kernel, TILE_GROUP)
    sizes = np.uint32(width * height), np.uint32(wide), np.uint32(rows)
    session.launch(kernel, tiles * group, group, pixels, *sizes, bins.buffer, bins.notes)


def tiled(width: int, height: int, units: int) -> tuple[int, int, int]:
    """How pixels are cut into tiles.

    Parameters
    ----------
    width, height : int
    units : int
        Compute units.

    Returns
    -------
    tuple of int
        The length of a row, which is not the picture's if tiles of a thin picture would not be full (sums do not depend
        on it, and every tile has a table to empty); rows of a tile; number of tiles.
    """
    pixels = width * height
    rows = max(1, min(MOST_TILE_ROWS, pixels // (TILE_COLUMNS * TILES_PER_UNIT * units)))
    wide = width if width >= TILE_COLUMNS and height >= rows else ANY_WIDTH
    return wide, rows, -(-wide // TILE_COLUMNS) * -(-pixels // (wide * rows))
