"""The steps of the search on one picture, or a band of its rows, on the device; see `cl/dithering/search_steps.cl`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette, TransparencyError
from clquant.color.spaces import Space
from clquant.dithering import bounds, opponent
from clquant.dithering.eye import EXACT
from clquant.dithering.phase_planes import (
    CHUNK_ROWS,
    LANES,
    MARGIN,
    PHASES,
    PLANES,
    PhasePlanes,
    PhaseSteps,
    row_stride,
    skewed_rows,
)
from clquant.mapping.within import entries_within
from clquant.runtime import Buffer, InvalidArgument, Limits, Scope, Session, Variant

# The point whose nearest entry is taken has no coordinate beyond this (FARTHEST of `cl/dithering/search_steps.h`).
FARTHEST = 2048
# The squared length of an entry that is never the nearest.
NEVER = 2.0**30
GROUP = (64, 1)
STEP = ("phase", "first_tap", "n_taps", "read", "write", "first_row", "rows")  # arguments of a launch

IN_LANES = Variant("lanes", "dithering/search_steps_lanes.cl", Limits.has_lanes, gain=6.65)
PORTABLE = Variant("portable", "dithering/search_steps.cl")
VARIANTS = (IN_LANES, PORTABLE)


def bytes_per_row_of_cells(columns: int, dims: int) -> int:
    """Bytes of the largest buffer for four rows of pixels."""
    return 4 * dims * PLANES * row_stride(columns)


class SearchPalette:
    """A palette as the search takes it; device memory belongs to a scope."""

    def __init__(
        self, session: Session, scope: Scope, palette: Palette, space: Space, is_bounded: bool = False
    ) -> None:
        self.session = session
        self.is_bounded = is_bounded
        self.space = space
        self.count = len(palette)
        self.index_type = "uchar" if palette.index_dtype == np.uint8 else "ushort"
        self.transparent = -1 if palette.transparent_index is None else palette.transparent_index
        chroma = opponent.bounded_chroma(palette, space) if is_bounded else None
        points = opponent.points(space, palette.rgba(), chroma)
        norms = (points**2).sum(axis=1)
        speck, penalty = bounds.of_search(palette, space) if is_bounded else (space.white, 0)
        self.speck, self.penalty = np.int32(speck), np.float32(penalty)
        self.proved(points, norms + penalty)
        norms = norms.astype(np.float32)
        if space.alpha:
            clear = np.flatnonzero(palette.rgba()[:, 3] == 0)
            norms[clear[1:]] = NEVER
        # Opaque pixels take opaque entries, if there are any, and no clear one.
        alpha = palette.rgba()[:, 3]
        of_opaque = np.where(alpha < 255 if (alpha == 255).any() else alpha == 0, NEVER, norms)
        entries = np.zeros((self.count + 1, 4), np.float32)
        entries[:-1, : space.dims] = points
        self.entries = scope.copy_of(entries)
        self.norms = scope.copy_of(np.concatenate([norms, of_opaque]).astype(np.float32))
        self.tables = scope.copy_of(space.tables())
        self.matrix = scope.copy_of(opponent.matrix(space, chroma))
        self.missing = scope.zeros(4)
        self.colors = scope.copy_of(palette.rgba().astype(np.int32))
        self.within = scope.copy_of(entries_within(palette, space, speck)) if is_bounded else self.colors

    @staticmethod
    def proved(points: npt.NDArray[np.int64], norms: npt.NDArray[np.int64]) -> None:
        """Refuse entries whose scores fp32 might not hold: |P|^2 - 2 P.t with no coordinate of t beyond FARTHEST."""
        if int((norms + 2 * FARTHEST * np.abs(points).sum(axis=1)).max()) >= EXACT:
            raise InvalidArgument("palette has colours too far from each other for exact sums")

    def check_transparency(self) -> None:
        """Wait, and refuse pixels of alpha 0 where the palette has no entry for them."""
        if self.transparent < 0 and self.session.download(self.missing, 1, np.int32)[0]:
            raise TransparencyError


class ToggleSearch:
    """One band of rows in search of its entries, with the kernel of `clquant.dithering.eye.eye_kernel`."""

    def __init__(
        self, scope: Scope, palette: SearchPalette, layout: PhasePlanes, kernel: npt.NDArray[np.int32]
    ) -> None:
        self._session = palette.session
        self._scope = scope
        self._palette = palette
        self.layout = layout
        self._kernel = kernel
        self._steps = PhaseSteps(layout)
        cells = palette.space.dims * PLANES * layout.plane
        self.errors = scope.empty(4 * cells)
        self.state = scope.empty(4 * PHASES * layout.plane)
        self._session.fill(self.errors, np.float32(0), 4 * cells)
        self._session.fill(self.state, np.int32(-1), 4 * PHASES * layout.plane)
        self._form = form = self._session.choose(VARIANTS)
        self._cells_per_item = LANES if form is IN_LANES else 1
        self._chunk = CHUNK_ROWS if form is IN_LANES else layout.cells_down
        self._pixels: Buffer | None = None
        self._channels = 3
        self._cells = {
            "state": self.state,
            "stride": np.uint32(layout.stride),
            "plane": np.uint64(layout.plane),
        }

    @property
    def _constants(self) -> dict[str, Any]:
        return {
            "DIMS": self._palette.space.dims,
            "CHANNELS": self._channels,
            "INDEX": self._palette.index_type,
            "EXACT_TIES": 0,
            "CITY_BLOCK": 0,
            "BOUNDED": int(self._palette.is_bounded),
            **self._palette.space.constants(),
        }

    def _visit(self, kernel_name: str, rows: int, **own: Any) -> None:
        """Queue a kernel with a work-item per pixel of so many rows."""
        kernel = self._session.program(PORTABLE.file, **self._constants).kernel(kernel_name)
        own |= {"columns": np.uint32(self.layout.columns), "rows": np.uint32(rows), **self._cells}
        own["transparent"] = np.int32(self._palette.transparent)
        self._session.launch(kernel, (self.layout.columns, rows), self._group(kernel), **own)

    def begin(self, pixels: Buffer, channels: int, start: Buffer | None = None) -> None:
        """Queue the start: every pixel of (rows, columns, channels) takes its nearest entry, or the one of `start`."""
        palette = self._palette
        self._pixels, self._channels = pixels, channels
        self._visit(
            "begin_search",
            self.layout.rows,
            pixels=pixels,
            tables=palette.tables,
            matrix=palette.matrix,
            entries=palette.entries,
            start=palette.entries if start is None else start,
            nothing=np.int32(palette.count if start is None else -1),
            missing=palette.missing,
            errors=self.errors,
        )
        if start is None:
            # The error of a pixel that shows nothing is minus itself: the entry nearest to 0 minus that is its nearest.
            self._decide(np.ones((1, 1), np.int32))

    def improve(self) -> None:
        """Queue one pass: every pixel takes the entry that lowers the visible error most."""
        self._decide(self._kernel)

    def _decide(self, kernel: npt.NDArray[np.int32]) -> None:
        """All phases in turn, by the errors that a kernel gathers."""
        layout, palette, turn = self.layout, self._palette, self._steps.turn(kernel)
        toggle = self._session.program(self._form.file, **self._constants).kernel("toggle_phase")
        shift = int(kernel[len(kernel) // 2, len(kernel) // 2]).bit_length() - 1
        across, chunk = -(-layout.cells_across // self._cells_per_item), min(self._chunk, layout.cells_down)
        launch = self._session.prepare(
            self._scope,
            *(toggle, (across, chunk), self._group(toggle)),
            **self._cells,
            errors=self.errors,
            columns=np.uint32(layout.cells_across),
            entries=palette.entries,
            norms=palette.norms,
            colors=np.int32(palette.count),
            taps=self._scope.copy_of(turn.taps),
            shift=np.int32(shift),
            pixels=self._pixels,
            width=np.uint32(layout.columns),
            palette=palette.colors,
            within=palette.within,
            speck=palette.speck,
            penalty=palette.penalty,
            **dict.fromkeys(STEP, np.uint32(0)),
        )
        for number, row, end in skewed_rows(layout.cells_down, len(turn.steps), self._chunk, MARGIN):
            launch.set(**dict(zip(STEP, np.array([*turn.steps[number], row, end], np.uint32), strict=True)))
            launch.queue()

    def error_taps(self, phase: int) -> npt.NDArray[np.int32]:
        """`PhaseSteps.taps` of the search's kernel: where the errors around a phase's cells lie now."""
        return self._steps.taps(phase, self._kernel)

    def store(self, out: Buffer, first_row: int, rows: int, offset: int = 0) -> None:
        """Queue the writing of palette indices to `out`, from its index `offset` on."""
        self._visit("store_indices", rows, out=out, first_row=np.uint32(first_row), offset=np.uint64(offset))

    def _group(self, kernel: Any) -> tuple[int, int]:
        return self._session.work_group_size(kernel, GROUP[0]), 1
