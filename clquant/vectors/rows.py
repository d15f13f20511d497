"""Rows of numbers as people hand them in: arrays, memory maps, stores that are read in portions, files."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.executors import remote_executor
from clquant.flow.source import Source
from clquant.images.files import path_of
from clquant.images.storage import check_sizes, values_of
from clquant.params import reason_of, refuse_masked, shown
from clquant.runtime import (
    Array,
    Buffer,
    ClquantError,
    CommandQueue,
    InvalidArgument,
    InvalidType,
    QueueLike,
    Rows,
    copy_rows,
    open_session,
)
from clquant.training.blocks import Weights
from clquant.training.blockset import whole_weights
from clquant.vectors.files import opened

MAX_COMPONENTS = 2048
MOST_ROWS = 1 << 33
MOST_CHUNK = 1 << 32  # bytes of a store's chunk that is read at once, unless the caller bounds its memory
PORTION_BYTES = 1 << 26  # of rows that are looked at or searched at once
_KINDS = "buif"
Read = Callable[[int, int], npt.NDArray[Any]]
Make = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


@dataclass(frozen=True)
class RowSource(Source):
    """Rows that can be read in portions; `source` has `shape`, `dtype` and `__getitem__` of slices of rows."""

    source: Any
    is_stored: bool = False  # read from a store, a portion at a time

    @functools.cached_property
    def count(self) -> int:
        """Rows, n."""
        return int(self.source.shape[0])

    @functools.cached_property
    def components(self) -> int:
        """Numbers of a row, d."""
        return int(self.source.shape[1])

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the numbers, in the machine's order of bytes."""
        dtype: np.dtype[Any] = np.dtype(self.source.dtype).newbyteorder("=")
        return dtype

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.components * self.dtype.itemsize

    @functools.cached_property
    def is_on_device(self) -> bool:
        """Whether the rows are a device array."""
        return isinstance(self.source, Array)

    @property
    def chunk_rows(self) -> int:  # type: ignore[override]
        """Rows of a chunk of a store; 1 if it has none."""
        chunks = getattr(self.source, "chunks", None) or (1,)
        return chunks[0] if isinstance(chunks[0], int) else 1

    def on_host(self) -> RowSource:
        """The same rows, downloaded if they are a device array."""
        return RowSource(self.fetch(0, self.count)) if self.is_on_device else self

    def portion_rows(self, nbytes: int = PORTION_BYTES) -> int:
        """Rows of which float64 copies take so many bytes."""
        return max(1, nbytes // (8 * self.components))

    def fetch(self, first: int, end: int) -> npt.NDArray[Any]:
        """Some rows as they are, on the host."""
        given = values_of(self.source, slice(first, end), "X") if self.is_stored else self.source[first:end]
        rows: npt.NDArray[Any] = np.asarray(given.get() if isinstance(given, Array) else given)
        if rows.dtype != self.source.dtype or rows.shape != (min(end, self.count) - first, self.components):
            raise InvalidType(f"X gives rows {rows.shape} of {rows.dtype}; allowed: those of its own shape and dtype")
        return rows.astype(self.dtype, copy=False)

    def read(self, first: int, end: int) -> npt.NDArray[Any]:
        """Some rows, on the host; of floats only finite ones."""
        return finite(self.fetch(first, end), first)

    def numbered_rows(self, rows: int | None = None) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """All rows in order, with the number of each portion's first one."""
        step = self.portion_rows() if rows is None else rows
        for first in range(0, self.count, step):
            yield first, self.read(first, first + step)

    def each(self, work: Callable[..., Any], weights: npt.NDArray[Any] | None = None) -> list[Any]:
        """List what `work` returns for each portion, its first row's number and its weights."""
        return [
            work(rows, first, None if weights is None else weights[first : first + len(rows)])
            for first, rows in self.numbered_rows()
        ]

    def map(
        self,
        work: Callable[[Any], Any],
        components: int | None,  # noqa: ARG002
        dtype: npt.DTypeLike,
    ) -> Any:
        """Map rows by `work` to rows of components or single numbers."""
        return np.concatenate([work(rows) for _, rows in self.numbered_rows()]).astype(dtype, copy=False)

    def pick(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Rows by their increasing numbers, on the host."""
        if isinstance(self.source, np.ndarray) and not self.is_stored:
            rows: npt.NDArray[Any] = self.source[places]
            return rows.astype(self.dtype, copy=False)
        return super().pick(places)

    def part(self, first: int, end: int) -> RowSource:
        """Some consecutive rows: of a store as they are read."""
        if not self.is_stored:
            return RowSource(self.source[first:end])
        return RowSource(
            MappedRows(self, self.fetch, lambda rows: rows, self.components, self.dtype, (first, end)), True
        )

    def columns(self, own: slice, queue: CommandQueue | None) -> RowSource:
        """Some numbers of each row: as they are read of a store, on the device of a device array."""
        width = own.stop - own.start
        if self.is_stored:  # numbers that are not finite are found where they belong
            return RowSource(MappedRows(self, self.fetch, lambda rows: rows[:, own], width, self.dtype), True)
        if not self.is_on_device:
            return RowSource(self.source[:, own])
        array, item = self.source, self.dtype.itemsize
        session = open_session(queue, [array])
        made = session.new_array((self.count, width), array.dtype)
        given = Rows(cast(Buffer, array.base_data), array.offset + own.start * item, self.components * item)
        target = Rows(cast(Buffer, made.base_data), made.offset, width * item)
        copy_rows(session, target, given, self.count, width * item)
        return RowSource(session.hand_over(made))

    def mapped(self, make: Make, components: int, dtype: npt.DTypeLike) -> RowSource:
        """The rows mapped by a function: as they are read of a store, else now, in portions."""
        if self.is_stored:
            return RowSource(MappedRows(self, self.read, make, components, dtype), True)
        return RowSource(self.map(lambda rows: make(rows).astype(dtype), components, dtype))

    def spread(self, queue: QueueLike) -> Any | None:  # noqa: ARG002
        """Return what trains and searches rows that lie elsewhere; None of rows of this process."""
        return None


def checked(rows: npt.NDArray[Any], first: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Rows of which the first has a number, in the machine's order of bytes, if they are of a dtype and finite."""
    refuse_masked("X", rows)
    rows = rows.astype(rows.dtype.newbyteorder("="), copy=False)
    if rows.dtype != dtype:
        raise InvalidType(f"X gives rows of {rows.dtype} from row {first} on; allowed: those of its own dtype {dtype}")
    return finite(rows, first)


def finite(rows: npt.NDArray[Any], first: int) -> npt.NDArray[Any]:
    """Rows of which the first has the number `first`, if all are finite."""
    if rows.dtype.kind == "f" and not bool(np.isfinite(rows).all()):
        row = first + int(np.flatnonzero(~np.isfinite(rows).all(1))[0])
        raise InvalidArgument(f"X holds NaN or infinity in row {row}; allowed: finite numbers")
    return rows


def read_rows(given: Any, memory: int = MOST_CHUNK) -> RowSource:
    """The rows of an argument `X`, checked but for their values; chunks of stores fit `memory`."""
    try:
        return _open_rows(given, memory)
    except ClquantError:
        raise
    except Exception as error:  # closed stores, and arrays of other libraries, in their own ways
        raise InvalidType(f"X is {type(given).__name__}, which cannot be read: {reason_of(error)}") from error


def _open_rows(given: Any, memory: int) -> RowSource:
    if type(given).__module__.startswith("scipy.sparse"):
        raise InvalidType(f"X is a sparse {type(given).__name__}; sparse rows are not supported: give a dense array")
    elsewhere = remote_executor(given)
    if elsewhere is not None:
        return cast(RowSource, elsewhere.rows(given))
    if isinstance(given, str | os.PathLike):
        source, is_stored = opened(path_of(given, "X")), True
    elif isinstance(given, np.memmap) or _is_store(given):
        source, is_stored = given, True
    else:
        source, is_stored = _in_memory(given), False
    check_rows(source)
    if is_stored:
        check_sizes(source, "X", memory, MOST_ROWS)
    return RowSource(source, is_stored)


def check_rows(source: Any) -> None:
    """Refuse what is no rows of numbers by its shape and dtype."""
    shape, kind = tuple(source.shape), np.dtype(source.dtype).kind
    if kind == "c":
        raise InvalidArgument(f"Complex data not supported: X has the dtype {source.dtype}; allowed: real numbers")
    if kind not in _KINDS:
        raise InvalidType(f"X has the dtype {source.dtype}; allowed: integers and floats")
    if len(shape) != 2:
        raise InvalidArgument(f"X has the shape {shape}; allowed: rows, (n, d). Reshape your data")
    if not 1 <= shape[1] <= MAX_COMPONENTS:
        raise InvalidArgument(
            f"X has {shape[1]} feature(s) (shape={shape}) while a minimum of 1 is required; at most {MAX_COMPONENTS}"
        )
    if shape[0] == 0:
        raise InvalidArgument(f"X has 0 sample(s) (shape={shape}) while a minimum of 1 is required")


def _is_store(given: Any) -> bool:
    """Whether an object is read by slices and is no array in memory: zarr, h5py."""
    known = isinstance(given, np.ndarray | np.generic | Array) or hasattr(given, "__array_interface__")
    named = all(hasattr(given, name) for name in ("shape", "dtype", "__getitem__"))
    return named and not known and not hasattr(given, "__dlpack__") and not hasattr(given, "iloc")


def _in_memory(given: Any) -> Any:
    if isinstance(given, Array):
        if not given.flags.c_contiguous:
            raise InvalidArgument(f"X is a device array with strides {given.strides}; allowed: a C-contiguous one")
        return given
    refuse_masked("X", given)
    try:
        dense = hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray)
        rows = np.from_dlpack(given) if dense else np.asarray(given)
        if rows.dtype.name == "bfloat16":
            return rows.astype(np.float32)
        with np.errstate(over="ignore"):  # what is infinite then is found by its row
            return rows.astype(np.float64) if rows.dtype == object or rows.dtype == np.longdouble else rows
    except (TypeError, ValueError, BufferError, RuntimeError, OverflowError) as error:
        raise InvalidType(f"X is {shown(given)}; allowed: rows of numbers, (n, d): {error}") from error


def row_weights(given: Any, source: RowSource) -> tuple[Weights, float]:
    """Weights of rows as whole numbers, None if all are equal, and the weight that 1 stands for; `whole_weights`."""
    if given is None:
        return None, 1.0
    values = params.array("sample_weight", given, "a number for each row", "buif").astype(np.float64)
    count = source.count
    if values.shape != (count,):
        raise InvalidArgument(f"sample_weight has the shape {values.shape}; allowed: ({count},), a number for each row")
    if not bool(np.isfinite(values).all()) or bool((values < 0).any()):
        raise InvalidArgument("sample_weight holds negative or infinite weights; allowed: finite numbers of at least 0")
    if not bool(values.any()):
        raise InvalidArgument("sample_weight is zero everywhere; allowed: at least one positive weight")
    return whole_weights(values, source.components, 8 * min(source.dtype.itemsize, 2))


class MappedRows:
    """Rows of a source, as it is read by `read`, mapped by a function: (n, d) of a dtype."""

    def __init__(
        self,
        source: RowSource,
        read: Read,
        make: Make,
        components: int,
        dtype: npt.DTypeLike,
        own: tuple[int, int] | None = None,
    ) -> None:
        self._first, end = (0, source.count) if own is None else own
        self._read, self._make = read, make
        self.shape, self.dtype, self.chunks = (end - self._first, components), np.dtype(dtype), (source.chunk_rows,)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Some rows."""
        first, end, _ = rows.indices(self.shape[0])
        return np.ascontiguousarray(self._make(self._read(self._first + first, self._first + end)), self.dtype)
