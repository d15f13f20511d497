"""Numbers as whole numbers of 8 or up to 16 bits, by a power of two: what rows are searched and trained as."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import InvalidArgument
from clquant.training.blocks import BlockShape
from clquant.vectors.rows import RowSource

_EXACT = {np.dtype(np.uint8): 0, np.dtype(np.int8): 128}  # offsets
_INTEGERS = (np.dtype(np.uint16), np.dtype(np.int16))
_MOST_BITS, _LEAST_BITS = 16, 8
_ERROR_BITS = 63  # of the sum of all squared errors
_MAX_WEIGHT = 4095
_LEAST_EXPONENT = -500  # below which squares of scales vanish
_MOST_EXPONENT = 480  # above which the sum of all squared errors may be no float64
_UNIT_BITS = 15  # of normalized rows' own fixed point


@dataclass(frozen=True)
class FixedPoint:
    """x is the whole number round(x / scale) + offset, halves to even, cut to 0 .. 2^bits - 1; scale a power of two."""

    dtype: np.dtype[Any]
    bits: int
    offset: int
    scale: float
    is_normalized: bool

    def shape(self, components: int) -> BlockShape:
        """Return the shape of rows as blocks of so many components."""
        return BlockShape(1, components, 1, self.bits)

    def keeps(self, dtype: np.dtype[Any]) -> bool:
        """Whether numbers of a dtype are taken unchanged."""
        return dtype == np.uint8 and self.bits == 8 and self.offset == 0 and self.scale == 1 and not self.is_normalized

    def encode(self, rows: npt.NDArray[Any], first: int = 0) -> npt.NDArray[np.integer[Any]]:
        """Rows as whole numbers, C-contiguous; `first` is the number of the first, for errors."""
        number = np.uint8 if self.bits == 8 else np.uint16
        if self.keeps(rows.dtype):
            return np.ascontiguousarray(rows)
        real = normalized(rows, first) if self.is_normalized else rows.astype(np.float64)
        whole = np.rint(real / self.scale) + self.offset
        return np.ascontiguousarray(np.clip(whole, 0, (1 << self.bits) - 1).astype(number))

    def decode(self, words: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """Rows of whole numbers as numbers of `dtype`."""
        real = (words.astype(np.float64) - self.offset) * self.scale
        return as_dtype(real, self.dtype)


def normalized(rows: npt.NDArray[Any], first: int) -> npt.NDArray[np.float64]:
    """Rows of length 1, by integer sums of squares, so that the bits are the same everywhere."""
    real = rows.astype(np.float64)
    exponents = np.frexp(np.abs(real).max(1))[1]
    whole = np.rint(np.ldexp(real, (_UNIT_BITS - exponents)[:, None]))
    squares = (whole.astype(np.int64) ** 2).sum(1)
    if not bool(squares.all()):
        row = first + int(np.flatnonzero(squares == 0)[0])
        raise InvalidArgument(f"X has only zeros in row {row}; allowed for metric='cosine': other rows")
    made: npt.NDArray[np.float64] = whole / np.sqrt(squares.astype(np.float64))[:, None]
    return made


def fixed_point(
    source: RowSource,
    weighted: bool,
    is_normalized: bool,
    scale: float | None,
    ends: Callable[[], tuple[float, float]] | None = None,
) -> FixedPoint:
    """The fixed point of rows, by their largest magnitude and the bits that sums of squared errors leave.

    `ends` finds the least and the largest number; by default the host does.
    """
    dtype = source.dtype.newbyteorder("=")
    if dtype in _EXACT and not is_normalized:
        return FixedPoint(dtype, 8, _EXACT[dtype], 1.0, False)
    bits = number_bits(source.count, source.components, weighted)
    if bits <= _LEAST_BITS:
        raise InvalidArgument(f"X has {source.count} rows of {source.components}; allowed: fewer of this dtype")
    is_unsigned = dtype == np.uint16 and not is_normalized
    low, high = (0, (1 << bits) - 1) if is_unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    least, largest = (-1.0, 1.0) if is_normalized else ends() if ends else source_ends(source)
    unit = _scale(largest, high, least, low) if scale is None else scale
    if dtype in _INTEGERS and not is_normalized and scale is None:
        unit = max(unit, 1.0)
    decoded = np.dtype(np.float64) if is_normalized and dtype.kind in "ui" else decoded_dtype(dtype)
    return FixedPoint(decoded, bits, -low, unit, is_normalized)


def checked_scale(given: Any) -> float:
    """A scale that a person gave: a power of two."""
    scale = params.real("scale", given, 2.0**_LEAST_EXPONENT, 2.0**-_LEAST_EXPONENT)
    if math.frexp(scale)[0] != 0.5:
        raise InvalidArgument(f"scale is {scale}; allowed: a power of two")
    return scale


def number_bits(count: int, components: int, weighted: bool) -> int:
    """Bits that sums of squared errors leave."""
    total = count * (_MAX_WEIGHT if weighted else 1) * components
    return min(_MOST_BITS, (_ERROR_BITS - total.bit_length()) // 2)


def decoded_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of decoded rows, by that of the rows of `fit`."""
    if dtype.kind in "ui" and dtype.itemsize <= 2:
        return dtype
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def as_dtype(rows: npt.NDArray[np.float64], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Numbers of a dtype, integers by rounding, halves to even, and cutting."""
    if dtype.kind in "ui":
        ends = np.iinfo(dtype)
        return np.clip(np.rint(rows), ends.min, ends.max).astype(dtype)
    return rows.astype(dtype)


def source_ends(source: RowSource) -> tuple[float, float]:
    """The least and the largest number."""
    found = source.each(lambda rows, *_: (float(rows.min()), float(rows.max())))
    return min(low for low, _ in found), max(high for _, high in found)


def _scale(largest: float, high: int, least: float, low: int) -> float:
    """The least power of two by which numbers between the ends lie between whole ones."""
    ends = [(abs(real), abs(whole)) for real, whole in ((largest, high), (least, low)) if real * whole > 0]
    if not ends:
        return 1.0
    exponent = max(math.frexp(real)[1] - whole.bit_length() for real, whole in ends)
    if exponent > _MOST_EXPONENT:
        found, most = max(real for real, _ in ends), math.ldexp(1.0, _MOST_EXPONENT + _LEAST_BITS)
        raise InvalidArgument(f"X has numbers as large as {found:g}; allowed: up to {most:g}")
    while any(real > math.ldexp(whole, exponent) for real, whole in ends):
        exponent += 1
    return math.ldexp(1.0, max(exponent, _LEAST_EXPONENT))
