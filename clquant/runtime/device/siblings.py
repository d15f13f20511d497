"""Queues beside one that a user named, lent for as long as a stream of pictures lasts.

They are kept when it ends, for the next stream on that context and device: with a queue goes what is kept for its next
job (see `clquant.runtime.memory.buffer_pool`), which nothing else could use.
"""

from __future__ import annotations

import collections
import threading

import pyopencl as cl

from clquant.runtime.device.discovery import sibling_queue
from clquant.runtime.errors import device_errors
from clquant.runtime.memory.pinned import CONTEXTS_KEPT

# Context, device, and whether events carry times.
_Key = tuple[int, int, int]

_lock = threading.Lock()
# With their context, as Intel's runtime does not keep it for a queue: its handle might become another's.
_idle: collections.OrderedDict[_Key, list[tuple[cl.Context, cl.CommandQueue]]] = collections.OrderedDict()


class Siblings:
    """Queues on the context and device of another, with its profiling. Any thread may ask for one."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue
        with device_errors("looking at queue"):
            profiling = queue.properties & cl.command_queue_properties.PROFILING_ENABLE
            self._context: cl.Context = queue.context
            self._key = self._context.int_ptr, queue.device.int_ptr, int(profiling)
        self._lent: list[cl.CommandQueue] = []

    def lend(self) -> cl.CommandQueue:
        """Lend a queue to the caller alone, until `give_back`."""
        with _lock:
            idle = _idle.get(self._key)
            found = idle.pop()[1] if idle else None
        queue = sibling_queue(self._queue) if found is None else found
        self._lent.append(queue)
        return queue

    def give_back(self) -> None:
        """Return all lent queues for other streams."""
        with _lock:
            _idle.setdefault(self._key, []).extend((self._context, queue) for queue in self._lent)
            self._lent.clear()
            _idle.move_to_end(self._key)
            while len(_idle) > CONTEXTS_KEPT:
                _idle.popitem(last=False)


def clear_siblings() -> None:
    """Forget the queues that nobody has."""
    with _lock:
        _idle.clear()
