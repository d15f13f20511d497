"""Rows of numbers on Dask arrays: what is made of each chunk, lazily or at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import delayed

from clquant.dask.chunks import begins_of, placed
from clquant.dask.work import named
from clquant.runtime import InvalidArgument


def checked_rows(given: Any) -> Any:
    """Return a Dask array of rows with each row in one chunk and no chunk empty."""
    if given.ndim != 2 or any(np.isnan(side) for side in given.shape):
        raise InvalidArgument(f"X is a Dask array of shape {given.shape}; allowed: known (n, d)")
    return placed(given.rechunk({0: tuple(size for size in given.chunks[0] if size) or (0,), 1: -1}), "X")


def later_rows(rows: Any, work: Callable[..., Any], weights: npt.NDArray[Any] | None = None) -> list[Any]:
    """Return delayed calls of `work` on each chunk, the number of its first row, and its weights."""
    call, cuts = delayed(named(work), pure=False), itertools.pairwise(begins_of(rows.chunks[0]))
    return [
        call(chunk, first, None if weights is None else weights[first:end])
        for chunk, (first, end) in zip(rows.to_delayed().ravel(), cuts, strict=True)
    ]
