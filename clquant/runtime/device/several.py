"""Several queues of one process: what a person may give as ``queue=``, and one queue for each device."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyopencl as cl

from clquant.runtime.device import discovery
from clquant.runtime.errors import InvalidArgument, InvalidType, device_errors, text_of

ALL = "all"
QueueLike = cl.CommandQueue | Sequence[cl.CommandQueue] | str | None
_ALLOWED = (
    "allowed: a pyopencl.CommandQueue, a list of such, 'all' or None (clquant.runtime.default_queue('gpu') gives one)"
)


def device_queues(devices: str | Sequence[str | int] = ALL) -> list[cl.CommandQueue]:
    """A queue on each of several devices, for the engines' ``queue=``.

    Parameters
    ----------
    devices : "all" or sequence of str or int
        ``"all"`` is every GPU and accelerator, or, without any, every CPU; simulators only if there is nothing else.
        Else numbers into `list_devices` or what `find_device` takes, each device once.

    Returns
    -------
    list of pyopencl.CommandQueue
        In the order of `list_devices`, or that of `devices`; those of `default_queue`, of the calling thread.

    Raises
    ------
    InvalidArgument, InvalidType
        If `devices` is empty, names a device twice, or is no such sequence.
    NoDeviceError
        If there is no such device.
    """
    if (isinstance(devices, str) and devices != ALL) or not hasattr(devices, "__iter__"):
        raise InvalidType(
            f"devices is {text_of(devices)}; allowed: 'all', or a sequence of numbers or names of devices"
        )
    named = None if isinstance(devices, str) else [discovery.find_device(str(one)) for one in devices]
    chosen = _all_of_best_kind() if named is None else named
    if not chosen:
        raise InvalidArgument("devices is empty; allowed: at least one device")
    for number, device in enumerate(chosen):
        if device in chosen[:number]:
            raise InvalidArgument(f"devices has {discovery.describe(device)!r} twice; allowed: each device once")
    return [discovery.default_queue(device) for device in chosen]


def _all_of_best_kind() -> list[cl.Device]:
    devices = discovery.list_devices()
    real = [one for one in devices if not discovery.is_simulator(one)] or devices
    best = [one for one in real if not one.type & cl.device_type.CPU] or real
    return best or [discovery.default_device()]


def queues_of(queue: QueueLike) -> list[cl.CommandQueue]:
    """The queues that a call is given, checked: one, several, or by default what ``CLQUANT_DEVICE`` says."""
    if queue is None:
        several = os.environ.get(discovery.DEVICE_VARIABLE) == ALL
        return device_queues() if several else [discovery.default_queue()]
    if isinstance(queue, cl.CommandQueue):
        return [queue]
    if isinstance(queue, str) and queue == ALL:
        return device_queues()
    if not isinstance(queue, list | tuple):
        raise InvalidType(f"queue is {text_of(queue)}; {_ALLOWED}")
    if not queue:
        raise InvalidArgument(f"queue is empty; {_ALLOWED}")
    for number, one in enumerate(queue):
        if not isinstance(one, cl.CommandQueue):
            raise InvalidType(f"queue[{number}] is {text_of(one)}; {_ALLOWED}")
        _check_unlike(queue[:number], one, number)
    return list(queue)


def is_several(queue: QueueLike) -> bool:
    """Whether a call is given more than one queue."""
    if queue is None and os.environ.get(discovery.DEVICE_VARIABLE) != ALL:
        return False
    return not isinstance(queue, cl.CommandQueue) and len(queues_of(queue)) > 1


def first_queue(queue: QueueLike) -> cl.CommandQueue:
    """The queue of what is not shared out."""
    return queue if isinstance(queue, cl.CommandQueue) else queues_of(queue)[0]


def _check_unlike(before: Sequence[cl.CommandQueue], queue: cl.CommandQueue, number: int) -> None:
    """Refuse a queue that stands in a list twice, or whose device another context of the list has too."""
    with device_errors("looking at queue"):
        for place, other in enumerate(before):
            if queue == other:
                raise InvalidArgument(f"queue[{place}] and queue[{number}] are the same; allowed: each queue once")
            if queue.device == other.device and queue.context != other.context:
                name = discovery.describe(queue.device)
                raise InvalidArgument(
                    f"queue[{place}] and queue[{number}] share the device {name!r} in two contexts; "
                    "allowed: queues of one context for each device"
                )
