"""`python -m tests.portability.leaks`: thousands of calls of every engine; the process's memory must level off."""

from __future__ import annotations

import argparse
import gc
import pathlib
import resource
import sys
import time

from clquant import runtime
from tests.portability.jobs import JOBS

ALLOWED_BYTES = 16 << 20


def resident() -> int:
    """Bytes of this process in memory now."""
    pages = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def main(arguments: list[str] | None = None) -> int:
    """Run each small job over and over; 1 if the second half of the calls added more than is allowed."""
    parser = argparse.ArgumentParser(description="Look for leaks.")
    parser.add_argument("--calls", type=int, default=10_000, help="calls a job")
    parser.add_argument("--seconds", type=float, default=300, help="seconds a job at most")
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    options = parser.parse_args(arguments)
    queue = runtime.default_queue()
    leaking = 0
    for job in JOBS:
        if not job.small or options.only not in job.name:
            continue
        sizes, began = [], time.monotonic()
        for call in range(options.calls):
            job.run(queue)
            over = time.monotonic() - began > options.seconds
            if over or call % 50 == 49 or call == options.calls - 1:
                gc.collect()
                sizes.append(resident())
            if over:
                break
        growth = sizes[-1] - sizes[len(sizes) // 2]
        leaking += growth > ALLOWED_BYTES
        print(
            f"{job.name:26} {call + 1:6} calls, {sizes[-1] / 2**20:7.1f} MiB, {growth / 2**20:+6.1f} in the second half"
        )
    return 1 if leaking else 0


if __name__ == "__main__":
    sys.exit(main())
