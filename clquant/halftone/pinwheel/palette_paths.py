"""The pinwheel to a palette in the form for GPUs: answers for all colours first, pixels in the order of the scan."""

# A pixel of the scan waits for the one before, so what a step waits for is all its cost: a table of the nearest entry
# of each of the 2^24 colours takes one read, where a search takes ten thousand cycles. Pixels are first brought into
# the order of the scan, and entries back afterwards, so that the scan reads ahead and whole cache lines.

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.color.palette import Palette
from clquant.dithering import bounds
from clquant.flow import Portion
from clquant.halftone.pinwheel.bands import BandBlocks, half_blocks, rows_that_fill
from clquant.halftone.pinwheel.layout import error_shares, pack_path
from clquant.halftone.pinwheel.paths import INWARD, NO_ANGLE, OUTWARD, make_path
from clquant.halftone.tables import constant_tables, rows
from clquant.images import Picture
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.plain_table import plain_table

FILE = "halftone/pinwheel/palette_paths.cl"
COLORS = 1 << 24
FEWEST_PIXELS = 1 << 12  # smaller pictures are not worth a table
GROUPS_PER_UNIT = 2  # work-groups per compute unit that a host's band should fill
GROUP = 256  # work-items that bring a row of a group's blocks into order
ENTRY_BYTES = 6  # of an error that waits in local memory: three components of 16 bits
NEAR_BYTES = (8 + 8) * 256 + 4 * 16  # local memory of the entries' colours and points, and the shares of errors
EDGE_BYTES = 8  # of an error that a block leaves to another: four components of 16 bits
LARGEST_BLOCK = 64
MIN_FADE, STEP_FADE, FULL_FADE = 192, 144, 256
MAX_FAR_COLORS = 512  # more are not so far from each other that more than `MIN_FADE` is needed
# As in `cl/halftone/pinwheel/palette_paths.cl`: shares of a phase at most, and bits of a place below their codes.
SHARES, PLACE_BITS = 16, 12
KINDS = {
    OUTWARD: {"FIRST": (90, 90, 180), "STRAIGHT": (45, 90, 135), "CORNER": (90, 135, 180)},
    INWARD: {
        "AFTER": (45, 90, NO_ANGLE),
        "STRAIGHT": (45, 90, 135),
        "CORNER": (45, NO_ANGLE, NO_ANGLE),
    },
}


@dataclass(frozen=True)
class Common:
    """Arguments that all forms of the scan share: tables of worths and values, numbers, the seed's key."""

    light: npt.NDArray[np.int16]
    codes: npt.NDArray[np.uint8]
    linear: bool
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


def _lanes(block_size: int) -> int:
    """Blocks of a group: their queues fit 32 KiB of local memory."""
    return 32 if block_size <= LARGEST_BLOCK // 2 else 16


