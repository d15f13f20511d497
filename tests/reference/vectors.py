"""Rows of numbers as whole numbers by a power of two, and k-means of them (tests/reference/vq_training.py)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]


def scale_of(rows: npt.NDArray[np.floating], bits: int) -> float:
    """The least power of two by which all numbers lie between -2^(bits - 1) and 2^(bits - 1) - 1."""
    exponent = -500
    while not all(
        -(1 << bits - 1) <= Fraction(float(x)) / Fraction(2) ** exponent <= (1 << bits - 1) - 1
        for x in (rows.min(), rows.max())
    ):
        exponent += 1
    return math.ldexp(1.0, exponent)


def bits_of(count: int, components: int, weighted: bool) -> int:
    """As many bits as squared errors of all rows leave in 63."""
    total = count * components * (4095 if weighted else 1)
    return max(b for b in range(17) if total.bit_length() + 2 * b <= 63)


def encode(rows: npt.NDArray[np.floating], scale: float, bits: int) -> Whole:
    """Multiples of the scale, halves to even, from 0 on."""
    half = 1 << bits - 1
    made = [[round(Fraction(float(x)) / Fraction(scale)) for x in row] for row in rows]
    return np.clip(np.array(made, np.int64), -half, half - 1) + half


def squares(rows: Whole, codebook: Whole) -> Whole:
    """Squared distances, (n, k)."""
    return np.stack([((rows - c) ** 2).sum(1) for c in codebook], 1)


def batches(batch_rows: list[Whole], codebook: Whole) -> Whole:
    """Codewords after batches: means, halves up, of all rows that each was nearest to when its batch came."""
    sums, counts = np.zeros_like(codebook), np.zeros(len(codebook), np.int64)
    for rows in batch_rows:
        labels = squares(rows, codebook).argmin(1)
        np.add.at(sums, labels, rows)
        np.add.at(counts, labels, 1)
        weight = np.maximum(counts, 1)[:, None]
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
