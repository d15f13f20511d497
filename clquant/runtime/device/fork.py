"""OpenCL and fork: a child that was forked after OpenCL was used is refused it, before anything can hang.

Drivers start threads and take locks when they are first asked anything. A forked child has neither the threads nor the
locks' owners, so that in it *any* call into the driver may wait for ever, the release of an object too. The OpenCL
specification leaves it undefined; NVIDIA's, AMD's and PoCL's drivers all have it wrong somewhere.
"""

from __future__ import annotations

import os

from clquant.runtime.errors import DeviceError

_used = False
_forked_after_use = False


def check_process() -> None:
    """Raise DeviceError in a process forked after OpenCL was used; call before a job's first call into a driver."""
    global _used
    if _forked_after_use:
        raise DeviceError(
            "OpenCL was used before this process was forked, and drivers do not survive that; "
            "start worker processes with multiprocessing's 'spawn' method"
        )
    _used = True


def _in_child() -> None:
    global _forked_after_use
    _forked_after_use = _used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
