"""Error diffusion in tiles that do not wait for each other, or serially as one tile."""

from __future__ import annotations

import numpy as np

from clquant import runtime
from clquant.dithering.diffusion_job import DiffusionParams
from clquant.flow import Portion
from clquant.images import Picture
from clquant.mapping.candidates_lanes import int4
from clquant.mapping.palette_on_device import PaletteOnDevice

FILE = "dithering/diffusion_tiles.cl"
VARIANTS = (
    # Candidates in the lanes of a vector; 16-bit values take the portable form.
    runtime.Variant("lanes", FILE, runtime.Limits.has_lanes, {"SEARCH": "IN_LANES"}, gain=2.1),
    runtime.Variant("portable", FILE, constants={"SEARCH": "IN_CELLS"}),
)
OVERLAP = 8
"""Pixels outside a tile from which it is scanned: from 4 to 16 no difference was found in the result's visual error."""
GROUP = 32
IN_TURNS = 4
"""Tiles of a work-item on CPUs."""
MARGIN = 2
"""Columns of 0 on each side of a tile's errors, which filters look at."""
PIXELS_PER_LAUNCH = 1 << 18
"""Of a picture that is one tile: a launch ends within a fraction of a second on every device."""


class TileScan:
    """The scan's launches for the bands of a picture, or of `pictures` of one size below each other."""

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        on_device: PaletteOnDevice,
        picture: Picture,
        given: DiffusionParams,
        first: int = 0,  # row of the whole picture, where it is one tile
        pictures: int = 1,
    ) -> None:
        self._session, self._on_device, self._given, self._width = session, on_device, given, picture.width
        self._first, self._pictures = first, pictures
        whole = given.tile_size is None
        self.rows = picture.height if pictures > 1 else given.tile_size or 1
        self.overlap = 0 if whole else OVERLAP
        self._side = given.tile_size or max(picture.height, picture.width)
        self._across = -(-picture.width // self._side)
        self._span = min(picture.width + self.overlap, self._side + 2 * self.overlap) + 2 * MARGIN
        self._form = given.form(session, VARIANTS)
        constants = {**on_device.constants(picture.channels), **given.constants(), **self._form.constants}
        self._in_turns = IN_TURNS if session.limits.is_cpu and not whole else 1
        constants |= {
            "DEPTH": given.filter.depth,
            "SERPENTINE": int(given.serpentine),
            "TILE_MAJOR": int(session.limits.is_cpu),
            "IN_TURNS": self._in_turns,
        }
        self._kernel = session.program(FILE, **constants).kernel("diffuse_tiles")
        self._state = scope.zeros(self._error_bytes(1)) if whole else None

    @property
    def passed_on(self) -> tuple[runtime.Buffer, int]:
        """The errors that the rows so far pass on, and their bytes, of a picture that is one tile."""
        assert self._state is not None
        return self._state, self._error_bytes(1)

    def _error_bytes(self, tiles: int) -> int:
        return self._given.error_bytes * (self._given.filter.depth + 1) * self._span * tiles

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the errors, the largest of a band's buffers besides its pixels and results."""
        return 0 if self._state is not None else -(-self._error_bytes(self._across) // self._side)

    def step(self, session: runtime.Session, scope: runtime.Scope, band: Portion) -> None:  # noqa: ARG002
        """Queue a band."""
        if self._state is None:
            rows = (band.row1 - band.row0) // self._pictures
            tiles = self._across * -(-rows // self._side)
            errors = scope.zeros(self._error_bytes(tiles * self._pictures))
            self._queue(tiles, errors, band, (band.row0, band.row0 + rows, band.first, band.row0))
            return
        rows = max(1, PIXELS_PER_LAUNCH // self._width)
        for row in range(band.row0, band.row1, rows):
            span = row, min(row + rows, band.row1), band.first, band.row0
            self._queue(1, self._state, band, tuple(self._first + n for n in span))

    def _queue(self, tiles: int, errors: runtime.Buffer, band: Portion, rows: tuple[int, ...]) -> None:
        session = self._session
        wanted = 1 if session.limits.is_cpu else min(GROUP, max(1, tiles // session.limits.compute_units))
        group = session.work_group_size(self._kernel, wanted)
        session.launch(
            self._kernel,
            (-(-tiles // self._in_turns), self._pictures),
            (group, 1),
            **self._given.arguments(self._on_device, self._form, band.pixels, band.out),
            errors=errors,
            rows=int4(rows),
            width=np.int32(self._width),
            side=np.int32(self._side),
            overlap=np.int32(self.overlap),
            across=np.int32(self._across),
            span=np.int32(self._span),
            tiles=np.uint32(tiles),
        )
