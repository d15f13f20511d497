"""Finding OpenCL devices: every device there is, the one a person names, and the default by a stated rule."""

from __future__ import annotations

import collections
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, cast

import pyopencl as cl

from clquant.runtime.device.fitness import defects, unfit, warn_if_unfit
from clquant.runtime.device.fork import check_process
from clquant.runtime.device.intel_package import registered
from clquant.runtime.errors import DeviceError, InvalidArgument, InvalidType, NoDeviceError, device_errors, text_of
from clquant.runtime.memory.pinned import CONTEXTS_KEPT
from clquant.runtime.program.caches import avoid_unwritable_caches

DEVICE_VARIABLE = "CLQUANT_DEVICE"

HOW_TO_GET_A_DRIVER = (
    "pip install 'pyopencl[pocl]' brings one for the processor on Linux x86-64, pip install intel-opencl-rt on Windows "
    "too; elsewhere install PoCL from the system's packages, or the OpenCL driver of the GPU's vendor"
)

_lock = threading.Lock()
_contexts: dict[int, cl.Context] = {}
# What no argument names, by the environment's names and the devices known as unfit.
_defaults: dict[tuple[Any, ...], tuple[cl.Context, cl.Device]] = {}
_per_thread = threading.local()
_Queues = collections.deque[cl.CommandQueue]
# By context, device and properties, the queues of ended threads for the next threads: what is kept for a queue's next
# job goes with the queue. With their context, as Intel's runtime does not keep it for a queue.
_idle_queues: collections.OrderedDict[tuple[int, int, int], tuple[cl.Context, _Queues]] = collections.OrderedDict()


class _Lease:
    """A thread's hold on a queue; dropped, the queue is free for the next thread."""

    def __init__(self, context: cl.Context, queue: cl.CommandQueue, idle: _Queues) -> None:
        self._context, self.queue = context, queue
        weakref.finalize(self, idle.append, queue).atexit = False


def _rank(device: cl.Device) -> tuple[int, int]:
    kind = device.type
    order = 0 if kind & cl.device_type.GPU else 1 if kind & cl.device_type.ACCELERATOR else 2
    if is_simulator(device):
        order = 3  # a simulator: thousands of times slower, never chosen by itself
    return order, -device.max_compute_units


def is_simulator(device: cl.Device) -> bool:
    """Whether a device is a simulator, thousands of times slower than others."""
    return "oclgrind" in device.platform.name.lower()


def list_devices() -> list[cl.Device]:
    """Every usable OpenCL device, best first.

    Returns
    -------
    list of pyopencl.Device
        GPUs, then accelerators, then CPUs, then simulators; more compute units first, the driver's order
        among equals; those that `clquant devices --check` found unfit after all others. Empty where there is no driver.

    Raises
    ------
    DeviceError
        In a process forked after OpenCL was used: drivers may hang there.
    """
    check_process()
    avoid_unwritable_caches()
    found: list[cl.Device] = []
    try:
        with registered():
            platforms = cl.get_platforms()
    except cl.Error:  # the ICD loader reports "no platform" as an error
        return found
    for platform in platforms:
        try:
            found += [d for d in platform.get_devices() if d.available and d.compiler_available]
        except cl.Error:  # a driver without a device, or a broken one, must not hide the others
            continue
    return sorted(found, key=lambda device: (bool(unfit(device)), *_rank(device)))


def find_device(spec: str) -> cl.Device:
    """The device a person names.

    Parameters
    ----------
    spec : str
        A number into `list_devices()`; ``gpu``, ``cpu`` or ``accelerator``; or any part of the platform's
        and device's name, in any case. The best of the devices that fit is taken. A simulator is of a kind
        only if there is nothing else.

    Returns
    -------
    pyopencl.Device

    Raises
    ------
    NoDeviceError
        If no device fits; the message lists those there are.
    InvalidType
        If `spec` is no text.
    """
    if not isinstance(spec, str):
        raise InvalidType(f"device is {text_of(spec)}; allowed: a text such as '0', 'gpu' or a part of a name")
    devices = list_devices()
    kinds = {"gpu": cl.device_type.GPU, "cpu": cl.device_type.CPU, "accelerator": cl.device_type.ACCELERATOR}
    wanted = spec.strip().lower()
    if wanted.isdecimal():
        fits = devices[int(wanted) : int(wanted) + 1]
    elif wanted in kinds:
        # Oclgrind's simulator says that it is of all kinds.
        real = [d for d in devices if not is_simulator(d)]
        fits = [d for d in real or devices if d.type & kinds[wanted]]
    else:
        fits = [d for d in devices if wanted in describe(d).lower()]
    if fits and wanted:
        return fits[0]
    there = "; ".join(f"{i}: {describe(d)}" for i, d in enumerate(devices))
    raise NoDeviceError(
        f"device {spec!r} is not there; there is {there}" if there else no_device_message(f"device {spec!r}")
    )


def no_device_message(wanted: str) -> str:
    """Say how to get a driver on a machine without any OpenCL device."""
    return f"no OpenCL device found ({wanted}): {HOW_TO_GET_A_DRIVER}"


def describe(device: cl.Device) -> str:
    """One line that names a device: platform, then device.

    Parameters
    ----------
    device : pyopencl.Device

    Returns
    -------
    str
    """
    return f"{device.platform.name.strip()}: {device.name.strip()}"


