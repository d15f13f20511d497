"""`python -m portability.suite`: the tests of the engines on OpenCL runtimes beside that of the test extra.

Each file of tests is a process of its own, several at a time. They share the folder of compiled programs, and `matrix`
shares it too if it is given the same: Intel's runtime compiles for ten times as long as the tests run. The golden jobs
without limits are left to `matrix`, which runs them on the same runtimes.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from portability.runtimes import RUNTIMES, Runtime, UnavailableError

ROOT = pathlib.Path(__file__).parent.parent
# Begun first: Intel's runtime compiles quadtrees for seconds a program, half a minute with 16 bands.
LONGEST = ("tests/quadtree/test_builder.py",)
_PYTEST = (
    *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
    *("-k", "not test_the_bits_are_golden"),
)


@dataclass(frozen=True)
class Part:
    """One process: a runtime's tests of one file.

    Attributes
    ----------
    runtime : Runtime
    environment : mapping
        What the runtime needs.
    file : str
    tests : int
    """

    runtime: Runtime
    environment: Mapping[str, str]
    file: str
    tests: int


@dataclass(frozen=True)
class Outcome:
    """What came of a part: `passed` is None where its time was over; `said` is printed where it failed."""

    part: Part
    seconds: float
    passed: bool | None
    said: str = ""


def parts(runtime: Runtime, folder: pathlib.Path, fetch: bool) -> list[Part]:
    """The files with tests that take a device of this runtime, those that take longest or have most tests first.

    Raises
    ------
    UnavailableError
        If the runtime cannot be had, or shows no device.
    """
    environment = {**runtime.prepare(folder, fetch), **runtime.extra}
    command = [*_PYTEST, "--collect-only", "--device", runtime.device]
    found = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    files = collections.Counter(re.findall(r"^(tests/[\w/]+\.py)::", found.stdout, re.MULTILINE))
    if not files:
        raise UnavailableError(f"no test takes a device of it: {(found.stdout + found.stderr).strip()[-600:]}")
    ordered = sorted(files.most_common(), key=lambda item: item[0] not in LONGEST)
    return [Part(runtime, environment, file, tests) for file, tests in ordered]


def run(part: Part, programs: pathlib.Path | None, seconds: float) -> Outcome:
    """Run a part; its tests must pass, and Oclgrind must find no race and no access out of bounds."""
    began = time.monotonic()
    command = [*_PYTEST, "--device", part.runtime.device, part.file]
    command += [] if programs is None else ["--programs", str(programs)]
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch) / "oclgrind.log"
        environment = {**os.environ, **part.environment, "OCLGRIND_LOG": str(log)}
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return Outcome(part, time.monotonic() - began, None)
        found = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    right = done.returncode == 0 and not found.strip()
    said = "" if right else "\n".join((done.stdout[-6000:], done.stderr[-2000:], found[:4000]))
    return Outcome(part, time.monotonic() - began, right, said)


def outcomes(planned: list[Part], programs: pathlib.Path | None, jobs: int, until: float) -> Iterator[Outcome]:
    """Run parts in their order, several at a time; what is not begun when the time is over is left out."""

    def one(part: Part) -> Outcome:
        left = until - time.monotonic()
        return run(part, programs, left) if left > 0 else Outcome(part, 0.0, None)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(one, planned):
            if outcome.passed is False:
                print(f"{outcome.part.runtime.name}, {outcome.part.file}: FAILED\n{outcome.said}", flush=True)
            yield outcome


def report(runtime: Runtime, own: list[Outcome]) -> str:
    """One line about a runtime's outcomes."""
    tests = sum(outcome.part.tests for outcome in own if outcome.passed is not None)
    late = [f"{outcome.part.file} ({outcome.part.tests} tests)" for outcome in own if outcome.passed is None]
    slowest = max(own, key=lambda outcome: outcome.seconds)
    said = f"{runtime.name}: {tests} tests in {len(own) - len(late)} files, "
    said += (
        f"{sum(outcome.passed is False for outcome in own)} files failed; {sum(o.seconds for o in own):.0f} s in all, "
    )
    said += f"{slowest.seconds:.0f} s of them {slowest.part.file}"
    return said + (f"; left out for want of time: {', '.join(late)}" if late else "")


def main(arguments: list[str] | None = None) -> int:
    """Run them all; 1 if a test failed, or Oclgrind found a race or an access out of bounds."""
    parser = argparse.ArgumentParser(description="The tests of the engines on other OpenCL runtimes.")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "runtimes", help="for downloads")
    parser.add_argument("--fetch", action="store_true", help="download and install runtimes that are missing")
    parser.add_argument("--runtime", action="append", help="only runtimes whose name contains this; may be repeated")
    parser.add_argument(
        "--programs", type=pathlib.Path, help="where compiled programs are kept; else each process anew"
    )
    parser.add_argument("--seconds", type=float, default=7200, help="what is left then is named and left out")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    options = parser.parse_args(arguments)
    until = time.monotonic() + options.seconds
    wanted = [name.lower() for name in options.runtime or [""]]
    planned: list[Part] = []
    for runtime in RUNTIMES[1:]:
        if runtime.trusted and any(name in runtime.name.lower() for name in wanted):
            try:
                planned += parts(runtime, options.folder.resolve(), options.fetch)
            except UnavailableError as reason:
                print(f"{runtime.name}: not available here: {reason}", flush=True)
    programs = None if options.programs is None else options.programs.resolve()
    found = list(outcomes(planned, programs, options.jobs, until))
    for runtime in RUNTIMES[1:]:
        own = [outcome for outcome in found if outcome.part.runtime is runtime]
        if own:
            print(report(runtime, own), flush=True)
    return 1 if any(outcome.passed is False for outcome in found) else 0


if __name__ == "__main__":
    sys.exit(main())
