"""Device memory of one job: allocated inside a scope, filled through it, released when the scope ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from clquant.runtime.errors import DeviceError, DeviceMemoryError
from clquant.runtime.limits import Limits
from clquant.runtime.profiling import record
from clquant.runtime.recycling import MOST_SHARE, MOST_SHARE_OF_HOST, RECYCLER, Recycler
from clquant.runtime.recycling import SMALLEST as SMALLEST_KEPT
from clquant.runtime.staging import SMALLEST, SMALLEST_DOWN, Lane, Staging, as_bytes, staging

# Zero-copy of a host array needs this alignment on the drivers that have it at all (Intel's guide: a page).
HOST_ALIGNMENT = 64
SMALL_BYTES = 1 << 20
# Arrays up to this size are copied to devices with memory of their own without waiting for the end of the copy.
UNAWAITED_BYTES = 1 << 16

_OUT_OF_MEMORY = {
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_RESOURCES,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
}


@contextlib.contextmanager
def device_errors(doing: str) -> Iterator[None]:
    """Turn PyOpenCL's errors inside the block into `DeviceMemoryError` or `DeviceError`, saying what was done."""
    try:
        yield
    except cl.Error as error:
        raise device_error(error, doing) from error


def device_error(error: cl.Error, doing: str) -> DeviceError | DeviceMemoryError:
    """What stands for an error of PyOpenCL's (see `device_errors`)."""
    if isinstance(error, cl.MemoryError) or error.code in _OUT_OF_MEMORY:
        return DeviceMemoryError(f"the device ran out of memory in {doing}: {error}")
    return DeviceError(f"the device failed in {doing}: {error}")


def allocate(context: cl.Context, flags: int, nbytes: int, hostbuf: Any = None) -> cl.Buffer:
    """The one place where device memory is asked for (tests inject failures here)."""
    with device_errors(f"allocating {nbytes} bytes"):
        if hostbuf is not None:
            return cl.Buffer(context, flags, hostbuf=hostbuf)
        return cl.Buffer(context, flags, size=nbytes)


