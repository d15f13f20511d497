"""The host's memory, as the operating system states it."""

from __future__ import annotations

import os
import pathlib

# Limits of the control group that the process sees as its own, as in a container: versions 2 and 1.
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def host_memory() -> int | None:
    """Bytes that this process may have at most, or None where the system does not tell."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for path in CGROUP_LIMITS:
        try:
            total = min(total, int(pathlib.Path(path).read_text(encoding="ascii")))
        except (ValueError, OSError):  # "max", or no such control group
            continue
    return total