def default_device() -> cl.Device:
    """The device used when nothing names one.

    Returns
    -------
    pyopencl.Device
        What `CLQUANT_DEVICE` names (see `find_device`; the first of ``all``), else what `PYOPENCL_CTX` names, else
        the first of `list_devices()`.

    Raises
    ------
    NoDeviceError
        If there is none, or an environment variable names one that is not there.
    DeviceError
        As `list_devices`.
    """
    check_process()
    devices, wanted = list_devices(), os.environ.get(DEVICE_VARIABLE)
    if wanted and wanted != "all":
        return find_device(wanted)
    if os.environ.get("PYOPENCL_CTX"):
        try:
            return cl.create_some_context(interactive=False).devices[0]
        except Exception as error:  # pyopencl raises bare RuntimeError and IndexError here
            raise NoDeviceError(f"PYOPENCL_CTX={os.environ['PYOPENCL_CTX']!r} names no device: {error}") from error
    if not devices:
        raise NoDeviceError(no_device_message("none at all"))
    return devices[0]


def default_queue(device: cl.Device | str | None = None) -> cl.CommandQueue:
    """This thread's own in-order queue on a device; one context per device is shared by the whole process.

    When a thread has ended, its queue is the next new thread's.

    Parameters
    ----------
    device : pyopencl.Device or str, optional
        A device, or what `find_device` takes: ``"gpu"``, ``"cpu"``, a number, a part of a name. Default:
        `default_device()`.

    Returns
    -------
    pyopencl.CommandQueue
        For the engines' ``queue=``; the same one at every call of a thread.

    Raises
    ------
    InvalidType
        If `device` is neither.
    NoDeviceError
        If there is no device, or none of that name.
    DeviceError
        In a process forked after OpenCL was used, or if no context can be made.
    """
    check_process()
    named = os.environ.get(DEVICE_VARIABLE), os.environ.get("PYOPENCL_CTX"), tuple(defects())
    if device is None and named in _defaults:
        context, chosen = _defaults[named]
        return _own_queue(context, chosen)
    chosen = find_device(device) if isinstance(device, str) else device if device is not None else default_device()
    if not isinstance(chosen, cl.Device):
        raise InvalidType(f"device is {text_of(chosen)}; allowed: a pyopencl.Device, a name or None")
    warn_if_unfit(chosen)
    try:
        with _lock:
            if chosen.int_ptr not in _contexts:
                _contexts[chosen.int_ptr] = cl.Context([chosen])
            context = _contexts[chosen.int_ptr]
    except cl.Error as error:
        raise DeviceError(f"{describe(chosen)} gives no context: {error}") from error
    if device is None:
        _defaults[named] = context, chosen
    return _own_queue(context, chosen)


def thread_queue(queue: cl.CommandQueue) -> cl.CommandQueue:
    """This thread's own in-order queue on the context and device of another; it profiles if that does."""
    with device_errors("looking at queue"):
        properties, context = _profiling(queue), queue.context
    return _own_queue(context, queue.device, properties)


def _own_queue(context: cl.Context, device: cl.Device, properties: int = 0) -> cl.CommandQueue:
    """This thread's queue, or one of an ended thread, or a new one."""
    key = context.int_ptr, device.int_ptr, int(properties)
    leases: dict[tuple[int, int, int], _Lease] = _per_thread.__dict__.setdefault("leases", {})
    if key not in leases:
        with _lock:
            _, idle = _idle_queues.setdefault(key, (context, _Queues()))
            _idle_queues.move_to_end(key)
            while len(_idle_queues) > CONTEXTS_KEPT:
                _idle_queues.popitem(last=False)
        try:
            own = idle.pop()
        except IndexError:
            own = _new_queue(context, device, properties)
        leases[key] = _Lease(context, own, idle)
    return leases[key].queue


def forget_idle_queues() -> None:
    """Forget the queues that no thread has."""
    with _lock:
        _idle_queues.clear()


def _new_queue(context: cl.Context, device: cl.Device, properties: int = 0) -> cl.CommandQueue:
    try:
        return cl.CommandQueue(context, device, properties=cast(Any, properties))
    except cl.Error as error:
        raise DeviceError(f"{describe(device)} gives no queue: {error}") from error


def profiling_queue(device: cl.Device | None = None) -> cl.CommandQueue:
    """A new queue whose events carry times, on the context of `default_queue(device)`."""
    queue = default_queue(device)
    return _new_queue(queue.context, queue.device, cl.command_queue_properties.PROFILING_ENABLE)


def sibling_queue(queue: cl.CommandQueue) -> cl.CommandQueue:
    """Make an in-order queue on the context and device of another; it profiles if that does."""
    return _new_queue(queue.context, queue.device, _profiling(queue))


def _profiling(queue: cl.CommandQueue) -> int:
    return queue.properties & cl.command_queue_properties.PROFILING_ENABLE


def common_queue(arrays: Sequence[cl.array.Array]) -> cl.CommandQueue:
    """Return the queue that device arrays share, at least one; InvalidArgument if they disagree."""
    chosen, queues = arrays[0].queue, {id(a): a.queue for a in arrays}
    if chosen is None or None in queues.values():
        raise InvalidArgument("a device array has no queue; pass queue=, or use array.with_queue(queue)")
    if len({q.int_ptr for q in queues.values() if q is not None}) > 1:
        raise InvalidArgument("device arrays are on differing queues; pass queue= to say which one to use")
    return chosen
