"""Paths and tables as the kernels read them, and the proof that 16 bits hold every error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from clquant.halftone.pinwheel.paths import INWARD, NO_ANGLE, OUTWARD, Path, make_path
from clquant.halftone.pinwheel.tones import WHITE
from clquant.halftone.tables import CORE, ERROR_LIMIT, MIDDLE, TONES, constant_tables, rows

ROW_SHIFT = 10
SIXTEEN_BITS = 32767


def pack_path(path: Path, row: npt.NDArray[np.int32]) -> npt.NDArray[np.uint16]:
    """(N * N, 8) uint16: the path entries of `cl/halftone/halftone.h`."""
    packed = np.empty((path.kind.size, 8), np.uint16)
    packed[:, 0] = path.x | path.y << 8
    packed[:, 1] = path.slot | row << ROW_SHIFT
    packed[:, 2:5] = path.receiver_slots
    packed[:, 5:8] = (path.offsets[:, :, 1] + 2) | (path.offsets[:, :, 0] + 2) << 8
    return packed


def last_slot(path: Path) -> int:
    """The slot of the pixel that takes the last forward share of an outward path; the unused one of an inward path."""
    if path.phase == INWARD:
        return path.slots - 1
    size = path.block_size
    y, x = int(path.y[-1] + path.forward[0]), int(path.x[-1] + path.forward[1])
    entry = x if y < 0 else 2 * size + x if y == size else size + y if x == size else 3 * size + y
    return int(path.rim_slots[entry])


@dataclass(frozen=True)
class Inflow:
    """The most sixteenths of errors that can wait for one pixel, besides the forward share."""

    inside: npt.NDArray[np.int64]
    beyond: npt.NDArray[np.int64]


def _inflow(path: Path, heaviest: npt.NDArray[np.int64], last: int = 16) -> Inflow:
    """Sum over givers of their heaviest weight, on the block with a rim of one pixel around it.

    `last` is what the last pixel of an outward path passes on forward, at most its whole error.
    """
    size = path.block_size
    total = np.zeros((size + 2, size + 2), np.int64)
    for j in range(path.offsets.shape[1]):
        y, x = path.y + path.offsets[:, j, 0] + 1, path.x + path.offsets[:, j, 1] + 1
        np.add.at(total, (y, x), heaviest[:, j])
    if path.phase == OUTWARD:
        total[path.y[-1] + path.forward[0] + 1, path.x[-1] + path.forward[1] + 1] += last
    beyond = np.stack([total[0, 1:-1], total[1:-1, -1], total[-1, 1:-1], total[1:-1, 0]])
    return Inflow(total[1:-1, 1:-1], beyond)


def _add_beyond(inside: npt.NDArray[np.int64], beyond: npt.NDArray[np.int64]) -> None:
    """Add to an inward block what the outward ones around it leave on its rim."""
    inside[0] += beyond[2]
    inside[:, -1] += beyond[3]
    inside[-1] += beyond[0]
    inside[:, 0] += beyond[1]


def error_limit(
    block_size: int,
    scan: str,
    row: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]],
    record: tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]],
) -> int:
    """Return the largest clamp in 1/16 gray, at most `ERROR_LIMIT`, under which 16 bits hold every sum."""
    # A pixel sums its worth (at most 4080), a forward share (at most the clamp) and shares of at most the clamp times
    # the sixteenths that `_inflow` counts, each rounded down by less than one unit. `row` and `record` are of both
    # phases, from `clquant.halftone.pinwheel.tones.records`.
    flows = []
    for phase in (OUTWARD, INWARD):
        heaviest = record[phase][:, :, 1:].max(axis=1).astype(np.int64)
        flows.append(_inflow(make_path(block_size, scan, phase), heaviest[row[phase]]))
    _add_beyond(flows[INWARD].inside, flows[OUTWARD].beyond)
    sixteenths = max(int(flow.inside.max()) for flow in flows)
    # Fewer than 32 shares reach a pixel, so rounding adds at most 32 units; a decision adds a shift within 4080 (its
    # sum with the error is kept in 32 bits by the portable form and saturates in the 16-bit ones).
    return min(ERROR_LIMIT, 16 * (SIXTEEN_BITS - WHITE - 32) // (16 + sixteenths))


@lru_cache(maxsize=32)
def error_shares(fade: int, block_size: int, scan: str, phase: int) -> npt.NDArray[np.uint16]:
    """Return how much of the error that reaches each pixel counts, (N * N,) in 1/256, at most twice `fade`."""
    # Equal errors of all pixels reach straight ones as a whole, but 9 to 13 sixteenths of them the corners of an
    # outward path, and 24 those of an inward one: so much less or more counts there. `fade`, in 1/256, is what counts
    # where an equal error arrives as a whole, and for the first pixel of an outward path, which nothing reaches.
    flows = []
    for which in (OUTWARD, INWARD):
        path = make_path(block_size, scan, which)
        row, table = rows(path, constant_tables())
        given = table[:, 0, 1:].astype(np.int64)[row]
        flow = _inflow(path, given, 16 - int(given[-1].sum()))
        flow.inside[path.y[1:], path.x[1:]] += 16 - given[:-1].sum(axis=1)
        flows.append(flow)
    _add_beyond(flows[INWARD].inside, flows[OUTWARD].beyond)
    reached = flows[phase].inside
    path = make_path(block_size, scan, phase)
    sixteenths = np.maximum(np.where(reached == 0, 16, reached), 8)[path.y, path.x]
    return np.asarray((32 * fade + sixteenths) // (2 * sixteenths), np.uint16)


@lru_cache(maxsize=64)
def phase_constants(block_size: int, scan: str, phase: int) -> dict[str, int]:
    """Compile-time constants of one phase's kernels."""
    path = make_path(block_size, scan, phase)
    return {
        "BLOCK": block_size,
        "PIXELS": block_size * block_size,
        "SLOTS": path.slots,
        "PHASE": phase,
        "LAST_SLOT": last_slot(path),
    }


