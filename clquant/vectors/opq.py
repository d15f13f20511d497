"""The rotation of optimized product quantization, learned in turns with the codebooks.

T. Ge, K. He, Q. Ke, J. Sun, "Optimized product quantization", IEEE Transactions on Pattern Analysis and Machine
Intelligence 36 (2014), the method without assumptions about the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Progress
from clquant.training.blockset import sample_places
from clquant.vectors.fixed_point import fixed_point
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.rotation import ROTATION_BITS, Rotation, to_rotation, whole_rows
from clquant.vectors.rows import RowSource

ROUNDS, STEPS = 24, 3  # turns; Lloyd steps of each
_LEAST_ROWS, _ROWS_PER_WORD, _MOST_ROWS = 1 << 15, 64, 1 << 20
_SAMPLING = 2  # stage of random numbers
Whole = npt.NDArray[np.float64]
Weights = npt.NDArray[np.uint16] | None


def learn_rotation(
    source: RowSource, weights: Weights, parts: Sequence[VectorQuantizer], progress: Callable[[int, int], object] | None
) -> Rotation:
    """The rotation for codebooks such as some quantizers train; these stay as they are."""
    told = Progress(progress)
    fixed = fixed_point(source, False, False, None)
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
        told.report(done, ROUNDS)
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
    """Rows as a few steps code them, in any unit; `words` are the starts, and become the codewords.

    Eight bits do for that: what is wanted is which rows go together.
    """
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

    mass = np.ones(len(places)) if weights is None else np.ceil(weights[places] / 16)
    return np.concatenate(source.each(drawn)), mass
