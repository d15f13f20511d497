"""Floyd and Steinberg's serial scan of gray pictures in the form for GPUs: a work-item per row."""

from __future__ import annotations

import numpy as np

from clquant import runtime

FILE = "halftone/serial/rows.cl"
ROWS = 256  # of a strip, and work-items that take one
CLOCKS = 256  # pixels of a row in a launch: 128 to 512 cost the same on an H200, fewer lose to the launches
SIDE, GROUP = 32, 256  # of the tiles in which pictures are brought into this form's order; work-items of one
NO_ERROR = 126  # stands for an error of 0 in its bytes


def fits(session: runtime.Session, width: int) -> bool:
    """Whether a strip of pictures of this width is within the device's largest allocation."""
    return ROWS * _row_bytes(width) <= session.limits.max_alloc


def _row_bytes(width: int) -> int:
    """A row in the form's order: its clocks, and those that it is ahead of the strip's last."""
    return -(-(width + 2 * (ROWS - 1)) // CLOCKS) * CLOCKS


class SerialRows:
    """The scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope."""

    rows = ROWS

    def __init__(self, session: runtime.Session, scope: runtime.Scope, width: int) -> None:
        self._session, self._width = session, width
        self._quads = _row_bytes(width) // 4
        self._program = session.program(FILE, ROWS=ROWS, CLOCKS=CLOCKS, GROUP=GROUP)
        self._above = scope.empty(self.row_bytes)
        session.fill(self._above, np.uint8(NO_ERROR), self.row_bytes)

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the largest of a band's buffers."""
        return 4 * self._quads

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None:
        """Queue a band of `count` rows."""
        session, quads = self._session, self._quads
        kernel = self._program.kernel("halftone_rows")
        strips = -(-count // ROWS)
        given = tuple(np.int32(size) for size in (count, self._width, quads))
        skewed, state = scope.empty(4 * quads * ROWS * strips), scope.empty(16 * ROWS * strips)
        lowest = scope.empty(4 * quads * (strips + 1))
        session.copy(lowest, self._above, 4 * quads)
        tiles = ((strips * ROWS // SIDE * GROUP, -(-4 * quads // SIDE)), (GROUP, 1))
        session.launch(self._program.kernel("skew"), *tiles, image, skewed, *given)
        slabs, behind = 4 * quads // CLOCKS, 2 * ROWS // CLOCKS + 1
        launch = session.prepare(scope, kernel, ROWS, ROWS, skewed, state, lowest, *given, np.int32(0), np.int32(0))
        for number in range(slabs + behind * (strips - 1)):
            first, last = max(0, -(-(number - slabs + 1) // behind)), min(strips - 1, number // behind)
            if first <= last:
                launch.set(launch=np.int32(number), first_strip=np.int32(first))
                launch.queue(last - first + 1)
        session.launch(self._program.kernel("straighten"), *tiles, skewed, output, *given)
        session.copy(self._above, lowest, 4 * quads, 4 * quads * strips)
