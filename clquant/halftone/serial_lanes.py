"""Floyd and Steinberg's serial scan in the forms for CPUs: rows in the lanes of a vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant import runtime
from clquant.halftone.waves import tiles_of, waves

STRIPS = (8, 4, 2, 1)
"""Strips of so many rows as there are lanes that a tile may have, besides all of a picture's."""


@dataclass(frozen=True)
class LaneForm:
    """A kernel that scans rows in lanes; its file and it have one name.

    Attributes
    ----------
    name : str
    lanes : int
        Rows of a strip.
    components : int
        Errors of a pixel.
    launch : int
        Pixels that take a compute unit about as long as a launch: some 10 microseconds.
    """

    name: str
    lanes: int
    components: int
    launch: int


GRAY = LaneForm("halftone_serial_gray", 16, 1, 16384)
PALETTE = LaneForm("halftone_serial_lanes", 8, 3, 512)


class SerialLanes:
    """The scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope.

    Parameters
    ----------
    session : runtime.Session
    scope : runtime.Scope
    form : LaneForm
    constants : dict
        Of the form's kernel.
    arguments : tuple
        The kernel's before the image.
    height, width : int
        Of the picture.
    """

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        form: LaneForm,
        constants: dict[str, Any],
        arguments: tuple[Any, ...],
        height: int,
        width: int,
    ) -> None:
        self._session, self._form, self._arguments = session, form, arguments
        self._height, self._width = height, width
        self._kernel = session.program(f"{form.name}.cl", **constants).kernel(form.name)
        self._strips = min((-(-height // form.lanes), *STRIPS), key=self._cost)
        self._errors_bytes = 2 * form.components * width
        self._left = height
        self._above = scope.zeros(self._errors_bytes)

    @property
    def rows(self) -> int:
        """Of a strip; every band but the last has a multiple of them."""
        return self._form.lanes

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the largest of a band's buffers besides its pixels and results."""
        return -(-2 * self._errors_bytes // self._form.lanes)

    def _tile(self, strips: int) -> tuple[int, int]:
        """Rows and columns of a tile: as few columns as keep it clear of the tile below, two launches behind."""
        rows = self._form.lanes * strips
        return rows, 2 * rows if rows < self._height else -(-(self._width + 2 * rows) // rows) * rows

    def _cost(self, strips: int) -> int:
        """How long a picture takes by tiles of so many strips, in pixels of a compute unit."""
        rows, columns = self._tile(strips)
        down, across = tiles_of(self._height, self._width, rows, columns)
        launches = across + 2 * (down - 1)
        turns = -(-down * across // (launches * self._session.limits.compute_units))
        steps = min(columns, self._width + 2 * self._form.lanes)
        return launches * (self._form.launch + turns * rows * steps)

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None:
        """Queue a band of `count` rows.

        Parameters
        ----------
        scope : runtime.Scope
        image, output : runtime.Buffer
            The rows' pixels, and where their results go.
        count : int
        """
        session, size, form = self._session, self._errors_bytes, self._form
        strips = -(-count // form.lanes)
        state = scope.empty(2 * 3 * form.components * form.lanes * strips)
        lowest = scope.empty(strips * size)
        rows, columns = self._tile(self._strips)
        sizes = (np.int32(n) for n in (count, self._width, self._strips, columns))
        given = (*self._arguments, image, output, state, self._above, lowest, *sizes)
        launch = session.prepare(scope, self._kernel, 1, 1, *given, np.int32(0), np.int32(0))
        for wave, first, tiles in waves(count, self._width, rows, columns):
            launch.set(len(given), np.int32(wave), np.int32(first))
            launch.queue(tiles)
        self._left -= count
        if self._left:
            session.copy(self._above, lowest, size, (strips - 1) * size)
