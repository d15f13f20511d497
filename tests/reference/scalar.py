"""Optimal codebooks in one dimension, by comparing all ways to cut sorted numbers into runs, in exact arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction


def least_error(numbers: Sequence[Fraction], weights: Sequence[Fraction], k: int) -> Fraction:
    """The least weighted squared error of any k-entry codebook."""
    pairs = sorted(zip(numbers, weights, strict=True))
    k, n = min(k, len(pairs)), len(pairs)
    cuts = itertools.combinations(range(1, n), k - 1)
    return min(sum(_error(pairs[i:j]) for i, j in itertools.pairwise((0, *cut, n))) for cut in cuts)


def error_of(numbers: Sequence[Fraction], weights: Sequence[Fraction], codebook: Sequence[float]) -> Fraction:
    """The error of the runs of numbers that are nearest to the same entry, each about its exact mean."""
    nearest = [min(range(len(codebook)), key=lambda i: abs(Fraction(codebook[i]) - number)) for number in numbers]
    runs = (
        [p for p, i in zip(zip(numbers, weights, strict=True), nearest, strict=True) if i == e] for e in set(nearest)
    )
    return sum(map(_error, runs), Fraction(0))


def _error(run: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    mass = sum((weight for _, weight in run), Fraction(0))
    if mass == 0:
        return Fraction(0)
    mean = sum((number * weight for number, weight in run), Fraction(0)) / mass
    return sum((weight * (number - mean) ** 2 for number, weight in run), Fraction(0))
