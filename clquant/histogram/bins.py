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

NOTES = 3  # words of what the kernels note

Uint32 = npt.NDArray[np.uint32]


class Bins:
    """Empty bins of `cells` (a power of two) consecutive cells of 16^3 colours; collecting empties them again."""

    def __init__(self, session: Session, scope: Scope, cells: int) -> None:
        self._session = session
        self._cells = cells
        self.size = cells * CELL_BINS
        self._program = session.program("histogram/bins.cl", CELL_BINS=CELL_BINS)
        self.notes: Buffer = scope.zeros(4 * NOTES)
        self.buffer: Buffer = scope.empty(4 * self.size)
        kernel = self._program.kernel("clear_bins")
        group = session.work_group_size(kernel, session.tuned("counting.group"))
        session.launch(kernel, self.size // 4, group, self.buffer, np.uint32(self.size // 4))

    def starts(self, scope: Scope) -> tuple[Buffer, Uint32, Uint32]:
        """Return each cell's place among the colours, (cells + 1,) uint32 on device and host, and (NOTES,) uint32."""
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
        """Empty bins from `first` on into n colours, packed in Z-order, and their counts, (n,) uint32."""
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
