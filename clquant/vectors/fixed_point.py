"""Numbers as whole numbers of 8 or up to 16 bits, by a power of two: what rows are searched and trained as."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import InvalidArgument
from clquant.training.blocks import BlockShape
from clquant.training.blockset import number_bits
from clquant.vectors.rows import RowSource

_EXACT = {np.dtype(np.uint8): 0, np.dtype(np.int8): 128}  # offsets
_INTEGERS = (np.dtype(np.uint16), np.dtype(np.int16))
MOST_BITS, _LEAST_BITS = 16, 8
FINE_BITS = 8  # by which errors are finer than whole numbers
_FINE = 1 << FINE_BITS
_LEAST_EXPONENT = -500  # below which squares of scales vanish
_MOST_EXPONENT = 480  # above which the sum of all squared errors may be no float64
_UNIT_BITS = 15  # of normalized rows' own fixed point
Ends = npt.NDArray[Any]  # of columns: the least and the largest number, (2, d)


@dataclass(frozen=True)
class FixedPoint:
    """x is the whole number round((x - origin) / scale) + offset, halves to even, cut to 0 .. 2^bits - 1.

    The scale is a power of two. Each column has an origin, a multiple of twice the scale; none at all: 0 everywhere.
    """

    dtype: np.dtype[Any]
    bits: int
    offset: int
    scale: float
    is_normalized: bool
    origin: tuple[float, ...] = ()

    @property
    def top(self) -> int:
        """The largest whole number."""
        return (1 << self.bits) - 1

    @property
    def is_exact(self) -> bool:
        """Whether numbers of the dtype are whole numbers already."""
        return self.dtype.kind in "ui" and self.scale == 1 and not self.is_normalized

    @functools.cached_property
    def origins(self) -> npt.NDArray[np.float64]:
        """The origins in units of the scale, (d,) or (1,)."""
        return np.array(self.origin or (0.0,)) / self.scale

    def shape(self, components: int) -> BlockShape:
        """Return the shape of rows as blocks of so many components."""
        return BlockShape(1, components, 1, self.bits)

    def keeps(self, dtype: np.dtype[Any]) -> bool:
        """Whether numbers of a dtype are taken unchanged."""
        return dtype == np.uint8 and self.bits == 8 and self.offset == 0 and self.scale == 1 and not self.is_normalized

    def finer(self) -> FixedPoint:
        """The fixed point of which errors are sums: with 8 more bits."""
        return replace(self, bits=self.bits + FINE_BITS, offset=self.offset << FINE_BITS, scale=self.scale / _FINE)

    def measure(self, rows: npt.NDArray[Any], first: int = 0) -> npt.NDArray[np.float64]:
        """Rows as whole numbers, not cut; `first` is the number of the first, for errors."""
        if self.is_normalized:
            return np.rint(normalized(rows, first) / self.scale) + self.offset
        if rows.dtype.kind in "ui" and rows.dtype.itemsize == 8 and all(own == int(own) for own in self.origin):
            own = np.array([int(own) % 2**64 for own in self.origin or (0.0,)], np.uint64)
            near = (rows.astype(np.uint64, copy=False) - own).view(np.int64)  # exact, modulo 2^64
            return np.rint(near / self.scale) + self.offset
        return np.rint(rows.astype(np.float64) / self.scale) - self.origins + self.offset

    def encode(self, rows: npt.NDArray[Any], first: int = 0) -> npt.NDArray[np.integer[Any]]:
        """Rows as whole numbers, cut, C-contiguous; `first` is the number of the first, for errors."""
        return self.encode_cut(rows, first)[0]

    def encode_cut(self, rows: npt.NDArray[Any], first: int = 0) -> tuple[npt.NDArray[np.integer[Any]], bool]:
        """`encode`, and whether a number was cut."""
        number = np.uint8 if self.bits == 8 else np.uint16
        if self.keeps(rows.dtype):
            return np.ascontiguousarray(rows), False
        whole = self.measure(rows, first)
        cut = np.clip(whole, 0, self.top)
        return np.ascontiguousarray(cut.astype(number)), not np.array_equal(cut, whole)

    def decode(self, words: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """Rows of whole numbers as numbers of `dtype`."""
        return as_dtype(self.values(words), self.dtype)

    def values(self, words: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The numbers that whole ones stand for."""
        real: npt.NDArray[np.float64] = (words.astype(np.float64) - self.offset) * self.scale
        return real + np.array(self.origin) if self.origin else real


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
    mass: int | None,
    is_normalized: bool,
    scale: float | None,
    ends: Callable[[], Ends] | None = None,
) -> FixedPoint:
    """The fixed point of rows, by the ends of each column and the bits that sums of squared errors leave.

    `mass` is the sum of the weights, by default the number of rows. `ends` finds the least and the largest number of
    each column, (2, d); by default the host does.
    """
    dtype = source.dtype.newbyteorder("=")
    if dtype in _EXACT and not is_normalized:
        return FixedPoint(dtype, 8, _EXACT[dtype], 1.0, False)
    bits = min(MOST_BITS, number_bits(source.count if mass is None else mass, source.components))
    if bits <= _LEAST_BITS:
        raise InvalidArgument(f"X has {source.count} rows of {source.components}; allowed: fewer of this dtype")
    half = 1 << bits - 1
    decoded = np.dtype(np.float64) if is_normalized and dtype.kind in "ui" else decoded_dtype(dtype)
    if is_normalized:
        return FixedPoint(decoded, bits, half, 2.0 ** (2 - bits) if scale is None else scale, True)
    if dtype in _INTEGERS and bits == MOST_BITS and scale is None:
        return FixedPoint(decoded, bits, 0 if dtype == np.uint16 else half, 1.0, False)
    found = ends() if ends else source_ends(source)
    return fixed_point_of(found, FixedPoint(decoded, bits, half, scale or _least_scale(found, bits), False), scale)


