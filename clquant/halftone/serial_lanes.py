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
GRAY_LAUNCH, PALETTE_LAUNCH = 4096, 512
"""Pixels that take a compute unit about as long as a launch: some 10 microseconds."""


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
        self._launch = GRAY_LAUNCH if gray else PALETTE_LAUNCH
        self._strips = min(STRIPS, key=lambda strips: self._cost(strips, height))
        self._errors_bytes = 2 * self._components * width
        self._above = scope.zeros(self._errors_bytes)

    @property
    def rows(self) -> int:
        """Of a strip; every band but the last has a multiple of them."""
        return self._lanes

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the largest of a band's buffers besides its pixels and results."""
        return -(-2 * self._errors_bytes // self._lanes)

    def _tile(self, strips: int) -> tuple[int, int]:
        """Rows and columns of a tile: as few columns as keep it clear of the tile below, two launches behind."""
        return self._lanes * strips, 2 * self._lanes * strips

    def _cost(self, strips: int, height: int) -> int:
        """How long a picture takes by tiles of so many strips, in pixels of a compute unit."""
        rows, columns = self._tile(strips)
        down, across = tiles_of(height, self._width, rows, columns)
        launches = across + 2 * (down - 1)
        turns = -(-down * across // (launches * self._session.limits.compute_units))
        return launches * (self._launch + turns * rows * columns)

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
        rows, columns = self._tile(self._strips)
        sizes = (np.int32(n) for n in (count, self._width, self._strips, columns))
        given = (*self._arguments, image, output, state, lowest, *sizes)
        for wave, first, tiles in waves(count, self._width, rows, columns):
            session.launch(self._kernel, tiles, 1, *given, np.int32(wave), np.int32(first))
        session.copy(self._above, lowest, size, strips * size)
