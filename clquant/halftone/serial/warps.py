"""Floyd and Steinberg's serial scan of gray pictures in the form for NVIDIA's GPUs: rows in the lanes of warps."""

from __future__ import annotations

import numpy as np

from clquant import runtime

FILE = "halftone/serial/warps.cl"
ROWS = 32
"""Rows of a strip: the work-items of a warp, which take one each."""
ITEMS = 96
"""Work-items that share a strip: a warp scans, the others move its pixels and fetch errors."""
STEP = 16
"""Errors of a slot, which a row leaves in a step."""
ABSENT = np.int32(-0x7FFFFFFF)
"""What stands for an error that is not there yet."""


def admits(limits: runtime.Limits) -> bool:
    """Whether a device's work-items hand values to each other as this form does."""
    return limits.is_nvidia and limits.compute_capability >= 70 and limits.work_group >= ITEMS


class SerialWarps:
    """The scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope."""

    rows = ROWS

    def __init__(self, session: runtime.Session, scope: runtime.Scope, width: int) -> None:
        self._session, self._width = session, width
        # The first slot ends with the error of the picture's first column.
        self._slots = (width - 1) // STEP + 2
        self._kernel = session.program(FILE).kernel("halftone_warps")
        self._above = scope.zeros(self._passed_bytes)

    @property
    def _passed_bytes(self) -> int:
        """Bytes that a strip passes on."""
        return 4 * STEP * self._slots

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the largest of a band's buffers, the picture's own."""
        return self._width

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None:
        """Queue a band of `count` rows."""
        session, nbytes, strips = self._session, self._passed_bytes, -(-count // ROWS)
        passed, ticket = scope.empty(nbytes * (strips + 1)), scope.zeros(4)
        session.copy(passed, self._above, nbytes)
        session.fill(passed, ABSENT, nbytes * strips, nbytes)
        sizes = (np.int32(count), np.int32(self._width), np.int32(self._slots))
        session.launch(self._kernel, strips * ITEMS, ITEMS, image, output, passed, ticket, *sizes)
        session.copy(self._above, passed, nbytes, nbytes * strips)
