"""Error diffusion to any palette by the pinwheel's blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, runtime
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.halftone.pinwheel import palette_paths
from clquant.halftone.pinwheel.bands import Band, BandBlocks, block_bands
from clquant.halftone.pinwheel.layout import error_limit, error_shares, pack_path, phase_constants
from clquant.halftone.pinwheel.palette_paths import COLORS, EDGE_BYTES, Common, PathScan, fade_of
from clquant.halftone.pinwheel.paths import INWARD, OUTWARD, make_path
from clquant.halftone.pinwheel.tones import WHITE, linear_units
from clquant.halftone.tables import UNITS, constant_tables, rows
from clquant.images import Picture
from clquant.images.sinks import SinkResult
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import PaletteOnDevice

FILE = "halftone/pinwheel/palette.cl"
FORMS = (
    runtime.Variant(
        "paths", palette_paths.FILE, palette_paths.admits, is_worthwhile=lambda limits: not limits.is_cpu, gain=1.64
    ),
    runtime.Variant("portable", FILE),
)
"""Forms of the scan; alpha, small pictures and other paths than spirals take the portable one on all devices."""
GAIN = 32
"""Sixteenths of the error that count in choosing an entry (16 are passed on): measured in docs/halftone.md."""
START = 32
"""Amplitude of the first pixel's start error in red, green and blue, in gray levels."""


@dataclass(frozen=True)
class VectorSettings:
    """The checked parameters of a halftone to a palette, besides picture and palette."""

    block_size: int
    scan: str
    linear: bool
    color_space: str  # where colours are compared
    error_limit: int  # clamp of an error's components, in 1/16 gray
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
    """Palette indices (H, W) by the pinwheel's scan; on the device as the picture is."""
    size = palette.index_dtype.itemsize
    shape = (picture.height, picture.width)
    result: Any = None if picture.on_device else picture.result(session, shape, palette.index_dtype)
    by_paths = _takes_paths(session, picture, palette, settings)
    space = spaces.space(settings.color_space, palette.has_alpha or picture.channels == 4)
    searches = max(picture.pixels, COLORS if by_paths else 0)
    with session.scope() as scope, open_palette(session, palette, space, searches) as on_device:
        common = _common(settings)
        job: _Pinwheel | PathScan
        if by_paths:
            job = PathScan(session, scope, on_device, picture, palette, settings.block_size, common)
        else:
            job = _Pinwheel(session, scope, on_device, picture, settings, common)
        whole = (0, picture.height, 0, picture.height)
        block, row_bytes, least = settings.block_size, picture.width * max(picture.channels, size), 0
        if by_paths:
            row_bytes = max(row_bytes, palette_paths.row_bytes(picture.width, block))
            least = palette_paths.least_rows(session, picture.width, block)
        bands = block_bands(picture, row_bytes, EDGE_BYTES, block, session, least)
        for band in [whole] if picture.on_device else bands:
            if not picture.on_device and isinstance(result, SinkResult) and result.has(band[3]):
                continue
            with session.scope() as inner:
                image = picture.upload(session, inner, band[0], band[1])
                if picture.on_device:
                    result = session.new_array(shape, palette.index_dtype)
                    output = images.buffer_of(result)
                elif band[:2] == band[2:]:
                    output = result.room(inner, *band[:2])
                else:
                    output = inner.empty((band[1] - band[0]) * picture.width * size)
                job.run(inner, image, output, band)
                if not picture.on_device:
                    result.store(inner, band[2], band[3], output, (band[2] - band[0]) * picture.width * size)
            report.report(band[3], picture.height)
        on_device.check_transparency()
    return session.hand_over(result) if picture.on_device else result.array()


def _takes_paths(session: runtime.Session, picture: Picture, palette: Palette, settings: VectorSettings) -> bool:
    """Whether the form for GPUs is chosen; a picture on the device is one band, which must fit."""
    block = settings.block_size
    if not palette_paths.takes(picture, palette, block, settings.scan) or session.choose(FORMS).name != "paths":
        return False
    rows_of_blocks = -(-picture.height // block)
    fits = rows_of_blocks * block * palette_paths.row_bytes(picture.width, block) <= session.limits.max_alloc
    return fits or not picture.on_device


@lru_cache(maxsize=32)
def _common(settings: VectorSettings) -> Common:
    made = [
        rows(make_path(settings.block_size, settings.scan, phase), constant_tables()) for phase in (OUTWARD, INWARD)
    ]
    safe = error_limit(settings.block_size, settings.scan, (made[0][0], made[1][0]), (made[0][1], made[1][1]))
    light = worths(settings.linear)
    return Common(
        light=light,
        codes=codes_of_worths(light),
        linear=settings.linear,
        limit=np.int32(min(safe, settings.error_limit)),
        amplitude=np.int32(START * UNITS),
        gain=np.int32(GAIN),
        key=runtime.seed_key(settings.seed),
    )


@lru_cache(maxsize=32)
def _tables(block_size: int, scan: str, phase: int) -> tuple[npt.NDArray[Any], ...]:
    """Path, rim and weights of a phase as `cl/halftone/pinwheel/palette.cl` reads them."""
    path = make_path(block_size, scan, phase)
    row, table = rows(path, constant_tables())
    weights = table[:, 0].copy()
    weights[:, 0] = 0
    return pack_path(path, row), path.rim_slots.astype(np.uint16), np.ascontiguousarray(weights)


class _Pinwheel:
    """The pinwheel's two launches for a band, with their tables on the device."""

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        on_device: PaletteOnDevice,
        picture: Picture,
        settings: VectorSettings,
        common: Common,
    ) -> None:
        self._session, self._on_device, self._picture = session, on_device, picture
        self._block, self._common, fade = settings.block_size, common, fade_of(on_device.palette)
        shared = {"light": scope.copy_of(common.light), "codes": scope.copy_of(common.codes)}
        self._phases = []
        for phase in (OUTWARD, INWARD):
            constants = phase_constants(settings.block_size, settings.scan, phase)
            program = session.program(FILE, **on_device.constants(picture.channels), **constants)
            path, rim, weights = (scope.copy_of(a) for a in _tables(settings.block_size, settings.scan, phase))
            shares = scope.copy_of(error_shares(fade, settings.block_size, settings.scan, phase))
            tables = {**shared, "path": path, "rim": rim, "weights": weights, "shares": shares}
            self._phases.append((program.kernel("halftone_palette"), tables, constants["SLOTS"]))

    def run(
        self,
        scope: runtime.Scope,
        image: runtime.Buffer,
        output: runtime.Buffer,
        band: Band,
    ) -> None:
        """Queue both phases; rows outside band[2]..band[3] of the output are not valid."""
        common, blocks = self._common, BandBlocks.of(self._picture, band, self._block)
        edges = scope.empty(blocks.edge_bytes(EDGE_BYTES))
        for (kernel, tables, slots), (begin, end) in zip(self._phases, blocks.ranges, strict=True):
            lanes = self._session.work_group_size(
                kernel, min(self._session.tuned("halftone.palette_group"), blocks.half), slots * EDGE_BYTES
            )
            self._session.launch(
                kernel,
                (blocks.half, end - begin),
                (lanes, 1),
                **self._on_device.arguments(),
                **tables,
                image=image,
                output=output,
                edges=edges,
                all_waiting=runtime.LocalMemory(slots * EDGE_BYTES * lanes),
                picture=blocks.picture,
                blocks=blocks.blocks(begin),
                error_limit=common.limit,
                amplitude=common.amplitude,
                gain=common.gain,
                key=blocks.key(common.key),
            )