def scan_constants(path: Path) -> dict[str, int]:
    """Compile-time constants of `cl/halftone/pinwheel/levels_lanes.h` for one phase of the spiral, N >= 4."""
    names = {
        OUTWARD: {"FIRST": (90, 90, 180), "STRAIGHT": (45, 90, 135), "CORNER": (90, 135, 180)},
        INWARD: {
            "AFTER": (45, 90, NO_ANGLE),
            "STRAIGHT": (45, 90, 135),
            "CORNER": (45, NO_ANGLE, NO_ANGLE),
            "NONE": (NO_ANGLE, NO_ANGLE, NO_ANGLE),
        },
    }
    pixels = path.kind.size
    rows = {f"ROW_{name}": path.kinds.index(kind) for name, kind in names[path.phase].items()}
    return {
        "BLOCK": path.block_size,
        "PHASE": path.phase,
        "CORE_START": pixels - pixels // CORE,
        "CORE_ROWS": len(path.kinds),
        **rows,
    }


def lane_records(record: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """(rows, 256, 4) int16: threshold, and weights times 1024, so that mul_hi(error << 2, weight) is the share."""
    made = record << np.array([0, 10, 10, 10], np.int16)
    made[:, :, 0] += MIDDLE
    return made


def packed_records(record: npt.NDArray[np.int16]) -> npt.NDArray[np.uint32]:
    """(rows, 256) uint32: three weights of 5 bits each from the lowest bit on, the threshold from bit 20 on."""
    parts = record.astype(np.uint32)
    threshold = (record[:, :, 0].astype(np.int64) + MIDDLE).astype(np.uint32)
    return (threshold << 20 | parts[:, :, 1] | parts[:, :, 2] << 5 | parts[:, :, 3] << 10).astype(np.uint32)


def ring_bytes(block_size: int, rings: int, lanes: int) -> int:
    """Local memory of a group of `cl/halftone/pinwheel/levels_rings.cl`."""
    part = block_size**2 - max(block_size - 2 * rings, 0) ** 2
    queues = 2 * (4 * block_size + 8) * lanes
    return (part + 3) * (lanes + 1) + queues + 2 * (4 + 2) * TONES


def ring_quads(path: Path, rings: int, lanes: int) -> npt.NDArray[np.uint16]:
    """Return where the tile of `cl/halftone/pinwheel/levels_rings.cl` holds each four pixels side by side."""
    # (N * N / 4, 8), part by part (`rings` turns of the spiral, a multiple of 4) in the order of the scan: x and y of
    # the first pixel within the block, then each pixel's byte in the tile of the first block, which is uchar [pixel of
    # the part][lanes + 1].
    size = path.block_size
    index = np.empty((size, size), np.int64)
    index[path.y, path.x] = np.arange(size * size)
    y, x = (a.ravel() for a in np.mgrid[:size, :size:4])
    part = np.minimum(np.minimum(x, size - 4 - x), np.minimum(y, size - 1 - y)) // rings
    outer = size - 2 * rings * part
    inner = np.maximum(outer - 2 * rings, 0)
    first = size * size - outer**2 if path.phase == INWARD else inner**2
    made = np.zeros((x.size, 8), np.uint16)
    made[:, 0], made[:, 1] = x, y
    for j in range(4):
        made[:, 2 + j] = (index[y, x + j] - first) * (lanes + 1)
    return np.ascontiguousarray(made[np.lexsort((x, y, first))])
