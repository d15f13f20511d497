"""Floyd and Steinberg's serial scan in wavefronts, to a palette or to black and white."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clquant import images, runtime
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.dithering import diffusion_waves
from clquant.halftone.serial import lanes as serial_lanes
from clquant.halftone.serial import rows as serial_rows
from clquant.halftone.serial import tiles, warps
from clquant.halftone.serial.lanes import SerialLanes
from clquant.halftone.serial.rows import SerialRows
from clquant.halftone.serial.tiles import SerialTiles
from clquant.halftone.serial.warps import SerialWarps
from clquant.images import Picture, row_bands
from clquant.mapping.palette_cache import open_palette
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


def in_lanes(session: runtime.Session, picture: Picture, palette: Palette) -> bool:
    """Whether `palette_in_lanes` is the form to take: it knows no alpha."""
    return session.choose(PALETTE_FORMS).name == "lanes" and not palette.has_alpha and picture.channels != 4


def palette_in_lanes(
    session: runtime.Session, picture: Picture, palette: Palette, color_space: str, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """Palette indices (H, W) by Floyd and Steinberg's serial scan on a CPU; on the device as the picture is."""
    with (
        session.scope() as scope,
        open_palette(session, palette, spaces.space(color_space, alpha=False), picture.pixels) as on_device,
    ):
        given = {**on_device.lane_arguments(), "colors": scope.copy_of(_packed(palette))}
        sizes = picture.height, picture.width
        scan = SerialLanes(session, scope, serial_lanes.PALETTE, on_device.constants(picture.channels), given, *sizes)
        return _in_bands(session, picture, palette.index_dtype, scan, report)


def _packed(palette: Palette) -> npt.NDArray[np.uint32]:
    """(k,) uint32: R | G << 8 | B << 16 of each entry."""
    return palette.rgba()[:, :3].astype(np.uint32) @ np.array([1, 1 << 8, 1 << 16], np.uint32)


def serial_gray(
    session: runtime.Session, picture: Picture, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """0 and 255 (H, W) by Floyd and Steinberg's serial scan, equal to Pillow's ``convert("1")``."""
    opened: Callable[..., AbstractContextManager[_Scan]] = session.choose(GRAY_FORMS).launchers[0]
    with opened(session, picture) as scan:
        return _in_bands(session, picture, np.dtype(np.uint8), scan, report)


def _in_bands(
    session: runtime.Session, picture: Picture, dtype: np.dtype[Any], scan: _Scan, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """Bands of whole tiles, top to bottom; the last row's errors of one are the first of the next."""
    shape, out_bytes = (picture.height, picture.width), picture.width * dtype.itemsize
    device = session.new_array(shape, dtype) if picture.on_device else None
    host = None if picture.on_device else picture.result(session, shape, dtype)
    row_bytes = max(scan.row_bytes, picture.width * picture.channels, out_bytes)
    for row0, row1 in row_bands(picture.height, row_bytes, session, scan.rows, picture):
        count = row1 - row0
        with session.scope() as band:
            image = picture.upload(session, band, row0, row1)
            if device is not None and count == picture.height:
                output = images.buffer_of(device)
            else:
                output = band.empty(count * out_bytes) if host is None else host.room(band, row0, row1)
            scan.run(band, image, output, count)
            if device is not None and count < picture.height:
                session.copy(images.buffer_of(device), output, count * out_bytes, 0, row0 * out_bytes)
            if host is not None:
                host.store(band, row0, row1, output)
        report.report(row1, picture.height)
    if host is not None:
        return host.array()
    assert device is not None
    return session.hand_over(device)
