"""Floyd and Steinberg's serial scan in wavefronts, to a palette or to black and white."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clquant import flow, runtime
from clquant.color import spaces
from clquant.dithering import bounds, diffusion_waves
from clquant.dithering.error_diffusion import MAX_SIDE, Diffused
from clquant.flow import Steps
from clquant.halftone.serial import lanes as serial_lanes
from clquant.halftone.serial import rows as serial_rows
from clquant.halftone.serial import tiles, warps
from clquant.halftone.serial.lanes import SerialLanes
from clquant.halftone.serial.rows import SerialRows
from clquant.halftone.serial.tiles import SerialTiles
from clquant.halftone.serial.warps import SerialWarps
from clquant.images import Picture
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.search import is_cpu

MAX_KEPT_PIXELS = 1 << 22
"""Of a gray picture whose buffers and launches a CPU keeps for the next of its size."""


class _Scan(Protocol):
    """A form of the scan: `rows`, of which bands are multiples, bytes per row of its largest buffer, launches."""

    @property
    def rows(self) -> int: ...

    @property
    def row_bytes(self) -> int: ...

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None: ...


@contextlib.contextmanager
def _gray_lanes(session: runtime.Session, picture: Picture) -> Iterator[_Scan]:
    """A new scan, or that of an earlier picture of the same size."""
    sizes = picture.height, picture.width

    def make(scope: runtime.Scope) -> SerialLanes:
        return SerialLanes(session, scope, serial_lanes.GRAY, {}, {}, *sizes)

    def is_worthwhile(lanes: SerialLanes) -> bool:
        return picture.pixels <= MAX_KEPT_PIXELS and lanes.may_serve_again

    with runtime.cached_job(session, ("serial gray", sizes), make, is_worthwhile) as lanes:
        yield lanes


@contextlib.contextmanager
def _gray_warps(session: runtime.Session, picture: Picture) -> Iterator[_Scan]:
    with session.scope() as scope:
        yield SerialWarps(session, scope, picture.width)


@contextlib.contextmanager
def _gray_rows(session: runtime.Session, picture: Picture) -> Iterator[_Scan]:
    """By tiles where a strip of rows is above the device's largest allocation."""
    with session.scope() as scope:
        if serial_rows.fits(session, picture.width):
            yield SerialRows(session, scope, picture.width)
        else:
            yield SerialTiles(session, scope, picture.width)


@contextlib.contextmanager
def _gray_tiles(session: runtime.Session, picture: Picture) -> Iterator[_Scan]:
    with session.scope() as scope:
        yield SerialTiles(session, scope, picture.width)


GRAY_FORMS = (
    runtime.Variant("lanes", serial_lanes.GRAY.file, lambda limits: limits.is_cpu, launchers=(_gray_lanes,), gain=8.1),
    runtime.Variant("warps", warps.FILE, warps.admits, launchers=(_gray_warps,), gain=1.47),
    runtime.Variant(
        "rows",
        serial_rows.FILE,
        lambda limits: limits.work_group >= serial_rows.ROWS,
        launchers=(_gray_rows,),
        gain=3.3,
    ),
    runtime.Variant("portable", tiles.FILE, launchers=(_gray_tiles,)),
)
PALETTE_FORMS = (
    runtime.Variant("lanes", serial_lanes.PALETTE.file, is_cpu, gain=1.9),
    runtime.Variant("portable", diffusion_waves.FILE),
)
"""To a palette: all but the lanes are those of `clquant.dithering.error_diffusion`."""


@dataclass(frozen=True)
class Classic(Diffused):
    """Palette indices (H, W) by Floyd and Steinberg's serial scan, on CPUs in lanes, which know no alpha."""

    @contextlib.contextmanager
    def open(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[Steps]:
        """Make the tables of the form that a scan takes."""
        palette, by_lanes = self.palette, session.choose(PALETTE_FORMS).name == "lanes" and picture.bits == 8
        if not by_lanes or palette.has_alpha or picture.channels == 4:
            with self.open_below(session, scope, picture) as steps:
                yield steps
            return
        with open_palette(session, palette, spaces.space(self.color_space, alpha=False), picture.pixels) as on_device:
            given = {
                **on_device.lane_arguments(),
                **bounds.on_the_device(on_device, plain=True),
                "colors": on_device.colors,
                "shades": on_device.cached("shades", lambda: _shades(on_device)),
            }
            constants = {**on_device.constants(picture.channels), **bounds.constants(on_device.space)}
            sizes = picture.height, picture.width
            yield _steps(SerialLanes(session, scope, serial_lanes.PALETTE, constants, given, *sizes), picture)

    def open_below(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Any:
        """As `Diffused.open`."""
        return super().open(session, scope, picture)


def _shades(on_device: PaletteOnDevice) -> runtime.Buffer:
    """(k,) uint32: R | G << 8 | B << 16 of each entry, and the most of an error << 24; 255 is all of one."""
    most = np.minimum(bounds.bounds(on_device.palette, on_device.space, plain=True)[:, :1], 255)
    parts = np.concatenate([on_device.palette.rgba()[:, :3], most], axis=1).astype(np.uint32)
    return on_device.scope.copy_of(parts @ np.array([1, 1 << 8, 1 << 16, 1 << 24], np.uint32))


@dataclass(frozen=True)
class BlackAndWhite(flow.Map):
    """0 and 255 (H, W) by Floyd and Steinberg's serial scan, equal to Pillow's ``convert("1")``."""

    is_serial, max_bits, max_side = True, 8, MAX_SIDE

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Values (H, W)."""
        return (picture.height, picture.width), np.uint8

    @contextlib.contextmanager
    def open(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[Steps]:  # noqa: ARG002
        """Make the tables of the form that a device takes."""
        opened: Callable[..., AbstractContextManager[_Scan]] = session.choose(GRAY_FORMS).launchers[0]
        with opened(session, picture) as scan:
            yield _steps(scan, picture)


def _steps(scan: _Scan, picture: Picture) -> Steps:
    """Bands of whole tiles; the last row's errors of one are the first of the next."""

    def step(session: runtime.Session, scope: runtime.Scope, band: flow.Portion) -> None:  # noqa: ARG001
        scan.run(scope, band.pixels, band.out, band.row1 - band.row0)

    return Steps(step, rows=scan.rows, row_bytes=scan.row_bytes, least_rows=picture.height)
