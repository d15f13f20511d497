"""Which kernel files are built with which constants: recorded from the jobs, on a device made to look like a GPU."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clquant import runtime
from clquant.runtime import measure, programs
from tests.portability.jobs import JOBS

# What a mid-range GPU of any vendor has; CPU-shaped variants and zero-copy are out of the way.
GPU_LIKE = "is_cpu=0,unified_memory=0,work_group=256,local_memory=32768"


@dataclass(frozen=True, order=True)
class Build:
    """A kernel file and its compile-time constants."""

    file: str
    constants: tuple[tuple[str, int | str], ...]

    @property
    def source(self) -> str:
        """The text a driver is given."""
        return runtime.full_source(self.file, dict(self.constants))

    def __str__(self) -> str:
        return f"{self.file} " + " ".join(f"{name}={value}" for name, value in self.constants)


@contextlib.contextmanager
def recorded() -> Iterator[set[Build]]:
    """Collect what is built or looked up inside the block, in all threads."""
    found: set[Build] = set()
    lock = threading.Lock()
    plain = programs.PROGRAMS.get

    def get(context: Any, device: Any, file: str, constants: programs.Constants) -> programs.Program:
        with lock:
            found.add(Build(file, tuple(sorted(constants.items()))))
        return plain(context, device, file, constants)

    programs.PROGRAMS.get = get  # type: ignore[method-assign]
    try:
        yield found
    finally:
        programs.PROGRAMS.get = plain  # type: ignore[method-assign]


def portable_builds() -> set[Build]:
    """What the jobs build in the portable form on a GPU-like device."""
    before = os.environ.get("CLQUANT_LIMITS")
    os.environ["CLQUANT_LIMITS"] = GPU_LIKE
    try:
        with recorded() as found, runtime.force_variant("portable"):
            queue = runtime.default_queue()
            for job in JOBS:
                job.run(queue)
            measure.device_rates(queue, megabytes=1)
    finally:
        if before is None:
            del os.environ["CLQUANT_LIMITS"]
        else:
            os.environ["CLQUANT_LIMITS"] = before
    return found
