"""Quantizers of rows on Dask arrays: training on parts that workers hold, verbs chunk by chunk."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed

from clquant.dask.remote_parts import RemoteParts
from clquant.dask.work import client, located, named
from clquant.runtime import CommandQueue, InvalidArgument, InvalidType, Progress, open_session
from clquant.training import training
from clquant.training.part import Part
from clquant.vectors.fixed_point import FixedPoint, source_ends
from clquant.vectors.rows import RowSource, finite

Weights = npt.NDArray[np.uint16] | None


def checked_rows(given: Any) -> Any:
    """Return a Dask array of rows with each row in one chunk and no chunk empty."""
    if given.ndim != 2 or any(np.isnan(side) for side in given.shape):
        raise InvalidArgument(f"X is a Dask array of shape {given.shape}; allowed: known (n, d)")
    return given.rechunk({0: tuple(size for size in given.chunks[0] if size) or (0,), 1: -1})


@contextlib.contextmanager
def rows_of(source: RowSource, queue: CommandQueue | None) -> Iterator[RemoteRows]:
    """The chunks of a Dask array of rows; reading errors name the chunk."""
    with located([source.source]):
        yield RemoteRows(source, queue)


class RemoteRows:
    """The chunks of a Dask array of rows, with the methods of `clquant.vectors.fit.HeldRows`."""

    def __init__(self, source: RowSource, queue: CommandQueue | None) -> None:
        self.source, self._queue = source, queue
        self._chunks = list(source.source.to_delayed().ravel())
        self._counts = source.source.chunks[0]
        self._places = list(zip([0, *itertools.accumulate(self._counts)][:-1], self._counts, strict=True))

    def ends(self) -> tuple[float, float]:
        """The least and the largest number; raises where one is not finite."""
        work = delayed(named(_ends), pure=False)
        found = compute(
            *[
                work(chunk, first, self.source.dtype)
                for chunk, (first, _) in zip(self._chunks, self._places, strict=True)
            ]
        )
        return min(low for low, _ in found), max(high for _, high in found)

    def train(
        self, fixed: FixedPoint, weights: Weights, plans: Sequence[training.Plan], progress: Progress
    ) -> tuple[training.Trained, None]:
        """The training of least error, the first of equals; labels are found when they are asked for."""
        session = open_session(self._queue)
        with contextlib.closing(self._parts(fixed, weights)) as parts:
            found = [parts.train(session, weights, plan, own) for plan, own in training.each_of(plans, progress)]
        return min(found, key=lambda trained: trained.mse), None

    def totals(self, fixed: FixedPoint, weights: Weights, words: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Sums of the rows of each codeword, (k, d + 1), the last column their weights."""
        with contextlib.closing(self._parts(fixed, weights)) as parts:
            return parts.sums(words, len(words))

    def nearest(self, model: Any, *_: Any) -> Any:
        """The index of the nearest codeword of each row, a lazy array."""
        given = named(_verb), _light(model), "predict"
        return self.source.source.map_blocks(*given, drop_axis=1, dtype=np.int32, meta=np.empty(0, np.int32))

    def distances(self, model: Any, _: FixedPoint, words: npt.NDArray[Any]) -> Any:
        """Squared distances of each row to each codeword, a lazy array."""
        given, chunks = (named(_verb), _light(model), "transform"), (self._counts, (len(words),))
        return self.source.source.map_blocks(*given, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0)))

    def error(self, model: Any, _: FixedPoint, __: npt.NDArray[Any], weights: Weights) -> int:
        """The weighted sum of squared distances to the nearest codewords, in squares of the scale."""
        work, light = delayed(named(_error), pure=False), delayed(_light(model), pure=False)
        owns = [None if weights is None else weights[first : first + n] for first, n in self._places]
        return sum(compute(*[work(light, *own) for own in zip(self._chunks, owns, strict=True)]))

    def _parts(self, fixed: FixedPoint, weights: Weights) -> RemoteParts:
        work = delayed(named(_part), pure=False)
        made = [
            work(chunk, None if weights is None else weights[first : first + count], fixed, first, self.source.dtype)
            for chunk, (first, count) in zip(self._chunks, self._places, strict=True)
        ]
        return RemoteParts(fixed.shape(self.source.components), self._counts, made)


def _light(model: Any) -> Any:
    """A quantizer without what belongs to the rows of its fit, and on a cluster without a queue."""
    made = copy.copy(model)
    for name in ("labels_", "_totals"):
        made.__dict__.pop(name, None)
    if client() is not None:
        made.queue = None
    return made


def _given(rows: npt.NDArray[Any], first: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A chunk, of which the first row has a number, if it is as its array says and finite."""
    if rows.dtype != dtype:
        raise InvalidType(f"X gives rows of {rows.dtype} from row {first} on; allowed: those of its own dtype {dtype}")
    return finite(rows, first)


def _ends(rows: npt.NDArray[Any], first: int, dtype: np.dtype[Any]) -> tuple[float, float]:
    return source_ends(RowSource(_given(rows, first, dtype), False))


def _part(rows: npt.NDArray[Any], weights: Weights, fixed: FixedPoint, first: int, dtype: np.dtype[Any]) -> Part:
    words = fixed.encode(_given(rows, first, dtype), first)
    return Part(words[:, :, None], weights, fixed.shape(rows.shape[1]), first)


def _error(model: Any, rows: npt.NDArray[Any], weights: Weights) -> int:
    total: int = model._error(RowSource(rows, False), weights)
    return total


def _verb(rows: npt.NDArray[Any], model: Any, verb: str) -> npt.NDArray[Any]:
    made: npt.NDArray[Any] = getattr(model, verb)(rows)
    return made
