"""Figures of merit of Dask arrays: exact sums per chunk, added as a tree, the last division as on one device."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed

from clquant.dask.chunks import parts_of
from clquant.dask.work import named, tree
from clquant.quality.definitions import WINDOW, picture_shape
from clquant.quality.pair import Pair, as_pair
from clquant.quality.similarity import MAX_PEAK, MIN_PEAK, dissimilarity, mean_similarity
from clquant.quality.squared_error import decibels, squared_error
from clquant.runtime import InvalidArgument


def mse(original: Any, result: Any) -> Any:
    """Build the lazy float64 number of `clquant.quality.mse`; at least one argument is a Dask array."""
    a, b = _both(original, result)
    return _number(partial(_mean, size=a.size), _squared_error(a, b))


def psnr(original: Any, result: Any, peak: float) -> Any:
    """Build the lazy float64 number of `clquant.quality.psnr`; arguments as `mse`."""
    a, b = _both(original, result)
    return _number(partial(_decibels, size=a.size, peak=peak), _squared_error(a, b))


def ssim(original: Any, result: Any, peak: float) -> Any:
    """Build the lazy float64 number of `clquant.quality.ssim`; chunks are read with the next ten rows and columns."""
    a, b = _both(original, result)
    height, width = picture_shape(a.shape)
    if min(height, width) < WINDOW:
        raise InvalidArgument(f"ssim needs pictures of at least {WINDOW} x {WINDOW} pixels, got {(height, width)}")
    if not MIN_PEAK <= peak <= MAX_PEAK:
        raise InvalidArgument(f"peak is {peak} for Dask arrays; allowed: {MIN_PEAK} to {MAX_PEAK}")
    work = delayed(partial(named(_dissimilarity), peak=peak), pure=True)
    places = list(itertools.product(_windows(a.chunks[0], height), _windows(a.chunks[1], width)))
    parts = [work(one, other) for one, other in zip(parts_of(a, places), parts_of(b, places), strict=True)]
    windows = (height - WINDOW + 1) * (width - WINDOW + 1)
    return _number(partial(mean_similarity, windows=windows), tree(sum, parts))


def _both(original: Any, result: Any) -> tuple[Any, Any]:
    """Both as Dask arrays of the same chunks, with all channels in one."""
    given = [da.asarray(one) for one in (original, result)]
    a, b = given
    known = all(not np.isnan(side) for one in given for side in one.shape)
    if not known or a.shape != b.shape or a.size == 0 or a.ndim not in (2, 3):
        raise InvalidArgument(f"original and result must be pictures of one known shape, got {a.shape} and {b.shape}")
    if any(one.dtype != np.uint8 for one in given):
        raise InvalidArgument(f"original and result are Dask arrays of {a.dtype} and {b.dtype}; allowed: uint8")
    chunks = a.chunks[:2] + tuple((channels,) for channels in a.shape[2:])
    return a.rechunk(chunks), b.rechunk(chunks)


def _number(last: Any, total: Any) -> Any:
    return da.from_delayed(delayed(_float, pure=True)(last, total), (), np.float64, meta=np.empty((), np.float64))


def _float(last: Any, total: int) -> Any:
    return np.float64(last(total))


def _squared_error(a: Any, b: Any) -> Any:
    work = delayed(named(_squares), pure=True)
    blocks = zip(a.to_delayed().ravel(), b.to_delayed().ravel(), strict=True)
    return tree(sum, [work(one, other) for one, other in blocks])


def _windows(chunks: Sequence[int], length: int) -> Iterator[tuple[int, int]]:
    """Per chunk of an axis: the pixels of the windows that begin in it."""
    last = length - WINDOW + 1
    for end, size in zip(itertools.accumulate(chunks), chunks, strict=True):
        if end - size < last:
            yield end - size, min(end, last) + WINDOW - 1


def _pair(first: Any, second: Any) -> Pair:
    pair = as_pair(np.asarray(first), np.asarray(second))
    if not isinstance(pair, Pair):
        raise InvalidArgument("chunks are of another dtype than their array; allowed: uint8")
    return pair


def _squares(first: Any, second: Any) -> int:
    return squared_error(_pair(first, second), None)


def _dissimilarity(first: Any, second: Any, peak: float) -> int:
    return dissimilarity(_pair(first, second), peak, None)


def _mean(total: int, size: int) -> float:
    return total / size


def _decibels(total: int, size: int, peak: float) -> float:
    return decibels(total / size, peak)
