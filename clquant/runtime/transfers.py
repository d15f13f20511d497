"""Copies between host arrays and buffers: directly, through pinned staging, or by the driver, whichever is fastest."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from clquant.runtime.errors import device_errors
from clquant.runtime.limits import Limits
from clquant.runtime.pinned import pinned_pool
from clquant.runtime.profiling import profiled, record
from clquant.runtime.staging import SMALLEST, SMALLEST_DOWN, StagedUpload, as_bytes, staging

# Arrays up to this size are copied to devices with memory of their own without waiting for the end of the copy.
UNAWAITED_BYTES = 1 << 16


class Upload:
    """A copy of a C-contiguous host array into a buffer at a byte offset, begun at once.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        The job's own.
    limits : Limits
    buffer : pyopencl.Buffer
    array : ndarray
        It must not change before `wait` has returned.
    offset : int
        Bytes into the buffer.
    idle : bool
        Whether no queued command uses these bytes of the buffer, so that they may be written at once.

    Raises
    ------
    DeviceMemoryError, DeviceError
        If the device fails.
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        limits: Limits,
        buffer: cl.Buffer,
        array: npt.NDArray[Any],
        offset: int = 0,
        idle: bool = False,
    ) -> None:
        self._queue = queue
        self._direct: cl.Event | None = None
        self._staged: StagedUpload | None = None
        with device_errors("copying to the device"):
            if limits.unified_memory or array.nbytes <= UNAWAITED_BYTES or profiled():
                self._plain(buffer, array, offset)
                return
            pinned = pinned_pool(queue.context, queue.device)
            stager = None
            if pinned.holds(array):
                self._direct = cl.enqueue_copy(
                    pinned.uploads, buffer, array, dst_offset=offset, is_blocking=False, wait_for=_before(queue, idle)
                )
                pinned.uploads.flush()
                return
            if array.nbytes >= SMALLEST:
                stager = staging(queue.context, queue.device)
            if stager is None:
                self._plain(buffer, array, offset)
            else:
                self._staged = stager.begin_upload(buffer, as_bytes(array), offset, _before(queue, idle))

    def _plain(self, buffer: cl.Buffer, array: npt.NDArray[Any], offset: int) -> None:
        if array.size:
            event = cl.enqueue_copy(self._queue, buffer, array, dst_offset=offset, is_blocking=True)
            order_commands(self._queue)
            record("upload", False, event)

    def order(self) -> None:
        """Make what is queued from now on wait for the copy.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If the device failed.
        """
        with device_errors("copying to the device"):
            if self._direct is not None:
                cl.enqueue_barrier(self._queue, wait_for=[self._direct])
            elif self._staged is not None:
                cl.enqueue_barrier(self._queue, wait_for=self._staged.events())

    def wait(self) -> None:
        """Wait until the array is free to change, whether or not the copy succeeded."""
        if self._direct is not None:
            with contextlib.suppress(cl.Error):
                self._direct.wait()
        elif self._staged is not None:
            self._staged.wait()


def read_buffer(
    queue: cl.CommandQueue, limits: Limits, array: npt.NDArray[Any], buffer: cl.Buffer, offset: int = 0
) -> None:
    """Copy a buffer's bytes from an offset into a C-contiguous host array, after everything queued before.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    limits : Limits
    array : ndarray
    buffer : pyopencl.Buffer
    offset : int
        Bytes into the buffer.

    Raises
    ------
    DeviceMemoryError, DeviceError
        If the device fails, in this copy or in what was queued before it.
    """
    if not array.size:
        return
    with device_errors("copying from the device"):
        if array.nbytes >= min(SMALLEST, SMALLEST_DOWN) and not limits.unified_memory and not profiled():
            pinned = pinned_pool(queue.context, queue.device).holds(array)
            stager = None if pinned else staging(queue.context, queue.device)
            if stager is not None:
                stager.download(as_bytes(array), buffer, offset, [marker(queue)])
                return
        event = cl.enqueue_copy(queue, array, buffer, src_offset=offset, is_blocking=True)
    record("download", False, event)


def read_buffer_later(
    queue: cl.CommandQueue, array: npt.NDArray[Any], buffer: cl.Buffer, offset: int
) -> cl.Event | None:
    """As `read_buffer` into a page-locked array, without waiting and without holding up what is queued later.

    Returns
    -------
    pyopencl.Event or None
        Of another queue: over when the array is filled, until when the buffer must not be written. It keeps the array.
        None where there was nothing to copy.
    """
    if not array.size:
        return None
    downloads = pinned_pool(queue.context, queue.device).downloads
    with device_errors("copying from the device"):
        after = [marker(queue)]
        event = cl.enqueue_copy(downloads, array, buffer, src_offset=offset, is_blocking=False, wait_for=after)
        downloads.flush()
    return event


def new_host_array(
    queue: cl.CommandQueue, limits: Limits, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> tuple[npt.NDArray[Any], bool]:
    """A new array for what a device computed, and whether it is page-locked; its content is not defined.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    limits : Limits
    shape : tuple of int
    dtype : dtype_like
    """
    if not limits.unified_memory and math.prod(shape) * np.dtype(dtype).itemsize >= SMALLEST_DOWN:
        array = pinned_pool(queue.context, queue.device).result(shape, dtype)
        if array is not None:
            return array, True
    return np.empty(shape, dtype), False


def _before(queue: cl.CommandQueue, idle: bool) -> list[cl.Event]:
    """What a write from another queue waits for."""
    return [] if idle else [marker(queue)]


def marker(queue: cl.CommandQueue) -> cl.Event:
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
