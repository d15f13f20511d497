"""`python -m tests.portability.suite`: the tests of the engines on OpenCL runtimes beside that of the test extra."""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from tests.portability.runtimes import RUNTIMES, Runtime, UnavailableError

ROOT = pathlib.Path(__file__).parent.parent.parent


def run(runtime: Runtime, folder: pathlib.Path, fetch: bool, seconds: float) -> bool | None:
    """Run every test that takes a device on a runtime's devices; None where that was not possible, for it said why."""
    began = time.monotonic()
    try:
        environment = {**os.environ, **runtime.prepare(folder, fetch), **runtime.extra}
    except UnavailableError as reason:
        print(f"{runtime.name}: not available here: {reason}")
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", runtime.device]
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch) / "oclgrind.log"
        environment["OCLGRIND_LOG"] = str(log)
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            print(f"{runtime.name}: not over after {seconds:.0f} s")
            return None
        found = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    right = done.returncode == 0 and not found.strip()
    said = done.stdout.strip().splitlines()[-1:] if right else [done.stdout[-6000:], done.stderr[-2000:], found[:4000]]
    print(f"{runtime.name} ({time.monotonic() - began:.0f} s):", *said, sep="\n", flush=True)
    return right


def main(arguments: list[str] | None = None) -> int:
    """Run them all; 1 if a test failed, or Oclgrind found a race or an access out of bounds."""
    parser = argparse.ArgumentParser(description="The tests of the engines on other OpenCL runtimes.")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "runtimes", help="for downloads")
    parser.add_argument("--fetch", action="store_true", help="download and install runtimes that are missing")
    parser.add_argument("--runtime", default="", help="only runtimes whose name contains this")
    parser.add_argument("--seconds", type=float, default=3600, help="for all of them; what is left then is left out")
    options = parser.parse_args(arguments)
    until = time.monotonic() + options.seconds
    failed = 0
    for runtime in RUNTIMES[1:]:
        if not runtime.trusted or options.runtime.lower() not in runtime.name.lower():
            continue
        left = until - time.monotonic()
        if left < 1:
            print(f"{runtime.name}: left out for want of time")
            continue
        failed += run(runtime, options.folder.resolve(), options.fetch, left) is False
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
