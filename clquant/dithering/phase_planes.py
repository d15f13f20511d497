"""The layout of a picture's pixels on the device while they are decided in phases.

Pixels are decided in sixteen phases, (y mod 4, x mod 4) in Bayer's order; those of a phase at once, from the same
errors. Each phase has its own plane of cells (`cl/dithering/search_steps.h`), so that its pixels are neighbours in
memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.dithering.threshold_maps import bayer

# As in `cl/dithering/search_steps.h`: cells around a plane, and planes of a channel.
MARGIN = 2
PLANES = 17
SIDE = 4
PHASES = SIDE * SIDE
# Cells of a row between the margins are a multiple of this.
LANES = 16
# Rows of cells that a CPU takes through all phases of a pass before the next ones, so that they stay in its cache:
# 1.3 times as fast at 1920x1080, twice at 3800x3000 (PoCL, 4 cores).
CHUNK_ROWS = 32
# Most cells of all planes of a channel together: offsets have 31 bits.
MOST_CELLS = (1 << 31) - 1

# Phases in the order in which they are decided.
ORDER = tuple(int(phase) for phase in np.argsort(bayer(2).ravel()))


@dataclass(frozen=True)
class PhasePlanes:
    """The layout of a band of rows, whose first one is a multiple of `SIDE` in its picture."""

    rows: int
    columns: int

    @property
    def cells_across(self) -> int:
        """Cells of a row that hold pixels."""
        return -(-self.columns // SIDE)

    @property
    def cells_down(self) -> int:
        """Rows of cells that hold pixels."""
        return -(-self.rows // SIDE)

    @property
    def stride(self) -> int:
        """Cells from one row to the next."""
        return row_stride(self.columns)

    @property
    def plane(self) -> int:
        """Cells of a plane."""
        return (self.cells_down + 2 * MARGIN) * self.stride


def row_stride(columns: int) -> int:
    """Cells from one row to the next where a picture has so many columns."""
    return -(-columns // (SIDE * LANES)) * LANES + 2 * MARGIN


def skewed_rows(rows: int, steps: int, chunk: int, skew: int) -> Iterator[tuple[int, int, int]]:
    """Order launches of steps over all rows so that what they touch stays in a cache.

    `chunk` rows take all steps before the next ones do, each step `skew` rows above the one before: as far as two steps
    that follow each other touch what the other reads.
    """
    if chunk >= rows:
        yield from ((step, 0, rows) for step in range(steps))
        return
    for begin in range(0, rows + skew * steps, chunk):
        for step in range(steps):
            first, end = (min(max(row - skew * step, 0), rows) for row in (begin, begin + chunk))
            if first < end:
                yield step, first, end


class PhaseSteps:
    """The plane of each phase, which changes in every pass, and the taps that find the errors around a pixel."""

    def __init__(self, layout: PhasePlanes) -> None:
        self._layout = layout
        self._planes = tuple(range(PLANES))  # of each phase, and the free one

    def taps(self, phase: int, kernel: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """(n, 2) int32: offsets from a cell of the phase, from a channel's first plane on, and the kernel's weights."""
        return _taps(self._layout, self._planes, phase, kernel.tobytes())

    def turn(self, kernel: npt.NDArray[np.int32]) -> Turn:
        """Decide all phases once."""
        turn = _turn(self._layout, self._planes, kernel.tobytes())
        self._planes = turn.planes
        return turn


@dataclass(frozen=True)
class Turn:
    """Taps and launches of one pass, which decides all phases once; the same for every picture of a size."""

    taps: npt.NDArray[np.int32]  # `PhaseSteps.taps` of one phase after the other
    steps: list[tuple[int, int, int, int, int]]  # in order: phase, first tap, taps, planes that are read and written
    planes: tuple[int, ...]  # afterwards


@functools.lru_cache(maxsize=64)
def _turn(layout: PhasePlanes, planes: tuple[int, ...], weights: bytes) -> Turn:
    now, taps, steps, first = list(planes), [], [], 0
    for phase in ORDER:
        taps.append(_taps(layout, tuple(now), phase, weights))
        steps.append((phase, first, len(taps[-1]), now[phase], now[PHASES]))
        now[phase], now[PHASES] = now[PHASES], now[phase]
        first += len(taps[-1])
    return Turn(np.concatenate(taps), steps, tuple(now))


def _taps(layout: PhasePlanes, planes: tuple[int, ...], phase: int, weights: bytes) -> npt.NDArray[np.int32]:
    phases, cells, used = _around(phase, layout.stride, weights)
    offsets = np.array(planes, np.int32)[phases] * np.int32(layout.plane) + cells
    return np.stack([offsets, used], axis=1)


@functools.lru_cache(maxsize=256)
def _around(
    phase: int, stride: int, weights: bytes
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The phases of the pixels around one, their cells relative to its own, and the weights that are not 0."""
    kernel = np.frombuffer(weights, np.int32)
    side = math.isqrt(len(kernel))
    down, across = (part.ravel() - side // 2 for part in np.indices((side, side)))
    y, x = phase // SIDE + down, phase % SIDE + across
    phases, cells = SIDE * (y % SIDE) + x % SIDE, y // SIDE * stride + x // SIDE
    used = kernel != 0
    return phases[used].astype(np.int32), cells[used].astype(np.int32), kernel[used]
