"""Error diffusion to any palette by the pinwheel's blocks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.color.space_tables import linear_table
from clquant.dithering import bounds
from clquant.flow import Portion, Steps
from clquant.halftone.pinwheel.bands import BandBlocks, BlockMap, edge_row_bytes
from clquant.halftone.pinwheel.layout import error_limit, error_shares, pack_path, phase_constants
from clquant.halftone.pinwheel.paths import INWARD, OUTWARD, make_path
from clquant.halftone.pinwheel.tones import WHITE
from clquant.halftone.tables import UNITS, constant_tables, rows
from clquant.images import Picture
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import PaletteOnDevice

FILE = "halftone/pinwheel/palette.cl"
GAIN = 32  # sixteenths of the error that count in choosing an entry (16 are passed on): see docs/halftone.md
EDGE_BYTES = 8  # of an error that a block leaves to another: four components of 16 bits
MIN_FADE, STEP_FADE, FULL_FADE = 192, 144, 256
MAX_FAR_COLORS = 512  # more are not so far from each other that more than `MIN_FADE` is needed
START = 32  # amplitude of the first pixel's start error in red, green and blue, in gray levels


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
    return (linear_table(WHITE) if linear else UNITS * np.arange(256)).astype(np.int16)


@dataclass(frozen=True)
class _Common:
    """What a scan has besides picture and palette: tables of worths and values, numbers, the seed's key."""

    light: npt.NDArray[np.int16]
    codes: npt.NDArray[np.uint8]
    limit: np.int32
    amplitude: np.int32
    gain: np.int32
    key: npt.NDArray[np.uint32]


def fade_of(palette: Palette) -> int:
    """Return how much of an error that reaches a pixel counts, in 1/256: 192 to 256."""
    # Of a colour outside the palette's hull the error adds up along the path of a block, up to its limit, so that
    # blocks begin otherwise than they end, and their edges and diagonals show. If three quarters of the error count it
    # does not. But a tone nearer to an entry than a quarter of that entry's distance to the next then shows no dots:
    # that is seen if entries are far apart, so that all of the error counts there. So the result is 144 more than the
    # root of the mean squared distance in RGB from an entry to the nearest one that differs.
    step = _step_of(palette)
    if step is None:
        return FULL_FADE
    return min(max(STEP_FADE + step, MIN_FADE), FULL_FADE)


@lru_cache(maxsize=32)
def _step_of(palette: Palette) -> int | None:
    """The root of the mean squared distance from an entry to the nearest one that differs; None if there is none."""
    colors = np.unique(palette.rgba()[palette.rgba()[:, 3] > 0, :3], axis=0).astype(np.int64)
    if len(colors) > MAX_FAR_COLORS:
        return 0
    if len(colors) < 2:
        return None
    squared = ((colors[:, None] - colors[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.iinfo(np.int64).max)
    return math.isqrt(int(squared.min(axis=1).sum()) // len(colors))


@dataclass(frozen=True)
class PaletteHalftone(BlockMap):
    """Palette indices by the pinwheel's scan."""

    palette: Palette
    settings: VectorSettings

    max_bits = 8

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Indices (H, W)."""
        return (picture.height, picture.width), self.palette.index_dtype

    @contextlib.contextmanager
    def open(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[Steps]:
        """Make the tables of both phases."""
        palette, settings, block, width = self.palette, self.settings, self.settings.block_size, picture.width
        space = spaces.space(settings.color_space, palette.has_alpha or picture.channels == 4)
        with open_palette(session, palette, space, picture.pixels) as on_device:
            scan = _Pinwheel(session, scope, on_device, picture, settings, _common(settings))
            yield Steps(scan.step, block, block, edge_row_bytes(width, block, EDGE_BYTES), fills_reach=True)
            on_device.check_transparency()


@lru_cache(maxsize=32)
def _common(settings: VectorSettings) -> _Common:
    made = [
        rows(make_path(settings.block_size, settings.scan, phase), constant_tables()) for phase in (OUTWARD, INWARD)
    ]
    safe = error_limit(settings.block_size, settings.scan, (made[0][0], made[1][0]), (made[0][1], made[1][1]))
    light = worths(settings.linear)
    return _Common(
        light=light,
        codes=codes_of_worths(light),
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
        common: _Common,
    ) -> None:
        self._on_device = on_device
        self._block, self._common, fade = settings.block_size, common, fade_of(on_device.palette)
        shared = {"light": scope.copy_of(common.light), "codes": scope.copy_of(common.codes)}
        self._bounds = scope.copy_of(bounds.bounds(on_device.palette, on_device.space, plain=True))
        self._phases = []
        for phase in (OUTWARD, INWARD):
            constants = phase_constants(settings.block_size, settings.scan, phase)
            limits = bounds.constants(on_device.space, bounds.pinwheel_share(on_device.palette))
            program = session.program(FILE, **on_device.constants(picture.channels), **limits, **constants)
            path, rim, weights = (scope.copy_of(a) for a in _tables(settings.block_size, settings.scan, phase))
            shares = scope.copy_of(error_shares(fade, settings.block_size, settings.scan, phase))
            tables = {**shared, "path": path, "rim": rim, "weights": weights, "shares": shares}
            self._phases.append((program.kernel("halftone_palette"), tables, constants["SLOTS"]))

    def step(self, session: runtime.Session, scope: runtime.Scope, portion: Portion) -> None:
        """Queue both phases of a band, whose rows in reach are wrong."""
        common, blocks = self._common, BandBlocks.of(portion, self._block)
        edges = scope.empty(blocks.edge_bytes(EDGE_BYTES))
        shared = {**self._on_device.arguments(), "bounds": self._bounds, **bounds.penalty(self._on_device)}
        shared |= {"image": portion.pixels, "output": portion.out, "edges": edges, "picture": blocks.picture}
        shared |= {"error_limit": common.limit, "amplitude": common.amplitude, "gain": common.gain}
        shared["key"] = blocks.key(common.key)
        for (kernel, tables, slots), (begin, end) in zip(self._phases, blocks.ranges, strict=True):
            lanes = session.work_group_size(
                kernel, min(session.tuned("halftone.palette_group"), blocks.half), slots * EDGE_BYTES
            )
            own = {"all_waiting": runtime.LocalMemory(slots * EDGE_BYTES * lanes), "blocks": blocks.blocks(begin)}
            session.launch(kernel, (blocks.half, end - begin), (lanes, 1), **shared, **tables, **own)
