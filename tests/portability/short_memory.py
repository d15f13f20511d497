"""`python -m tests.portability.short_memory`: golden jobs in processes whose address space is limited (``ulimit -v``).

Every job must end in the golden bits or in one `ClquantError`; a process that a signal ends, that hangs, or that raises
anything else is a finding. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import random
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyopencl as cl

if TYPE_CHECKING:
    import clquant

MIB = 1 << 20
SECONDS = 300
FOR_TELLING = 8 * MIB
OWN_PICTURE = "no memory for the job's own picture"
# The same on every machine: drivers and NumPy's libraries take memory per thread.
THREADS = {"POCL_MAX_PTHREAD_COUNT": "4", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def child(limit: int, names: list[str], warm: bool) -> None:
    """Run jobs under a limit on what the process may take from now on, and print how each ended.

    What tells of the end is ready before, and memory for telling is set aside.
    """
    import clquant
    from clquant.runtime.errors import tells_of_memory
    from tests.portability.hashes import golden
    from tests.portability.jobs import JOBS, digest

    jobs, right = {job.name: job for job in JOBS}, golden()
    if warm:
        jobs[names[0]].run(_queue())
    for_telling = mmap.mmap(-1, FOR_TELLING)
    with open("/proc/self/statm", "rb") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + limit
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    for name in names:
        try:
            outcome = "right" if digest(jobs[name].run(_queue())) == right[name] else "WRONG"
        except clquant.ClquantError as error:
            for_telling.close()
            outcome = type(error).__name__
        except BaseException as error:
            for_telling.close()
            own = tells_of_memory(error) and not _through_library(error)
            outcome = OWN_PICTURE if own else f"ESCAPED {type(error).__name__} {error}"
        os.write(1, f"{name}: {outcome}\n".encode())
        if for_telling.closed:
            with contextlib.suppress(OSError, MemoryError):
                for_telling = mmap.mmap(-1, FOR_TELLING)
    os._exit(0)  # what the interpreter needs to end is not what is looked at


def _queue() -> clquant.runtime.CommandQueue:
    """On a CPU if there is one: of a limit of address space, GPUs' drivers want terabytes."""
    from clquant import runtime

    cpus = [device for device in runtime.list_devices() if device.type & cl.device_type.CPU]
    return runtime.default_queue(cpus[0] if cpus else None)


def _through_library(error: BaseException) -> bool:
    """Whether an error came through any code of the package."""
    import clquant

    package = os.path.dirname(clquant.__file__) + os.sep
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(package):
            return True
        trace = trace.tb_next
    return False


def outcomes(limit: int, names: list[str], warm: bool) -> Iterator[tuple[str, str]]:
    """How jobs ended in a process of their own: (name, outcome)."""
    command = [sys.executable, "-m", "tests.portability.short_memory", "--child", str(limit), "--jobs", *names]
    try:
        done = subprocess.run(
            [*command, *(["--warm"] if warm else [])],
            env={**os.environ, **THREADS},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        yield names[0], "HANG"
        return
    for line in done.stdout.splitlines():
        name, _, outcome = line.partition(": ")
        if name in names:
            yield name, outcome
    if done.returncode:
        yield "the process", f"ENDED with {done.returncode}: {done.stderr.strip()[-200:]}"


def is_finding(outcome: str) -> bool:
    """Whether a job ended in anything but the golden bits or an error of the library's."""
    return re.match("[A-Z]{4}", outcome) is not None


def _by_chance(processes: int, names: list[str], rng: random.Random) -> int:
    """Processes of one job each; 1 if any gave a finding."""
    counts: dict[str, int] = {}
    for number in range(processes):
        name, limit, warm = rng.choice(names), int(MIB * 2 ** rng.uniform(0, 11)), rng.random() < 0.5
        told = list(outcomes(limit, [name], warm)) or [(name, "NOTHING was told")]
        for _, outcome in told:
            counts[outcome] = counts.get(outcome, 0) + 1
            if is_finding(outcome):
                print(f"process {number}, {name}, {limit} bytes more, warm: {warm}: {outcome}", flush=True)
    print(f"{processes} processes: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if any(is_finding(outcome) for outcome in counts) else 0


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Golden jobs under limits of address space.")
    parser.add_argument("--limits", type=float, nargs="+", default=[1, 40, 80, 160, 320, 480, 600, 700, 900, 1200])
    parser.add_argument("--jobs", nargs="+", default=[], help="names; default: all small ones")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--warm", action="store_true", help="run the first job before the limit is set")
    parser.add_argument("--processes", type=int, help="so many, each with a job, a limit and warm or not by chance")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.child is not None:
        child(options.child, options.jobs, options.warm)
    from tests.portability.jobs import JOBS

    names = options.jobs or [job.name for job in JOBS if job.small]
    if options.processes is not None:
        return _by_chance(options.processes, names, random.Random(options.seed))
    found = 0
    for limit in options.limits:
        told = list(outcomes(int(limit * MIB), names, options.warm))
        counts = {what: sum(1 for _, outcome in told if outcome == what) for what in {o for _, o in told}}
        print(f"{limit:g} MiB more: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())), flush=True)
        for name, outcome in told:
            if is_finding(outcome):
                found += 1
                print(f"  {name}: {outcome}")
    print(f"{found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
