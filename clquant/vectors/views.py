"""Rows that are made of other rows when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.flow.executors import executor_of
from clquant.vectors.rows import RowSource


def columns(source: RowSource, own: slice) -> Any:
    """Some numbers of each row, read or made when they are asked for where rows are not in memory."""
    if executor_of(source.source) is not None or not source.is_lazy:
        return source.source[:, own]
    return Columns(source, own)


def made(
    source: RowSource,
    make: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
    components: int,
    dtype: npt.DTypeLike,
) -> Any:
    """What a function makes of rows: lazily of those that are read so or that workers have."""
    if executor_of(source.source) is not None:
        return source.map(lambda rows: make(rows).astype(dtype), components, dtype)
    view = Made(source, make, components, dtype)
    return view if source.is_lazy else view.whole()


class Columns:
    """Some numbers of each row of a source that is read lazily."""

    def __init__(self, source: RowSource, own: slice) -> None:
        self._source, self._own = source, own
        self.shape, self.dtype = (source.count, own.stop - own.start), source.dtype
        self.chunks = (source.chunk_rows,)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Some rows."""
        first, end, _ = rows.indices(self._source.count)
        return np.ascontiguousarray(self._source.raw(first, end)[:, self._own])


class Made:
    """What a function makes of the rows of a source, (n, d) of a dtype."""

    def __init__(
        self,
        source: RowSource,
        make: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
        components: int,
        dtype: npt.DTypeLike,
    ) -> None:
        self._source, self._make = source, make
        self.shape, self.dtype = (source.count, components), np.dtype(dtype)
        self.chunks = (source.chunk_rows,)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Some rows."""
        first, end, _ = rows.indices(self._source.count)
        return self._make(self._source.read(first, end)).astype(self.dtype)

    def whole(self) -> npt.NDArray[Any]:
        """All rows, made in portions."""
        return np.concatenate([self[first : first + len(rows)] for first, rows in self._source.portions()])
