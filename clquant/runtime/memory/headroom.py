"""Address space that is left where the process has a limit of it (``ulimit -v``), and what must be left for drivers.

Drivers that compute on the CPU take memory where no error can be returned: PoCL ends the process when its compiler, or
a kernel's buffer, gets none. So what they are about to need is looked at before, and `DeviceMemoryError` says what is
missing. Without a limit nothing is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from clquant.runtime.errors import DeviceMemoryError

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

# Bytes of addresses that stay free. PoCL takes 430 MB when it starts on four cores (libraries and the stacks and heaps
# of its threads), its compiler some 100 MB at its first program and up to 20 MB at each further one (measured
# on golden jobs, PoCL 3.0).
FOR_RUNNING = 32 << 20
FOR_COMPILING = 64 << 20
FOR_FIRST_COMPILING = 192 << 20
FOR_STARTING = 320 << 20
FOR_STARTING_PER_CORE = 48 << 20

_release: list[Callable[[], None]] = []
_started = _compiled = False


def releases_memory(call: Callable[[], None]) -> None:
    """Have something called when memory is short: it gives back what it keeps for coming jobs.

    Parameters
    ----------
    call : callable
    """
    _release.append(call)


def room() -> int | None:
    """Bytes of address space that the process may still take; None without a limit, or where nothing tells."""
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        with open("/proc/self/statm", "rb") as file:
            return max(0, limit - int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE"))
    except OSError:
        return None


def check_room(nbytes: int, doing: str) -> None:
    """Refuse what would leave the driver without memory, once all that is kept for coming jobs is given back.

    Parameters
    ----------
    nbytes : int
        That are needed.
    doing : str
        For the error.

    Raises
    ------
    DeviceMemoryError
    """
    left = room()
    if left is None or left >= nbytes:
        return
    for release in _release:
        release()
    left = room()
    if left is not None and left < nbytes:
        raise DeviceMemoryError(
            f"the process ran out of memory in {doing}: {nbytes} bytes of addresses are needed, its limit leaves {left}"
        )


def check_room_to_start() -> None:
    """`check_room` before the first call into a driver."""
    global _started
    if not _started:
        check_room(FOR_STARTING + FOR_STARTING_PER_CORE * (os.cpu_count() or 1), "starting the OpenCL drivers")
        _started = True


def check_room_to_compile(what: str) -> None:
    """`check_room` before a program is built, or a kernel for a work-group size of its own.

    Parameters
    ----------
    what : str
        Its name.
    """
    global _compiled
    check_room(FOR_COMPILING if _compiled else FOR_FIRST_COMPILING, f"compiling {what}")
    _compiled = True
