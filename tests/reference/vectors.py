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
