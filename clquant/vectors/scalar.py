"""The optimal codebook of numbers: the least squared error there is in one dimension.

X. Wu, "Optimal quantization by matrix searching", Journal of Algorithms 12 (1991); H. Wang, M. Song, "Ckmeans.1d.dp:
optimal k-means clustering in one dimension by dynamic programming", The R Journal 3 (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import (
    Array,
    CommandQueue,
    InvalidArgument,
    InvalidType,
    Progress,
    ProgressCallback,
    Session,
    open_session,
)
from clquant.vectors.scalar_counts import counted_codebooks, is_counted
from clquant.vectors.scalar_runs import best_runs, repeat_means

__all__ = ["scalar_codebook"]

MAX_DISTINCT = 1 << 16
# Floats become integers of so many bits: all float16 numbers do so exactly, those of others are rounded.
FLOAT_BITS = 40
# Whole weights whose sum has at most so many bits count exactly, others are cut to a sum of so many bits.
EXACT_WEIGHT_BITS, WEIGHT_BITS = 32, 28
# Sums of weighted values are taken in two halves of so many bits, each exact in 64 bits.
HALF_BITS = 20
VALUES_PER_LAUNCH, VALUES_PER_CPU_LAUNCH = 1 << 24, 1 << 22
_THERE = ("f2", "i2", "u2")  # device arrays that the device takes as they are
_KINDS = "integers of 8 or 16 bits, float16, bfloat16, float32 or float64"


def scalar_codebook(
    values: npt.ArrayLike,
    k: int,
    sample_weight: npt.ArrayLike | None = None,
    *,
    axis: int | None = None,
    bfloat16: bool = False,
    progress: ProgressCallback | None = None,
    queue: CommandQueue | None = None,
) -> npt.NDArray[np.float64]:
    """The k numbers with the least sum of weighted squared distances to `values`, each to its nearest.

    Parameters
    ----------
    values : array_like
        Numbers of any shape: 8- or 16-bit integers, float16, bfloat16 (of `ml_dtypes`), float32 or float64; finite, and
        at most 65,536 different ones (per row if `axis` is 1). A device array of 16-bit numbers without weights whose
        rows have 1,024 to 65,536 stays there.
    k : int
        1 to the number of values.
    sample_weight : array_like, optional
        Weights of the shape of `values`, finite and not negative; numbers of weight 0 do not count. Whole weights whose
        sum is below 2^32 count exactly; others are cut to multiples of a power of two, such that their sum has 28 bits.
    axis : {None, 1}
        None takes all values together; 1 finds a codebook for each row of an (m, n) matrix.
    bfloat16 : bool
        Whether `values` are the bits of bfloat16 numbers in uint16.
    progress : callable, optional
        Called with (rows done, rows); returning False stops.
    queue : pyopencl.CommandQueue, optional
        Default: the best device found.

    Returns
    -------
    ndarray
        (k,) or (m, k) float64, ascending along the last axis: weighted means of runs of the sorted values. With fewer
        different values than `k`, entries repeat.

    Raises
    ------
    InvalidType, InvalidArgument
        If an argument is not as stated.
    DeviceError, DeviceMemoryError
        If the device fails.
    StoppedError
        If `progress` returned False.

    Notes
    -----
    The same bits on every device. Floats become multiples of 2^-40 times the power of two above the largest magnitude
    of their row: float16 exactly, others rounded. Runs of sorted values are chosen by their squared errors in 64-bit
    integers: a row of range r whose weights add up to W is scaled by a power of two such that W r^2 < 2^64. That
    rounds no 16-bit integers, and floats to 25 bits of their range if there are 4,096 in a row. Of equally good
    codebooks, that whose last run begins lowest is taken, then the one before. Entries are means of the 40-bit values.

    Examples
    --------
    >>> clquant.scalar_codebook([0, 1, 9, 10, 11], 2).tolist()
    [0.5, 10.0]
    """
    numbers = _numbers(values, params.boolean("bfloat16", bfloat16))
    params.choice("axis", axis, (None, 1))
    if axis == 1 and numbers.ndim != 2:
        raise InvalidArgument(f"values is {params.shown(numbers)}; allowed with axis=1: a matrix of shape (m, n)")
    rows = numbers if axis == 1 else numbers.reshape(1, -1)
    if rows.shape[1] == 0:
        raise InvalidArgument(f"values is {params.shown(numbers)}; allowed: at least one value")
    k = params.integer("k", k, 1, rows.shape[1])
    weights = None if sample_weight is None else _weights(sample_weight, numbers.shape).reshape(rows.shape)
    call = Progress(params.callback("progress", progress))
    session, count = open_session(queue, [rows] if isinstance(rows, Array) else []), rows.shape[0]
    found, most = np.empty((count, k)), VALUES_PER_CPU_LAUNCH if session.limits.is_cpu else VALUES_PER_LAUNCH
    step = 1 if rows.shape[1] > MAX_DISTINCT else max(most // rows.shape[1], 1)
    for begin in range(0, count, step):
        part = slice(begin, begin + step)
        found[part] = _codebooks(session, rows[part], None if weights is None else weights[part], k)
        call.report(min(begin + step, count), count)
    return found if axis == 1 else found[0]


def _numbers(values: Any, bfloat16: bool) -> npt.NDArray[Any] | Array:
    """The values as an array of integers or floats; bits of bfloat16 numbers become float32."""
    if isinstance(values, Array) and not bfloat16 and values.dtype.str[1:] in _THERE and values.flags.c_contiguous:
        return values
    found = params.array("values", values, _KINDS)
    if bfloat16:
        if found.dtype != np.uint16:
            raise InvalidType(f"values is {params.shown(found)}; allowed with bfloat16=True: uint16")
        bits: npt.NDArray[np.uint32] = found.astype(np.uint32) << np.uint32(16)
        return bits.view(np.float32)
    if found.dtype.name == "bfloat16":
        return found.astype(np.float32)
    if found.dtype.kind in "ui" and not isinstance(values, np.ndarray):  # lists of Python's integers
        found = found.astype(np.float64)
    if not (found.dtype.kind == "f" and found.itemsize <= 8) and not (found.dtype.kind in "ui" and found.itemsize <= 2):
        raise InvalidType(f"values is {params.shown(found)}; allowed: {_KINDS}")
    return found


def _weights(sample_weight: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Weights as float64 of a shape."""
    found = params.array("sample_weight", sample_weight, "numbers of the shape of values", "buif").astype(np.float64)
    if found.shape != shape:
        raise InvalidArgument(f"sample_weight has the shape {found.shape}; allowed: that of values, {shape}")
    if not (np.isfinite(found) & (found >= 0)).all():
        wrong = found[~(np.isfinite(found) & (found >= 0))][0]
        raise InvalidArgument(f"sample_weight has the value {wrong:g}; allowed: finite numbers of at least 0")
    return found


