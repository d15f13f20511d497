"""`python -m tests.portability.offline`: every kernel compiled for AMD and Intel GPUs that are not there.

Each kernel is built with all constants that the jobs use: in its portable form, in the form that a GPU chooses, and in
the form that a CPU chooses. A build error fails, and so does a spill to memory in a form that GPUs take; registers,
local memory and SIMD width are reported.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.portability.programs import FORMS, NOT_BUILT, Build, builds_by_form, unbuilt
from tests.portability.reports import KeptReports, Report
from tests.portability.runtimes import UnavailableError, apt_install

AMD = ("gfx1030", "gfx90a", "gfx1100")
INTEL = ("skl", "tgllp", "dg2")
CLANG, LIBCLC = "clang-19", pathlib.Path("/usr/lib/clc/amdgcn--amdhsa.bc")
CLANG_PACKAGES = (CLANG, "libclc-19")
# Of the second comes `ocloc`, of the first its compiler.
OCLOC_PACKAGES = ("libigc1", "intel-opencl-icd")

VECTOR_REGISTERS = 256  # most that a work-item of these targets has
_REMARK = re.compile(r"remark:\s+([A-Za-z ]+?)(?: \[[^\]]*\])?: (\S+) \[-Rpass")
_SPILL = re.compile(r"kernel (\w+)\s+compiled SIMD(\d+).*spilled around (\d+)")
_TOKEN = re.compile(r"Token (\d+)\s+\d+ Size \d+\s+Hex ([0-9a-f ]+)")
# What ocloc's disassembly says of a kernel: token number -> (index of its 32-bit word, what that is).
_TOKENS = {
    15: ((1, "local bytes"),),
    18: ((1, "spill bytes"),),
    23: ((3, "SIMD"), (20, "GRF")),
    38: ((3, "private bytes"),),
}


def compile_amd(build: Build, target: str, folder: pathlib.Path) -> Report:
    """Compile with clang for an AMD ISA and read its resource remarks."""
    source = folder / "kernel.cl"
    source.write_text(build.source, encoding="utf-8")
    command = [CLANG, "-x", "cl", "-cl-std=CL1.2", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib"]
    command += ["-Xclang", "-finclude-default-header", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(LIBCLC)]
    command += ["-Wno-linker-warnings", "-O3", "-c", "-o", "/dev/null", "-Rpass-analysis=kernel-resource-usage"]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=300)
    report = Report(build, target)
    if done.returncode:
        report.problems.append(f"does not build:\n{done.stderr[-3000:]}")
        report.failed = True
        return report
    figures: dict[str, str] = {}
    for name, value in _REMARK.findall(done.stderr):
        if name == "Function Name":
            figures = report.kernels.setdefault(value, {})
        else:
            figures[name] = value
    for kernel, found in report.kernels.items():
        # Scalar registers spill into lanes of vector registers, which stays on the chip, while there are any of these.
        to_memory = found.get("SGPRs Spill", "0") != "0" and int(found.get("VGPRs", "0")) >= VECTOR_REGISTERS
        if found.get("VGPRs Spill", "0") != "0" or to_memory:
            report.problems.append(f"{kernel}: spills to memory: {found}")
    return report


def compile_intel(build: Build, target: str, folder: pathlib.Path) -> Report:
    """Compile with ocloc for an Intel GPU; it names kernels that spill."""
    source = folder / "kernel.cl"
    source.write_text(build.source, encoding="utf-8")
    command = ["ocloc", "compile", "-file", str(source), "-device", target, "-options", "-cl-std=CL1.2"]
    done = subprocess.run([*command, "-out_dir", str(folder / "out")], capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    report = Report(build, target)
    if done.returncode or "Build succeeded" not in said:
        report.problems.append(f"does not build:\n{said[-3000:]}")
        report.failed = True
        return report
    for kernel, width, spilled in _SPILL.findall(said):
        report.problems.append(f"{kernel}: spills around {spilled} registers at SIMD{width}")
    (binary,) = (folder / "out").glob("*.bin")
    dump = folder / "dump"
    command = ["ocloc", "disasm", "-file", str(binary), "-device", target, "-dump", str(dump)]
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    report.kernels = intel_figures((dump / "PTM.txt").read_text(encoding="latin-1"))
    return report


def intel_figures(text: str) -> dict[str, dict[str, str]]:
    """SIMD width, registers a thread, local, private and spilled bytes by kernel, from ocloc's disassembly."""
    kernels: dict[str, dict[str, str]] = {}
    for part in text.split("\nKernel #")[1:]:
        named = re.search(r"KernelName (\w+)", part)
        assert named is not None
        figures = kernels.setdefault(named.group(1), {})
        for number, digits in _TOKEN.findall(part):
            raw = bytes(int(digit, 16) for digit in digits.split())
            for word, name in _TOKENS.get(int(number), ()):
                figures[name] = str(int.from_bytes(raw[4 * word : 4 * word + 4], "little"))
    return kernels


