"""Results in host memory, filled band by band while the device goes on, and page-locked arrays for what people hold."""

from __future__ import annotations

import math
import operator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from clquant.runtime.device.limits import Limits
from clquant.runtime.errors import InvalidArgument, device_errors, text_of
from clquant.runtime.memory.pinned import pinned_pool
from clquant.runtime.memory.scope import HOST_ALIGNMENT, PAGE, Scope, aligned_empty
from clquant.runtime.open_session import open_session
from clquant.runtime.profiling import profiled
from clquant.runtime.session import Session
from clquant.runtime.transfer.copy import new_host_array, order_commands

SMALLEST_WRITTEN = 1 << 18
"""Bytes of a result from which CPUs write it where it is to be: mapping a buffer takes as long as copying so many."""


class HostResult:
    """An array on the host, by default a new one, for the result of one job.

    Where its memory is page-locked (see `clquant.runtime.memory.pinned`), bands are copied into it without waiting.
    Kernels of CPUs write into it, where they are given a buffer of `room`.
    """

    def __init__(
        self,
        session: Session,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        array: npt.NDArray[Any] | None = None,
    ) -> None:
        self._session = session
        self._copies: list[cl.Event] = []
        self._rooms: list[cl.Buffer] = []
        limits, nbytes = session.limits, math.prod(shape) * np.dtype(dtype).itemsize
        if array is not None:
            self._array, self._pinned = array, session.is_pinned(array)
        elif self.in_place(limits, nbytes):
            self._array, self._pinned = aligned_empty(shape, dtype, HOST_ALIGNMENT), False
        else:
            self._array, self._pinned = new_host_array(session.queue, limits, shape, dtype)

    @staticmethod
    def in_place(limits: Limits, nbytes: int) -> bool:
        """Whether kernels write a result of so many bytes into the array itself, where `room` is for all of it."""
        return limits.is_cpu and limits.unified_memory and not limits.is_simulator and nbytes >= SMALLEST_WRITTEN

    def fits(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> bool:
        """Whether the array has this shape and type."""
        return self._array.shape == shape and self._array.dtype == dtype

    def has(self, _: int) -> bool:
        """Whether rows are there from an earlier job: never."""
        return False

    def room(self, scope: Scope, begin: int, end: int) -> cl.Buffer:
        """Make a buffer for rows `begin` to `end`, for `store`; their own memory if that can be."""
        rows = self._array[begin:end]
        if not self.in_place(self._session.limits, rows.nbytes) or rows.ctypes.data % HOST_ALIGNMENT:
            return scope.empty(rows.nbytes)
        self._rooms.append(scope.around(rows))
        return self._rooms[-1]

    def store(self, scope: Scope, begin: int, end: int, buffer: cl.Buffer, offset: int = 0) -> None:
        """Copy a buffer, once everything queued so far is done, into rows `begin` to `end`.

        `offset` is in bytes; nothing in the buffer's scope is used after this.
        """
        rows = self._array[begin:end]
        if any(buffer is room for room in self._rooms):
            _settle(self._session, buffer, rows.nbytes)
            return
        if self._pinned and not profiled():
            event = self._session.download_later(scope, rows, buffer, offset)
            if event is not None:
                self._copies.append(event)
            return
        self._session.download_into(rows, buffer, offset)

    def array(self) -> npt.NDArray[Any]:
        """Wait for all copies and return the array."""
        with device_errors("copying from the device"):
            for event in self._copies:
                event.wait()
        self._copies.clear()
        return self._array


def _settle(session: Session, buffer: cl.Buffer, nbytes: int) -> None:
    """Wait for everything queued before, and see that the array around which a buffer was made holds its content."""
    map_buffer = cast(Any, cl.enqueue_map_buffer)  # its annotations fit no dtype
    with device_errors("reading a buffer where it lies"):
        view, _ = map_buffer(session.queue, buffer, cl.map_flags.READ, 0, (nbytes,), np.uint8, is_blocking=True)
        view.base.release(session.queue)
        order_commands(session.queue)


def empty_pinned(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.uint8, *, queue: cl.CommandQueue | None = None
) -> npt.NDArray[Any]:
    """A new array in memory that the device of a queue copies from directly; its content is not defined.

    A picture read into such an array reaches a GPU two to five times as fast as from ordinary memory, in any engine,
    with the same results. Locking memory is slow, so keep the array for many pictures. On devices that share the
    host's memory it is an ordinary array that begins at a page, which kernels read in place.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype_like
        Without Python objects.
    queue : pyopencl.CommandQueue, optional
        Of the context and device that will read it; default: the default device's. On others it is an ordinary array.

    Returns
    -------
    ndarray
        C-contiguous. Ordinary memory where the driver has no other to give.

    Raises
    ------
    InvalidArgument
        If the shape is no size or sequence of sizes or needs more memory than there is, or the dtype is none or holds
        Python objects.
    InvalidType
        If `queue` is no command queue.
    NoDeviceError
        If there is no OpenCL device.
    """
    sizes = _sizes(shape)
    try:
        kind: np.dtype[Any] | None = np.dtype(dtype)
    except Exception:  # an object of the caller's may raise anything
        kind = None
    if kind is None or kind.hasobject or kind.itemsize == 0 or kind.subdtype is not None:
        allowed = "a NumPy dtype of a size, no array, without Python objects"
        raise InvalidArgument(f"dtype is {text_of(dtype)}; allowed: {allowed}")
    session = open_session(queue)
    try:
        array = None
        if not session.limits.unified_memory:
            array = pinned_pool(session.context, session.device).empty(sizes, kind)
        return aligned_empty(sizes, kind, PAGE) if array is None else array
    except (MemoryError, OverflowError, ValueError) as error:
        raise InvalidArgument(f"shape is {text_of(shape)}, which needs more memory than there is") from error


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in ((shape,) if np.ndim(shape) == 0 else shape))
    except Exception:  # likewise
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise InvalidArgument(f"shape is {text_of(shape)}; allowed: an integer from 0 on, or a sequence of such")
    return sizes
