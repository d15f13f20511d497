"""`python -m portability.offline`: every kernel compiled for AMD and Intel GPUs that are not there.

Each kernel is built with all constants that the jobs use: in its portable form, in the form that a GPU chooses, and in
the form that a CPU chooses. A build error fails, and so does a spill to memory in a form that GPUs take; registers,
local memory and SIMD width are reported. What only CPUs take is compiled without optimization, which would take ten
times as long and tell nothing.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from portability.compilers import AMD, INTEL, WITHOUT_DOUBLES, Compilers, targets, versions
from portability.programs import FORMS, NEED_DOUBLES, NOT_BUILT, Build, builds_by_form, unbuilt
from portability.reports import KeptReports, Report


@dataclass(frozen=True)
class Task:
    """One build for one target. `order` says how soon: 0 is never left out."""

    order: int
    build: Build
    form: str
    target: str

    @property
    def optimized(self) -> bool:
        """Whether the code's registers and memory matter; no GPU takes a form for CPUs, which need only build."""
        return self.form != "CPU"


def tasks(builds: dict[Build, str], found: list[str]) -> list[Task]:
    """All builds for all targets, most telling first.

    First the forms that a GPU takes, with all constants, for one target of each vendor, and one build of each file in
    any form for all targets; then the rest of a GPU's forms; then the forms that only CPUs take.
    """
    first = {names[0] for names in (AMD, INTEL)}
    seen: set[str] = set()
    planned = []
    for build, form in builds.items():
        speaks_for_its_file = build.file not in seen
        seen.add(build.file)
        for target in found:
            if target in WITHOUT_DOUBLES and build.file in NEED_DOUBLES:  # the host does that job on such a device
                continue
            of_a_gpu = form != "CPU"
            order = 0 if speaks_for_its_file or (of_a_gpu and target in first) else 1 if of_a_gpu else 2
            planned.append(Task(order, build, form, target))
    return sorted(planned, key=lambda task: task.order)


def run(
    planned: list[Task], jobs: int, seconds: float, kept: KeptReports, compiler: Mapping[str, str]
) -> tuple[list[tuple[Task, Report]], int]:
    """Compile, several at a time, past the time only what is never left out; reports, and how many were left out.

    What is kept is not compiled again; `compiler` names each target's.
    """
    until = time.monotonic() + seconds

    def compiled(task: Task) -> Report | None:
        name = f"{compiler[task.target]}{'' if task.optimized else ', without optimization'}"
        report = kept.find(task.build, task.target, name)
        if report is not None or (task.order and time.monotonic() > until):
            return report
        report = compilers.report(task.build, task.target, optimized=task.optimized)
        kept.keep(report, name)
        return report

    with Compilers() as compilers, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        reports = list(pool.map(compiled, planned))
    done = [(task, report) for task, report in zip(planned, reports, strict=True) if report is not None]
    return done, len(planned) - len(done)


def main(arguments: list[str] | None = None) -> int:
    """Compile all; 1 if a kernel file is in no build, a kernel does not build, or spills in a form that GPUs take."""
    parser = argparse.ArgumentParser(description="Compile every kernel for GPUs that are not there.")
    parser.add_argument("--fetch", action="store_true", help="install compilers that are missing")
    parser.add_argument("--require", action="store_true", help="fail where a compiler is missing")
    parser.add_argument("--recorded", type=pathlib.Path, help="folder in which `matrix --record` left what is built")
    parser.add_argument("--kept", type=pathlib.Path, help="folder of earlier runs' reports, used again and added to")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="leave out what is optional after so long")
    parser.add_argument("--json", type=pathlib.Path, help="write every kernel's figures to this file")
    parser.add_argument("--jobs", type=int, default=max(os.cpu_count() or 1, 2), help="compilers at a time")
    options = parser.parse_args(arguments)
    found, missing = targets(options.fetch)
    builds = builds_by_form(options.recorded)
    compiler = versions()
    kept = KeptReports(options.kept if compiler else None)
    done, left = run(tasks(builds, found), options.jobs, options.seconds, kept, compiler or dict.fromkeys(found, ""))
    bad = 0
    for task, report in done:
        bad += bool(report.problems)
        for problem in report.problems:
            print(f"{task.target}: {task.build}, form {task.form}: {problem}")
    forms = ", ".join(f"{sum(form == own for own in builds.values())} {form}" for form in FORMS)
    print(f"{len(builds)} builds ({forms}) of {len({b.file for b in builds})} files for {len(found)} targets")
    print(f"{len(done)} compiled or kept, {left} left out for want of time, {bad} with problems")
    lost = unbuilt(builds)
    for line in (*missing, *(f"{name}: not built: {why}" for name, why in NOT_BUILT.items())):
        print(line)
    for name in lost:
        print(f"{name}: no job builds it in any form")
    if options.json is not None:
        rows = [
            {"build": str(task.build), "form": task.form, "target": task.target, "kernels": report.kernels,
             "problems": report.problems} for task, report in done
        ]  # fmt: skip
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if bad or lost or (missing and options.require) else 0


if __name__ == "__main__":
    sys.exit(main())
