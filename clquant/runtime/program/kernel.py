"""A kernel of a built program: its arguments by name, and a `pyopencl.Kernel` for each thread."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyopencl as cl

from clquant.runtime.errors import DeviceError, device_errors
from clquant.runtime.program.caches import avoid_unwritable_caches, damaged_cache, with_any_cache


def argument_names(kernel: cl.Kernel) -> list[str]:
    """The names of a kernel's arguments, in order; its program was built from source with ``-cl-kernel-arg-info``."""
    with device_errors(f"asking about kernel {kernel.function_name}"):
        names = [cast(str, kernel.get_arg_info(place, cl.kernel_arg_info.NAME)) for place in range(kernel.num_args)]
    # PoCL puts this before every word that is also a built-in function, such as `step`.
    return [name.removeprefix("_cl_") for name in names]


class Kernel:
    """A kernel of a built program, safe to use from several threads (each gets its own `cl.Kernel`)."""

    def __init__(self, program: cl.Program, name: str, arguments: Sequence[str] | None = None) -> None:
        self.name = name
        self._arguments = arguments  # their names, where the driver does not tell: of programs that were no source
        self._places: dict[str, int] | None = None
        self._orders: dict[tuple[Any, ...], Callable[[Sequence[Any]], Sequence[Any]]] = {}
        self._program = program
        self._threads = threading.local()
        self._group_info: dict[tuple[int, int], int] = {}
        self._spare: list[cl.Kernel] = []
        self.native()  # an unknown name fails here, not at the first launch

    def place(self, argument: str) -> int:
        """Return the place of an argument in the kernel's signature."""
        places = self._places or self._signature()
        if argument not in places:
            raise DeviceError(f"kernel {self.name} has no argument {argument!r}; it has {', '.join(places)}")
        return places[argument]

    def among(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that the kernel takes, out of more by their names."""
        return {name: known[name] for name in self._signature()}

    def _signature(self) -> dict[str, int]:
        if self._places is None:
            names = argument_names(self.native()) if self._arguments is None else self._arguments
            self._places = {name: place for place, name in enumerate(names)}
        return self._places

    def in_order(self, first: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """Order arguments as in the kernel's signature: the first by place, the others by name."""
        key = (len(first), *named)
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = self._order(len(first), list(named))
        return order((*first, *named.values()))

    def _order(self, first: int, names: list[str]) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """Return a function that orders arguments given `first` by place and then by `names`."""
        places = [*range(first), *map(self.place, names)]
        if sorted(places) != list(range(len(self._places or ()))):
            has = ", ".join(self._places or ())
            raise DeviceError(f"kernel {self.name} takes {has}; given are {first} by place, and {', '.join(names)}")
        return operator.itemgetter(*np.argsort(places).tolist()) if len(places) > 1 else tuple

    def native(self) -> cl.Kernel:
        """Return this thread's `pyopencl.Kernel`; setting arguments on a shared one is undefined in OpenCL."""
        if not hasattr(self._threads, "kernel"):
            self._threads.kernel = self._made()
        kernel: cl.Kernel = self._threads.kernel
        return kernel

    def fresh(self) -> cl.Kernel:
        """A `pyopencl.Kernel` of the caller's own, which keeps the arguments that are set; `give_back` it afterwards.

        Making one takes PyOpenCL 0.2 ms (measured), so those given back are used again.
        """
        try:
            return self._spare.pop()
        except IndexError:
            return self._made()

    def give_back(self, kernel: cl.Kernel) -> None:
        """Return a kernel of `fresh` that its owner no longer uses."""
        self._spare.append(kernel)

    def _made(self) -> cl.Kernel:
        avoid_unwritable_caches()
        try:
            return with_any_cache(lambda: cl.Kernel(self._program, self.name))
        except cl.Error as error:
            raise DeviceError(f"kernel {self.name!r}: {error}{damaged_cache(self._program, error)}") from error

    def work_group(self, device: cl.Device) -> int:
        """Most work-items in a group that this compiled kernel admits on a device."""
        return self._info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)

    def local_memory(self, device: cl.Device) -> int:
        """Bytes of local memory that this kernel declares itself."""
        return self._info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)

    def _info(self, what: int, device: cl.Device) -> int:
        key = what, device.int_ptr
        if key not in self._group_info:
            with device_errors(f"asking about kernel {self.name}"):
                self._group_info[key] = int(cast(int, self.native().get_work_group_info(what, device)))
        return self._group_info[key]
