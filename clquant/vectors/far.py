"""Rows whose whole numbers do not fit their bits, searched on the host: exact integers in float64, whatever their size.

A number is cut into limbs of 18 bits; a product of limbs and codewords of up to 2^24 over 2048 numbers stays below
2^53, so sums of it are exact in every order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

_LIMB = 18
_AT_ONCE = 1 << 22  # scores of rows and codewords
_EXACT_BITS = 25  # of differences whose squares add up to less than 2^63
Whole = npt.NDArray[np.float64]


def find_nearest(rows: Whole, words: Whole) -> npt.NDArray[np.int32]:
    """The index of the nearest codeword of each row, the lowest on ties; both whole numbers, codewords below 2^24."""
    labels = np.empty(len(rows), np.int32)
    norms = (words.astype(np.int64) ** 2).sum(1)
    step = max(1, _AT_ONCE // len(words))
    for first in range(0, len(rows), step):
        labels[first : first + step] = _least(list(_digits(rows[first : first + step], words, norms)))
    return labels


def _digits(rows: Whole, words: Whole, norms: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Digits of |c|^2 - 2 x.c of base 2^18, from the lowest on, the last one with the sign; (n, k)."""
    carry = np.broadcast_to(norms, (len(rows), len(words)))
    rest = rows
    while True:
        rest, own = _split(rest)
        total = carry - 2 * (own @ words.T).astype(np.int64)
        if not rest.any():
            yield total
            return
        yield total & ((1 << _LIMB) - 1)
        carry = total >> _LIMB


def _split(whole: Whole) -> tuple[Whole, Whole]:
    """Numbers as 2^18 times a number plus one below 2^18, both of their sign."""
    high = np.trunc(np.ldexp(whole, -_LIMB))
    return high, whole - np.ldexp(high, _LIMB)


def _least(digits: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.intp]:
    """The index of each row's least number of some digits, the lowest on ties."""
    able = np.ones(digits[0].shape, bool)
    for digit in reversed(digits):
        least = np.where(able, digit, np.iinfo(np.int64).max).min(1)
        able &= digit == least[:, None]
    found: npt.NDArray[np.intp] = able.argmax(1)
    return found


def square_sums(differences: Whole) -> list[int]:
    """The sum of the squares of each row of whole numbers, exactly."""
    large = np.abs(differences).max(1) >= 1 << _EXACT_BITS
    near = np.where(large[:, None], 0, differences).astype(np.int64)
    sums: list[int] = (near * near).sum(1).tolist()
    for row in np.flatnonzero(large):
        sums[row] = sum(int(one) ** 2 for one in differences[row])
    return sums


def measure_distances(rows: Whole, words: Whole, scale: float) -> npt.NDArray[np.float64]:
    """Squared distances of rows to codewords, (n, k), each rounded once, of whole numbers in units of `scale`."""
    exponent = 2 * (math.frexp(scale)[1] - 1)
    made = [[scale_sum(one, exponent) for one in square_sums(row - words)] for row in rows]
    return np.array(made).reshape(len(rows), len(words))


def scale_sum(total: int, exponent: int) -> float:
    """A whole number times a power of two, rounded once; infinite if need be."""
    shift = max(total.bit_length() - 900, 0)  # beyond the range of floats
    try:
        return math.ldexp(float(total >> shift), exponent + shift)
    except OverflowError:
        return math.inf


def weighted_sum(errors: npt.NDArray[np.uint64], weights: npt.NDArray[np.uint32] | None) -> int:
    """The exact sum of numbers below 2^63 times weights below 2^31."""
    total = 0
    for limb in range(0, 64, 22):
        part = errors >> np.uint64(limb) & np.uint64((1 << 22) - 1)
        if weights is not None:
            part = part * weights
        high, low = part >> np.uint64(32), part & np.uint64(2**32 - 1)
        total += (int(high.sum(dtype=np.uint64)) << 32 + limb) + (int(low.sum(dtype=np.uint64)) << limb)
    return total
