"""Rows of numbers that workers have: read, mapped, trained on and searched by chunks of a Dask array."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import delayed

from clquant.dask.chunks import begins_of, map_chunks, placed
from clquant.dask.training import WorkerShares, train
from clquant.dask.work import named, values
from clquant.runtime import CommandQueue, InvalidArgument, InvalidType, Progress, QueueLike
from clquant.training import training
from clquant.training.blocks import Weights
from clquant.training.shares import Band, Share, Sums
from clquant.vectors.fit import Words
from clquant.vectors.fixed_point import Ends, FixedPoint, source_ends
from clquant.vectors.rows import Make, RowSource, check_rows, checked


@dataclass(frozen=True)
class WorkerRows(RowSource):
    """Rows in chunks of a Dask array, each row in one chunk."""

    @classmethod
    def of(cls, given: Any) -> WorkerRows:
        """Check the rows of an argument `X`, but for their values."""
        source = checked_rows(given)
        check_rows(source)
        return cls(source, True)

    def fetch(self, first: int, end: int) -> npt.NDArray[Any]:  # noqa: ARG002
        """Refuse to bring rows here."""
        raise InvalidType("X is a Dask array, and all rows are needed in one process; allowed: X.compute()")

    def each(self, work: Callable[..., Any], weights: npt.NDArray[Any] | None = None) -> list[Any]:
        """List what `work` returns, on workers, for each chunk, its first row's number and its weights."""
        return values(later_rows(self.source, functools.partial(_of_chunk, work, self.dtype), weights))

    def map(self, work: Callable[[Any], Any], components: int | None, dtype: npt.DTypeLike) -> Any:
        """Map rows by `work` to a lazy array of rows of components or single numbers."""
        chunks = (self.source.chunks[0], *(() if components is None else ((components,),)))
        return map_chunks(self.source, functools.partial(_made_of, work), chunks, dtype)

    def columns(self, own: slice, queue: CommandQueue | None) -> WorkerRows:  # noqa: ARG002
        """Some numbers of each row, lazily."""
        return WorkerRows(self.source[:, own], True)

    def mapped(self, make: Make, components: int, dtype: npt.DTypeLike) -> WorkerRows:
        """The rows mapped by a function, lazily."""
        return WorkerRows(self.map(lambda rows: make(rows).astype(dtype), components, dtype), True)

    def spread(self, queue: QueueLike) -> SpreadRows:
        """Return what trains and searches the rows on workers."""
        return SpreadRows(self, queue)


class SpreadRows:
    """Rows held by workers, with the methods of `HeldRows`; results are lazy."""

    def __init__(self, source: RowSource, queue: QueueLike) -> None:
        self._source, self._queue = source, queue

    def ends(self) -> Ends:
        """The least and the largest number of each column; raises where one is not finite."""
        return source_ends(self._source)

    def train(
        self, fixed: FixedPoint, weights: Weights, plans: Sequence[training.Plan], progress: Progress
    ) -> tuple[training.Trained, None]:
        """The training of least error, the first of equals; labels are found when they are asked for."""
        made, counts = self._shares(fixed, weights), self._source.source.chunks[0]
        shape = fixed.shape(self._source.components)
        return train(self._queue, shape, counts, weights, made, plans, progress), None

    def totals(self, fixed: FixedPoint, weights: Weights, words: Words) -> npt.NDArray[np.uint64]:
        """Sums of the rows of each codeword, (k, d + 1), the last column their weights."""
        with WorkerShares(self._shares(fixed, weights)) as shares:
            sums: Sums = shares.call("sums", words, len(words))
            return sums.totals

    def nearest(self, model: Any, *_: Any) -> Any:
        """The index of the nearest codeword of each row."""
        return self._source.map(_light(model).predict, None, np.int32)

    def distances(self, model: Any, _: FixedPoint, words: Words) -> Any:
        """Squared distances of each row to each codeword."""
        return self._source.map(_light(model).transform, len(words), np.float64)

    def error(self, model: Any, _: FixedPoint, __: Words, weights: Weights, ___: Any = None) -> int:
        """The weighted sum of squared distances to the nearest codewords; see `squared_error`."""
        return sum(self._source.each(functools.partial(_error, _light(model)), weights))

    def _shares(self, fixed: FixedPoint, weights: Weights) -> list[Any]:
        return later_rows(self._source.source, functools.partial(_share, fixed, self._source.dtype), weights)


def _light(model: Any) -> Any:
    """A quantizer without what belongs to the rows of its fit, and without a queue."""
    made = copy.copy(model).set_params(queue=None)
    for name in ("labels_", "_batches"):
        made.__dict__.pop(name, None)
    return made


def _share(fixed: FixedPoint, dtype: np.dtype[Any], rows: npt.NDArray[Any], first: int, weights: Weights) -> Share:
    words = fixed.encode(checked(rows, first, dtype), first)
    return Share([Band(words[:, :, None], first)], weights, fixed.shape(rows.shape[1]))


def _error(model: Any, rows: npt.NDArray[Any], _: int, weights: Weights) -> int:
    total: int = model._error(RowSource(rows), weights)
    return total


def checked_rows(given: Any) -> Any:
    """Return a Dask array of rows with each row in one chunk and no chunk empty."""
    if hasattr(given, "to_dask_array"):
        raise InvalidType(f"X is a Dask {type(given).__name__}; allowed: X.to_dask_array(lengths=True)")
    if given.ndim != 2 or any(np.isnan(side) for side in given.shape):
        hint = "known (n, d), which X.compute_chunk_sizes() finds"
        raise InvalidArgument(f"X is a Dask array of shape {given.shape}; allowed: {hint}")
    return placed(given.rechunk({0: tuple(size for size in given.chunks[0] if size) or (0,), 1: -1}), "X")


def later_rows(rows: Any, work: Callable[..., Any], weights: npt.NDArray[Any] | None = None) -> list[Any]:
    """Return delayed calls of `work` on each chunk, the number of its first row, and its weights."""
    call, cuts = delayed(named(work), pure=False), itertools.pairwise(begins_of(rows.chunks[0]))
    return [
        call(chunk, first, None if weights is None else weights[first:end])
        for chunk, (first, end) in zip(rows.to_delayed().ravel(), cuts, strict=True)
    ]


def _made_of(work: Callable[[Any], Any], rows: npt.NDArray[Any], _: tuple[int, ...]) -> Any:
    return work(rows.astype(rows.dtype.newbyteorder("="), copy=False))


def _of_chunk(
    work: Callable[..., Any], dtype: np.dtype[Any], rows: npt.NDArray[Any], first: int, weights: npt.NDArray[Any] | None
) -> Any:
    return work(checked(rows, first, dtype), first, weights)
