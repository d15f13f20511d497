"""One command queue and what an engine needs around it: programs, launches, memory, limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl
import pyopencl.array

from clquant.runtime.device.limits import Limits
from clquant.runtime.errors import DeviceError, device_errors
from clquant.runtime.launch import PreparedLaunch, Shape, nd_range, set_arguments
from clquant.runtime.memory.pinned import pinned_pool
from clquant.runtime.memory.scope import Scope
from clquant.runtime.profiling import record
from clquant.runtime.program import tuning, variants
from clquant.runtime.program.kernel import Kernel
from clquant.runtime.program.programs import PROGRAMS, Program
from clquant.runtime.transfer.copy import (
    Upload,
    marker,
    new_host_array,
    order_commands,
    read_buffer,
    read_buffer_later,
    read_buffers,
)

LocalMemory = cl.LocalMemory


class Session:
    """What an engine works with while one of its methods runs.

    It holds no state between calls, so any number may share a queue and threads may each open their own.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        In-order or out-of-order; on the latter every command waits for the one before.
    like : pyopencl.array.Array, optional
        Device results get its class and its own attributes.

    Raises
    ------
    DeviceError
        If the queue's context is gone: some runtimes (Intel's for CPUs) do not keep it for the queue.
    """

    def __init__(self, queue: cl.CommandQueue, like: pyopencl.array.Array | None = None) -> None:
        self.queue = queue
        self._like = like
        try:
            self.context: cl.Context = queue.context
        except cl.Error as error:
            raise DeviceError(
                f"queue has lost its context ({error}); keep the pyopencl.Context while it is used"
            ) from error
        self.device: cl.Device = queue.device
        self.limits = Limits.of(queue.device)

    def program(self, file: str, **constants: int | str) -> Program:
        """The program of a kernel file in `cl/`, built at its first use in this context.

        Parameters
        ----------
        **constants : int or str
            Become `#define`s in front of the source.

        Raises
        ------
        BuildError
            With the driver's whole log.
        """
        return PROGRAMS.get(self.context, self.device, file, constants)

    def choose(self, table: Sequence[variants.Variant]) -> variants.Variant:
        """The form of a kernel that this device takes (see `clquant.runtime.program.variants.choose`).

        Raises
        ------
        InvalidArgument
            If a form is forced that the device does not admit.
        """
        return variants.choose(table, self.limits)

    def tuned(self, name: str) -> int:
        """A tunable number for this device (see `clquant.runtime.program.tuning`)."""
        return tuning.value(self.device, self.limits, name)

    def scope(self) -> Scope:
        """Device memory that lives as long as the ``with`` block around it."""
        return Scope(self.queue, self.limits)

    def work_group_size(self, kernel: Kernel, wanted: int, local_bytes_per_item: int = 0) -> int:
        """The largest power of two up to `wanted` that the compiled kernel and the device admit.

        Parameters
        ----------
        local_bytes_per_item : int
            Local memory passed as an argument, per work-item.

        Returns
        -------
        int
            At least 1.
        """
        most = min(wanted, kernel.work_group(self.device), self.limits.work_group)
        if local_bytes_per_item:
            free = self.limits.local_memory - kernel.local_memory(self.device)
            most = min(most, free // local_bytes_per_item)
        return 1 << (max(most, 1).bit_length() - 1)

    def launch(
        self,
        kernel: Kernel,
        global_size: Shape,
        local_size: Shape | None,
        /,
        *args: Any,
        **named: Any,
    ) -> cl.Event:
        """Queue a kernel.

        Parameters
        ----------
        global_size : int or tuple of int
            Work-items per dimension; rounded up to a multiple of `local_size`, so kernels guard their work.
        local_size : int, tuple of int or None
            None leaves it to the driver.
        *args
            Buffers, NumPy scalars and `LocalMemory` that the kernel's signature begins with.
        **named
            The kernel's other arguments by their names in its signature.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If the device refuses or fails, or the kernel takes other arguments.
        """
        sizes, groups = nd_range(self.limits, kernel, global_size, local_size)
        native = kernel.native()
        given = kernel.in_order(args, named) if named else args
        with device_errors(f"kernel {kernel.name}"):
            set_arguments(native, given)
            event = cl.enqueue_nd_range_kernel(self.queue, native, sizes, groups)
            order_commands(self.queue)
        record(kernel.name, True, event)
        return event

    def prepare(
        self, scope: Scope, kernel: Kernel, global_size: Shape, local_size: Shape | None, /, *args: Any, **named: Any
    ) -> PreparedLaunch:
        """A launch with its arguments set, to be queued again and again while a scope lasts; else as `launch`.

        Raises
        ------
        DeviceError
            If the device refuses the arguments.
        """
        sizes, groups = nd_range(self.limits, kernel, global_size, local_size)
        given = kernel.in_order(args, named) if named else args
        return PreparedLaunch(scope, self.queue, kernel, sizes, groups, given)

    def copy(
        self,
        target: cl.Buffer,
        source: cl.Buffer,
        nbytes: int,
        source_offset: int = 0,
        target_offset: int = 0,
    ) -> cl.Event:
        """Queue a copy between two buffers.

        Parameters
        ----------
        nbytes, source_offset, target_offset : int
            In bytes.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If the device refuses.
        """
        with device_errors("copying between buffers"):
            event = cl.enqueue_copy(
                self.queue,
                target,
                source,
                byte_count=nbytes,
                src_offset=source_offset,
                dst_offset=target_offset,
            )
            order_commands(self.queue)
        record("copy on the device", True, event)
        return event

    def fill(self, buffer: cl.Buffer, pattern: npt.NDArray[Any] | np.generic, nbytes: int, offset: int = 0) -> cl.Event:
        """Queue a fill of part of a buffer with a repeated pattern.

        Parameters
        ----------
        pattern : NumPy scalar or ndarray
            1, 2, 4, 8 or 16 bytes.
        nbytes, offset : int
            In bytes, multiples of the pattern's.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If the device refuses.
        """
        with device_errors("filling a buffer"):
            event = cl.enqueue_fill_buffer(self.queue, buffer, np.asarray(pattern), offset, nbytes)
            order_commands(self.queue)
        record("fill", True, event)
        return event

    def write(self, buffer: cl.Buffer, array: npt.NDArray[Any], offset: int = 0) -> None:
        """Copy a host array into a buffer; the array is free to change afterwards.

        Parameters
        ----------
        array : ndarray
            C-contiguous.
        offset : int
            Bytes into the buffer.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If the device refuses.
        """
        upload = Upload(self.queue, self.limits, buffer, array, offset)
        try:
            upload.order()
        finally:
            upload.wait()

    def is_pinned(self, array: npt.NDArray[Any]) -> bool:
        """Whether the device copies from a C-contiguous host array directly (see `clquant.runtime.memory.pinned`)."""
        return not self.limits.unified_memory and pinned_pool(self.context, self.device).holds(array)

    def download(self, buffer: cl.Buffer, shape: Shape, dtype: npt.DTypeLike, offset: int = 0) -> npt.NDArray[Any]:
        """A host array with a buffer's content; waits for everything queued before.

        Parameters
        ----------
        offset : int
            Bytes into the buffer.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If the device fails, in this copy or in what was queued before it.
        """
        sizes = (shape,) if isinstance(shape, int | np.integer) else shape
        array, _ = new_host_array(self.queue, self.limits, sizes, dtype)
        self.download_into(array, buffer, offset)
        return array

    def download_into(self, array: npt.NDArray[Any], buffer: cl.Buffer, offset: int = 0) -> None:
        """Copy a buffer's bytes into a C-contiguous host array (see `download`).

        Parameters
        ----------
        offset : int
            Bytes into the buffer.

        Raises
        ------
        DeviceMemoryError, DeviceError
            As `download`.
        """
        read_buffer(self.queue, self.limits, array, buffer, offset)

    def download_all(self, wanted: Sequence[tuple[cl.Buffer, Shape, npt.DTypeLike]]) -> list[npt.NDArray[Any]]:
        """Several host arrays as by `download`; where host and device share memory, all are waited for at once.

        Raises
        ------
        DeviceMemoryError, DeviceError
            As `download`.
        """
        if not self.limits.unified_memory:
            return [self.download(*each) for each in wanted]
        arrays = [np.empty(shape, dtype) for _, shape, dtype in wanted]
        read_buffers(self.queue, arrays, [buffer for buffer, _, _ in wanted])
        return arrays

    def download_later(
        self, scope: Scope, array: npt.NDArray[Any], buffer: cl.Buffer, offset: int = 0
    ) -> cl.Event | None:
        """As `download_into`, without waiting and without holding up what is queued later.

        Parameters
        ----------
        scope : Scope
            The buffer's; nothing else in it is used after this.
        array : ndarray
            In page-locked memory.
        offset : int
            Bytes into the buffer.

        Returns
        -------
        pyopencl.Event or None
            Over when the array is filled; it keeps the array. None where nothing was to be copied.

        Raises
        ------
        DeviceMemoryError, DeviceError
            As `download`.
        """
        event = read_buffer_later(self.queue, array, buffer, offset)
        if event is not None:
            scope.used_until(event)
        return event

    def new_array(self, shape: Shape, dtype: npt.DTypeLike) -> pyopencl.array.Array:
        """A device array on this queue that the caller owns: what device input gives back, of the input's class.

        Raises
        ------
        DeviceMemoryError
            If memory is short.
        """
        with device_errors("allocating a device array"):
            array = pyopencl.array.empty(self.queue, shape, np.dtype(dtype))
        if self._like is None or type(self._like) is type(array):
            return array
        made: pyopencl.array.Array = object.__new__(type(self._like))  # its constructor may take other arguments
        vars(made).update({**vars(self._like), **vars(array)})
        return made

    def hand_over(self, array: pyopencl.array.Array) -> pyopencl.array.Array:
        """A device array as a result: its event is over when all is that was queued so far.

        So PyOpenCL waits for it where the array is used on another queue.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If the device fails.
        """
        with device_errors("ending a device array"):
            array.add_event(marker(self.queue))
        return array

    def finish(self) -> None:
        """Wait until all that was queued is done.

        Raises
        ------
        DeviceMemoryError, DeviceError
            If any of it failed.
        """
        with device_errors("waiting for the queue"):
            self.queue.finish()
