"""Rows of numbers as whole numbers by a power of two, and k-means of them (tests/reference/vq_training.py)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]


def origins_of(rows: npt.NDArray[Any], scale: Fraction) -> list[Fraction]:
    """Middles of columns as multiples of twice the scale that have 24 or 53 bits; of integers whole numbers."""
    made, digits = [], 24 if rows.dtype.itemsize <= {"u": 2, "i": 2, "f": 4}[rows.dtype.kind] else 53
    for column in rows.T:
        middle = (Fraction(column.min().item()) + Fraction(column.max().item())) / 2
        unit = max(2 * scale, Fraction(1) if rows.dtype.kind in "ui" else Fraction(0))
        while abs(middle) >= unit * 2**digits:
            unit *= 2
        made.append(round(middle / unit) * unit)
    return made


def fixed_of(rows: npt.NDArray[Any], bits: int) -> tuple[float, list[Fraction]]:
    """The least power of two by which all columns, from their origins on, fit so many bits; and the origins."""
    spread = max(Fraction(c.max().item()) - Fraction(c.min().item()) for c in rows.T)
    scale = Fraction(2) ** -500
    while scale * 2 ** (bits + 1) < spread:
        scale *= 2
    while True:
        origins = origins_of(rows, scale)
        ends = [whole(x, o, scale) for c, o in zip(rows.T, origins, strict=True) for x in (c.min(), c.max())]
        if min(ends) >= -(2 ** (bits - 1)) and max(ends) < 2 ** (bits - 1):
            return float(scale), origins
        scale *= 2


def whole(x: Any, origin: Fraction, scale: Fraction) -> int:
    """A number from its column's origin on, halves to even."""
    return round((Fraction(x.item()) - origin) / scale)


def bits_of(mass: int, components: int) -> int:
    """As many bits as squared errors of all rows, whose weights have a sum, leave in 63."""
    return max(b for b in range(17) if (mass * components).bit_length() + 2 * b <= 63)


def encode(rows: npt.NDArray[Any], bits: int) -> Whole:
    """Multiples of the scale from the origins on, as numbers from 0 on."""
    scale, origins = fixed_of(rows, bits)
    made = [[whole(x, o, Fraction(scale)) for x, o in zip(row, origins, strict=True)] for row in rows]
    return np.array(made, np.int64) + (1 << bits - 1)


def squares(rows: Whole, codebook: Whole) -> Whole:
    """Squared distances, (n, k)."""
    return np.stack([((rows - c) ** 2).sum(1) for c in codebook], 1)


def batches(batch_rows: list[Whole], codebook: Whole) -> Whole:
    """Codewords after batches: means, halves up, of all rows that each was nearest to when its batch came; the first
    is that of which the codebook was trained."""
    sums, counts = np.zeros_like(codebook), np.zeros(len(codebook), np.int64)
    for number, rows in enumerate(batch_rows):
        labels = squares(rows, codebook).argmin(1)
        np.add.at(sums, labels, rows)
        np.add.at(counts, labels, 1)
        weight = np.maximum(counts, 1)[:, None]
        if number == 0:
            continue
        codebook = np.where(counts[:, None] > 0, (2 * sums + weight) // (2 * weight), codebook)
    return codebook


def packed(numbers: npt.NDArray[np.integer], bits: int) -> npt.NDArray[np.uint8]:
    """Codes as one large number each: number i times 2^(i bits), in little-endian bytes."""
    length = -(-numbers.shape[1] * bits // 8)
    totals = [sum(int(x) << i * bits for i, x in enumerate(row)) for row in numbers]
    return np.array([list(total.to_bytes(length, "little")) for total in totals], np.uint8)


def rounded(numbers: npt.NDArray[np.object_], shift: int) -> npt.NDArray[np.object_]:
    """Numbers of Python over 2^shift, halves to even."""
    return np.array([[round(Fraction(int(x), 1 << shift)) for x in row] for row in numbers], object)


def polar(gain: npt.NDArray[np.int64], before: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
    """The rotation, in units of 2^-20, that Newton and Schulz's iteration finds in Python's whole numbers."""
    largest = max(abs(int(x)) for x in gain.flat).bit_length()
    whole = rounded(gain.astype(object) << max(30 - largest, 0), max(largest - 30, 0))
    lines, columns = (max(sum(map(abs, line)) for line in side) for side in (whole.tolist(), whole.T.tolist()))
    stretch = ((lines * columns).bit_length() + 1) // 2
    identity = np.eye(len(gain), dtype=np.int64).astype(object) << 25
    # Both parts over 2^(stretch + 12), so that they are rounded together.
    found = rounded((whole << 37) + (before.astype(object) << stretch + 5), stretch + 12)
    for _ in range(64):
        product = rounded(found.T.dot(found), 25)
        if max(abs(x) for x in (product - identity).flat) <= 256:
            return rounded(found, 5)
        found = rounded(found.dot(3 * identity - product), 26)
    return before.astype(object)
