"""Calls that wait for the driver, noted so that the process does not end while daemon threads are in one.

Python stops daemon threads when they next ask for its lock, and one that comes back from a driver then leaves
PyOpenCL's code in a way that aborts the process. So at the process's end calls under way are waited for, for a bounded
time, and a daemon thread stops before its next one. What a job reads and callbacks are not waited for.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from types import TracebackType

_POLL_SECONDS = 0.005
PATIENCE_SECONDS = 5.0

under_way: set[driver_call] = set()
_ending_thread: int | None = None


class driver_call:  # noqa: N801 - read as a function
    """A block that may wait for the driver; it is never held up."""

    def __enter__(self) -> None:
        under_way.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        under_way.discard(self)


def begin(call: driver_call) -> None:
    """Note a call as under way; while the process ends, threads other than the ending one wait here first.

    These are daemons, which the end stops, but for those that a function called at the end starts and waits for.
    """
    under_way.add(call)
    if _ending_thread is not None and threading.get_ident() != _ending_thread:
        under_way.discard(call)
        time.sleep(PATIENCE_SECONDS)
        under_way.add(call)


def _wait_for_calls() -> None:
    """Let no other thread begin a call, and wait until those under way are over."""
    global _ending_thread
    _ending_thread = threading.get_ident()
    until = time.monotonic() + PATIENCE_SECONDS
    while under_way and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)


atexit.register(_wait_for_calls)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=under_way.clear)  # the calls of threads that the child does not have
