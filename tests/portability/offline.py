"""`python -m tests.portability.offline`: every kernel compiled for AMD and Intel GPUs that are not there.

Each kernel is built in its portable form with all constants that the jobs use. A build error or a spill to memory
fails; registers, local memory and SIMD width are reported.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from tests.portability.programs import Build, portable_builds
from tests.portability.runtimes import UnavailableError, apt_install

AMD = ("gfx1030", "gfx90a", "gfx1100")
INTEL = ("skl", "tgllp", "dg2")
CLANG, LIBCLC = "clang-19", pathlib.Path("/usr/lib/clc/amdgcn--amdhsa.bc")

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


@dataclass
class Report:
    """What one compiler said of one build for one target; `problems` is empty where all is well."""

    build: Build
    target: str
    kernels: dict[str, dict[str, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


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
        return report
    figures: dict[str, str] = {}
    for name, value in _REMARK.findall(done.stderr):
        if name == "Function Name":
            figures = report.kernels.setdefault(value, {})
        else:
            figures[name] = value
    for kernel, found in report.kernels.items():
        # Scalar registers that spill into lanes of vector registers stay on the chip: reported, and no failure.
        to_memory = found.get("ScratchSize", "0") != "0" and found.get("SGPRs Spill", "0") != "0"
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


def _one(build: Build, target: str) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        compiler = compile_amd if target in AMD else compile_intel
        return compiler(build, target, pathlib.Path(folder))


def targets(fetch: bool) -> tuple[list[str], list[str]]:
    """Targets whose compiler is here, and one line for each compiler that is not."""
    found, missing = [], []
    for names, present, packages in (
        (AMD, lambda: shutil.which(CLANG) and LIBCLC.exists(), [CLANG, "libclc-19"]),
        (INTEL, lambda: shutil.which("ocloc"), ["intel-opencl-icd"]),
    ):
        try:
            if not present() and fetch:
                apt_install(packages, "offline compilers")
            if not present():
                raise UnavailableError(f"{' '.join(packages)} not installed; run with --fetch")
            found += names
        except UnavailableError as reason:
            missing.append(f"{', '.join(names)}: not available here: {reason}")
    return found, missing


def main(arguments: list[str] | None = None) -> int:
    """Compile all; 1 if a kernel does not build or spills, or a target has no compiler and `--require` is given."""
    parser = argparse.ArgumentParser(description="Compile every kernel for GPUs that are not there.")
    parser.add_argument("--fetch", action="store_true", help="install compilers that are missing")
    parser.add_argument("--require", action="store_true", help="fail where a compiler is missing")
    parser.add_argument("--json", type=pathlib.Path, help="write every kernel's figures to this file")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    options = parser.parse_args(arguments)
    found, missing = targets(options.fetch)
    builds = sorted(portable_builds(), key=str)
    kernel_files = {path.name for path in (pathlib.Path(__file__).parent.parent.parent / "cl").glob("*.cl")}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        work = [(build, target) for build in builds for target in found]
        reports = list(pool.map(lambda pair: _one(*pair), work))
    bad = [report for report in reports if report.problems]
    for report in bad:
        print(f"{report.target}: {report.build}")
        for problem in report.problems:
            print(f"    {problem}")
    print(
        f"{len(builds)} builds of {len({b.file for b in builds})} files, {len(found)} targets, {len(bad)} with problems"
    )
    unbuilt = sorted(kernel_files - {build.file for build in builds})
    for line in (*missing, *(f"no portable form built by the jobs: {name}" for name in unbuilt)):
        print(line)
    if options.json is not None:
        rows = [
            {"build": str(r.build), "target": r.target, "kernels": r.kernels, "problems": r.problems} for r in reports
        ]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if bad or (missing and options.require) else 0


if __name__ == "__main__":
    sys.exit(main())