def admits(limits: runtime.Limits) -> bool:
    """Whether a device can take this form."""
    queues = max(ENTRY_BYTES * (4 * size + 4) * _lanes(size) for size in (LARGEST_BLOCK // 2, LARGEST_BLOCK))
    needed = queues + NEAR_BYTES
    return limits.work_group >= GROUP and limits.local_memory >= needed and limits.max_alloc >= 2 * COLORS


def takes(picture: Picture, palette: Palette, block_size: int, scan: str) -> bool:
    """Whether this form does these: spirals and no alpha."""
    return (
        scan == "spiral"
        and block_size >= 4
        and picture.channels != 4
        and not palette.has_alpha
        and picture.pixels >= FEWEST_PIXELS
    )


def row_bytes(width: int, block_size: int) -> int:
    """Bytes a picture row of the pixels in the order of the scan."""
    return 4 * _groups(width, block_size) * _lanes(block_size) * (block_size + 1)


def least_rows(session: runtime.Session, width: int, block_size: int) -> int:
    """Rows that a band of a picture should have."""
    return rows_that_fill(session, _groups(width, block_size), block_size, GROUPS_PER_UNIT)


def _groups(width: int, block_size: int) -> int:
    return -(-half_blocks(width, block_size) // _lanes(block_size))


@dataclass(frozen=True)
class _Phase:
    """Compile-time constants of a phase, and its tables as the kernels read them."""

    constants: Mapping[str, int]
    path: npt.NDArray[np.uint16]
    place: npt.NDArray[np.uint16]
    shares: npt.NDArray[np.uint16]


@lru_cache(maxsize=32)
def _phase(block_size: int, phase: int, fade: int) -> _Phase:
    """A phase's tables; `fade` of `fade_of`."""
    path = make_path(block_size, "spiral", phase)
    row, table = rows(path, constant_tables())
    weights = {
        f"{name}_{j + 1}": int(table[path.kinds.index(kind), 0, 1 + j])
        for name, kind in KINDS[phase].items()
        for j in range(3)
    }
    constants = {"BLOCK": block_size, "PHASE": phase, "LANES": _lanes(block_size), "GROUP": GROUP, **weights}
    place = np.empty((block_size, block_size), np.uint16)
    found, codes = np.unique(error_shares(fade, block_size, "spiral", phase), return_inverse=True)
    shares = np.zeros(SHARES, np.uint16)
    shares[: len(found)] = found
    place[path.y, path.x] = np.arange(block_size**2) | codes << PLACE_BITS
    return _Phase(constants, pack_path(path, row), place, shares)


def _shades(on_device: PaletteOnDevice) -> npt.NDArray[np.uint32]:
    """(k, 2) uint32: `palette` of `cl/halftone/pinwheel/palette_paths.cl`."""
    colors = on_device.palette.rgba()[:, :3] @ np.array([1, 1 << 8, 1 << 16])
    most = bounds.bounds(on_device.palette, on_device.space, plain=True)[:, 2]
    return np.stack([colors, most], axis=1).astype(np.uint32)


class PathScan:
    """The launches of a band, with their tables on the device."""

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        on_device: PaletteOnDevice,
        picture: Picture,
        palette: Palette,
        block_size: int,
        common: Common,
    ) -> None:
        self._block, self._common = block_size, common
        self._entry_bytes = palette.index_dtype.itemsize
        is_near, few = palette.index_dtype == np.uint8, bounds.is_few(on_device)
        self._tables = {
            "nearest": on_device.points if few else plain_table(on_device),
            "colors": on_device.colors,
            "points": on_device.points,
            "tables": on_device.arguments()["tables"],
            **bounds.penalty(on_device),
            "palette": on_device.cached("shades of paths", lambda: on_device.scope.copy_of(_shades(on_device))),
            "light": scope.copy_of(common.light),
            "codes": scope.copy_of(common.codes),
        }
        words = block_size % 4 == 0 and picture.width % 4 == 0
        forms = {"WORDS": int(words), "NEAR_COLORS": int(is_near), "FEW": int(few), "FEW_COUNT": bounds.FEW}
        self._phases = []
        for phase in (OUTWARD, INWARD):
            made = _phase(block_size, phase, fade_of(palette))
            limits = bounds.constants(on_device.space, bounds.pinwheel_share(palette))
            given = {**on_device.constants(picture.channels), **limits}
            program = session.program(FILE, **made.constants, **forms, **given, LINEAR=int(common.linear))
            path, place, shares = (scope.copy_of(table) for table in (made.path, made.place, made.shares))
            self._phases.append((program, path, place, shares))

    def step(self, session: runtime.Session, scope: runtime.Scope, portion: Portion) -> None:
        """Queue both phases of a band, whose rows in reach are wrong."""
        picture, block, common, launch = portion.picture, self._block, self._common, session.launch
        blocks = BandBlocks.of(portion, block)
        groups, lanes = _groups(picture.width, block), _lanes(block)
        edges = scope.empty(blocks.edge_bytes(EDGE_BYTES))
        pixels = blocks.rows * groups * lanes * (-(-(block**2) // 4) * 4)
        paths, entries = scope.empty(4 * pixels), scope.empty(self._entry_bytes * pixels)
        for (program, path, place, shares), (begin, end) in zip(self._phases, blocks.ranges, strict=True):
            where = {"picture": blocks.picture, "blocks": blocks.blocks(begin)}
            spread = ((groups * GROUP, block, end - begin), (GROUP, 1, 1))
            launch(program.kernel("gather_paths"), *spread, portion.pixels, paths, path, place, **where)
            launch(
                program.kernel("halftone_palette_paths"),
                (groups * lanes, end - begin),
                (lanes, 1),
                **self._tables,
                **where,
                paths=paths,
                entries=entries,
                shares=shares,
                edges=edges,
                error_limit=common.limit,
                amplitude=common.amplitude,
                gain=common.gain,
                key=blocks.key(common.key),
            )
            launch(program.kernel("scatter_paths"), *spread, entries, portion.out, place, **where)
