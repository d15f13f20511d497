"""Calls that wait for the driver, noted so that the process does not end while daemon threads are in one.

Python ends daemon threads when they next ask for its lock, and one that comes back from a driver then leaves PyOpenCL's
code in a way that aborts the process. So at the process's end calls under way are waited for, for a bounded time,
and this library begins no further ones. Nothing else is waited for: not what a job reads, nor a callback.
"""

from __future__ import annotations

import atexit
import os
import pathlib
import sys
import threading
import time
from types import FrameType, TracebackType

_PACKAGE = str(pathlib.Path(__file__).parents[1]) + os.sep
_POLL_SECONDS = 0.005
PATIENCE_SECONDS = 5.0

_under_way: set[driver_call] = set()
_stopped: set[int] = set()  # threads that were refused a call
_ending_thread: int | None = None


class driver_call:  # noqa: N801 - read as a function
    """A block that may wait for the driver; it is never refused."""

    def __enter__(self) -> None:
        _under_way.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _under_way.discard(self)


def begin(call: driver_call) -> None:
    """Note a call as under way; ends a daemon thread if the process is ending, as Python would at its next step."""
    _under_way.add(call)
    if _ending_thread is not None and threading.get_ident() != _ending_thread:
        _stopped.add(threading.get_ident())
        _under_way.discard(call)
        raise SystemExit


def _wait_for_calls() -> None:
    """Refuse further calls, and wait until those under way are over and the threads refused have left the library."""
    global _ending_thread
    _ending_thread = threading.get_ident()
    until = time.monotonic() + PATIENCE_SECONDS
    while (_under_way or _is_any_leaving()) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)


def _is_any_leaving() -> bool:
    """Whether a thread that was refused a call is still in the library: buffers are released on the way out."""
    frames = sys._current_frames()
    return any(_is_inside(frames[thread]) for thread in tuple(_stopped) if thread in frames)


def _is_inside(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame is not None


atexit.register(_wait_for_calls)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_under_way.clear)  # the calls of threads that the child does not have
