"""Copies between host arrays and buffers: directly, through pinned staging, or by the driver, whichever is fastest."""

from __future__ import annotations

import collections
import contextlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from clquant.runtime.device.limits import Limits
from clquant.runtime.driver_calls import driver_call
from clquant.runtime.errors import device_errors
from clquant.runtime.memory.pinned import pinned_pool
from clquant.runtime.profiling import profiled, record
from clquant.runtime.transfer.staging import SMALLEST, SMALLEST_DOWN, StagedUpload, as_bytes, staging

# Arrays up to this size are copied on the host first, and then to devices with memory of their own without waiting.
UNAWAITED_BYTES = 1 << 16
MOST_UNDER_WAY = 256  # of these
_COMPLETE = cl.command_execution_status.COMPLETE  # and below: commands that have ended, well or badly


def sent_in_turn(nbytes: int, limits: Limits) -> bool:
    """Whether so many bytes of the host are copied by the job's own queue, after what was queued there before."""
    return nbytes <= UNAWAITED_BYTES and not limits.unified_memory


class Upload:
    """A copy of a C-contiguous host array into a buffer at a byte offset, begun at once."""

    def __init__(
        self,
        queue: cl.CommandQueue,
        limits: Limits,
        buffer: cl.Buffer,
        array: npt.NDArray[Any],
        offset: int = 0,
        idle: bool = False,
    ) -> None:
        self.ordered = False  # whether what is queued from now on waits for the copy
        self._queue = queue
        self._direct: cl.Event | None = None
        self._staged: StagedUpload | None = None
        with device_errors("copying to the device"):
            if sent_in_turn(array.nbytes, limits):
                self._small(buffer, array, offset)
                return
            if limits.unified_memory or profiled():
                self._plain(buffer, array, offset)
                return
            pinned = pinned_pool(queue.context, queue.device)
            if pinned.holds(array):
                self._direct = cl.enqueue_copy(
                    pinned.uploads, buffer, array, dst_offset=offset, is_blocking=False, wait_for=_before(queue, idle)
                )
                pinned.uploads.flush()
                return
            stager = staging(queue.context, queue.device) if array.nbytes >= SMALLEST else None
            if stager is None:
                self._plain(buffer, array, offset)
            else:
                self._staged = stager.begin_upload(buffer, as_bytes(array), offset, _before(queue, idle))

    def _plain(self, buffer: cl.Buffer, array: npt.NDArray[Any], offset: int) -> None:
        self.ordered = True
        if array.size:
            event = cl.enqueue_copy(self._queue, buffer, array, dst_offset=offset, is_blocking=True)
            order_commands(self._queue)
            record("upload", False, event)

    def _small(self, buffer: cl.Buffer, array: npt.NDArray[Any], offset: int) -> None:
        self.ordered = True
        if array.size:
            event = cl.enqueue_copy(self._queue, buffer, array.copy(), dst_offset=offset, is_blocking=False)
            order_commands(self._queue)
            keep_until_over(event)
            drop_arrived()
            record("upload", False, event)

    def order(self) -> None:
        """Make everything queued from now on wait for the copy."""
        with device_errors("copying to the device"):
            if self._direct is not None:
                cl.enqueue_barrier(self._queue, wait_for=[self._direct])
            elif self._staged is not None:
                cl.enqueue_barrier(self._queue, wait_for=self._staged.events())
        self.ordered = True

    def wait(self) -> None:
        """Wait until the array is free to change, whether or not the copy succeeded."""
        if self._direct is not None:
            with contextlib.suppress(cl.Error), driver_call():
                self._direct.wait()
        elif self._staged is not None:
            self._staged.wait()


# Events of small copies, oldest first. Each keeps its array and, when it is dropped, waits for the copy: dropped too
# soon, it stops the host until all is over that was queued before.
_under_way: collections.deque[cl.Event] = collections.deque()


def keep_until_over(event: cl.Event) -> None:
    """Keep the event of a small copy, and its array, as long as dropping it would stop the host."""
    _under_way.append(event)


def drop_arrived() -> None:
    """Drop small arrays that have arrived, and the oldest beyond `MOST_UNDER_WAY`."""
    if not _under_way:
        return
    with contextlib.suppress(IndexError):  # another thread took the last
        while len(_under_way) > MOST_UNDER_WAY or _under_way[0].command_execution_status <= _COMPLETE:
            _under_way.popleft()


def read_buffer(
    queue: cl.CommandQueue, limits: Limits, array: npt.NDArray[Any], buffer: cl.Buffer, offset: int = 0
) -> None:
    """Do `Session.download_into` on its queue and with its limits."""
    if not array.size:
        return
    with device_errors("copying from the device"):
        if array.nbytes >= SMALLEST_DOWN and not limits.unified_memory and not profiled():
            pinned = pinned_pool(queue.context, queue.device).holds(array)
            stager = None if pinned else staging(queue.context, queue.device)
            if stager is not None:
                stager.download(as_bytes(array), buffer, offset, [marker(queue)])
                return
        event = cl.enqueue_copy(queue, array, buffer, src_offset=offset, is_blocking=True)
    record("download", False, event)


def new_host_array(
    queue: cl.CommandQueue, limits: Limits, shape: tuple[int, ...], dtype: npt.DTypeLike, smallest: int | None = None
) -> tuple[npt.NDArray[Any], bool]:
    """Make an uninitialized host array, page-locked from `smallest` bytes on; also returns whether it is."""
    least = SMALLEST_DOWN if smallest is None else smallest
    if not limits.unified_memory and math.prod(shape) * np.dtype(dtype).itemsize >= least:
        array = pinned_pool(queue.context, queue.device).result(shape, dtype)
        if array is not None:
            return array, True
    return np.empty(shape, dtype), False


def _before(queue: cl.CommandQueue, idle: bool) -> list[cl.Event]:
    """Return the events that a write from another queue waits for."""
    return [] if idle else [marker(queue)]


def marker(queue: cl.CommandQueue) -> cl.Event:
    """Queue a marker, over when everything queued so far is."""
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
