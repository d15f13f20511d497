"""Figures of merit of two Dask arrays: a reduction over the same parts of both."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt

from clquant import flow
from clquant.dask.chunks import filled, parts_of, spans
from clquant.dask.sums import tree
from clquant.dask.work import later
from clquant.images import Picture
from clquant.runtime import InvalidArgument, Progress, open_session


def figure(job: Any, _: object, original: Any, result: Any, *_given: object, least: int = 0) -> Any:
    """Build the lazy float64 number of a comparison of two pictures, whose sides have at least so many pixels."""
    given = map(da.asarray, (original, result))
    a, b = (one[:, :, 0] if one.ndim == 3 and one.shape[2] == 1 else one for one in given)
    known = all(side > 0 for one in (a, b) for side in one.shape)  # not if it is nan
    if not known or a.shape != b.shape or a.ndim not in (2, 3):
        raise InvalidArgument(f"original and result must be pictures of one known shape, got {a.shape} and {b.shape}")
    if min(a.shape[:2]) < least:
        raise InvalidArgument(f"original and result have the shape {a.shape}; allowed: at least {least} x {least}")
    if a.dtype != np.uint8 or b.dtype != np.uint8:
        raise InvalidArgument(f"original and result are Dask arrays of {a.dtype} and {b.dtype}; allowed: uint8")
    a, chunks = filled(a), filled(a).chunks
    down, across = ([around for _, around in spans(sizes, job)] for sizes in chunks[:2])
    places = list(itertools.product(down, across))
    both = zip(*(parts_of(one.rechunk(chunks), places) for one in (a, b)), strict=True)
    total = tree(job.merge, [later("original and result", partial(_state_of_both, job), *parts) for parts in both])
    number = later("original and result", partial(_number, job, a.shape), total)
    return da.from_delayed(number, (), np.float64, meta=np.empty((), np.float64))


def _number(job: Any, shape: tuple[int, ...], total: int) -> Any:
    return np.float64(job.figure(total, shape))


def _state_of_both(job: flow.Reduce, *parts: npt.NDArray[Any]) -> Any:
    if any(part.dtype != np.uint8 for part in parts):
        raise InvalidArgument("chunks are of another dtype than their array; allowed: uint8")
    h, w, c = (*parts[0].shape, 1)[:3]
    pictures = [Picture(h, w, c, c == 1, array=np.ascontiguousarray(part).reshape(h, w, c)) for part in parts]
    return flow.state_of(open_session(None), pictures, job, Progress(None))