def compilers() -> dict[str, str] | None:
    """What a report for each target depends on besides the source: its compiler's packages, and this file.

    None where there is no package manager to ask.
    """
    here = pathlib.Path(__file__).read_text(encoding="utf-8")
    found = {}
    for names, packages in ((AMD, CLANG_PACKAGES), (INTEL, OCLOC_PACKAGES)):
        command = ["dpkg-query", "--show", *packages]
        try:
            versions = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except FileNotFoundError:
            return None
        found.update(dict.fromkeys(names, versions + here))
    return found


def _one(build: Build, target: str) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        compiler = compile_amd if target in AMD else compile_intel
        return compiler(build, target, pathlib.Path(folder))


def targets(fetch: bool) -> tuple[list[str], list[str]]:
    """Targets whose compiler is here, and one line for each compiler that is not."""
    found, missing = [], []
    for names, present, packages in (
        (AMD, lambda: shutil.which(CLANG) and LIBCLC.exists(), CLANG_PACKAGES),
        (INTEL, lambda: shutil.which("ocloc"), OCLOC_PACKAGES),
    ):
        try:
            if not present() and fetch:
                apt_install([*packages], "offline compilers")
            if not present():
                raise UnavailableError(f"{' '.join(packages)} not installed; run with --fetch")
            found += names
        except UnavailableError as reason:
            missing.append(f"{', '.join(names)}: not available here: {reason}")
    return found, missing


@dataclass(frozen=True)
class Task:
    """One build for one target. `order` says how soon: 0 is never left out."""

    order: int
    build: Build
    form: str
    target: str


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
        report = kept.find(task.build, task.target, compiler[task.target])
        if report is not None or (task.order and time.monotonic() > until):
            return report
        report = _one(task.build, task.target)
        kept.keep(report, compiler[task.target])
        return report

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        reports = list(pool.map(compiled, planned))
    done = [(task, report) for task, report in zip(planned, reports, strict=True) if report is not None]
    return done, len(planned) - len(done)


def main(arguments: list[str] | None = None) -> int:
    """Compile all; 1 if a kernel file is in no build, a kernel does not build, or spills in a form that GPUs take.

    With `--seconds`, only what is never left out counts; the rest is compiled and shown as far as the time goes.
    """
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
    compiler = compilers()
    kept = KeptReports(options.kept if compiler else None)
    done, left = run(tasks(builds, found), options.jobs, options.seconds, kept, compiler or dict.fromkeys(found, ""))
    bad = 0
    for task, report in done:
        # Under a time limit, what counts must not depend on how far it went.
        certain = task.order == 0 or options.seconds == float("inf")
        counted = certain and (report.failed or task.form != "CPU")
        bad += bool(report.problems) and counted
        for problem in report.problems:
            print(f"{task.target}: {task.build}, form {task.form}: {problem}{'' if counted else ' (not counted)'}")
    forms = ", ".join(f"{sum(form == own for own in builds.values())} {form}" for form in FORMS)
    print(f"{len(builds)} builds ({forms}) of {len({b.file for b in builds})} files for {len(found)} targets")
    print(f"{len(done)} compiled, {left} left out for want of time, {bad} with problems")
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
