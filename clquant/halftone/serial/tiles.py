"""Floyd and Steinberg's serial scan of gray pictures in the portable form: a work-group per tile."""

from __future__ import annotations

import numpy as np

from clquant import runtime
from clquant.dithering.wavefront import waves

FILE = "halftone/serial/tiles.cl"
ROWS, COLUMNS = 32, 64
"""Of a tile."""
LAG = 2
"""Pixels that a row is behind the one above."""


class SerialTiles:
    """The scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope."""

    rows = ROWS

    def __init__(self, session: runtime.Session, scope: runtime.Scope, width: int) -> None:
        self._session, self._width = session, width
        program = session.program(FILE, ROWS=ROWS, COLUMNS=COLUMNS)
        self._kernel = program.kernel("halftone_floyd_steinberg")
        # Barriers cost a CPU a switch between work-items; one work-item does a tile's rows in turn there.
        self._lanes = 1 if session.limits.is_cpu else session.work_group_size(self._kernel, ROWS)
        self._errors_bytes = 2 * width
        self._above = scope.zeros(self._errors_bytes)

    @property
    def row_bytes(self) -> int:
        """Return a row's bytes in the largest of a band's buffers, the errors."""
        # These take a row more than the pixels: a tile's share of it is added to each of its rows.
        return self._errors_bytes + -(-self._errors_bytes // ROWS)

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None:
        """Queue a band of `count` rows."""
        session, lanes = self._session, self._lanes
        errors = scope.empty((count + 1) * self._errors_bytes)
        session.copy(errors, self._above, self._errors_bytes)
        given = (image, output, errors, np.int32(count), np.int32(self._width))
        for wave, first, tiles in waves(count, self._width, ROWS, COLUMNS, LAG):
            session.launch(self._kernel, tiles * lanes, lanes, *given, wave=np.int32(wave), first_tile=np.int32(first))
        session.copy(self._above, errors, self._errors_bytes, count * self._errors_bytes)
