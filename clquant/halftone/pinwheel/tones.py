"""Worths of gray levels, output levels, and the records that the halftone kernels read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from clquant.color.space_tables import deep_lights, linear_table
from clquant.halftone.pinwheel.paths import Path
from clquant.halftone.tables import MIDDLE, TONES, UNITS, WeightTables, rows

WHITE = UNITS * 255
STEPS = 512  # entries of the table from a decision value, in half gray levels, to the nearest output level
DECISION_UNITS = UNITS // 2


@lru_cache(maxsize=2)
def finer_units(linear: bool) -> npt.NDArray[np.int32]:
    """(65536,) int32: what 16-bit values are worth in 1/256 unit, 257 v as much as the level v unless it is light."""
    white = 256 * WHITE
    if linear:
        return deep_lights(white)
    return ((2 * white * np.arange(65536, dtype=np.int64) + 65535) // (2 * 65535)).astype(np.int32)


@dataclass(frozen=True)
class Tones:
    """Tone arithmetic of one channel, all in units of 1/16 gray."""

    # A tone gives the threshold and the weights that an input level takes.

    value: npt.NDArray[np.int16]  # (256,), what an input level is worth: 16 times itself, or its linear light
    output: npt.NDArray[np.uint8]  # (L,), the output levels, round(255 j / (L - 1))
    worth: npt.NDArray[np.int16]  # (L,), what an output level is worth
    tone: npt.NDArray[np.int64]  # (256,), an input level's place between the two output levels around it, 0 to 255
    gap: npt.NDArray[np.int64]  # (256,), the distance of those two output levels
    nearest: npt.NDArray[np.uint8]  # (512,), the output level for a decision value of i half gray levels, ties up


@lru_cache(maxsize=64)
def make_tones(levels: int, linear: bool) -> Tones:
    """Tone arithmetic for 2 to 256 output levels, with errors in encoded values or in linear light."""
    top = levels - 1
    output = (510 * np.arange(levels) + top) // (2 * top)
    value = linear_table(WHITE).astype(np.int64) if linear else UNITS * np.arange(TONES)
    worth = value[output]
    low = np.clip(np.searchsorted(worth, value, side="right") - 1, 0, top - 1)
    gap = worth[low + 1] - worth[low]
    tone = np.clip((510 * (value - worth[low]) + gap) // (2 * gap), 0, 255)
    halves = DECISION_UNITS * np.arange(STEPS)
    nearest = np.searchsorted(worth[:-1] + worth[1:], 2 * halves, side="right")
    return Tones(
        value=value.astype(np.int16),
        output=output.astype(np.uint8),
        worth=worth.astype(np.int16),
        tone=tone,
        gap=gap,
        nearest=nearest.astype(np.uint8),
    )


def records(path: Path, tables: WeightTables, tones: Tones) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]:
    """Return each pixel's row, (N * N,), and what it reads by row and input level, (rows, 256, 4)."""
    # That is how far its decisions are moved (threshold less half white, scaled from white to the gap between output
    # levels), then the weights of `clquant.halftone.tables.rows`.
    row, table = rows(path, tables)
    record = table[:, tones.tone].copy()
    moved = (record[:, :, 0].astype(np.int64) - MIDDLE) * tones.gap
    shift = (2 * moved + WHITE) // (2 * WHITE)
    record[:, :, 0] = np.minimum(shift, _most_moved(tones))
    return row, record


def _most_moved(tones: Tones) -> npt.NDArray[np.int64]:
    """Return how far an input level's decision may move down before it takes the level below the two around, (256,)."""
    # In linear light the gap below a level may be a fraction of that above it, by which what moves decisions is scaled.
    value, worth = tones.value.astype(np.int64), tones.worth.astype(np.int64)
    low = np.searchsorted(worth, value, side="right") - 1
    middle = worth[np.maximum(low - 1, 0)] + worth[low]
    least = DECISION_UNITS * -(-middle // (2 * DECISION_UNITS))  # the first that `Tones.nearest` makes `low`
    return np.where(low > 0, np.maximum(value - least, 0), WHITE)


def spreads(phase: int, tables: WeightTables, tones: Tones, noise: float) -> npt.NDArray[np.int16]:
    """(256,) int16: half the distance of upper and lower threshold, by input level, with `noise` of a gap added."""
    added = tables.spread[phase].astype(np.int64)[tones.tone] + int(noise * MIDDLE + 0.5)
    scaled = (2 * added * tones.gap + WHITE) // (2 * WHITE)
    half: npt.NDArray[np.int16] = np.minimum(scaled, WHITE).astype(np.int16)
    return half


def start_amplitudes(tables: WeightTables, tones: Tones) -> npt.NDArray[np.int64]:
    """(256,) the first pixel's start error by input level, in units: scaled to its gap, 0 on an output level."""
    return np.where((tones.tone > 0) & (tones.tone < 255), tables.start * tones.gap // 255, 0)
