"""Direct binary search: a halftone refined for what the eye sees; see `cl/halftone/refine.cl`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, params
from clquant.color.palette import Palette
from clquant.color.space_tables import linear_table
from clquant.dithering.eye import eye_kernel, kernel_width
from clquant.dithering.phase_planes import (
    LANES,
    MARGIN,
    MOST_CELLS,
    ORDER,
    PHASES,
    SIDE,
    PhasePlanes,
    PhaseSteps,
    row_stride,
)
from clquant.dithering.search import SearchDither, Searched
from clquant.images import Picture
from clquant.runtime import Buffer, Limits, Scope, Session, Variant

MOST_LEVELS = 16
MOST_PASSES = 16
WHITE = 1020  # its value; black's is 0
AROUND = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]  # neighbours of a pixel, and itself, row by row
MOST_REACH = 7  # a neighbour's errors are looked at a pixel farther, still within a plane's margins
GROUP = 64

IN_LANES = Variant("lanes", "halftone/refine_lanes.cl", Limits.has_lanes, gain=2.3)
PORTABLE = Variant("portable", "halftone/refine.cl")
VARIANTS = (IN_LANES, PORTABLE)


def refinement_kernel(
    dpi: float, inches: float, sharpness: float = 0.0, most_error: int = WHITE
) -> npt.NDArray[np.int32]:
    """Return the eye's kernel for a picture of `dpi` pixels per inch seen from a distance in inches."""
    width = kernel_width(params.real("dpi", dpi, 1, 1e6), params.real("inches", inches, 0.01, 1e6))
    reach = min(max(round(4.5 * width), 2), MOST_REACH)
    return eye_kernel(reach, max(width, 0.1), sharpness, most_error)


def refined_entries(palette: Palette, color_space: str, start: Any, passes: int, seen: tuple[float, float]) -> Searched:
    """Return the job of palette indices (H, W), searched from a halftone's, `start`; `seen` is (dpi, inches)."""
    kernel = partial(refinement_kernel, *seen, SearchDither().sharpness)
    return Searched(palette, color_space, passes, kernel, start)