def fixed_point_of(ends: Ends, start: FixedPoint, scale: float | None = None) -> FixedPoint:
    """The fixed point of least scale, from that of `start` on, by which columns of some ends fit; or of a given scale.

    Origins are the middles of the columns, rounded to multiples of twice the scale, and to 24 or 53 bits.
    """
    made = start
    while True:
        made = replace(made, origin=_origins(ends, made.scale))
        whole = made.measure(ends)
        if scale is not None or (whole.min() >= 0 and whole.max() <= made.top):
            return made
        made = replace(made, scale=made.scale * 2)


def checked_scale(given: Any) -> float:
    """A scale that a person gave: a power of two."""
    scale = params.real("scale", given, 2.0**_LEAST_EXPONENT, 2.0**-_LEAST_EXPONENT)
    if math.frexp(scale)[0] != 0.5:
        raise InvalidArgument(f"scale is {scale}; allowed: a power of two")
    return scale


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


def source_ends(source: RowSource) -> Ends:
    """The least and the largest number of each column, (2, d)."""
    return join_ends(source.each(lambda rows, *_: np.stack([rows.min(0), rows.max(0)])))


def join_ends(found: Sequence[Ends]) -> Ends:
    """The ends of columns of all portions."""
    every = np.stack(found)
    return np.stack([every[:, 0].min(0), every[:, 1].max(0)])


def _least_scale(ends: Ends, bits: int) -> float:
    """A power of two that is not above the least scale of columns of some ends; integers' numbers are not below 1."""
    real = ends.astype(np.float64)
    largest = float(np.abs(real).max())
    if math.frexp(largest)[1] > _MOST_EXPONENT + _LEAST_BITS:
        most = math.ldexp(1.0, _MOST_EXPONENT + _LEAST_BITS)
        raise InvalidArgument(f"X has numbers as large as {largest:g}; allowed: up to {most:g}")
    spread = float((real[1] - real[0]).max())
    exponent = math.frexp(spread)[1] - bits - 1 if spread else math.frexp(largest)[1] - _digits(ends.dtype) - 1
    if largest == 0:
        return 1.0
    if ends.dtype in _INTEGERS:
        exponent = max(exponent, 0)
    return math.ldexp(1.0, max(exponent, _LEAST_EXPONENT))


def _digits(dtype: np.dtype[Any]) -> int:
    """Bits of an origin: those that a device's floats hold, if it may make the whole numbers."""
    return 24 if dtype.itemsize <= {"u": 2, "i": 2, "f": 4}.get(dtype.kind, 0) else 53


def _origins(ends: Ends, scale: float) -> tuple[float, ...]:
    """The middles of columns as multiples of twice a scale, of integers as integers."""
    low, high = ends.astype(np.float64)
    middle = low / 2 + high / 2
    least = np.frexp(middle)[1] - _digits(ends.dtype)
    unit = np.ldexp(1.0, np.maximum(least, math.frexp(2 * scale)[1] - 1))
    if ends.dtype.kind in "ui":
        unit = np.maximum(unit, 1.0)
    return tuple((np.rint(middle / unit) * unit).tolist())
