"""A histogram of colours on the device: one bin a 24-bit colour, and the occupied ones collected in Z-order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, LocalMemory, Scope, Session

CODES = 1 << 24
CELLS = 1 << 12
CELL_BINS = CODES // CELLS

# Work-items that add up how many bins of each cell are occupied; most colours of a cell that wait in local memory until
# they are written side by side, and the bytes of one.
PLACE_GROUP = 256
COLLECTED = 2048
COLLECTED_BYTES = 6

# Words that the kernels note, and bytes of their buffer: the least that is kept for the next job.
NOTES = 3
KEPT_BYTES = 1 << 16

Uint32 = npt.NDArray[np.uint32]


class Bins:
    """Empty bins of consecutive cells of 16^3 colours; device memory belongs to a scope.

    Collecting what is in them leaves them empty, so that the next job on the queue finds its bins so.

    Parameters
    ----------
    cells : int
        How many, a power of two.
    """

    def __init__(self, session: Session, scope: Scope, cells: int) -> None:
        self._session = session
        self._scope = scope
        self._cells = cells
        self.size = cells * CELL_BINS
        self._program = session.program("histogram/bins.cl", CELL_BINS=CELL_BINS)
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
