"""Device memory of one job: allocated inside a scope, filled through it, released when the scope ends."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from clquant.runtime.device.limits import Limits
from clquant.runtime.driver_calls import driver_call
from clquant.runtime.errors import DeviceMemoryError, device_errors
from clquant.runtime.memory.buffer_pool import BUFFER_POOL, MOST_SHARE, MOST_SHARE_OF_HOST, BufferPool
from clquant.runtime.memory.buffer_pool import SMALLEST as SMALLEST_KEPT
from clquant.runtime.transfer.copy import Upload, drop_arrived, marker, order_commands, sent_in_turn

# Zero-copy of a host array needs this alignment on the drivers that have it at all (Intel's guide: a page).
HOST_ALIGNMENT = 64
# Alignment that CPUs need: no kernel reads an array in larger pieces, and NumPy's arrays begin at multiples of it.
CPU_ALIGNMENT = 16
PAGE = 4096
SMALL_BYTES = 1 << 20
# If host and device share memory, arrays up to this size are copied as their buffer is made: a copy through the queue
# of 4 bytes takes as long.
FILLED_BYTES = 1 << 16


def allocate(context: cl.Context, flags: int, nbytes: int, hostbuf: Any = None) -> cl.Buffer:
    """The one place where device memory is asked for (tests inject failures here)."""
    with device_errors(f"allocating {nbytes} bytes"):
        if hostbuf is not None:
            return cl.Buffer(context, flags, hostbuf=hostbuf)
        return cl.Buffer(context, flags, size=nbytes)


class Scope:
    """Buffers that live as long as a ``with`` block; OpenCL keeps each alive until queued work is done with it."""

    def __init__(self, queue: cl.CommandQueue, limits: Limits) -> None:
        self._queue = queue
        self._limits = limits
        self._buffers: list[cl.Buffer] = []  # these are released
        self._recyclable: list[tuple[cl.Buffer, int]] = []  # these are kept, by their bytes
        self._uploads: list[Upload] = []
        self._elsewhere: cl.Event | None = None
        self._endings: list[Callable[[], None]] = []

    def at_end(self, call: Callable[[], None]) -> None:
        """Call something when the scope ends."""
        self._endings.append(call)

    def used_until(self, event: cl.Event) -> None:
        """Let buffers serve again only when a command of another queue is over, which is the last that uses them."""
        self._elsewhere = event

    def __enter__(self) -> Scope:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for upload in self._uploads:
            upload.wait()
        if kind is not None or any(buffer.hostbuf is not None for buffer in self._buffers):
            # Queued work may still read host arrays that the caller is free to change or drop after this.
            with contextlib.suppress(cl.Error), driver_call():
                self._queue.finish()
        if kind is not None or not self._recycle():
            self._buffers.extend(buffer for buffer, _ in self._recyclable)
        for buffer in self._buffers:
            buffer.release()
        if kind is not None and issubclass(kind, DeviceMemoryError):
            BUFFER_POOL.clear()  # some drivers find memory short only at its first use, too late for `empty`
        self._buffers.clear()
        self._recyclable.clear()
        self._uploads.clear()
        drop_arrived()
        while self._endings:
            self._endings.pop()()

    def _recycle(self) -> bool:
        """Keep the buffers that may be kept for the next job, if it is known when their last use is over."""
        # A copy on another queue that nothing here waits for may still be under way.
        if not self._recyclable or not all(upload.ordered for upload in self._uploads):
            return False
        used: cl.Event | bool
        if self._elsewhere is not None:
            used = self._elsewhere
        elif self._limits.unified_memory:
            used = True  # no other queue ever writes to them
        elif all(sent_in_turn(nbytes, self._limits) for _, nbytes in self._recyclable):
            used = False  # no other queue asks for such small ones, and a marker takes a few microseconds
        else:
            try:
                used = marker(self._queue)
            except cl.Error:
                return False
        share = MOST_SHARE_OF_HOST if self._limits.unified_memory else MOST_SHARE
        bound = self._limits.global_memory // share
        BUFFER_POOL.keep(self._queue, self._recyclable, bound, used, self._elsewhere is not None)
        return True

    def _allocate(self, flags: int, nbytes: int, hostbuf: Any = None) -> cl.Buffer:
        if nbytes > self._limits.max_alloc:
            raise DeviceMemoryError(
                f"a buffer of {nbytes} bytes is over the device's limit of {self._limits.max_alloc} bytes"
            )
        if self._limits.is_pocl and hostbuf is None:
            # Else PoCL takes the memory at the first use, and a kernel that finds none ends the process.
            flags |= cl.mem_flags.ALLOC_HOST_PTR
        return allocate(self._queue.context, flags, nbytes, hostbuf)

    def _keep(self, flags: int, nbytes: int, hostbuf: Any = None) -> cl.Buffer:
        buffer = self._allocate(flags, nbytes, hostbuf)
        self._buffers.append(buffer)
        return buffer

    def empty(self, nbytes: int, idle: bool = False) -> cl.Buffer:
        """Allocate an uninitialized buffer of at least `nbytes` bytes (one byte if `nbytes` is 0).

        idle: one that other queues may write to at once.
        """
        wanted = max(int(nbytes), 1)
        small = wanted < SMALLEST_KEPT and self._limits.unified_memory
        if not small and wanted <= self._limits.max_alloc:
            wanted = min(BufferPool.rounded(wanted), self._limits.max_alloc)
        buffer = None if small else BUFFER_POOL.take(self._queue, wanted, idle)
        if buffer is None:
            try:
                buffer = self._allocate(cl.mem_flags.READ_WRITE, wanted)
            except DeviceMemoryError:
                if wanted > self._limits.max_alloc:
                    raise
                buffer = self._allocate_after_release(wanted)
        if small:
            self._buffers.append(buffer)
        else:
            self._recyclable.append((buffer, wanted))
        return buffer

    def room_for(self, array: npt.NDArray[Any]) -> cl.Buffer:
        """Allocate a buffer that an array, or bands of it, may be copied to by `begin_upload`."""
        return self.empty(array.nbytes, not sent_in_turn(array.nbytes, self._limits))

    def _allocate_after_release(self, nbytes: int) -> cl.Buffer:
        """Allocate when the last use of what is released is over."""
        with device_errors("waiting for memory"):
            self._queue.finish()
        BUFFER_POOL.clear()
        return self._allocate(cl.mem_flags.READ_WRITE, nbytes)

    def zeros(self, nbytes: int) -> cl.Buffer:
        """Allocate a buffer of zero bytes."""
        if self._limits.unified_memory and nbytes <= FILLED_BYTES:
            return self.copy_of(np.zeros(max(int(nbytes), 1), np.uint8))
        buffer = self.empty(nbytes)
        with device_errors("clearing a buffer"):
            cl.enqueue_fill_buffer(self._queue, buffer, np.zeros(1, np.uint8), 0, max(int(nbytes), 1))
        order_commands(self._queue)
        return buffer

    def upload(self, array: npt.NDArray[Any]) -> cl.Buffer:
        """Make a read-only buffer of, or around, a C-contiguous array, which must not change before the scope ends."""
        if array.size == 0:
            return self.empty(1)
        if self._limits.unified_memory and array.nbytes <= SMALL_BYTES:
            # Copied here if need be: a small copy through the queue takes far longer.
            array = aligned(array, CPU_ALIGNMENT if self._limits.is_cpu else HOST_ALIGNMENT)
        wrapped = self.wrapped(array)
        return self.copy_of(array) if wrapped is None else wrapped

    def wrapped(self, array: npt.NDArray[Any]) -> cl.Buffer | None:
        """Wrap an array's memory in a read-only buffer; None if host and device do not share it."""
        alignment = CPU_ALIGNMENT if self._limits.is_cpu else HOST_ALIGNMENT
        if not self._limits.unified_memory or array.ctypes.data % alignment:
            return None
        return self._keep(cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR, array.nbytes, array)

    def around(self, array: npt.NDArray[Any]) -> cl.Buffer:
        """Wrap an aligned array's memory in a writable buffer; the array is valid once the buffer was mapped."""
        return self._keep(cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, array.nbytes, array)

    def copy_of(self, array: npt.NDArray[Any]) -> cl.Buffer:
        """Make a writable buffer with a copy of a C-contiguous array, which must not change before the scope ends."""
        if self._limits.unified_memory and 0 < array.nbytes <= FILLED_BYTES:
            with contextlib.suppress(DeviceMemoryError):  # below, memory is waited for
                return self._keep(cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, array.nbytes, array)
        buffer = self.room_for(array)
        self.begin_upload(buffer, array, 0).order()
        return buffer

    def begin_upload(self, buffer: cl.Buffer, array: npt.NDArray[Any], offset: int) -> Upload:
        """Begin to copy a host array into a buffer of `room_for`, `offset` bytes into it.

        The array must not change before the scope ends, which waits for the copy.
        """
        upload = Upload(self._queue, self._limits, buffer, array, offset, idle=True)
        self._uploads.append(upload)
        return upload


def aligned(array: npt.NDArray[Any], alignment: int = HOST_ALIGNMENT) -> npt.NDArray[Any]:
    """A C-contiguous array itself, or a copy of it, that begins at a multiple of so many bytes."""
    if array.ctypes.data % alignment == 0:
        return array
    copy = aligned_empty(array.shape, array.dtype, alignment)
    copy[...] = array
    return copy


def aligned_empty(shape: tuple[int, ...], dtype: npt.DTypeLike, alignment: int) -> npt.NDArray[Any]:
    """A new C-contiguous array that begins at a multiple of `alignment` bytes."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(nbytes + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + nbytes].view(dtype).reshape(shape)