@dataclass(frozen=True)
class Refinement:
    """The parameters of a halftone's refinement."""

    passes: int  # how often each pixel is decided, 1 to `MOST_PASSES`
    kernel: npt.NDArray[np.int32]  # of `refinement_kernel`
    linear: bool  # whether light counts instead of encoded values
    levels: npt.NDArray[np.uint8]  # (n,), the output levels, ascending
    shown: npt.NDArray[np.uint8]  # (n,), what is written for each

    @property
    def tones(self) -> npt.NDArray[np.int32]:
        """(256,) int32: values of 8-bit levels, 0 to `WHITE`."""
        return linear_table(WHITE) if self.linear else np.arange(256, dtype=np.int32) * (WHITE // 255)


@dataclass(frozen=True, eq=False)
class Refined(flow.Map):
    """The halftone `start` (level numbers) of a picture, refined, each channel by itself; alpha stays."""

    start: Picture
    how: Refinement

    max_bits = 8

    def open(self, session: Session, scope: Scope, picture: Picture) -> AbstractContextManager[flow.Steps]:  # noqa: ARG002
        """Say what bands there are: deciding a phase looks at the rows in reach, and changes one more."""
        most = min(session.limits.max_alloc, 4 * MOST_CELLS) // (4 * PHASES * row_stride(picture.width)) - 2 * MARGIN
        reach = -(-self.how.passes * PHASES * (len(self.how.kernel) // 2 + 2) // SIDE) * SIDE
        steps = flow.Steps(self.step, rows=SIDE, reach=reach, turns=self.how.passes)
        steps.least_rows, steps.most_rows = picture.height, max(most, 1) * SIDE
        return nullcontext(steps)

    def step(self, session: Session, scope: Scope, portion: flow.Portion) -> None:
        """Queue all passes over a band."""
        picture, how, rows = portion.picture, self.how, portion.row1 - portion.row0
        begun = self.start.upload(session, scope, portion.first, portion.last)
        layout, offset = PhasePlanes(portion.last - portion.first, picture.width), portion.row0 - portion.first
        searches = [
            _Channel(session, scope, layout, how, (portion.pixels, begun, picture.channels, channel))
            for channel in range(min(picture.channels, 3))
        ]
        for done in range(how.passes):
            for search in searches:
                search.improve()
            if portion.progress.wanted:
                session.finish()
            portion.progress.report(done + 1, how.passes)
        if picture.channels == 4:
            row_bytes = picture.width * picture.channels
            session.copy(portion.out, begun, rows * row_bytes, offset * row_bytes)
        for search in searches:
            search.store(portion.out, offset, rows)


class _Channel:
    """One channel of a band of rows on the device."""

    def __init__(
        self,
        session: Session,
        scope: Scope,
        layout: PhasePlanes,
        how: Refinement,
        source: tuple[Buffer, Buffer, int, int],
    ) -> None:
        self._session = session
        self._layout = layout
        self._channels, self._channel = source[2:]
        self._values = scope.copy_of(how.tones[how.levels])
        self._levels = np.int32(len(how.levels))
        self._shown = scope.copy_of(how.shown)
        reach = len(how.kernel) // 2
        self._middle = np.int32(how.kernel[reach, reach])
        self._form = session.choose(VARIANTS)
        self._send_taps(scope, how.kernel)
        cells = PHASES * layout.plane
        self._errors, self._state = scope.empty(4 * cells), scope.empty(4 * cells)
        self._actions = scope.empty(4 * layout.plane)
        session.fill(self._errors, np.float32(0), 4 * cells)
        session.fill(self._state, np.int32(-1), 4 * cells)
        program = session.program(PORTABLE.file)
        self._decide = session.program(self._form.file).kernel("decide_phase")
        self._apply, self._store = program.kernel("apply_phase"), program.kernel("store_levels")
        begin = program.kernel("begin_refinement")
        session.launch(
            begin,
            (layout.columns, layout.rows),
            self._group(begin),
            pixels=source[0],
            starts=source[1],
            columns=np.uint32(layout.columns),
            rows=np.uint32(layout.rows),
            channels=np.uint32(self._channels),
            channel=np.uint32(self._channel),
            tones=scope.copy_of(how.tones),
            values=self._values,
            errors=self._errors,
            **self._cells,
        )

    @property
    def _cells(self) -> dict[str, Any]:
        """Return the arguments that all kernels share, by name."""
        layout = self._layout
        return {"state": self._state, "stride": np.uint32(layout.stride), "plane": np.uint64(layout.plane)}

    def _send_taps(self, scope: Scope, kernel: npt.NDArray[np.int32]) -> None:
        """Upload the taps of `decide_phase`: errors around a pixel and its neighbours, by phase."""
        reach, places = len(kernel) // 2, PhaseSteps(self._layout)
        window = np.zeros((len(AROUND), 2 * reach + 3, 2 * reach + 3), np.int32)
        for around, (dy, dx) in zip(window, AROUND, strict=True):
            around[1 + dy : 2 + dy + 2 * reach, 1 + dx : 2 + dx + 2 * reach] = kernel
        used = np.asarray(window.any(axis=0))
        weights = window[:, used].T
        taps = np.zeros((PHASES, len(weights), 12), np.float32)
        taps[:, :, : len(AROUND)] = weights
        apart = np.full((3, 3), 1, np.int32)
        difference = kernel[reach, reach] - kernel[reach - 1 : reach + 2, reach - 1 : reach + 2]
        for phase in range(PHASES):
            taps[phase].view(np.int32)[:, len(AROUND)] = places.taps(phase, used.astype(np.int32))[:, 0]
        neighbours = [
            np.stack([places.taps(phase, apart)[:, 0], difference.ravel()], axis=1) for phase in range(PHASES)
        ]
        self._n_taps = np.uint32(len(weights))
        self._taps = {"taps": scope.copy_of(taps), "n": self._n_taps}
        self._neighbours = scope.copy_of(np.concatenate(neighbours).astype(np.int32))

    def improve(self) -> None:
        """Queue one pass."""
        layout = self._layout
        across, down = layout.cells_across, layout.cells_down
        shared = {
            **self._cells,
            "errors": self._errors,
            "values": self._values,
            "neighbours": self._neighbours,
            "columns": np.uint32(across),
            "rows": np.uint32(down),
            "actions": self._actions,
        }
        items = (-(-across // LANES) if self._form is IN_LANES else across, down)
        for phase in ORDER:
            self._session.launch(
                self._decide,
                items,
                self._group(self._decide),
                **shared,
                **self._taps,
                levels=self._levels,
                first=np.uint32(phase * int(self._n_taps)),
                middle=self._middle,
                phase=np.uint32(phase),
            )
            group = self._group(self._apply)
            self._session.launch(self._apply, (across, down), group, **shared, phase=np.uint32(phase))

    def store(self, out: Buffer, first_row: int, rows: int) -> None:
        """Queue the writing of the output of some of the band's rows."""
        layout = self._layout
        self._session.launch(
            self._store,
            (layout.columns, rows),
            self._group(self._store),
            **self._cells,
            values=self._values,
            levels=self._levels,
            shown=self._shown,
            out=out,
            columns=np.uint32(layout.columns),
            rows=np.uint32(rows),
            first_row=np.uint32(first_row),
            channels=np.uint32(self._channels),
            channel=np.uint32(self._channel),
        )

    def _group(self, kernel: Any) -> tuple[int, int]:
        return self._session.work_group_size(kernel, GROUP), 1
