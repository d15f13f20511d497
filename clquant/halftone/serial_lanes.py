"""Floyd and Steinberg's serial scan in the form for CPUs: rows in the lanes of a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant import runtime
from clquant.halftone.waves import tiles_of, waves

FILE = "halftone_serial_lanes.cl"
GRAY_LANES, PALETTE_LANES = 16, 8
STRIPS = (8, 4, 2, 1)
"""Strips of so many rows as there are lanes that a tile may have."""
TILES_A_UNIT = 1.5
"""Tiles that should run at once, on average, a compute unit."""


class SerialLanes:
    """The scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope.

    Parameters
    ----------
    session : runtime.Session
    scope : runtime.Scope
    constants : dict
        Of `cl/halftone_serial_lanes.cl`.
    arguments : tuple
        The kernel's before the image.
    height, width : int
        Of the picture.
    """

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        constants: dict[str, Any],
        arguments: tuple[Any, ...],
        height: int,
        width: int,
    ) -> None:
        self._session, self._arguments, self._width = session, arguments, width
        self._kernel = session.program(FILE, **constants).kernel("halftone_serial_lanes")
        gray = constants["GRAY"] == 1
        self._lanes, self._components = (GRAY_LANES, 1) if gray else (PALETTE_LANES, 3)
        for self._strips in STRIPS:  # the most that leave work for all compute units, since every launch costs
            if self._keeps_units_busy(height):
                break
        self._errors_bytes = 2 * self._components * width
        self._above = scope.zeros(self._errors_bytes)

    @property
    def _row_bytes(self) -> int:
        """Of the errors of a row."""
        return 2 * self._components * self._width

    @property
    def rows(self) -> int:
        """Of a strip; every band but the last has a multiple of them."""
        return self._lanes

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the largest of a band's buffers besides its pixels and results."""
        return -(-2 * self._errors_bytes // self._lanes)

    @property
    def _tile(self) -> tuple[int, int]:
        """Rows and columns of a tile: as few columns as keep it clear of the tile below, two launches behind."""
        return self._lanes * self._strips, 2 * self._lanes * self._strips

    def _keeps_units_busy(self, height: int) -> bool:
        down, across = tiles_of(height, self._width, *self._tile)
        return down * across >= TILES_A_UNIT * self._session.limits.compute_units * (across + 2 * (down - 1))

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None:
        """Queue a band of `count` rows.

        Parameters
        ----------
        scope : runtime.Scope
        image, output : runtime.Buffer
            The rows' pixels, and where their results go.
        count : int
        """
        session, size = self._session, self._errors_bytes
        strips = -(-count // self._lanes)
        state = scope.empty(2 * 3 * self._components * self._lanes * strips)
        lowest = scope.empty((strips + 1) * size)
        session.copy(lowest, self._above, size)
        sizes = (np.int32(n) for n in (count, self._width, self._strips, self._tile[1]))
        given = (*self._arguments, image, output, state, lowest, *sizes)
        for wave, first, tiles in waves(count, self._width, *self._tile):
            session.launch(self._kernel, tiles, 1, *given, np.int32(wave), np.int32(first))
        session.copy(self._above, lowest, size, strips * size)
