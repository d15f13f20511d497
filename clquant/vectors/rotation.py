"""Rotations of rows in whole numbers, whose products are the same bits with every BLAS.

A product of matrices of whole numbers in float64 is exact, in whatever order it is summed, while all partial sums stay
below 2^53; they do where the product of the lengths of any two vectors that are multiplied does (Cauchy and Schwarz).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.vectors.fixed_point import FixedPoint
from clquant.vectors.rows import RowSource
from clquant.vectors.views import made_of

ROTATION_BITS = 20  # of rotations: rows of 2^11 numbers of 2^16 have lengths below 2^22, columns below 2^21
POLAR_BITS = 25  # of iterations to a rotation: rows below 1.1 2^25, columns below 3.1 2^25
_STEPS, _CLOSE_BITS = 64, 8  # at most; how far from 1 and 0 products of columns may be in the end, in units
_PULL_BITS = 12  # the rotation before counts 2^-12 of the largest stretch there may be


@dataclass(frozen=True)
class Rotation:
    """Rows, whole numbers by `fixed`, less `center`, times a matrix in units of 2^-20, in numbers of a unit."""

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
        """Some numbers of the rotated rows: see `made_of`."""
        columns, ends = self.whole[:, own], np.iinfo(self.dtype)

        def rotate(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
            turned = np.ldexp((whole_rows(self.fixed, rows) - self.center) @ columns, -ROTATION_BITS)
            return np.clip(np.rint(turned / self.unit), ends.min, ends.max)

        return made_of(source, rotate, columns.shape[1], self.dtype)

    def undone(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Rows as they were before they were rotated."""
        turned: npt.NDArray[np.float64] = rows.astype(np.float64) @ self.whole.T
        return (np.ldexp(turned, -ROTATION_BITS) * self.unit + self.center) * self.fixed.scale

    def shown(self, words: npt.NDArray[Any], first: int) -> npt.NDArray[np.float64]:
        """Codewords of a sub-space, whose first number is given, for rows that are multiplied by `matrix` alone."""
        moved = np.ldexp(self.center @ self.whole[:, first : first + words.shape[1]], -ROTATION_BITS)
        shown: npt.NDArray[np.float64] = (words.astype(np.float64) * self.unit + moved) * self.fixed.scale
        return shown


def whole_rows(fixed: FixedPoint, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Rows as whole numbers, those below 0 too."""
    whole: npt.NDArray[np.float64] = fixed.encode(rows).astype(np.float64) - fixed.offset
    return whole


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
