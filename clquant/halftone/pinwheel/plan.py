"""Tables that the kernels of the block-interlaced scan read, computed once for each set of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.halftone.pinwheel.layout import error_limit, lane_records, pack_path, packed_records
from clquant.halftone.pinwheel.paths import INWARD, OUTWARD, Path, make_path
from clquant.halftone.pinwheel.tones import make_tones, records, spreads, start_amplitudes
from clquant.halftone.tables import WeightTables, constant_tables, trained_tables


@dataclass(frozen=True)
class Settings:
    """The checked parameters of a halftone, besides its picture."""

    block_size: int
    scan: str
    levels: int
    linear: bool
    noise: float
    weights: str | WeightTables
    seed: int
    error_limit: int  # clamp of an error, in 1/16 gray

    @property
    def tables(self) -> WeightTables:
        """The weights' tables."""
        if isinstance(self.weights, WeightTables):
            return self.weights
        return constant_tables() if self.weights == "constant" else trained_tables(self.scan, self.block_size)


@dataclass(frozen=True)
class PhasePlan:
    """One phase's tables."""

    # `portable` has path entries, rim slots, records, tone entries, worths and nearest levels as
    # `cl/halftone/pinwheel/levels.cl` reads them. `lanes` and `packed` are the records of
    # `cl/halftone/pinwheel/levels_lanes.cl` and of the forms for GPUs; meaningful at two levels.

    path: Path
    portable: dict[str, npt.NDArray[Any]]
    lanes: npt.NDArray[np.int16]
    packed: npt.NDArray[np.uint32]
    amplitude: npt.NDArray[np.int16]  # (256,) of the start error, by input level


@dataclass(frozen=True)
class Plan:
    """Both phases' tables, the clamp under which 16 bits hold every sum, and whether thresholds vary by random bits."""

    phases: tuple[PhasePlan, PhasePlan]
    error_limit: int
    noisy: bool


@lru_cache(maxsize=32)
def make_plan(block_size: int, scan: str, levels: int, linear: bool, noise: float, tables: WeightTables) -> Plan:
    """The plan for some parameters; `tables` count as equal where they are the same object."""
    tones = make_tones(levels, linear)
    paths = [make_path(block_size, scan, phase) for phase in (OUTWARD, INWARD)]
    made = [records(path, tables, tones) for path in paths]
    spread = [spreads(phase, tables, tones, noise) for phase in (OUTWARD, INWARD)]
    amplitude = start_amplitudes(tables, tones).astype(np.int16)
    phases = []
    for path, (row, record), half in zip(paths, made, spread, strict=True):
        entries = np.zeros((256, 4), np.int16)
        entries[:, 0], entries[:, 1], entries[:, 2] = tones.value, amplitude, half
        portable: dict[str, npt.NDArray[Any]] = {
            "path": pack_path(path, row),
            "rim": path.rim_slots.astype(np.uint16),
            "record": np.ascontiguousarray(record),
            "tone": entries,
            "worth": tones.worth,
            "nearest": tones.nearest,
        }
        phases.append(PhasePlan(path, portable, lane_records(record), packed_records(record), amplitude))
    limit = error_limit(block_size, scan, (made[0][0], made[1][0]), (made[0][1], made[1][1]))
    return Plan((phases[0], phases[1]), limit, any(bool(half.any()) for half in spread))
