"""Rotations of rows in whole numbers, whose products are the same bits with every BLAS, and how they are learned.

A product of matrices of whole numbers in float64 is exact, in whatever order it is summed, while all partial sums stay
below 2^53; they do where the product of the lengths of any two vectors that are multiplied does (Cauchy and Schwarz).

The rotation of optimized product quantization is learned in turns with the codebooks: T. Ge, K. He, Q. Ke, J. Sun,
"Optimized product quantization", IEEE Transactions on Pattern Analysis and Machine Intelligence 36 (2014), the method
without assumptions about the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Progress
from clquant.training.blocks import Weights
from clquant.training.blockset import sample_places
from clquant.vectors.fixed_point import FixedPoint, fixed_point
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.rows import RowSource

ROTATION_BITS = 20  # of rotations: rows of 2^11 numbers of 2^16 have lengths below 2^22, columns below 2^21
POLAR_BITS = 25  # of iterations to a rotation: rows below 1.1 2^25, columns below 3.1 2^25
_STEPS, _CLOSE_BITS = 64, 8  # at most; how far from 1 and 0 products of columns may be in the end, in units
_PULL_BITS = 12  # the rotation before counts 2^-12 of the largest stretch there may be

ROUNDS, STEPS = 24, 3  # turns; Lloyd steps of each
_LEAST_ROWS, _ROWS_PER_WORD, _MOST_ROWS = 1 << 15, 64, 1 << 20
_SAMPLING = 2  # stage of random numbers
Whole = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rotation:
    """Rows, whole numbers by `fixed` less its origin and `center`, times a matrix in units of 2^-20, in a unit."""

    fixed: FixedPoint
    center: npt.NDArray[np.float64]  # whole
    whole: npt.NDArray[np.float64]
    unit: float  # of rotated numbers, in that of whole ones; a power of two

    @property
    def matrix(self) -> npt.NDArray[np.float64]:
        """(d, d), by which rows are multiplied from the right."""
        return np.ldexp(self.whole, -ROTATION_BITS)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of rotated numbers: as wide as the whole ones."""
        return np.dtype(np.int8 if self.fixed.bits == 8 else np.int16)

    @property
    def scale(self) -> float:
        """The unit of rotated numbers."""
        return self.unit * self.fixed.scale

    def rotated(self, source: RowSource, own: slice) -> RowSource:
        """Some numbers of the rotated rows: see `RowSource.mapped`."""
        columns, ends = self.whole[:, own], np.iinfo(self.dtype)

        def rotate(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
            turned = np.ldexp((whole_rows(self.fixed, rows) - self.center) @ columns, -ROTATION_BITS)
            return np.clip(np.rint(turned / self.unit), ends.min, ends.max)

        return source.mapped(rotate, columns.shape[1], self.dtype)

    def undone(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Rows as they were before they were rotated."""
        turned: npt.NDArray[np.float64] = rows.astype(np.float64) @ self.whole.T
        return (np.ldexp(turned, -ROTATION_BITS) * self.unit + self.center + self.fixed.origins) * self.fixed.scale

    def shown(self, words: npt.NDArray[Any], first: int) -> npt.NDArray[np.float64]:
        """Codewords of a sub-space, whose first number is given, for rows that are multiplied by `matrix` alone."""
        moved = np.ldexp(
            (self.center + self.fixed.origins) @ self.whole[:, first : first + words.shape[1]], -ROTATION_BITS
        )
        shown: npt.NDArray[np.float64] = (words.astype(np.float64) * self.unit + moved) * self.fixed.scale
        return shown


def whole_rows(fixed: FixedPoint, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Rows as whole numbers from their origin on, those below 0 too."""
    return fixed.encode(rows).astype(np.float64) - fixed.offset


def to_rotation(gain: npt.NDArray[np.float64], before: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The rotation R for which trace(R^T gain) is largest, in units of 2^-20; `before` has a small part in it.

    It is the orthogonal factor of the polar decomposition (P. Schonemann, "A generalized solution of the orthogonal
    Procrustes problem", Psychometrika 31 (1966)), by Newton and Schulz's iteration on whole numbers: every step is an
    exact product and a rounding. The part of `before` makes that no direction is lost, and the trace does not fall
    below that of `before`.
    """
    largest = float(np.abs(gain).max(initial=0))
    if largest == 0:
        return before
    whole = np.rint(np.ldexp(gain, 30 - math.frexp(largest)[1]))
    lines, columns = (int(np.abs(whole).sum(axis).max()) for axis in (0, 1))
    stretch = ((lines * columns).bit_length() + 1) // 2  # of which 2 to the power bounds the largest singular value
    found = np.ldexp(whole, POLAR_BITS - stretch) + np.ldexp(before, POLAR_BITS - ROTATION_BITS - _PULL_BITS)
    found, identity = np.rint(found), np.ldexp(np.eye(len(gain)), POLAR_BITS)
    for _ in range(_STEPS):
        product = np.rint(np.ldexp(found.T @ found, -POLAR_BITS))
        if float(np.abs(product - identity).max()) <= 1 << _CLOSE_BITS:
            break
        found = np.rint(np.ldexp(found @ (3 * identity - product), -POLAR_BITS - 1))
    else:
        return before
    made: npt.NDArray[np.float64] = np.rint(np.ldexp(found, ROTATION_BITS - POLAR_BITS))
    return made


def learn_rotation(
    source: RowSource, weights: Weights, parts: Sequence[VectorQuantizer], progress: Callable[[int, int], object] | None
) -> Rotation:
    """The rotation for codebooks such as some quantizers train; these stay as they are."""
    report = Progress(progress)
    fixed = fixed_point(source, None, False, None)
    found, mass = _sample(source, weights, parts[0])
    rows = whole_rows(fixed, found)
    center = np.rint(mass @ rows / mass.sum())
    rows -= center
    weighted = mass[:, None] * rows
    whole, words = np.ldexp(np.eye(source.components), ROTATION_BITS), [part.init for part in parts]
    for done in range(1, ROUNDS + 1):
        coded = _coded(rows @ whole, None if weights is None else mass, parts, words)
        # Of at most 2^20 rows below 2^17 times weights of up to 2^8, coded as numbers of 8 bits: sums stay below 2^53.
        gain = weighted.T @ coded - np.outer(weighted.sum(0), mass @ coded) / mass.sum()
        whole = to_rotation(gain, whole)
        report.report(done, ROUNDS)
    if fixed.bits == 8:
        return Rotation(fixed, center, whole, math.ldexp(_unit(rows @ whole), -ROTATION_BITS))
    squares = source.each(lambda own, *_: ((whole_rows(fixed, own) - center) ** 2).sum(1).max())
    longest = math.frexp(math.sqrt(float(max(squares))))[1]
    return Rotation(fixed, center, whole, math.ldexp(1.0, longest - 15))


def _unit(rotated: Whole) -> float:
    """The least power of two for which at most one number of 2^14 is beyond eight bits."""
    exponent = math.frexp(float(np.abs(rotated).max()))[1] - 7
    while np.count_nonzero(np.abs(rotated) >= math.ldexp(1.0, exponent + 6)) << 14 <= rotated.size:
        exponent -= 1
        if exponent < 0:
            break
    return math.ldexp(1.0, exponent)


def _coded(rotated: Whole, mass: Whole | None, parts: Sequence[VectorQuantizer], words: list[Any]) -> Whole:
    """Code rows by a few Lloyd steps on 8 bits, in any unit; `words` are the starts and become the codewords."""
    unit = _unit(rotated)
    small = np.clip(np.rint(rotated / unit), -128, 127).astype(np.int8)
    coded = np.empty_like(rotated)
    width = rotated.shape[1] // len(parts)
    for number, part in enumerate(parts):
        own, start = slice(number * width, (number + 1) * width), words[number]
        if not isinstance(start, str):
            start = np.clip(np.rint(start / unit), -128, 127).astype(np.int8)
        few = VectorQuantizer(
            part.n_codewords,
            init=start,
            max_iter=STEPS,
            refine=0,
            random_state=part.random_state,
            queue=part.queue,
        ).fit(small[:, own], sample_weight=mass)
        found = few.codebook_.astype(np.float64)
        words[number], coded[:, own] = found * unit, found[np.asarray(few.labels_)]
    return coded


def _sample(source: RowSource, weights: Weights, part: VectorQuantizer) -> tuple[npt.NDArray[Any], Whole]:
    """Rows, at most so many: one drawn from each of as many equal runs; and their weights, 1 to 256."""
    most = min(max(_LEAST_ROWS, _ROWS_PER_WORD * part.n_codewords), _MOST_ROWS)
    places = sample_places(source.count, weights, most, _SAMPLING, part.random_state)
    if places is None:
        places = np.arange(source.count) if weights is None else np.flatnonzero(weights)

    def drawn(rows: npt.NDArray[Any], first: int, _: Any) -> npt.NDArray[Any]:
        low, high = np.searchsorted(places, (first, first + len(rows)))
        found: npt.NDArray[Any] = rows[places[low:high] - first]
        return found

    mass = np.ones(len(places)) if weights is None else np.ceil(weights[places] * (256 / float(weights.max())))
    return np.concatenate(source.each(drawn)), mass
