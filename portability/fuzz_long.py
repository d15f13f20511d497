"""`python -m portability.fuzz_long`: the cases of `fuzz` in processes: a crash or a hang is a finding too.

Prints the findings of each target, then how many cases, signals, hangs, escaped errors and slow cases there were.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

TARGETS = ("image", "frames", "palette", "clvq", "quadtree", "histogram", "codebook", "store")
CASES_PER_PROCESS = 10_000
SECONDS_PER_PROCESS = 3600
_HANG = "Timeout ("  # what faulthandler writes


def kind_of(finding: str) -> str:
    """How a finding is counted."""
    if finding.startswith(("signal", "hang")):
        return finding.split()[0]
    return "slow" if finding.startswith("took") else "escaped"


def run_cases(target: str, seed: int, first: int, cases: int, watch: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Findings of cases in one process or, past each one that ends it, in a further one."""
    last = first + cases
    while first < last:
        watch.unlink(missing_ok=True)
        command = [sys.executable, "-m", "portability.fuzz", "--target", target, "--seed", str(seed)]
        command += ["--first", str(first), "--cases", str(last - first), "--seconds", str(SECONDS_PER_PROCESS)]
        done = subprocess.run(
            [*command, "--watch", str(watch)], capture_output=True, check=False, timeout=SECONDS_PER_PROCESS * 2
        )
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            found = re.match(rf"{target}, seed {seed}, case (\d+): (.*)", line)
            if found:
                yield int(found[1]), found[2]
        at = int(watch.read_text(encoding="ascii")) if watch.exists() else first
        told = done.stderr.decode("utf-8", "replace")
        if done.returncode < 0:
            yield at, f"signal {signal.Signals(-done.returncode).name}"
        elif _HANG in told:
            yield at, "hang " + " ".join(told[told.index(_HANG) :].split())[:300]
        elif done.returncode > 1 or "findings" not in done.stdout.decode("utf-8", "replace"):
            yield at, f"the process ended with {done.returncode}: {told[-300:]}"
        else:
            return
        first = at + 1


def main(arguments: list[str] | None = None) -> int:
    """Fuzz; 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Damaged files into every reader, in processes of their own.")
    parser.add_argument("--cases", type=int, default=40_000, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    options = parser.parse_args(arguments)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for target in options.targets:
            for first in range(0, options.cases, CASES_PER_PROCESS):
                cases = min(CASES_PER_PROCESS, options.cases - first)
                for number, what in run_cases(target, options.seed, first, cases, pathlib.Path(folder) / "case"):
                    counts[kind_of(what)] += 1
                    print(f"{target}, seed {options.seed}, case {number}: {what}", flush=True)
                counts["cases"] += cases
            print(f"{target}: {options.cases} cases", flush=True)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in ("cases", "signal", "hang", "escaped", "slow"))
    print(told, flush=True)
    return 1 if counts.total() > counts["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
