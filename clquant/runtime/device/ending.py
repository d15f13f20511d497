"""The end of the process while threads are still in calls.

Python ends daemon threads at the moment they ask for its lock, and one that comes back from a driver then leaves
PyOpenCL's code in a way that aborts the process. So before Python ends, threads that are in a call of this library are
told to leave it, and are waited for; new calls are refused.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import pathlib
import sys
import threading
import time
from types import FrameType

import pyopencl as cl

from clquant.runtime.errors import DeviceError

_PACKAGE = str(pathlib.Path(__file__).parents[2]) + os.sep
_PYOPENCL = str(pathlib.Path(cl.__file__).parent) + os.sep
_POLL_SECONDS = 0.005
_AGAIN_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0

_ending = False


def check_not_ending() -> None:
    """To be called before the first call into a driver of every job.

    Raises
    ------
    DeviceError
        When the process is ending, in other threads than the one that ends it.
    SystemExit
        In daemon threads, which end then without a word, as those do that are in a call already.
    """
    thread = threading.current_thread()
    if not _ending or thread is threading.main_thread():
        return
    if thread.daemon:
        raise SystemExit
    raise DeviceError("the process is ending; allowed: calls of threads that are waited for")


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((_PACKAGE, _PYOPENCL))


def _in_call(frame: FrameType, nearly: bool) -> bool:
    """Whether a thread is in a call of the library; `nearly`: also in what the library called, a callback perhaps."""
    if _is_ours(frame):
        return True
    outer = frame.f_back if nearly else None
    while outer is not None and not _is_ours(outer):
        outer = outer.f_back
    return outer is not None


def _end_calls() -> None:
    global _ending
    _ending = True
    own, began, told = threading.get_ident(), time.monotonic(), 0.0
    while True:
        now = time.monotonic()
        # A callback may wait for something that never comes.
        nearly = now - began < _PATIENCE_SECONDS
        there = [t for t, frame in sys._current_frames().items() if t != own and _in_call(frame, nearly)]
        if not there:
            return
        if now - told > _AGAIN_SECONDS:  # again, since what destructors raise is lost
            told = now
            for thread in there:
                # The thread meets it at its next step in Python, after the driver's call has ended.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))
        time.sleep(_POLL_SECONDS)


atexit.register(_end_calls)
