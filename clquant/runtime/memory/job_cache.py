"""Keeping what a job prepared, its buffers and launches, for the next one of the same shape on the same queue.

Where a picture is small, a CPU is done with it sooner than Python is with allocating buffers and setting arguments.
Commands of one queue run in order, so the next job may take the same buffers while the last one's are still to run.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, TypeVar

import pyopencl as cl

from clquant.runtime.device.discovery import forget_idle_queues
from clquant.runtime.device.fork import check_process
from clquant.runtime.memory.buffer_pool import BUFFER_POOL
from clquant.runtime.memory.pinned import clear_pinned
from clquant.runtime.memory.scope import Scope
from clquant.runtime.session import Session
from clquant.runtime.transfer.staging import clear_stagings

Thing = TypeVar("Thing")
MOST = 8  # things kept; what was used last stays


class _Kept(NamedTuple):
    """A thing, the scope of its buffers, and its queue, whose handle cannot be another's meanwhile."""

    key: Hashable
    queue: cl.CommandQueue
    scope: Scope
    thing: Any


class JobCache:
    """Things that no job is using. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._tickets = 0

    def take(self, key: Hashable) -> _Kept | None:
        """Take the last thing kept under a key, for one job alone; None if there is none."""
        with self._lock:
            for ticket, kept in reversed(self._kept.items()):
                if kept.key == key:
                    return self._kept.pop(ticket)
        return None

    def keep(self, kept: _Kept) -> None:
        """Keep a thing that only queued commands still use; evict the least recently used one beyond `MOST`."""
        with self._lock:
            self._tickets += 1
            self._kept[self._tickets] = kept
            gone = self._kept.popitem(last=False)[1] if len(self._kept) > MOST else None
        if gone is not None:
            gone.scope.__exit__(None, None, None)

    def clear(self) -> None:
        """Release all things."""
        with self._lock:
            gone = list(self._kept.values())
            self._kept.clear()
        for kept in gone:
            kept.scope.__exit__(None, None, None)


JOB_CACHE = JobCache()


@contextlib.contextmanager
def cached_job(
    session: Session,
    key: Hashable | None,
    make: Callable[[Scope], Thing],
    worth: Callable[[Thing], bool] = lambda _: True,
) -> Iterator[Thing]:
    """Take what an earlier job on this queue prepared for `key`, or make it; no other job has it during the block.

    `key` has all that the thing depends on besides queue and device; with None it is not kept. `make` gets a scope that
    lasts as long as the thing, and must keep no array of the caller's. The thing is kept if the block succeeds and
    `worth` admits it.
    """
    if key is None:
        with session.scope() as scope:
            yield make(scope)
        return
    whole = (session.queue.int_ptr, session.limits, key)
    found = JOB_CACHE.take(whole)
    if found is None:
        scope = session.scope()
        try:
            found = _Kept(whole, session.queue, scope, make(scope))
        except BaseException:
            scope.__exit__(*sys.exc_info())
            raise
    try:
        yield found.thing
    except BaseException:
        found.scope.__exit__(*sys.exc_info())
        raise
    if worth(found.thing):
        JOB_CACHE.keep(found)
    else:
        found.scope.__exit__(None, None, None)


def release_memory() -> None:
    """Give back all memory, on devices and on the host, that is kept for coming jobs; what is in use stays.

    Raises
    ------
    DeviceError
        In a process forked after OpenCL was used.
    """
    check_process()
    JOB_CACHE.clear()
    BUFFER_POOL.clear()
    forget_idle_queues()
    clear_stagings()
    clear_pinned()
