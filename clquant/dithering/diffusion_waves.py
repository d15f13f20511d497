"""Error diffusion left to right in wavefronts of skewed tiles, equal to the serial scan."""

from __future__ import annotations

import numpy as np

from clquant import runtime
from clquant.dithering.diffusion_job import DiffusionParams
from clquant.dithering.wavefront import waves
from clquant.flow import Portion
from clquant.images import Picture
from clquant.mapping.palette_on_device import PaletteOnDevice

FILE = "dithering/diffusion_waves.cl"
ROWS = 32
"""Of a tile; it has this times the filter's lag columns."""
MARGIN = 2
"""Rows above, and columns of 0 on each side, that the filters look at."""


class WaveScan:
    """The scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope."""

    rows = ROWS
    overlap = 0

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        on_device: PaletteOnDevice,
        picture: Picture,
        given: DiffusionParams,
        form: runtime.Variant,
    ) -> None:
        self._session, self._on_device, self._given, self._width = session, on_device, given, picture.width
        lag = given.filter.lag
        self._columns = ROWS * lag
        self._form = form
        constants = {**on_device.constants(picture.channels), **given.constants(), **form.constants}
        program = session.program(FILE, **constants, ROWS=ROWS, COLUMNS=self._columns, LAG=lag)
        self._kernel = program.kernel("diffuse_wave")
        # Barriers cost a CPU a switch between work-items; one work-item does a tile's rows in turn there.
        self._group = 1 if session.limits.is_cpu else session.work_group_size(self._kernel, ROWS)
        self._above = scope.zeros(MARGIN * self._error_row)

    @property
    def _error_row(self) -> int:
        return self._given.error_bytes * (self._width + 2 * MARGIN)

    @property
    def passed_on(self) -> tuple[runtime.Buffer, int]:
        """The errors that the rows so far pass on, and their bytes."""
        return self._above, MARGIN * self._error_row

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the largest of a band's buffers, the errors, with its share of the rows above."""
        return self._error_row + -(-MARGIN * self._error_row // ROWS)

    def step(self, session: runtime.Session, scope: runtime.Scope, band: Portion) -> None:
        """Queue a band."""
        count, above = band.row1 - band.row0, MARGIN * self._error_row
        errors = scope.zeros(above + count * self._error_row)
        session.copy(errors, self._above, above)
        given = self._given.arguments(self._on_device, self._form, band.pixels, band.out)
        given |= {"errors": errors, "rows": np.int32(count), "width": np.int32(self._width)}
        for wave, first, tiles in waves(count, self._width, ROWS, self._columns, self._given.filter.lag):
            now = {"wave": np.int32(wave), "first_tile": np.int32(first)}
            session.launch(self._kernel, tiles * self._group, self._group, **given, **now)
        session.copy(self._above, errors, above, count * self._error_row)
