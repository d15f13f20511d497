"""Error diffusion left to right in wavefronts of skewed tiles, equal to the serial scan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from clquant import runtime
from clquant.dithering.diffusion_job import BandScan
from clquant.flow import Portion
from clquant.images import Picture

FILE = "dithering/diffusion_waves.cl"
ROWS = 32
"""Of a tile; it has this times the filter's lag columns."""
MARGIN = 2
"""Rows above, and columns of 0 on each side, that the filters look at."""


class WaveScan(BandScan):
    """Error diffusion in tiles of skewed rows; all tiles of a wave run at once."""

    rows = ROWS

    def _build(self, picture: Picture, constants: dict[str, Any]) -> None:  # noqa: ARG002
        self._columns = ROWS * self._lag
        program = self._session.program(FILE, **constants, ROWS=ROWS, COLUMNS=self._columns, LAG=self._lag)
        self._kernel = program.kernel("diffuse_wave")
        # Barriers cost a CPU a switch between work-items; one work-item does a tile's rows in turn there.
        self._group = 1 if self._session.limits.is_cpu else self._session.work_group_size(self._kernel, ROWS)

    @property
    def _error_row(self) -> int:
        return self._given.error_bytes * (self._width + 2 * MARGIN)

    @property
    def _passed_bytes(self) -> int:
        return MARGIN * self._error_row

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the largest of a band's buffers, the errors, with its share of the rows above."""
        return self._error_row + -(-self._passed_bytes // ROWS)

    def step(self, session: runtime.Session, scope: runtime.Scope, band: Portion) -> None:
        """Queue a band."""
        count, above = band.row1 - band.row0, self._passed_bytes
        errors = scope.zeros(above + count * self._error_row)
        session.copy(errors, self._above, above)
        given = self._given.arguments(self._on_device, self._form, band.pixels, band.out)
        given |= {"errors": errors, "rows": np.int32(count), "width": np.int32(self._width)}
        for wave, first, tiles in waves(count, self._width, ROWS, self._columns, self._lag):
            now = {"wave": np.int32(wave), "first_tile": np.int32(first)}
            session.launch(self._kernel, tiles * self._group, self._group, **given, **now)
        session.copy(self._above, errors, above, count * self._error_row)


def tiles_of(height: int, width: int, rows: int, columns: int, lag: int) -> tuple[int, int]:
    """Count tiles from top to bottom and side by side.

    Each row of a tile begins `lag` pixels left of the one above.
    """
    return -(-height // rows), -(-(width + lag * (rows - 1)) // columns)


def waves(height: int, width: int, rows: int, columns: int, lag: int) -> Iterator[tuple[int, int, int]]:
    """Yield (wave, first i, count) of the tiles (i, j) that run at once: tile (i, j) is of wave j + 2 i.

    In pictures of one or two columns every other wave is empty, and left out.
    """
    down, across = tiles_of(height, width, rows, columns, lag)
    for wave in range(across + 2 * (down - 1)):
        first = max(0, -(-(wave - across + 1) // 2))
        last = min(down - 1, wave // 2)
        if first <= last:
            yield wave, first, last - first + 1
