"""Error diffusion to any palette: by the pinwheel's blocks, or by Floyd and Steinberg's serial scan in wavefronts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, runtime
from clquant.halftone.blocks import block_bands
from clquant.halftone.layout import error_limit, pack_path, phase_constants
from clquant.halftone.paths import INWARD, OUTWARD, make_path
from clquant.halftone.tables import UNITS, constant_tables, rows
from clquant.halftone.tones import WHITE, linear_units
from clquant.images import Picture, row_bands
from clquant.palette import spaces
from clquant.palette.mapping import Mapper
from clquant.palette.palette import Palette

TILE_ROWS, TILE_COLUMNS = 32, 64
GAIN = 32
"""Sixteenths of the error that count in choosing an entry (16 are passed on): measured in docs/halftone.md."""
START = 32
"""Amplitude of the first pixel's start error in red, green and blue, in gray levels."""


@dataclass(frozen=True)
class VectorSettings:
    """What a halftone to a palette depends on besides picture and palette; every value is checked already.

    Attributes
    ----------
    block_size, scan, linear
        As `PinwheelHalftoner` takes them.
    color_space : str
        Where colours are compared.
    error_limit : int
        Clamp of an error's components, in 1/16 gray.
    seed : int
    """

    block_size: int
    scan: str
    linear: bool
    color_space: str
    error_limit: int
    seed: int


def codes_of_worths(light: npt.NDArray[np.int16]) -> npt.NDArray[np.uint8]:
    """(4081,) uint8: the 8-bit value whose worth is nearest to each worth, ties up."""
    worth = light.astype(np.int64)
    middles = worth[:-1] + worth[1:]
    return np.searchsorted(middles, 2 * np.arange(WHITE + 1), side="right").astype(np.uint8)


def worths(linear: bool) -> npt.NDArray[np.int16]:
    """(256,) int16: what an 8-bit value is worth, in 1/16 of a step of encoded values or of linear light."""
    return linear_units() if linear else (UNITS * np.arange(256)).astype(np.int16)


def pinwheel_palette(
    session: runtime.Session,
    picture: Picture,
    palette: Palette,
    settings: VectorSettings,
    report: runtime.Progress,
) -> npt.NDArray[Any] | runtime.Array:
    """Palette indices (H, W) by the pinwheel's scan; on the device as the picture is.

    Raises
    ------
    InvalidArgument
        If the picture has pixels of alpha 0 and the palette no entry of alpha 0.
    """
    size = palette.index_dtype.itemsize
    shape = (picture.height, picture.width)
    result: Any = None if picture.on_device else runtime.HostResult(session, shape, palette.index_dtype)
    with session.scope() as scope:
        mapper = _mapper(session, scope, picture, palette, settings.color_space)
        job = _Pinwheel(session, scope, mapper, picture, settings)
        whole = (0, picture.height, 0, picture.height)
        row_bytes = picture.width * max(picture.channels, size)
        bands = block_bands(picture, row_bytes, settings.block_size, session)
        for band in [whole] if picture.on_device else bands:
            with session.scope() as inner:
                image = picture.upload(session, inner, band[0], band[1])
                output = inner.empty((band[1] - band[0]) * picture.width * size)
                job.run(inner, image, output, band)
                if picture.on_device:
                    result = images.emit(session, True, output, shape, palette.index_dtype)
                else:
                    result.store(inner, band[2], band[3], output, (band[2] - band[0]) * picture.width * size)
            report.report(band[3], picture.height)
        mapper.check_transparency()
    return result if picture.on_device else result.array()  # type: ignore[no-any-return]


def _mapper(
    session: runtime.Session, scope: runtime.Scope, picture: Picture, palette: Palette, color_space: str
) -> Mapper:
    space = spaces.space(color_space, palette.has_alpha or picture.channels == 4)
    return Mapper(session, scope, palette, space, picture.pixels, lanes=False)


class _Pinwheel:
    """The pinwheel's two launches for a band, with their tables on the device."""

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        mapper: Mapper,
        picture: Picture,
        settings: VectorSettings,
    ) -> None:
        self._session, self._mapper, self._picture = session, mapper, picture
        self._block = settings.block_size
        self._key = runtime.seed_key(settings.seed)
        light = worths(settings.linear)
        shared = (scope.copy_of(light), scope.copy_of(codes_of_worths(light)))
        paths = [make_path(settings.block_size, settings.scan, phase) for phase in (OUTWARD, INWARD)]
        made = [rows(path, constant_tables()) for path in paths]
        safe = error_limit(settings.block_size, settings.scan, (made[0][0], made[1][0]), (made[0][1], made[1][1]))
        self._limit = np.int32(min(safe, settings.error_limit))
        self._phases = []
        for path, (row, table) in zip(paths, made, strict=True):
            weights = table[:, 0].copy()
            weights[:, 0] = 0
            constants = phase_constants(settings.block_size, settings.scan, path.phase)
            program = session.program("halftone_palette.cl", **mapper.constants(picture.channels), **constants)
            arrays = (pack_path(path, row), path.rim_slots.astype(np.uint16), weights)
            tables = tuple(scope.copy_of(np.ascontiguousarray(a)) for a in arrays)
            self._phases.append((program.kernel("halftone_palette"), tables + shared, path.slots))

    def run(
        self,
        scope: runtime.Scope,
        image: runtime.Buffer,
        output: runtime.Buffer,
        band: tuple[int, int, int, int],
    ) -> None:
        """Queue both phases; rows outside band[2]..band[3] of the output are not valid."""
        block, picture = self._block, self._picture
        half = (-(-picture.width // block) + 1) // 2
        first, last = band[0] // block, -(-band[1] // block)
        inner, inner_last = band[2] // block, -(-band[3] // block)
        edges = scope.empty(4 * block * (last - first) * half * 8)
        shape = np.array([picture.height, picture.width, picture.channels, band[0]], np.int32)
        for (kernel, tables, slots), begin, end in zip(self._phases, (first, inner), (last, inner_last), strict=True):
            lanes = self._session.work_group_size(
                kernel, min(self._session.tuned("halftone.palette_group"), half), slots * 8
            )
            self._session.launch(
                kernel,
                (half, end - begin),
                (lanes, 1),
                *self._mapper.arguments(),
                image,
                output,
                *tables,
                edges,
                runtime.LocalMemory(slots * 8 * lanes),
                shape,
                np.array([begin, first, last - first, half], np.int32),
                self._limit,
                np.int32(START * UNITS),
                np.int32(GAIN),
                self._key,
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
        mapper = _mapper(session, scope, picture, palette, color_space)
        constants = {**mapper.constants(picture.channels), "GRAY": 0}
        result = _serial(session, scope, picture, palette.index_dtype, constants, mapper.arguments(), 8, report)
        mapper.check_transparency()
    return result


def serial_gray(
    session: runtime.Session, picture: Picture, report: runtime.Progress
) -> npt.NDArray[Any] | runtime.Array:
    """0 and 255 (H, W) by Floyd and Steinberg's serial scan, equal to Pillow's ``convert("1")``."""
    with session.scope() as scope:
        return _serial(session, scope, picture, np.dtype(np.uint8), {"GRAY": 1}, (), 2, report)


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
    for row0, row1 in row_bands(picture.height, width * error_size, session, TILE_ROWS):
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
                result[row0:row1] = session.download(output, (count, width), dtype)
        report.report(row1, picture.height)
    return result  # type: ignore[no-any-return]
