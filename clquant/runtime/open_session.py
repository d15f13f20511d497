"""Beginning a job: which queue it runs on, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl
import pyopencl.array

from clquant.runtime.device import discovery
from clquant.runtime.device.fork import check_process
from clquant.runtime.device.several import QueueLike, first_queue, queues_of
from clquant.runtime.errors import InvalidArgument, device_errors
from clquant.runtime.session import Session
from clquant.runtime.transfer.copy import order_commands


def open_session(queue: QueueLike = None, arrays: Sequence[pyopencl.array.Array] = ()) -> Session:
    """Open a job's session: on `queue`, else the device arrays' common queue, else the default device.

    Of several queues it is the one of the device arrays' context, else the first.

    The job waits for what is pending for the arrays on other queues.
    """
    check_process()
    if not arrays:
        return Session(first_queue(queue))
    chosen = discovery.common_queue(arrays) if queue is None else _queue_for(queue, arrays)
    for array in arrays:
        if array.context != chosen.context:
            raise InvalidArgument("queue= and a device array belong to differing OpenCL contexts")
    with device_errors("waiting for a device array"):
        _follow(chosen, arrays)
    return Session(chosen, arrays[0])


def _queue_for(queue: QueueLike, arrays: Sequence[pyopencl.array.Array]) -> cl.CommandQueue:
    """The queue among those given that is of the device arrays' context, else the first."""
    queues = queues_of(queue)
    return next((one for one in queues if one.context == arrays[0].context), queues[0])


def _follow(queue: cl.CommandQueue, arrays: Sequence[pyopencl.array.Array]) -> None:
    """Make what comes next on a queue wait for all that is pending for arrays.

    Their lists of events are left alone, as other threads may be looking at them: `Array.finish` would empty them.
    """
    order_commands(queue)
    for array in arrays:
        if array.queue is not None and array.queue != queue:
            array.queue.finish()  # users' own kernels have no events
        elsewhere = [event for event in list(array.events) if not _is_of(queue, event)]
        if elsewhere:
            cl.wait_for_events(elsewhere)


def _is_of(queue: cl.CommandQueue, event: cl.Event) -> bool:
    """Whether an event is of a command of this queue."""
    try:
        return bool(event.command_queue == queue)
    except cl.Error:  # Intel's runtime for CPUs does not keep an event's queue for it
        return False
