"""What codewords were ever given, batch by batch, as exact whole numbers of any size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.vectors.fixed_point import FixedPoint, fixed_point_of

Totals = npt.NDArray[np.uint64]  # (k, d + 1), sums of rows as whole numbers, weighted; the last column has the weights
_LIMB = 62  # bits of the lower half of a sum in a file


@dataclass(frozen=True)
class Batches:
    """Sums of rows, from the origin of a fixed point on and in its scale, (k, d + 1) of Python's integers.

    Weights, in the last column, are multiples of 2^`exponent`.
    """

    fixed: FixedPoint
    sums: npt.NDArray[np.object_]
    exponent: int

    @classmethod
    def of(cls, fixed: FixedPoint, totals: Totals, weight_unit: float) -> Batches:
        """The sums of one batch, in which a weight of 1 stands for `weight_unit`."""
        over, under = weight_unit.as_integer_ratio()
        sums = totals.astype(object)
        sums[:, :-1] -= sums[:, -1:] * fixed.offset
        return cls(fixed, sums * over, 1 - under.bit_length())

    def plus(self, other: Batches) -> Batches:
        """The sums of both, in the scale of this one, which is not above the other's."""
        exponent = min(self.exponent, other.exponent)
        theirs = other.sums * (1 << other.exponent - exponent)
        theirs[:, :-1] *= int(other.fixed.scale / self.fixed.scale)
        theirs[:, :-1] += theirs[:, -1:] * _shift(self.fixed, other.fixed)
        return Batches(self.fixed, self.sums * (1 << self.exponent - exponent) + theirs, exponent)

    def means(self, fixed: FixedPoint, words: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Codewords by a fixed point of no smaller scale: means, halves up; those that were given no rows stay."""
        weights = self.sums[:, -1:]
        sums = self.sums[:, :-1] - weights * _shift(self.fixed, fixed)
        whole = np.maximum(weights, 1) * int(fixed.scale / self.fixed.scale)
        means = np.clip((2 * sums + whole) // (2 * whole) + fixed.offset, 0, fixed.top)
        moved: npt.NDArray[Any] = np.where(weights > 0, means, words).astype(words.dtype)
        return moved

    def halves(self) -> dict[str, npt.NDArray[np.int64]]:
        """The sums as arrays of a file."""
        low = self.sums & ((1 << _LIMB) - 1)
        return {"sums_high": (self.sums >> _LIMB).astype(np.int64), "sums_low": low.astype(np.int64)}

    @classmethod
    def of_halves(cls, fixed: FixedPoint, arrays: dict[str, Any], exponent: int, shape: tuple[int, int]) -> Batches:
        """The sums that `halves` gave, of codewords of a shape."""
        high, low = (arrays[name] for name in ("sums_high", "sums_low"))
        if {high.shape, low.shape} != {(shape[0], shape[1] + 1)} or {high.dtype, low.dtype} != {np.dtype(np.int64)}:
            raise ValueError(f"sums {high.shape} and {low.shape}")
        return cls(fixed, (high.astype(object) << _LIMB) + low.astype(object), exponent)


def grow(fixed: FixedPoint, ends: npt.NDArray[Any]) -> FixedPoint:
    """The fixed point of least scale by which a batch's columns fit beside all numbers that fitted before."""
    whole = fixed.measure(ends)
    if fixed.dtype.kind in "ui" or fixed.is_normalized or (whole.min() >= 0 and whole.max() <= fixed.top):
        return fixed
    corners = fixed.values(np.broadcast_to([[0], [fixed.top]], ends.shape))
    low, high = np.minimum(ends[0], corners[0]), np.maximum(ends[1], corners[1])
    return fixed_point_of(np.stack([low, high]).astype(fixed.dtype), replace(fixed, origin=()))


def rescale(words: npt.NDArray[Any], given: FixedPoint, wanted: FixedPoint) -> npt.NDArray[Any]:
    """Codewords by another fixed point, halves to even."""
    apart = (np.array(given.origin or (0.0,)) - np.array(wanted.origin or (0.0,))) / wanted.scale
    whole = np.rint((words.astype(np.float64) - given.offset) * (given.scale / wanted.scale) + apart)
    moved: npt.NDArray[Any] = np.clip(whole + wanted.offset, 0, wanted.top).astype(words.dtype)
    return moved


def _shift(base: FixedPoint, other: FixedPoint) -> npt.NDArray[np.object_]:
    """How far the origins of another fixed point lie above those of one, in its scale."""
    apart = (np.array(other.origin or (0.0,)) - np.array(base.origin or (0.0,))) / base.scale
    return np.array([int(one) for one in apart], object)
