"""Rows that are made of other rows when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from clquant.flow.executors import executor_of
from clquant.runtime import Buffer, CommandQueue, Rows, copy_rows, open_session
from clquant.vectors.rows import RowSource


def columns_of(source: RowSource, own: slice, queue: CommandQueue | None) -> RowSource:
    """Some numbers of each row: lazily of a source that is read so, on the device of a device array."""
    if executor_of(source.source) is not None:
        return RowSource(source.source[:, own], True)
    if source.is_lazy:
        return RowSource(Columns(source, own), True)
    if not source.is_on_device:
        return RowSource(source.source[:, own], False)
    array, item, width = source.source, source.dtype.itemsize, own.stop - own.start
    session = open_session(queue, [array])
    made = session.new_array((source.count, width), array.dtype)
    given = Rows(cast(Buffer, array.base_data), array.offset + own.start * item, source.components * item)
    target = Rows(cast(Buffer, made.base_data), made.offset, width * item)
    copy_rows(session, target, given, source.count, width * item)
    return RowSource(session.hand_over(made), False)


def made_of(
    source: RowSource, make: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], components: int, dtype: npt.DTypeLike
) -> RowSource:
    """Map rows by a function: lazily those that are read so or that workers have, else now, in portions."""
    if source.is_lazy and executor_of(source.source) is None:
        return RowSource(Made(source, make, components, dtype), True)
    return RowSource(source.map(lambda rows: make(rows).astype(dtype), components, dtype), source.is_lazy)


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
    """Rows of a source mapped by a function, (n, d) of a dtype."""

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
