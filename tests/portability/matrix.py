"""`python -m tests.portability.matrix`: the golden hashes on every runtime, in every form, under hostile limits."""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.portability.runtimes import RUNTIMES, UnavailableError

ROOT = pathlib.Path(__file__).parent.parent.parent

# Limits that some device somewhere has; every kernel must run under them and give the same bits.
HOSTILE = (
    "work_group=1",
    "work_group=8,local_memory=16384",
    "work_group=64,local_memory=16384,int64_atomics=0,fp64=0",
    "max_alloc=1048576,unified_memory=0",
    "is_cpu=0,unified_memory=0",
)


@dataclass(frozen=True)
class Setting:
    """One process to run: a runtime, and what is changed about it."""

    name: str
    device: str
    environment: Mapping[str, str]
    small: bool
    trusted: bool = True


def settings(folder: pathlib.Path, fetch: bool, wanted: str) -> tuple[list[Setting], list[str]]:
    """The processes to run, and one line for each runtime that cannot be had."""
    found, missing = [], []
    for runtime in RUNTIMES:
        if wanted.lower() not in runtime.name.lower():
            continue
        try:
            environment = {**runtime.prepare(folder, fetch), **runtime.extra}
        except UnavailableError as reason:
            missing.append(f"{runtime.name}: not available here: {reason}")
            continue
        portable = {**environment, "CLQUANT_VARIANT": "portable"}
        found.append(Setting(f"{runtime.name}, portable", runtime.device, portable, runtime.small, runtime.trusted))
        if not runtime.small:
            found.append(Setting(runtime.name, runtime.device, environment, runtime.small, runtime.trusted))
        if runtime is RUNTIMES[0]:
            found += [
                Setting(f"{runtime.name}, {limits}", runtime.device, {**environment, "CLQUANT_LIMITS": limits}, False)
                for limits in HOSTILE
            ]
    return found, missing


def run(setting: Setting, only: str, timeout: float) -> str | None:
    """Run one process; None if all hashes are equal and, on Oclgrind, nothing was found, else what went wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch) / "oclgrind.log"
        command = [sys.executable, "-W", "ignore", "-m", "tests.portability.hashes", "--device", setting.device]
        command += ["--small"] * setting.small + ["--only", only]
        environment = {**os.environ, **setting.environment, "OCLGRIND_LOG": str(log), "CLQUANT_CACHE_DIR": scratch}
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"over {timeout:.0f} s"
        found = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if done.returncode:
            return f"exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}"
        return f"Oclgrind found:\n{found[:4000]}" if found.strip() else None


def main(arguments: list[str] | None = None) -> int:
    """Run all; 1 if any process differs or fails, or a runtime that `--require` names is missing."""
    parser = argparse.ArgumentParser(description="The golden hashes on every OpenCL runtime.")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "runtimes", help="for downloads")
    parser.add_argument("--fetch", action="store_true", help="download and install runtimes that are missing")
    parser.add_argument("--require", default="", help="comma-separated parts of names that must be available")
    parser.add_argument("--runtime", default="", help="only runtimes whose name contains this")
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a process may take")
    options = parser.parse_args(arguments)
    processes, missing = settings(options.folder.resolve(), options.fetch, options.runtime)
    failures = 0
    for setting in processes:
        began = time.perf_counter()
        problem = run(setting, options.only, options.timeout)
        failures += problem is not None and setting.trusted
        outcome = "equal" if problem is None else "FAILED" if setting.trusted else "differs; not counted"
        print(f"{setting.name:70} {time.perf_counter() - began:6.1f} s  {outcome}", flush=True)
        if problem:
            print(problem, flush=True)
    for line in missing:
        print(line)
    for name in filter(None, options.require.split(",")):
        if not any(name.lower() in setting.name.lower() for setting in processes):
            print(f"required and not available: {name}")
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
