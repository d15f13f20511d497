"""`python -m portability.matrix`: the golden hashes on every runtime, in every form, under hostile limits."""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

from clquant.check import processor
from portability.programs import FORMS, GPU_LIKE, PORTABLE
from portability.runtimes import RUNTIMES, Runtime, UnavailableError

ROOT = pathlib.Path(__file__).parent.parent

# Limits that some device somewhere has; every kernel must run under them and give the same bits.
HOSTILE = (
    "work_group=1",
    "work_group=8,local_memory=16384,int64_atomics=0,fp64=0",
    "max_alloc=1048576,unified_memory=0",
    "is_cpu=0,unified_memory=0",
)
# The same for whole processes, several at once; the tests have them one by one, for the small jobs.
HOSTILE_RUNS = (
    "work_group=1,max_alloc=1048576,unified_memory=0",
    "work_group=64,local_memory=16384,int64_atomics=0,fp64=0",
)
# Threads of PoCL beside all that there are: its compute units, from which the shape of some launches follows.
THREADS = ("1", "3") if os.cpu_count() == 4 else ("1", "3", "4")


@dataclass(frozen=True)
class Setting:
    """One process to run: a runtime, and what is changed about it."""

    name: str
    runtime: Runtime
    environment: Mapping[str, str]
    record: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a process: `wrong` counts, `said` is printed."""

    name: str
    seconds: float
    verdict: str
    wrong: bool = False
    said: str = ""


def settings(runtime: Runtime, environment: Mapping[str, str]) -> list[Setting]:
    """The processes of one runtime. The first runtime takes every form and limit, and records what it builds."""
    if runtime is RUNTIMES[0]:
        forms = [Setting(f"{runtime.name}, form {form}", runtime, FORMS[form], form) for form in FORMS]
        hostile = [Setting(f"{runtime.name}, {x}", runtime, {"CLQUANT_LIMITS": x}) for x in HOSTILE_RUNS]
        threads = [Setting(f"{runtime.name}, threads {n}", runtime, {"POCL_MAX_PTHREAD_COUNT": n}) for n in THREADS]
        return forms + hostile + threads
    portable = Setting(f"{runtime.name}, {PORTABLE}", runtime, {**environment, "CLQUANT_VARIANT": PORTABLE})
    return [portable] if runtime.small else [Setting(runtime.name, runtime, environment), portable]


def run(setting: Setting, options: argparse.Namespace, seconds: float) -> Outcome:
    """Run one process; all hashes must be equal, and Oclgrind must find nothing."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch) / "oclgrind.log"
        command = [sys.executable, "-W", "ignore", "-m", "portability.hashes", "--device", setting.runtime.device]
        command += ["--small"] * setting.runtime.small + ["--only", options.only]
        if setting.record and options.record is not None:
            options.record.mkdir(parents=True, exist_ok=True)
            command += ["--record", str(options.record / f"{setting.record}.json")]
        environment = {**os.environ, **setting.environment, "OCLGRIND_LOG": str(log)}
        environment["CLQUANT_CACHE_DIR"] = str(options.programs or scratch)
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            late = f"not over after {seconds:.0f} s"
            return Outcome(setting.name, seconds, late, setting.runtime.required)
        found = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    took = time.perf_counter() - began
    if not done.returncode and not found.strip():
        return Outcome(setting.name, took, "equal")
    said = f"exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}\n{found[:4000]}"
    if setting.runtime.trusted:
        return Outcome(setting.name, took, "FAILED", True, said)
    return Outcome(setting.name, took, "differs; not counted", False, said)


def runtime_outcomes(runtime: Runtime, options: argparse.Namespace, until: float) -> list[Outcome]:
    """Prepare a runtime and run its processes; where it is not required, no further one once the time is over."""

    def seconds_left() -> float:
        return options.timeout if runtime.required else min(options.timeout, until - time.monotonic())

    if seconds_left() <= 0:
        return [Outcome(runtime.name, 0.0, "left out for want of time")]
    try:
        environment = {**runtime.prepare(options.folder, options.fetch), **runtime.extra}
    except UnavailableError as reason:
        return [Outcome(runtime.name, 0.0, f"not available here: {reason}", runtime.required)]
    outcomes = []
    for setting in settings(runtime, environment):
        left = seconds_left()
        late = Outcome(setting.name, 0.0, "left out for want of time")
        outcomes.append(run(setting, options, left) if left > 0 else late)
        print(_line(outcomes[-1]), flush=True)
    return outcomes


def _line(outcome: Outcome) -> str:
    return f"{outcome.name:70} {outcome.seconds:6.1f} s  {outcome.verdict}"


def main(arguments: list[str] | None = None) -> int:
    """Run all; 1 if any process differs or fails, or a required runtime is missing."""
    parser = argparse.ArgumentParser(description="The golden hashes on every OpenCL runtime.")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "runtimes", help="for downloads")
    parser.add_argument("--fetch", action="store_true", help="download and install runtimes that are missing")
    parser.add_argument("--untrusted", action="store_true", help="also runtimes that say that they may miscompile")
    parser.add_argument("--runtime", action="append", help="only runtimes whose name contains this; may be repeated")
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--record", type=pathlib.Path, help="leave what is built in this folder, for `offline`")
    parser.add_argument(
        "--programs", type=pathlib.Path, help="where compiled programs are kept; else each process anew"
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds a process may take")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="leave out what is optional after so long")
    parser.add_argument("--jobs", type=int, default=2, help="runtimes at a time")
    options = parser.parse_args(arguments)
    options.folder = options.folder.resolve()
    options.programs = options.programs and options.programs.resolve()
    names = [name.lower() for name in options.runtime or [""]]
    wanted = [own for own in RUNTIMES if any(name in own.name.lower() for name in names)]
    wanted = [own for own in wanted if own.trusted or options.untrusted]
    until = time.monotonic() + options.seconds
    print(f"processor: {processor()}; {os.cpu_count()} cores", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda own: runtime_outcomes(own, options, until), wanted))
    outcomes = [outcome for some in found for outcome in some]
    for outcome in outcomes:
        if outcome.said or not outcome.seconds:
            print(f"{_line(outcome)}\n{outcome.said}")
    wrong = sum(outcome.wrong for outcome in outcomes)
    equal = sum(outcome.verdict == "equal" for outcome in outcomes)
    print(f"{equal} of {len(outcomes)} processes equal, {wrong} wrong; limits of a GPU are {GPU_LIKE}")
    return 1 if wrong or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