class Scope:
    """Buffers that live as long as a ``with`` block; OpenCL keeps each alive until queued work is done with it."""

    def __init__(self, queue: cl.CommandQueue, limits: Limits, lane: Lane | None = None) -> None:
        self._queue = queue
        self._limits = limits
        self._lane = lane
        self._buffers: list[cl.Buffer] = []
        self._recyclable: set[cl.Buffer] = set()
        self._copies: list[cl.Event] = []  # each keeps its array, and waits for the copy when it is dropped

        self._endings: list[Callable[[], None]] = []

    def at_end(self, call: Callable[[], None]) -> None:
        """Call something when the scope ends.

        Parameters
        ----------
        call : callable
        """
        self._endings.append(call)

    def __enter__(self) -> Scope:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or self._wraps_host_memory():
            # Queued work may still read host arrays that the caller is free to change or drop after this.
            with contextlib.suppress(cl.Error):
                self._queue.finish()
        for buffer in self._buffers:
            if kind is None and buffer in self._recyclable:
                RECYCLER.keep(self._queue, buffer, self._limits.global_memory // self._share())
            else:
                buffer.release()
        self._buffers.clear()
        self._recyclable.clear()
        self._copies.clear()
        while self._endings:
            self._endings.pop()()

    def _share(self) -> int:
        return MOST_SHARE_OF_HOST if self._limits.unified_memory else MOST_SHARE

    def _wraps_host_memory(self) -> bool:
        return any(buffer.hostbuf is not None for buffer in self._buffers)

    def _keep(self, flags: int, nbytes: int, hostbuf: Any = None) -> cl.Buffer:
        if nbytes > self._limits.max_alloc:
            raise DeviceMemoryError(
                f"a buffer of {nbytes} bytes is over the device's limit of {self._limits.max_alloc} bytes"
            )
        buffer = allocate(self._queue.context, flags, nbytes, hostbuf)
        self._buffers.append(buffer)
        return buffer

    def empty(self, nbytes: int) -> cl.Buffer:
        """An uninitialised buffer of at least `nbytes` bytes (one byte where `nbytes` is 0).

        Parameters
        ----------
        nbytes : int

        Raises
        ------
        DeviceMemoryError
            If it is over the device's largest allocation, or memory is short.
        """
        wanted = max(int(nbytes), 1)
        if wanted < SMALLEST_KEPT:
            return self._keep(cl.mem_flags.READ_WRITE, wanted)
        if wanted <= self._limits.max_alloc:
            wanted = min(Recycler.rounded(wanted), self._limits.max_alloc)
        buffer = RECYCLER.take(self._queue, wanted)
        if buffer is None:
            buffer = self._allocate_anew(wanted)
        else:
            self._buffers.append(buffer)
        self._recyclable.add(buffer)
        return buffer

    def _allocate_anew(self, nbytes: int) -> cl.Buffer:
        try:
            return self._keep(cl.mem_flags.READ_WRITE, nbytes)
        except DeviceMemoryError:
            if nbytes > self._limits.max_alloc:
                raise
            RECYCLER.clear()
            return self._keep(cl.mem_flags.READ_WRITE, nbytes)

    def zeros(self, nbytes: int) -> cl.Buffer:
        """A buffer of zero bytes.

        Parameters
        ----------
        nbytes : int

        Raises
        ------
        DeviceMemoryError
            As `empty`.
        """
        buffer = self.empty(nbytes)
        with device_errors("clearing a buffer"):
            cl.enqueue_fill_buffer(self._queue, buffer, np.zeros(1, np.uint8), 0, max(int(nbytes), 1))
        self._order()
        return buffer

    def upload(self, array: npt.NDArray[Any]) -> cl.Buffer:
        """A read-only buffer with an array's bytes; wraps the array itself where host and device share memory.

        Parameters
        ----------
        array : ndarray
            C-contiguous. It must not change before the scope ends.

        Raises
        ------
        DeviceMemoryError
            As `empty`.
        """
        if array.size == 0:
            return self.empty(1)
        if self._limits.unified_memory and array.nbytes <= SMALL_BYTES:
            array = aligned(array)  # copied here if need be: a small copy through the queue takes far longer
        if self._limits.unified_memory and array.ctypes.data % HOST_ALIGNMENT == 0:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
            return self._keep(flags, array.nbytes, array)
        return self.copy_of(array)

    def copy_of(self, array: npt.NDArray[Any]) -> cl.Buffer:
        """A writable buffer with a copy of an array's bytes.

        Parameters
        ----------
        array : ndarray
            C-contiguous.

        Raises
        ------
        DeviceMemoryError
            As `empty`.
        """
        buffer = self.empty(array.nbytes)
        if 0 < array.nbytes <= UNAWAITED_BYTES and not self._limits.unified_memory:
            with device_errors("copying to the device"):
                event = cl.enqueue_copy(self._queue, buffer, array.copy(), is_blocking=False)
                self._order()
            self._copies.append(event)
            record("upload", False, event)
            return buffer
        write_buffer(self._queue, self._limits, buffer, array, lane=self._lane)
        return buffer

    def _order(self) -> None:
        order_commands(self._queue)


def aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A C-contiguous array itself, or a copy of it, that begins at a multiple of `HOST_ALIGNMENT`."""
    if array.ctypes.data % HOST_ALIGNMENT == 0:
        return array
    room = np.empty(array.nbytes + HOST_ALIGNMENT, np.uint8)
    start = -room.ctypes.data % HOST_ALIGNMENT
    copy: npt.NDArray[Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def write_buffer(
    queue: cl.CommandQueue,
    limits: Limits,
    buffer: cl.Buffer,
    array: npt.NDArray[Any],
    offset: int = 0,
    lane: Lane | None = None,
) -> None:
    """Copy a C-contiguous host array into a buffer at a byte offset; the array is free to change afterwards."""
    if not array.size:
        return
    with device_errors("copying to the device"), _stager(queue, limits, array.nbytes >= SMALLEST, lane) as stager:
        if stager is not None:
            stager.upload(buffer, as_bytes(array), offset, [_marker(queue)])
            return
        event = cl.enqueue_copy(queue, buffer, array, dst_offset=offset, is_blocking=True)
        order_commands(queue)
    record("upload", False, event)


def read_buffer(
    queue: cl.CommandQueue,
    limits: Limits,
    array: npt.NDArray[Any],
    buffer: cl.Buffer,
    offset: int = 0,
    lane: Lane | None = None,
) -> None:
    """Copy a buffer's bytes from an offset into a C-contiguous host array, after everything queued before."""
    if not array.size:
        return
    large = array.nbytes >= min(SMALLEST, SMALLEST_DOWN)
    with device_errors("copying from the device"), _stager(queue, limits, large, lane) as stager:
        if stager is not None:
            stager.download(as_bytes(array), buffer, offset, [_marker(queue)])
            return
        event = cl.enqueue_copy(queue, array, buffer, src_offset=offset, is_blocking=True)
    record("download", False, event)


@contextlib.contextmanager
def _stager(queue: cl.CommandQueue, limits: Limits, large: bool, lane: Lane | None) -> Iterator[Lane | Staging | None]:
    """What stages a copy: the thread's own lane, else all lanes for a large copy where it pays, else nothing."""
    shared = None
    if lane is None and large and not limits.unified_memory:
        shared = staging(queue.context, queue.device)
    if shared is None:
        yield lane
        return
    with shared.claim() as mine:
        yield shared if mine else None


def _marker(queue: cl.CommandQueue) -> cl.Event:
    """An event that is over when everything queued so far is."""
    marker = cl.enqueue_marker(queue)
    queue.flush()
    return marker


def order_commands(queue: cl.CommandQueue) -> None:
    """On an out-of-order queue of the caller's, make what comes next wait for all that was queued before."""
    if is_out_of_order(queue):
        cl.enqueue_barrier(queue)


def is_out_of_order(queue: cl.CommandQueue) -> bool:
    """Whether a queue may run its commands in another order than they came in."""
    return bool(queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
