"""One command queue and what an engine needs around it: programs, launches, memory, limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from clquant.runtime.transfer.copy import Upload, marker, new_host_array, order_commands, read_buffer


class Session:
    """A queue with its device's limits, programs and launches, while one method of an engine runs.

    It holds no state between calls, so any number may share a queue and threads may each open their own.
    """

    def __init__(self, queue: cl.CommandQueue, like: pyopencl.array.Array | None = None) -> None:
        self.queue = queue
        self._like = like
        try:
            self.context: cl.Context = queue.context
        except cl.Error as error:
            keep = "keep the pyopencl.Context while it is used"
            raise DeviceError(f"queue has lost its context ({error}); {keep}") from error
        self.device: cl.Device = queue.device
        self.limits = Limits.of(queue.device)

    def program(self, file: str, **constants: int | str) -> Program:
        """Return the program of a file in `cl/` with `constants` as macros, built at its first use in this context."""
        return PROGRAMS.get(self.context, self.device, file, constants)

    def choose(self, table: Sequence[variants.Variant]) -> variants.Variant:
        """Choose the form of a kernel for this device (see `clquant.runtime.program.variants.choose`)."""
        return variants.choose(table, self.limits)

    def tuned(self, name: str) -> int:
        """Return a tuned number for this device (see `clquant.runtime.program.tuning`)."""
        return tuning.value(self.device, self.limits, name)

    def scope(self) -> Scope:
        """Open a scope of device memory, for a ``with`` block."""
        return Scope(self.queue, self.limits)

    def work_group_size(self, kernel: Kernel, wanted: int, local_bytes_per_item: int = 0) -> int:
        """Return the largest work-group, a power of two up to `wanted`, that kernel and device admit; at least 1."""
        most = min(wanted, kernel.work_group(self.device), self.limits.work_group)
        if local_bytes_per_item:
            free = self.limits.local_memory - kernel.local_memory(self.device)
            most = min(most, free // local_bytes_per_item)
        return 1 << (max(most, 1).bit_length() - 1)

    def kernel_for_group(self, wanted: int, build: Callable[[int], Kernel]) -> tuple[Kernel, int]:
        """Build a kernel for its work-group: the largest power of two up to `wanted` that the device admits for it."""
        local = 1 << (min(wanted, self.limits.work_group).bit_length() - 1)
        while True:
            kernel = build(local)
            most = self.work_group_size(kernel, local)
            if most == local:
                return kernel, local
            local = most

    def launch(
        self, kernel: Kernel, global_size: Shape, local_size: Shape | None, /, *args: Any, **named: Any
    ) -> cl.Event:
        """Queue a kernel; `global_size` is rounded up to a multiple of `local_size`, which None leaves to the driver.

        Arguments are buffers, NumPy scalars and `LocalMemory`: the first by place, others by the signature's names.
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
        """Set a kernel's arguments once, to queue it many times while a scope lasts; arguments as in `launch`."""
        sizes, groups = nd_range(self.limits, kernel, global_size, local_size)
        given = kernel.in_order(args, named) if named else args
        return PreparedLaunch(scope, self.queue, kernel, sizes, groups, given)

    def copy(
        self, target: cl.Buffer, source: cl.Buffer, nbytes: int, source_offset: int = 0, target_offset: int = 0
    ) -> cl.Event:
        """Queue a copy between two buffers; sizes in bytes."""
        offsets: Any = {"src_offset": source_offset, "dst_offset": target_offset}
        with device_errors("copying between buffers"):
            event: cl.Event = cl.enqueue_copy(self.queue, target, source, byte_count=nbytes, **offsets)
            order_commands(self.queue)
        record("copy on the device", True, event)
        return event

    def fill(self, buffer: cl.Buffer, pattern: npt.NDArray[Any] | np.generic, nbytes: int, offset: int = 0) -> cl.Event:
        """Queue a fill of `nbytes` bytes of a buffer with a repeated pattern of 1, 2, 4, 8 or 16 bytes."""
        with device_errors("filling a buffer"):
            event = cl.enqueue_fill_buffer(self.queue, buffer, np.asarray(pattern), offset, nbytes)
            order_commands(self.queue)
        record("fill", True, event)
        return event

    def write(self, buffer: cl.Buffer, array: npt.NDArray[Any], offset: int = 0) -> None:
        """Copy a C-contiguous host array into a buffer; the array is free to change afterwards."""
        upload = Upload(self.queue, self.limits, buffer, array, offset)
        try:
            upload.order()
        finally:
            upload.wait()

    def is_pinned(self, array: npt.NDArray[Any]) -> bool:
        """Whether the device copies from a C-contiguous host array directly (see `clquant.runtime.memory.pinned`)."""
        return not self.limits.unified_memory and pinned_pool(self.context, self.device).holds(array)

    def download(self, buffer: cl.Buffer, shape: Shape, dtype: npt.DTypeLike, offset: int = 0) -> npt.NDArray[Any]:
        """Download a buffer's content into a new host array; waits for everything queued before."""
        sizes = (shape,) if isinstance(shape, int | np.integer) else shape
        array, _ = new_host_array(self.queue, self.limits, sizes, dtype)
        self.download_into(array, buffer, offset)
        return array

    def download_into(self, array: npt.NDArray[Any], buffer: cl.Buffer, offset: int = 0) -> None:
        """Download a buffer's bytes into a C-contiguous host array; waits for everything queued before."""
        read_buffer(self.queue, self.limits, array, buffer, offset)

    def download_later(
        self, scope: Scope, array: npt.NDArray[Any], buffer: cl.Buffer, offset: int = 0
    ) -> cl.Event | None:
        """Begin to download a buffer into a page-locked array; what is queued later goes on.

        Nothing else in the buffer's scope is used after this. The event is over when the array, which it keeps, is
        filled; None if there was nothing to copy.
        """
        if not array.size:
            return None
        downloads = pinned_pool(self.context, self.device).downloads
        with device_errors("copying from the device"):
            after = [marker(self.queue)]
            event = cl.enqueue_copy(downloads, array, buffer, src_offset=offset, is_blocking=False, wait_for=after)
            downloads.flush()
        scope.used_until(event)
        return event

    def new_array(self, shape: Shape, dtype: npt.DTypeLike) -> pyopencl.array.Array:
        """Make a device array on this queue that the caller owns, of the class of the device input."""
        with device_errors("allocating a device array"):
            array = pyopencl.array.empty(self.queue, shape, np.dtype(dtype))
        if self._like is None or type(self._like) is type(array):
            return array
        made: pyopencl.array.Array = object.__new__(type(self._like))  # its constructor may take other arguments
        vars(made).update({**vars(self._like), **vars(array)})
        return made

    def hand_over(self, array: pyopencl.array.Array) -> pyopencl.array.Array:
        """A device array as a result: on another queue PyOpenCL waits for all that was queued so far."""
        with device_errors("ending a device array"):
            array.add_event(marker(self.queue))
        return array

    def finish(self) -> None:
        """Wait for everything queued."""
        with device_errors("waiting for the queue"):
            self.queue.finish()
