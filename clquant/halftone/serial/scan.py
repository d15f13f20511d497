"""Floyd and Steinberg's serial scan in wavefronts, to a palette or to black and white."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clquant import images, runtime
from clquant.color.palette import Palette
from clquant.halftone.pinwheel.palette import make_mapper
from clquant.halftone.serial import lanes as serial_lanes
from clquant.halftone.serial import rows as serial_rows
from clquant.halftone.serial import tiles, warps
from clquant.halftone.serial.lanes import SerialLanes
from clquant.halftone.serial.rows import SerialRows
from clquant.halftone.serial.tiles import SerialTiles
from clquant.halftone.serial.warps import SerialWarps
from clquant.images import Picture, row_bands

GRAY_FORMS = (
    runtime.Variant("lanes", serial_lanes.GRAY.file, lambda limits: limits.is_cpu),
    runtime.Variant("warps", warps.FILE, warps.admits),
    runtime.Variant("rows", serial_rows.FILE, lambda limits: limits.work_group >= serial_rows.ROWS),
    runtime.Variant("portable", tiles.FILE),
)
SEARCH_WEIGHT = 64
"""How much sooner short lists of candidates pay on GPUs where pixels wait for each other: on an NVIDIA H200, 512x512
pixels to 256 colours take 3.0 ms by lists and 34 by comparison with all."""


MOST_KEPT = 1 << 22
"""Pixels of a gray picture up to which a CPU's buffers and launches are kept for the next of its size."""


class _Scan(Protocol):
    """A form of the scan: `rows` that bands are multiples of, bytes a row of its largest buffer, a band's launches."""

    @property
    def rows(self) -> int: ...

    @property
    def row_bytes(self) -> int: ...

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None: ...


def serial_palette(
    session: runtime.Session, picture: Picture, palette: Palette, color_space: str, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """Palette indices (H, W) by Floyd and Steinberg's serial scan; on the device as the picture is.

    Raises
    ------
    InvalidArgument
        If the picture has pixels of alpha 0 and the palette no entry of alpha 0.
    """
    opaque = picture.channels != 4 and not palette.has_alpha
    searches = picture.pixels * (1 if session.limits.is_cpu else SEARCH_WEIGHT)
    given_mapper = make_mapper(session, picture, palette, color_space, searches, lanes=opaque)
    with session.scope() as scope, given_mapper as mapper:
        constants = mapper.constants(picture.channels)
        scan: _Scan
        if mapper.in_lanes:
            given = (*mapper.lane_arguments(), scope.copy_of(_packed(palette)))
            form, sizes = serial_lanes.PALETTE, (picture.height, picture.width)
            scan = SerialLanes(session, scope, form, constants, given, *sizes)
        else:
            scan = SerialTiles(session, scope, {**constants, "GRAY": 0}, mapper.arguments(), picture.width)
        result = _in_bands(session, picture, palette.index_dtype, scan, report)
        mapper.check_transparency()
    return result


def _packed(palette: Palette) -> npt.NDArray[np.uint32]:
    """(k,) uint32: R | G << 8 | B << 16 of each entry."""
    return palette.rgba()[:, :3].astype(np.uint32) @ np.array([1, 1 << 8, 1 << 16], np.uint32)


def serial_gray(
    session: runtime.Session, picture: Picture, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """0 and 255 (H, W) by Floyd and Steinberg's serial scan, equal to Pillow's ``convert("1")``."""
    form = session.choose(GRAY_FORMS).name
    if form == "lanes":
        sizes = picture.height, picture.width

        def make(scope: runtime.Scope) -> SerialLanes:
            return SerialLanes(session, scope, serial_lanes.GRAY, {}, (), *sizes)

        def worth(lanes: SerialLanes) -> bool:
            return picture.pixels <= MOST_KEPT and lanes.may_serve_again

        with runtime.kept(session, ("serial gray", sizes), make, worth) as lanes:
            return _in_bands(session, picture, np.dtype(np.uint8), lanes, report)
    with session.scope() as scope:
        scan: _Scan
        if form == "warps":
            scan = SerialWarps(session, scope, picture.width)
        elif form == "rows" and serial_rows.fits(session, picture.width):
            scan = SerialRows(session, scope, picture.width)
        else:
            scan = SerialTiles(session, scope, {"GRAY": 1}, (), picture.width)
        return _in_bands(session, picture, np.dtype(np.uint8), scan, report)


def _in_bands(
    session: runtime.Session, picture: Picture, dtype: np.dtype[Any], scan: _Scan, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """Bands of whole tiles, top to bottom; the last row's errors of one are the first of the next."""
    shape, out_bytes = (picture.height, picture.width), picture.width * dtype.itemsize
    device = session.new_array(shape, dtype) if picture.on_device else None
    host = None if picture.on_device else runtime.HostResult(session, shape, dtype)
    row_bytes = max(scan.row_bytes, picture.width * picture.channels, out_bytes)
    for row0, row1 in row_bands(picture.height, row_bytes, session, scan.rows):
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
