"""Destinations of bands' results: arrays of the caller's, or anything that takes slices of rows."""

from __future__ import annotations

import abc
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from clquant.flow.background import BackgroundCall
from clquant.images import Picture
from clquant.images.stores import whole_calls
from clquant.params import reason_of, shown
from clquant.runtime import Array, Buffer, FileError, HostResult, InvalidArgument, InvalidType, Scope, Session


class Sink(abc.ABC):
    """Destination of a result's rows, which are written from top to bottom."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def has(self, row1: int) -> bool:  # noqa: ARG002
        """Return whether it holds all rows before `row1` from an earlier job."""
        return False

    @abc.abstractmethod
    def open(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Prepare the target for a result, which must fit it."""

    @abc.abstractmethod
    def write(self, begin: int, end: int, rows: npt.NDArray[Any]) -> None:
        """Write some rows."""


class ArraySink(Sink):
    """The caller's `out` where it is an object with `__setitem__`."""

    def __init__(self, out: Any) -> None:
        if not hasattr(out, "__setitem__") or not hasattr(out, "shape"):
            raise InvalidType(
                f"out is {shown(out)}; allowed: an array, anything with shape and __setitem__, or a path that ends in "
                ".zarr, .tif or .tiff"
            )
        super().__init__(out)

    def open(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Check the shape and dtype."""
        given = tuple(int(side) for side in self.target.shape)
        if given != shape or not np.can_cast(dtype, getattr(self.target, "dtype", dtype), "safe"):
            kind = getattr(self.target, "dtype", "no dtype")
            raise InvalidArgument(f"out has shape {given} and dtype {kind}; allowed: {shape} and {dtype}")

    def write(self, begin: int, end: int, rows: npt.NDArray[Any]) -> None:
        """Assign some rows."""
        try:
            with whole_calls():
                self.target[begin:end] = rows
        except Exception as error:  # storage fails in many ways
            raise FileError(f"out: cannot write rows {begin} to {end - 1}: {reason_of(error)}") from error


class DeviceResult:
    """Collect bands in a new device array."""

    def __init__(self, session: Session, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._session, self._array = session, session.new_array(shape, dtype)
        self._buffer = cast(Buffer, self._array.base_data)
        self._row_bytes = self._array.nbytes // shape[0]

    def has(self, _: int) -> bool:
        """Return False: no row is there from an earlier job."""
        return False

    def room(self, scope: Scope, begin: int, end: int) -> Buffer:
        """A buffer that is to be filled with some rows and given to `store`: the array's own for all of them."""
        whole = end - begin == self._array.shape[0]
        return self._buffer if whole else scope.empty((end - begin) * self._row_bytes)

    def store(self, scope: Scope, begin: int, end: int, buffer: Buffer, offset: int = 0) -> None:  # noqa: ARG002
        """Queue the copy of some rows; `offset` is bytes into the buffer."""
        if buffer is not self._buffer:
            nbytes = (end - begin) * self._row_bytes
            self._session.copy(self._buffer, buffer, nbytes, offset, begin * self._row_bytes)

    def array(self) -> Array:
        """The device array."""
        return self._session.hand_over(self._array)


class SinkResult:
    """Download bands into a `Sink`; a thread writes the rows in their order."""

    def __init__(self, session: Session, shape: tuple[int, ...], dtype: npt.DTypeLike, sink: Sink) -> None:
        self._session = session
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._sink = sink
        sink.open(shape, self._dtype)
        self._writing: BackgroundCall[None] | None = None

    def has(self, row1: int) -> bool:
        """Return whether an earlier job has written all rows before `row1`."""
        return self._sink.has(row1)

    def room(self, scope: Scope, begin: int, end: int) -> Buffer:
        """Allocate a buffer for some rows, to be filled and given to `store`."""
        return scope.empty((end - begin) * int(np.prod(self._shape[1:])) * self._dtype.itemsize)

    def store(self, scope: Scope, begin: int, end: int, buffer: Buffer, offset: int = 0) -> None:  # noqa: ARG002
        """Write a buffer's rows once all queued so far is done; wait for the rows before."""
        rows = self._session.download(buffer, (end - begin, *self._shape[1:]), self._dtype, offset)
        self._await()
        self._writing = BackgroundCall(self._sink.write, begin, end, rows)

    def array(self) -> Any:
        """Wait until all rows are written, and return the caller's object."""
        self._await()
        return self._sink.target

    def _await(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def result_of(
    session: Session, picture: Picture, sink: Sink | None, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> HostResult | SinkResult | DeviceResult:
    """Return where a job puts its result's rows: a sink, or a new array on the device or host like the picture."""
    if sink is None:
        return (DeviceResult if picture.on_device else HostResult)(session, shape, dtype)
    if picture.on_device:
        raise InvalidArgument("out is given with a device array; allowed: without out, the result stays on the device")
    return SinkResult(session, shape, dtype, sink)
