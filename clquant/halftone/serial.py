"""Floyd and Steinberg's serial scan in wavefronts, to a palette or to black and white."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, runtime
from clquant.halftone.color import make_mapper
from clquant.images import Picture, row_bands
from clquant.palette.palette import Palette

TILE_ROWS, TILE_COLUMNS = 32, 64
ROWS = 256
"""Rows of a strip in the form for GPUs, and work-items that take one."""
CLOCKS = 256
"""Pixels of a row that a launch of it takes: 128 to 512 cost the same on an H200, fewer lose to the launches."""
SIDE, GROUP = 32, 256
"""Side of the tiles in which pictures are brought into that form's order, and work-items of one."""
NO_ERROR = 126
"""What stands for an error of 0 in its bytes."""
GRAY_FORMS = (
    runtime.Variant("tiles", "halftone_floyd_steinberg.cl", lambda limits: limits.is_cpu),
    runtime.Variant("rows", "halftone_rows.cl", lambda limits: limits.work_group >= ROWS),
    runtime.Variant("portable", "halftone_floyd_steinberg.cl"),
)


def serial_palette(
    session: runtime.Session, picture: Picture, palette: Palette, color_space: str, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """Palette indices (H, W) by Floyd and Steinberg's serial scan; on the device as the picture is.

    Raises
    ------
    InvalidArgument
        If the picture has pixels of alpha 0 and the palette no entry of alpha 0.
    """
    with session.scope() as scope:
        mapper = make_mapper(session, scope, picture, palette, color_space)
        constants = {**mapper.constants(picture.channels), "GRAY": 0}
        result = _serial(session, scope, picture, palette.index_dtype, constants, mapper.arguments(), 8, report)
        mapper.check_transparency()
    return result


def serial_gray(
    session: runtime.Session, picture: Picture, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """0 and 255 (H, W) by Floyd and Steinberg's serial scan, equal to Pillow's ``convert("1")``."""
    with session.scope() as scope:
        if session.choose(GRAY_FORMS).name == "rows":
            return _serial_in_rows(session, scope, picture, report)
        return _serial(session, scope, picture, np.dtype(np.uint8), {"GRAY": 1}, (), 2, report)


def _serial_in_rows(
    session: runtime.Session, scope: runtime.Scope, picture: Picture, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """What `serial_gray` does, by `cl/halftone_rows.cl`: bands of whole strips, top to bottom."""
    shape = (picture.height, picture.width)
    device = session.new_array(shape, np.uint8) if picture.on_device else None
    host = None if picture.on_device else runtime.HostResult(session, shape, np.uint8)
    quads = -(-(picture.width + 2 * (ROWS - 1)) // CLOCKS) * CLOCKS // 4
    above = scope.empty(4 * quads)
    session.fill(above, np.uint8(NO_ERROR), 4 * quads)
    for row0, row1 in row_bands(picture.height, 4 * quads, session, ROWS):
        count = row1 - row0
        with session.scope() as band:
            image = picture.upload(session, band, row0, row1)
            output = band.empty(count * picture.width)
            _queue_rows(session, band, (count, picture.width, quads), image, output, above)
            if device is not None:
                session.copy(images.buffer_of(device), output, count * picture.width, 0, row0 * picture.width)
            if host is not None:
                host.store(band, row0, row1, output)
        report.report(row1, picture.height)
    if host is not None:
        return host.array()
    assert device is not None
    return device


def _queue_rows(
    session: runtime.Session,
    scope: runtime.Scope,
    sizes: tuple[int, int, int],
    image: runtime.Buffer,
    output: runtime.Buffer,
    above: runtime.Buffer,
) -> None:
    """Queue a band of rows, width and quads of clocks; `above` takes part as the errors before and after it."""
    rows, _, quads = sizes
    program = session.program("halftone_rows.cl", ROWS=ROWS, CLOCKS=CLOCKS, GROUP=GROUP)
    kernel = program.kernel("halftone_rows")
    strips = -(-rows // ROWS)
    given = tuple(np.int32(size) for size in sizes)
    skewed, state = scope.empty(4 * quads * ROWS * strips), scope.empty(16 * ROWS * strips)
    lowest = scope.empty(4 * quads * (strips + 1))
    session.copy(lowest, above, 4 * quads)
    tiles = ((strips * ROWS // SIDE * GROUP, -(-4 * quads // SIDE)), (GROUP, 1))
    session.launch(program.kernel("skew"), *tiles, image, skewed, *given)
    slabs, behind = 4 * quads // CLOCKS, 2 * ROWS // CLOCKS + 1
    for number in range(slabs + behind * (strips - 1)):
        first, last = max(0, -(-(number - slabs + 1) // behind)), min(strips - 1, number // behind)
        if first <= last:
            items = (last - first + 1) * ROWS
            now = (np.int32(number), np.int32(first))
            session.launch(kernel, items, ROWS, skewed, state, lowest, *given, *now)
    session.launch(program.kernel("straighten"), *tiles, skewed, output, *given)
    session.copy(above, lowest, 4 * quads, 4 * quads * strips)


def _serial(
    session: runtime.Session,
    scope: runtime.Scope,
    picture: Picture,
    dtype: np.dtype[Any],
    constants: dict[str, Any],
    arguments: tuple[Any, ...],
    error_size: int,
    report: runtime.Progress,
) -> npt.NDArray[Any] | runtime.Array:
    """Bands of whole tiles, top to bottom; the last row's errors of one are the first of the next."""
    width = picture.width
    program = session.program("halftone_floyd_steinberg.cl", **constants, ROWS=TILE_ROWS, COLUMNS=TILE_COLUMNS)
    kernel = program.kernel("halftone_floyd_steinberg")
    # Barriers cost a CPU a switch between work-items; one work-item does a tile's rows in turn there.
    lanes = 1 if session.limits.is_cpu else session.work_group_size(kernel, TILE_ROWS)
    shape = (picture.height, width)
    result: Any = session.new_array(shape, dtype) if picture.on_device else np.empty(shape, dtype)
    above = scope.zeros(width * error_size)
    # The errors of a band take a row more than its pixels: a tile's share of it is added to each of its rows.
    row_bytes = width * error_size + -(-width * error_size // TILE_ROWS)
    for row0, row1 in row_bands(picture.height, row_bytes, session, TILE_ROWS):
        count = row1 - row0
        with session.scope() as band:
            image = picture.upload(session, band, row0, row1)
            output = band.empty(count * width * dtype.itemsize)
            errors = band.empty((count + 1) * width * error_size)
            session.copy(errors, above, width * error_size)
            tiles = -(-count // TILE_ROWS)
            # The last row of a tile ends 2 (ROWS - 1) pixels left of its first.
            across = -(-(width + 2 * (TILE_ROWS - 1)) // TILE_COLUMNS)
            for wave in range(across + 2 * (tiles - 1)):
                first = max(0, -(-(wave - across + 1) // 2))
                last = min(tiles - 1, wave // 2)
                if first > last:  # pictures of one or two columns have every other wave empty
                    continue
                session.launch(
                    kernel,
                    (last - first + 1) * lanes,
                    lanes,
                    *arguments,
                    image,
                    output,
                    errors,
                    np.int32(count),
                    np.int32(width),
                    np.int32(wave),
                    np.int32(first),
                )
            session.copy(above, errors, width * error_size, count * width * error_size)
            if picture.on_device:
                nbytes = count * width * dtype.itemsize
                session.copy(images.buffer_of(result), output, nbytes, 0, row0 * width * dtype.itemsize)
            else:
                session.download_into(result[row0:row1], output)
        report.report(row1, picture.height)
    return result  # type: ignore[no-any-return]