def _codebooks(
    session: Session, rows: npt.NDArray[Any] | Array, weights: npt.NDArray[np.float64] | None, k: int
) -> npt.NDArray[np.float64]:
    """(m, k) codebooks of the rows of a matrix."""
    if weights is None and is_counted(rows):
        return _repeats_last(counted_codebooks(session, rows, k))
    rows = params.array("values", rows, _KINDS)
    if rows.shape[1] > MAX_DISTINCT:
        rows, weights = _distinct(rows, weights)
    mass = None if weights is None else _whole_weights(weights)
    fixed, unit = _fixed_point(rows, mass)
    if mass is None:
        fixed.sort(axis=1)
        lengths = np.full(len(fixed), fixed.shape[1], np.int64)
        totals = lengths
    else:
        lengths, totals = (mass > 0).sum(axis=1), mass.sum(axis=1)
        order = np.argsort(np.where(mass > 0, fixed, np.iinfo(np.int64).max), axis=1, kind="stable")
        fixed, mass = np.take_along_axis(fixed, order, axis=1), np.take_along_axis(mass, order, axis=1)
    scaled = _scaled(fixed, lengths, totals)
    ends = best_runs(session, scaled, mass, lengths, k)
    means = _means(fixed, np.ones_like(fixed) if mass is None else mass, ends)
    return _repeats_last(np.ldexp(means, unit[:, None]))


