"""Floyd and Steinberg's serial scan in the forms for CPUs: rows in the lanes of a vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant import runtime
from clquant.dithering.diffusion_waves import tiles_of, waves

STRIPS = (8, 4, 2, 1)  # that a tile may have, besides all of a picture's
LAG = 2  # pixels that a row is behind the one above


@dataclass(frozen=True)
class LaneForm:
    """A kernel that scans rows in lanes, in a file of its own."""

    file: str
    name: str
    lanes: int
    components: int
    launch: int  # pixels that take a compute unit about as long as a launch: some 10 microseconds


GRAY = LaneForm("halftone/serial/lanes_gray.cl", "halftone_serial_gray", 16, 1, 16384)
PALETTE = LaneForm("halftone/serial/lanes.cl", "halftone_serial_lanes", 8, 3, 512)


class SerialLanes:
    """The scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope."""

    # `constants` are of the form's kernel, `arguments` those before the image.

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        form: LaneForm,
        constants: dict[str, Any],
        arguments: dict[str, Any],
        height: int,
        width: int,
    ) -> None:
        self._session, self._scope, self._form, self._arguments = session, scope, form, arguments
        self._height, self._width = height, width
        self._kernel = session.program(form.file, **constants).kernel(form.name)
        self._strips = min((-(-height // form.lanes), *STRIPS), key=self._cost)
        self._errors_bytes = 2 * form.components * width
        self._above = scope.zeros(self._errors_bytes)
        self._whole: tuple[runtime.PreparedLaunch, runtime.Buffer] | None = None

    @property
    def may_serve_again(self) -> bool:
        """Whether the buffers can serve another picture of the size: the last one was scanned in one band."""
        return self._whole is not None

    @property
    def rows(self) -> int:
        """Rows of a strip; every band but the last has a multiple of them."""
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
        """Estimate the time of a picture by tiles of so many strips, in pixels of a compute unit."""
        rows, columns = self._tile(strips)
        down, across = tiles_of(self._height, self._width, rows, columns, LAG)
        launches = across + 2 * (down - 1)
        turns = -(-down * across // (launches * self._session.limits.compute_units))
        steps = min(columns, self._width + 2 * self._form.lanes)
        return launches * (self._form.launch + turns * rows * steps)

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None:
        """Queue a band of `count` rows."""
        if count == self._height:
            self._whole = self._whole or self._prepared(self._scope, count)
            self._queue(self._whole, image, output, count)
            return
        launch, lowest = self._prepared(scope, count)
        self._queue((launch, lowest), image, output, count)
        size = self._errors_bytes
        self._session.copy(self._above, lowest, size, (-(-count // self._form.lanes) - 1) * size)

    def _prepared(self, scope: runtime.Scope, count: int) -> tuple[runtime.PreparedLaunch, runtime.Buffer]:
        """A band's launch but for its pixels and its waves, and where each strip's last errors go."""
        form, strips = self._form, -(-count // self._form.lanes)
        state = scope.empty(2 * 3 * form.components * form.lanes * strips)
        lowest = scope.empty(strips * self._errors_bytes)
        launch = self._session.prepare(
            scope,
            self._kernel,
            1,
            1,
            **self._arguments,
            image=state,  # pixels and results are told later; until then another buffer stands for them
            output=state,
            state=state,
            top=self._above,
            lowest=lowest,
            rows=np.int32(count),
            width=np.int32(self._width),
            strips=np.int32(self._strips),
            columns=np.int32(self._tile(self._strips)[1]),
            wave=np.int32(0),
            first_tile=np.int32(0),
        )
        return launch, lowest

    def _queue(
        self,
        prepared: tuple[runtime.PreparedLaunch, runtime.Buffer],
        image: runtime.Buffer,
        output: runtime.Buffer,
        count: int,
    ) -> None:
        launch = prepared[0]
        launch.set(image=image, output=output)
        for wave, first_tile, tiles in waves(count, self._width, *self._tile(self._strips), LAG):
            launch.set(wave=np.int32(wave), first_tile=np.int32(first_tile))
            launch.queue(tiles)
