"""NDRanges, setting kernels' arguments, and launches whose arguments are set once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from clquant.runtime.device.limits import Limits
from clquant.runtime.errors import DeviceError, device_error, device_errors
from clquant.runtime.memory.scope import Scope
from clquant.runtime.profiling import record
from clquant.runtime.program.kernel import Kernel
from clquant.runtime.transfer.copy import is_out_of_order, order_commands

Shape = int | tuple[int, ...]
_INTEGERS, _VALUES = (int, np.integer), (np.generic, np.ndarray)


class PreparedLaunch:
    """A kernel with its arguments set: where one is launched hundreds of times, setting them takes longest.

    It belongs to the thread that made it, and ends with its scope.
    """

    def __init__(
        self,
        scope: Scope,
        queue: cl.CommandQueue,
        kernel: Kernel,
        sizes: tuple[int, ...],
        groups: tuple[int, ...] | None,
        args: Sequence[Any],
    ) -> None:
        self._queue = queue
        self._kernel = kernel
        self._name = kernel.name
        self._sizes = sizes
        self._groups = groups
        self._args = tuple(args)
        self._ordered = not is_out_of_order(queue)
        self._native = kernel.fresh()
        scope.at_end(lambda: kernel.give_back(self._native))
        with device_errors(f"kernel {kernel.name}"):
            set_arguments(self._native, self._args)

    def set(self, /, **arguments: Any) -> None:
        """Set arguments by their names for what is queued from now on: NumPy scalars or arrays of the exact types."""
        try:
            for name, arg in arguments.items():
                set_arguments(self._native, (arg,), self._kernel.place(name))
        except cl.Error as error:
            raise device_error(error, f"kernel {self._name}") from error

    def queue(self, groups: int | None = None) -> None:
        """Queue the kernel, with other work-groups along its one dimension if `groups` says how many."""
        sizes = self._sizes
        if groups is not None and self._groups is not None:
            sizes = (groups * self._groups[0],)
        try:
            event = cl.enqueue_nd_range_kernel(self._queue, self._native, sizes, self._groups)
            if not self._ordered:
                order_commands(self._queue)
        except cl.Error as error:
            raise device_error(error, f"kernel {self._name}") from error
        record(self._name, True, event)


def nd_range(
    limits: Limits, kernel: Kernel, global_size: Shape, local_size: Shape | None
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Round the work-items of each dimension up to whole work-groups; `local_size` None leaves those to the driver."""
    sizes = (global_size,) if isinstance(global_size, _INTEGERS) else global_size
    if local_size is None:
        return sizes, None
    groups = (local_size,) if isinstance(local_size, _INTEGERS) else local_size
    if math.prod(groups) > limits.work_group:
        raise DeviceError(f"{kernel.name}: a work-group of {groups} is over the limit of {limits.work_group}")
    return tuple(-(-int(s) // int(g)) * int(g) for s, g in zip(sizes, groups, strict=True)), groups


def set_arguments(kernel: cl.Kernel, args: Sequence[Any], first: int = 0) -> None:
    """Set a kernel's arguments one by one, from the first's place on.

    PyOpenCL's `set_args` generates code and keeps it in a database in the home folder, and its `set_arg` takes 26
    microseconds for a NumPy scalar or vector (measured), twenty times the call underneath it, which is used where it
    exists.
    """
    set_bytes = getattr(kernel, "_set_arg_buf", kernel.set_arg)
    for index, arg in enumerate(args, first):
        if isinstance(arg, _VALUES):
            set_bytes(index, arg)
        else:
            kernel.set_arg(index, arg)
