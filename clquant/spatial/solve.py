"""The colours of a palette that show a picture best while every pixel keeps its entry, in whole numbers.

The visible error is quadratic in the colours: with A and S of `clquant.spatial.statistics` it is least where A x = -S,
x being the change of the colours. A is positive semidefinite where the kernel is; to its diagonal a tenth of the middle
weight is added for each pixel, so that entries seldom seen do not run far.

Gauss and Seidel's method solves it, in fixed point: every row is divided by its diagonal first, so that its entries sum
to at most 16 (no row of A is more than 16 times the middle weight for each pixel of its entry: the kernel's weights sum
to less) and all products stay below 2^48.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.runtime import InvalidArgument
from clquant.spatial.statistics import Statistics

# Steps of a colour's change, in one of the search's coordinates.
UNIT = 1 << 12
# Fraction bits of the rows' entries.
_ROW_SHIFT = 20
_SWEEPS = 24
# One `_SHARE`-th of the middle weight is added to the diagonal: all other terms are multiplied by `_SHARE` instead.
_SHARE = 10
_FARTHEST = 2048 * UNIT


def best_changes(found: Statistics, middle: int, free: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return how far each free entry should move, (k, dims) int64 in 1 / UNIT."""
    moved = np.flatnonzero(free & (found.counts > 0))
    matrix = _SHARE * found.pairs[np.ix_(moved, moved)] + middle * np.diag(found.counts[moved])
    slopes = _SHARE * found.slopes[moved]
    if max(np.abs(matrix).max(initial=0), 1) >= 1 << 42 or np.abs(slopes).max(initial=0) >= 1 << 50:
        raise InvalidArgument("the images have too many pixels for exact sums")
    diagonal = matrix.diagonal()[:, None]
    rows = (matrix << _ROW_SHIFT) // diagonal
    np.fill_diagonal(rows, 0)
    target = -(slopes * UNIT) // diagonal
    x = np.zeros_like(target)
    for _ in range(_SWEEPS):
        before = x.copy()
        for j, row in enumerate(rows):
            x[j] = np.minimum(np.maximum(target[j] - (row @ x >> _ROW_SHIFT), -_FARTHEST), _FARTHEST)
        if np.array_equal(x, before):
            break
    changes = np.zeros(found.slopes.shape, np.int64)
    changes[moved] = x
    return changes
