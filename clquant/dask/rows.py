"""Rows of numbers on Dask arrays: maps and reductions of chunks, and training on parts that workers hold."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed

from clquant.dask.chunks import begins_of, placed
from clquant.dask.training import RemoteParts
from clquant.dask.work import client, named
from clquant.runtime import CommandQueue, InvalidArgument, InvalidType, Progress
from clquant.training import training
from clquant.training.part import Part
from clquant.vectors.fixed_point import FixedPoint, source_ends
from clquant.vectors.rows import RowSource, finite

Weights = npt.NDArray[np.uint16] | None
Portion = npt.NDArray[Any]


def checked_rows(given: Any) -> Any:
    """Return a Dask array of rows with each row in one chunk and no chunk empty."""
    if given.ndim != 2 or any(np.isnan(side) for side in given.shape):
        raise InvalidArgument(f"X is a Dask array of shape {given.shape}; allowed: known (n, d)")
    return placed(given.rechunk({0: tuple(size for size in given.chunks[0] if size) or (0,), 1: -1}), "X")


def map_rows(rows: Any, work: Callable[[Portion], Portion], components: int | None, dtype: npt.DTypeLike) -> Any:
    """Build the lazy rows that `work` makes of each chunk's: of so many components, or single numbers."""
    call, meta = named(work), np.empty((0,) * (1 if components is None else 2), dtype)
    if components is None:
        return rows.map_blocks(call, drop_axis=1, dtype=dtype, meta=meta)
    return rows.map_blocks(call, chunks=(rows.chunks[0], (components,)), dtype=dtype, meta=meta)


def reduce_rows(rows: Any, work: Callable[..., Any], *args: Any) -> list[Any]:
    """Return what `work` gives for each chunk and the number of its first row."""
    call, shared = delayed(named(work), pure=False), [delayed(one, pure=False, traverse=False) for one in args]
    chunks = zip(rows.to_delayed().ravel(), begins_of(rows.chunks[0])[:-1], strict=True)
    return list(compute(*[call(chunk, first, *shared) for chunk, first in chunks]))


class RemoteRows:
    """The chunks of a Dask array of rows, with the methods of `clquant.vectors.fit.HeldRows`."""

    def __init__(self, source: RowSource, queue: CommandQueue | None) -> None:
        self.source, self._queue = source, queue

    def ends(self) -> tuple[float, float]:
        """The least and the largest number; raises where one is not finite."""
        found = reduce_rows(self.source.source, _ends, self.source.dtype)
        return min(low for low, _ in found), max(high for _, high in found)

    def train(
        self, fixed: FixedPoint, weights: Weights, plans: Sequence[training.Plan], progress: Progress
    ) -> tuple[training.Trained, None]:
        """The training of least error, the first of equals; labels are found when they are asked for."""
        with self._parts(fixed, weights) as parts:
            return parts.train(self._queue, weights, plans, progress), None

    def totals(self, fixed: FixedPoint, weights: Weights, words: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Sums of the rows of each codeword, (k, d + 1), the last column their weights."""
        with self._parts(fixed, weights) as parts:
            return parts.sums(words, len(words))

    def nearest(self, model: Any, *_: Any) -> Any:
        """The index of the nearest codeword of each row, a lazy array."""
        return map_rows(self.source.source, light(model).predict, None, np.int32)

    def distances(self, model: Any, _: FixedPoint, words: npt.NDArray[Any]) -> Any:
        """Squared distances of each row to each codeword, a lazy array."""
        return map_rows(self.source.source, light(model).transform, len(words), np.float64)

    def error(self, model: Any, _: FixedPoint, __: npt.NDArray[Any], weights: Weights) -> int:
        """The weighted sum of squared distances to the nearest codewords, in squares of the scale."""
        return sum(reduce_rows(self.source.source, _error, light(model), weights))

    def _parts(self, fixed: FixedPoint, weights: Weights) -> RemoteParts:
        rows, work = self.source.source, delayed(named(_part), pure=False)
        firsts = begins_of(rows.chunks[0])
        made = [
            work(chunk, None if weights is None else weights[first:end], fixed, first, self.source.dtype)
            for chunk, (first, end) in zip(rows.to_delayed().ravel(), itertools.pairwise(firsts), strict=True)
        ]
        return RemoteParts(fixed.shape(self.source.components), rows.chunks[0], made)


def light(model: Any) -> Any:
    """A quantizer without what belongs to the rows of its fit, and on a cluster without a queue."""
    made = copy.copy(model)
    for name in ("labels_", "_totals"):
        made.__dict__.pop(name, None)
    if client() is not None:
        made.queue = None
    return made


def _given(rows: Portion, first: int, dtype: np.dtype[Any]) -> Portion:
    """A chunk, of which the first row has a number, if it is as its array says and finite."""
    if rows.dtype != dtype:
        raise InvalidType(f"X gives rows of {rows.dtype} from row {first} on; allowed: those of its own dtype {dtype}")
    return finite(rows, first)


def _ends(rows: Portion, first: int, dtype: np.dtype[Any]) -> tuple[float, float]:
    return source_ends(RowSource(_given(rows, first, dtype), False))


def _part(rows: Portion, weights: Weights, fixed: FixedPoint, first: int, dtype: np.dtype[Any]) -> Part:
    words = fixed.encode(_given(rows, first, dtype), first)
    return Part(words[:, :, None], weights, fixed.shape(rows.shape[1]), first)


def _error(rows: Portion, first: int, model: Any, weights: Weights) -> int:
    own = None if weights is None else weights[first : first + len(rows)]
    total: int = model._error(RowSource(rows, False), own)
    return total
