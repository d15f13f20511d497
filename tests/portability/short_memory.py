"""`python -m tests.portability.short_memory`: golden jobs in processes whose address space is limited (``ulimit -v``).

Every job must end in the golden bits or in one `ClquantError`; a process that a signal ends, that hangs, or that raises
anything else is a finding. Linux only.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import traceback
from collections.abc import Iterator

MIB = 1 << 20
SECONDS = 300


def child(limit: int, names: list[str], warm: bool) -> None:
    """Run jobs under a limit on what the process may take from now on, and print how each ended."""
    import clquant
    from tests.portability.hashes import golden
    from tests.portability.jobs import JOBS, digest

    jobs = {job.name: job for job in JOBS}
    if warm:
        jobs[names[0]].run(clquant.runtime.default_queue())
    with open("/proc/self/statm", "rb") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + limit
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    for name in names:
        try:
            right = digest(jobs[name].run(clquant.runtime.default_queue())) == golden()[name]
            print(name, "right" if right else "WRONG", sep=": ", flush=True)
        except clquant.ClquantError as error:
            print(name, type(error).__name__, sep=": ", flush=True)
        except BaseException as error:
            if isinstance(error, MemoryError) and not _through_library(error):
                print(name, "no memory for the job's own picture", sep=": ", flush=True)
                continue
            print(name, f"ESCAPED {type(error).__name__} {error}", sep=": ", flush=True)
    sys.stdout.flush()
    os._exit(0)  # what the interpreter needs to end is not what is looked at


def _through_library(error: BaseException) -> bool:
    """Whether an error came through any code of the package."""
    import clquant

    package = os.path.dirname(clquant.__file__) + os.sep
    return any(frame.filename.startswith(package) for frame in traceback.extract_tb(error.__traceback__))


def outcomes(limit: int, names: list[str], warm: bool) -> Iterator[tuple[str, str]]:
    """How jobs ended in a process of their own: (name, outcome)."""
    command = [sys.executable, "-m", "tests.portability.short_memory", "--child", str(limit), "--jobs", *names]
    try:
        done = subprocess.run(
            [*command, *(["--warm"] if warm else [])], capture_output=True, text=True, timeout=SECONDS, check=False
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


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Golden jobs under limits of address space.")
    parser.add_argument("--limits", type=float, nargs="+", default=[1, 40, 80, 160, 320, 480, 600, 700, 900, 1200])
    parser.add_argument("--jobs", nargs="+", default=[], help="names; default: all small ones")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--warm", action="store_true", help="run the first job before the limit is set")
    options = parser.parse_args(arguments)
    if options.child is not None:
        child(options.child, options.jobs, options.warm)
    from tests.portability.jobs import JOBS

    names = options.jobs or [job.name for job in JOBS if job.small]
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
