"""Floyd and Steinberg's serial scan in wavefronts, to a palette or to black and white."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant import flow, runtime
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.dithering import bounds, diffusion_waves
from clquant.dithering.diffusion_waves import WaveScan
from clquant.dithering.error_diffusion import CLASSIC, MAX_SIDE, Diffused, ErrorDiffusion
from clquant.flow import Steps
from clquant.halftone.serial import lanes as serial_lanes
from clquant.halftone.serial import rows as serial_rows
from clquant.halftone.serial.lanes import SerialLanes
from clquant.halftone.serial.rows import SerialRows
from clquant.images import Picture
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import PaletteOnDevice

MAX_KEPT_PIXELS = 1 << 22  # of a gray picture whose buffers and launches a CPU keeps for the next of its size
GRAY_FORMS = (
    runtime.Variant("lanes", serial_lanes.GRAY.file, lambda limits: limits.is_cpu, gain=8.1),
    runtime.Variant("rows", serial_rows.FILE, lambda limits: limits.work_group >= serial_rows.ROWS, gain=3.9),
    runtime.Variant("portable", diffusion_waves.FILE, constants={"SEARCH": "BY_THRESHOLD"}),
)
# To a palette: all but the lanes are those of `clquant.dithering.error_diffusion`.
PALETTE_FORMS = (
    runtime.Variant("lanes", serial_lanes.PALETTE.file, runtime.Limits.has_lanes, gain=1.9),
    runtime.Variant("portable", diffusion_waves.FILE),
)


@dataclass(frozen=True)
class Classic(Diffused):
    """Palette indices (H, W) by Floyd and Steinberg's serial scan, on CPUs in lanes, which know no alpha."""

    @contextlib.contextmanager
    def open(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[Steps]:
        """Make the tables of the form that a scan takes."""
        opaque = not self.palette.has_alpha and picture.channels != 4
        by_lanes = opaque and picture.bits == 8 and session.choose(PALETTE_FORMS).name == "lanes"
        with (self._lanes if by_lanes else self.open_below)(session, scope, picture) as steps:
            yield steps

    def open_below(
        self, session: runtime.Session, scope: runtime.Scope, picture: Picture
    ) -> AbstractContextManager[Steps]:
        """Make the tables of a form that passes errors on, which lanes do not."""
        return super().open(session, scope, picture)

    @contextlib.contextmanager
    def _lanes(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[Steps]:
        space = spaces.space(self.color_space, alpha=False)
        with open_palette(session, self.palette, space, picture.pixels) as on_device:
            given = {
                **on_device.lane_arguments(),
                **bounds.penalty(on_device),
                "points": on_device.points,
                "colors": on_device.colors,
                "shades": on_device.cached("shades", lambda: _shades(on_device)),
            }
            constants = {
                **on_device.constants(picture.channels),
                **bounds.constants(on_device.space, bounds.PLAIN_SHARE),
            }
            sizes = picture.height, picture.width
            yield _steps(SerialLanes(session, scope, serial_lanes.PALETTE, constants, given, *sizes), picture)


def _shades(on_device: PaletteOnDevice) -> runtime.Buffer:
    """(k,) uint32: R | G << 8 | B << 16 of each entry, and the most of an error << 24; 255 is all of one."""
    most = np.minimum(bounds.bounds(on_device.palette, on_device.space, plain=True)[:, :1], 255)
    parts = np.concatenate([on_device.palette.rgba()[:, :3], most], axis=1).astype(np.uint32)
    return on_device.scope.copy_of(parts @ np.array([1, 1 << 8, 1 << 16, 1 << 24], np.uint32))


@dataclass(frozen=True)
class BlackAndWhite(flow.Map):
    """0 and 255 (H, W) of gray by Floyd and Steinberg's serial scan, equal to Pillow's ``convert("1")``."""

    is_serial, max_side = True, MAX_SIDE

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Values (H, W)."""
        return (picture.height, picture.width), np.uint8

    @contextlib.contextmanager
    def open(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[Steps]:
        """Make what the form that a device takes needs; a CPU keeps it for the next picture of the same size."""
        form, width = session.choose(GRAY_FORMS) if picture.bits == 8 else GRAY_FORMS[-1], picture.width
        if form.name == "lanes":
            with _gray_lanes(session, picture) as lanes:
                yield _steps(lanes, picture)
        elif form.name == "rows" and serial_rows.fits(session, width):
            yield _steps(SerialRows(session, scope, width), picture)
        else:
            given = ErrorDiffusion(CLASSIC)._checked("srgb", False, picture.bits)
            ends = Palette(np.repeat([[0, 0, 0], [255, 255, 255]], (255, 1), axis=0))  # so that indices are values
            with open_palette(session, ends, given.space, 0) as on_device:
                scan = WaveScan(session, scope, on_device, picture, given, GRAY_FORMS[-1])
                yield Steps(scan.step, rows=scan.rows, row_bytes=scan.row_bytes, least_rows=picture.height)


def _gray_lanes(session: runtime.Session, picture: Picture) -> AbstractContextManager[SerialLanes]:
    """A new scan, or that of an earlier picture of the same size."""
    sizes = picture.height, picture.width

    def make(scope: runtime.Scope) -> SerialLanes:
        return SerialLanes(session, scope, serial_lanes.GRAY, {}, {}, *sizes)

    def is_worthwhile(lanes: SerialLanes) -> bool:
        return picture.pixels <= MAX_KEPT_PIXELS and lanes.may_serve_again

    return runtime.cached_job(session, ("serial gray", sizes), make, is_worthwhile)


def _steps(scan: SerialLanes | SerialRows, picture: Picture) -> Steps:
    """Bands of whole tiles; the last row's errors of one are the first of the next."""

    def step(session: runtime.Session, scope: runtime.Scope, band: flow.Portion) -> None:  # noqa: ARG001
        scan.run(scope, band.pixels, band.out, band.row1 - band.row0)

    return Steps(step, rows=scan.rows, row_bytes=scan.row_bytes, least_rows=picture.height)
