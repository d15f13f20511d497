"""Tone-dependent thresholds and error weights: what a table holds, the trained ones, and the rows a kernel reads.

Source: the table layout follows Zhang et al., "A Parallel Error Diffusion Implementation on a GPU", sections 2 and 3
(256 matrices and thresholds, one for each gray level; a threshold pair, lower and upper). The trained values are
clquant's own, made by `training/halftone_train.py`; `provenance()` says how.
"""

from __future__ import annotations

import importlib.resources
import io
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params, runtime
from clquant.halftone.pinwheel.paths import ANGLES, EXTRA, FLOYD_STEINBERG, INWARD, NO_ANGLE, OUTWARD, Path

UNITS = 16  # of errors, in a gray level
TONES = 256
MIDDLE = UNITS * 255 // 2  # half of white, in units
SETS = ("outward", "inward", "inward core")  # pixels of a table's first axis; the core ends the inward scan
CORE = 8  # the part of an inward scan's pixels that the core is
ERROR_LIMIT = 8191  # units (512 gray levels) to which errors beyond, either way, are clamped
SHIPPED = "tables.npz"


@dataclass(frozen=True, eq=False)
class WeightTables:
    """Thresholds and weights for each gray level; do not change the arrays once they are in use.

    Attributes
    ----------
    threshold : (3, 256) int16
        By `SETS` and input tone: white where the tone plus the error that reached it is at least this, in 1/16 gray.
    spread : (3, 256) int16
        Half the distance between upper and lower threshold, in 1/16 gray: a random bit of each pixel chooses one.
    weights : (3, 256, 5) uint8
        By `SETS`, tone and angle between the scan's direction and the receiver (0, 45, 90, 135, 180 degrees), 1..255
        at 0 degrees, 0..255 else: relative weights, normalised over the receivers that a pixel has.
    start : int
        The first pixel of each outward block begins with a seeded error within this many gray levels of 0, 0..127.
    """

    threshold: npt.NDArray[np.int16]
    spread: npt.NDArray[np.int16]
    weights: npt.NDArray[np.uint8]
    start: int

    def checked(self) -> WeightTables:
        """Validate the table and return it.

        Returns
        -------
        WeightTables

        Raises
        ------
        InvalidArgument
            If an array has another shape or dtype, or a value is out of the ranges above.
        """
        for name, dtype, shape in (
            ("threshold", np.int16, (len(SETS), TONES)),
            ("spread", np.int16, (len(SETS), TONES)),
            ("weights", np.uint8, (len(SETS), TONES, len(ANGLES))),
        ):
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
                got = f"{getattr(array, 'dtype', type(array).__name__)} {getattr(array, 'shape', '')}"
                raise runtime.InvalidArgument(f"weights.{name} is {got}; allowed: {np.dtype(dtype)} {shape}")
        params.integer("weights.start", self.start, 0, 127)
        if self.weights[:, :, 0].min() < 1:
            raise runtime.InvalidArgument("weights.weights holds 0 at 0 degrees; allowed: 1 to 255 there")
        if self.threshold.min() < 0 or self.threshold.max() > UNITS * 255:
            raise runtime.InvalidArgument("weights.threshold is out of range; allowed: 0 to 4080 sixteenths of gray")
        if self.spread.min() < 0 or self.spread.max() > UNITS * 255:
            raise runtime.InvalidArgument("weights.spread is out of range; allowed: 0 to 4080 sixteenths of gray")
        return self


@lru_cache(maxsize=1)
def constant_tables() -> WeightTables:
    """The same at every tone: Floyd and Steinberg's weights by angle, a threshold of half white, no start error."""
    weights = np.array([FLOYD_STEINBERG[angle] for angle in ANGLES], np.uint8)
    return WeightTables(
        threshold=np.full((len(SETS), TONES), MIDDLE, np.int16),
        spread=np.zeros((len(SETS), TONES), np.int16),
        weights=np.tile(weights, (len(SETS), TONES, 1)),
        start=0,
    )


@lru_cache(maxsize=1)
def _shipped() -> dict[str, npt.NDArray[Any]]:
    data = importlib.resources.files("clquant.halftone").joinpath(SHIPPED).read_bytes()
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def trained_sizes(scan: str) -> tuple[int, ...]:
    """Block sizes that have tables of their own for a scan ("spiral" or "serpentine"), ascending."""
    prefix = f"{scan}_"
    names = [n for n in _shipped() if n.startswith(prefix) and n.endswith("_threshold")]
    return tuple(sorted(int(n[len(prefix) :].split("_")[0]) for n in names))


@lru_cache(maxsize=128)
def trained_tables(scan: str, block_size: int) -> WeightTables:
    """Return the shipped tables of a scan, trained at the block size nearest in ratio (ties: the smaller)."""
    # A scan without tables of its own takes the spiral's.
    scan = scan if trained_sizes(scan) else "spiral"
    size = min(trained_sizes(scan), key=lambda s: (max(s, block_size) / min(s, block_size), s))
    arrays = _shipped()
    stem = f"{scan}_{size}_"
    return WeightTables(
        threshold=arrays[stem + "threshold"],
        spread=np.zeros((len(SETS), TONES), np.int16),
        weights=arrays[stem + "weights"],
        start=int(arrays[stem + "start"]),
    )


def provenance() -> dict[str, Any]:
    """Return how the shipped tables were made: program, objective, tones, seeds, figures."""
    found: dict[str, Any] = json.loads(str(_shipped()["provenance"]))
    return found


def rows(path: Path, tables: WeightTables) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]:
    """Return each pixel's row (N * N,) and the rows' table, (rows, 256, 4)."""
    # The table has the threshold in 1/16 gray, then the three further receivers' weights in sixteenths, round half up;
    # their sum is at most 16, and the rest of the error goes to the next pixel of the scan.
    kinds = len(path.kinds)
    core = np.arange(path.kind.size) >= path.kind.size - path.kind.size // CORE
    if path.phase == OUTWARD:
        core[:] = False
    row = np.where(core, kinds, 0) + path.kind
    table = np.zeros((2 * kinds if path.phase == INWARD else kinds, TONES, 1 + EXTRA), np.int16)
    for index in range(len(table)):
        which = 0 if path.phase == OUTWARD else 1 + index // kinds
        relative = tables.weights[which].astype(np.int64)
        angles = path.kinds[index % kinds]
        given = np.stack([relative[:, ANGLES.index(a)] if a != NO_ANGLE else 0 * relative[:, 0] for a in angles])
        total = relative[:, 0] + given.sum(axis=0)
        table[index, :, 0] = tables.threshold[which]
        table[index, :, 1:] = ((32 * given + total) // (2 * total)).T
    return row.astype(np.int32), _at_most_whole(table)


def _at_most_whole(table: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Take what rounding gave over 16 sixteenths off the largest weight, so that the next pixel's is never negative."""
    weights = table[:, :, 1:]
    over = np.maximum(weights.sum(axis=2) - 16, 0).astype(np.int16)
    largest = weights.argmax(axis=2)
    taken = np.take_along_axis(weights, largest[:, :, None], axis=2) - over[:, :, None]
    np.put_along_axis(weights, largest[:, :, None], taken, axis=2)
    return table
