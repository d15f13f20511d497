"""Error diffusion left to right in the form for GPUs: a work-group per strip of rows, errors in local memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant import runtime
from clquant.dithering.bounds import is_few
from clquant.dithering.diffusion_job import BandScan, searches
from clquant.flow import Portion
from clquant.images import Picture
from clquant.mapping import plain_table

FILE = "dithering/diffusion_strips.cl"
ROWS, CLOCKS = 64, 32
"""Rows of a strip, and pixels of a row that a launch takes it on by."""
LOCAL_MEMORY = 32768
"""Of a work-group: 30,096 bytes for filters that reach two pixels back."""
MOST_NEAR, NEAR_MEMORY = 256, 36864
"""Most entries that are held in local memory beside the strip, and what that takes: 36,240 bytes."""
GROUP = 256
"""Work-items of a strip: one for each row while it is scanned, all while pixels are brought in and results out; a
tenth faster than 128 on an NVIDIA H200, and as fast as 512."""
DEPTH, MARGIN = 2, 2
"""Rows above, and columns of 0 on each side, that the filters look at."""


def admits(limits: runtime.Limits) -> bool:
    """Whether a strip fits a device's local memory."""
    return limits.local_memory >= LOCAL_MEMORY


class StripScan(BandScan):
    """The scan of a picture of 8 bits in strips of rows that follow each other."""

    rows = ROWS

    def _build(self, picture: Picture, constants: dict[str, Any]) -> None:
        waiting = searches(self._session, picture)
        few = is_few(self._on_device) and self._given.plain_errors
        by_table = not few and self._given.plain_errors and plain_table.is_worthwhile(self._on_device, waiting)
        self._table = {"nearest": plain_table.plain_table(self._on_device)} if by_table else {}
        constants["SEARCH"] = "OF_FEW" if few else "IN_TABLE" if by_table else "IN_CELLS"
        is_near = len(self._on_device.palette) <= MOST_NEAR and self._session.limits.local_memory >= NEAR_MEMORY
        constants |= {"NEAR_ENTRIES": int(is_near), "MOST_NEAR": MOST_NEAR}
        self._kernel = self._session.program(FILE, **constants, LAG=self._lag).kernel("diffuse_strips")
        self._group = self._session.work_group_size(self._kernel, 1 if self._session.limits.is_cpu else GROUP)

    @property
    def _passed_bytes(self) -> int:
        return DEPTH * self._given.error_bytes * (self._width + 2 * MARGIN)

    @property
    def row_bytes(self) -> int:
        """A row of the picture in what the strips pass on, with its share of what the first is given."""
        return -(-2 * self._passed_bytes // ROWS)

    def step(self, session: runtime.Session, scope: runtime.Scope, band: Portion) -> None:
        """Queue a band."""
        count, nbytes = band.row1 - band.row0, self._passed_bytes
        strips, slabs = -(-count // ROWS), -(-(self._width + self._lag * (ROWS - 1)) // CLOCKS)
        behind = self._lag * ROWS // CLOCKS + 1
        passed = scope.zeros(nbytes * (strips + 1))
        session.copy(passed, self._above, nbytes)
        if count < DEPTH:
            session.copy(passed, self._above, nbytes // DEPTH, nbytes // DEPTH, nbytes * strips)
        kept = scope.empty(self._given.error_bytes * (2 * self._lag + 2) * ROWS * strips)
        launch = session.prepare(
            scope,
            *(self._kernel, self._group, self._group),
            **self._on_device.arguments(),
            **self._table,
            **self._given.values(self._on_device, band.pixels, band.out),
            passed=passed,
            kept=kept,
            rows=np.int32(count),
            width=np.int32(self._width),
            launch=np.int32(0),
            first_strip=np.int32(0),
        )
        for number in range(slabs + behind * (strips - 1)):
            first, last = max(0, -(-(number - slabs + 1) // behind)), min(strips - 1, number // behind)
            if first <= last:
                launch.set(launch=np.int32(number), first_strip=np.int32(first))
                launch.queue(last - first + 1)
        session.copy(self._above, passed, nbytes, nbytes * strips)