def _distinct(
    rows: npt.NDArray[Any], weights: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """The different values of the only row of a matrix, and the sum of weights of each, (1, n) both."""
    row = rows[0]
    if row.itemsize <= 2:
        bits = row.view(f"u{row.itemsize}")
        often = np.bincount(bits, None if weights is None else weights[0])
        found = np.flatnonzero(np.bincount(bits, minlength=len(often)))
        return found.astype(bits.dtype).view(row.dtype)[None], often[found][None].astype(np.float64)
    found, places = np.unique(row, return_inverse=True)
    if len(found) > MAX_DISTINCT:
        raise InvalidArgument(f"values has {len(found)} different values; allowed: at most {MAX_DISTINCT}")
    often = np.bincount(places, None if weights is None else weights[0])
    return found[None], often[None].astype(np.float64)


def _whole_weights(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """(m, n) weights as integers, of which each row's sum is from 1 to 2^32 - 1."""
    largest = weights.max(axis=1)
    if not largest.all():
        raise InvalidArgument("sample_weight is 0 for all values; allowed: at least one above 0 for each codebook")
    whole = (weights == np.floor(weights)).all(axis=1) & (largest < 2.0**EXACT_WEIGHT_BITS)
    exact = np.where(whole[:, None], weights, 0).astype(np.int64)
    whole &= exact.sum(axis=1) < 1 << EXACT_WEIGHT_BITS
    # Relative to the largest weight first, so that the sum, of at most 2^16 weights, is exact.
    fine = np.rint(np.ldexp(weights, FLOAT_BITS - np.frexp(largest)[1][:, None])).astype(np.int64)
    coarser = np.maximum(_bit_length(fine.sum(axis=1)) - WEIGHT_BITS, 0)[:, None]
    return np.where(whole[:, None], exact, fine >> coarser)


def _fixed_point(
    rows: npt.NDArray[Any], mass: npt.NDArray[np.int64] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """(m, n) values as integers, and (m,) exponents of two: the unit of each row."""
    if rows.dtype.kind != "f":
        return rows.astype(np.int64), np.zeros(len(rows), np.int32)
    exact = rows.astype(np.float64)
    if not np.isfinite(exact).all():
        raise InvalidArgument(f"values has the value {exact[~np.isfinite(exact)][0]}; allowed: finite numbers")
    if mass is not None:
        exact[mass == 0] = 0
    unit = np.frexp(np.abs(exact).max(axis=1))[1] - FLOAT_BITS
    return np.rint(np.ldexp(exact, -unit[:, None])).astype(np.int64), unit


def _scaled(
    fixed: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], totals: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """Sorted values above their row's first, times a power of two such that (sum of weights) (largest)^2 < 2^64."""
    last = fixed[np.arange(len(fixed)), lengths - 1]
    bits = np.minimum((64 - _bit_length(totals)) // 2, 31)
    shift = bits - _bit_length(last - fixed[:, 0])
    left, right = np.maximum(shift, 0)[:, None], np.maximum(-shift, 0)[:, None]
    above = np.maximum(np.minimum(fixed, last[:, None]) - fixed[:, :1], 0)
    half = (np.int64(1) << right) >> 1
    scaled: npt.NDArray[np.uint32] = (((above << left) + half) >> right).astype(np.uint32)
    return scaled


def _bit_length(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Bits of integers from 0 to 2^53 - 1."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


def _means(
    fixed: npt.NDArray[np.int64], mass: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """(m, k) weighted means of runs of sorted values, by their ends; a run without values has the mean before it."""
    begins = np.concatenate([np.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
    rows = np.arange(len(fixed))[:, None]
    totals = []
    for part in (mass, mass * (fixed >> HALF_BITS), mass * (fixed & ((1 << HALF_BITS) - 1))):
        sums = np.zeros((len(fixed), fixed.shape[1] + 1), np.int64)
        np.cumsum(part, axis=1, out=sums[:, 1:])
        totals.append(sums[rows, ends] - sums[rows, begins])
    weight, high, low = totals
    weight = np.maximum(weight, 1)
    total = np.ldexp(high.astype(np.float64), HALF_BITS) + low
    # Sums that float64 does not hold have large means, whose whole parts are exact: equal numbers are their own mean.
    whole, rest = np.divmod(high, weight)
    more, rest = np.divmod((rest << HALF_BITS) + low, weight)
    large = ((whole << HALF_BITS) + more) + rest / weight
    return repeat_means(np.where(np.abs(total) < 2.0**53, total / weight, large), begins < ends)


def _repeats_last(codebooks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ascending codebooks where equal entries are moved to the end, as further copies of the last."""
    for row in np.flatnonzero((codebooks[:, 1:] == codebooks[:, :-1]).any(axis=1)):
        different = np.unique(codebooks[row])
        codebooks[row, : len(different)] = different
        codebooks[row, len(different) :] = different[-1]
    return codebooks
