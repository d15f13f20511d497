"""The compilers for GPUs that are not there, and what they say of a build."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

from clquant.runtime.program.programs import kernel_folder
from portability.programs import Build
from portability.reports import CLANG, Report
from portability.runtimes import UnavailableError, apt_install

AMD = ("gfx1030", "gfx90a", "gfx1100")
INTEL = ("skl", "tgllp", "dg2")
WITHOUT_DOUBLES = ("tgllp", "dg2")
LIBCLC = pathlib.Path("/usr/lib/clc/amdgcn--amdhsa.bc")
CLANG_PACKAGES = (CLANG, "libclc-19")
# Of the second comes `ocloc`, of the first its compiler.
OCLOC_PACKAGES = ("libigc1", "intel-opencl-icd")

VECTOR_REGISTERS = 256  # most that a work-item of AMD's targets has
OPTIONS = "-cl-std=CL1.2"
_FOR_AMD = (CLANG, "-target", "amdgcn-amd-amdhsa", "-nogpulib")
_OCLOC = ("ocloc", "compile", "-options")
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
_FUNCTION = re.compile(r"^(define [^\n]*\{\n.*?^\}\n)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"@([\w.$]+)")


class Compilers:
    """Compiles builds for any target; what targets or builds have in common is made once.

    Threads may share it. It is a context: what it keeps on disk ends with it.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._spirv: dict[str, tuple[pathlib.Path | None, str]] = {}
        self._library: pathlib.Path | None = None

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def report(self, build: Build, target: str, *, optimized: bool) -> Report:
        """Compile a build for a target of `AMD` or `INTEL`.

        Without optimization a report says whether there is code, and nothing of registers and memory.
        """
        report = Report(build, target)
        with tempfile.TemporaryDirectory() as folder:
            compile_one = self._amd if target in AMD else self._intel
            compile_one(report, pathlib.Path(folder), optimized)
        return report

    def _amd(self, report: Report, folder: pathlib.Path, optimized: bool) -> None:
        """Compile with clang for an AMD ISA and read its resource remarks."""
        with self._lock:
            if self._library is None:
                self._library = trimmed_library(pathlib.Path(self._folder.name))
        source = folder / "kernel.cl"
        source.write_text(report.build.source, encoding="utf-8")
        command = [*_FOR_AMD, "-x", "cl", OPTIONS, f"-mcpu={report.target}", "-c", "-o", "/dev/null"]
        command += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(self._library), "-Wno-linker-warnings"]
        command += ["-O3", "-Rpass-analysis=kernel-resource-usage"] if optimized else ["-O0"]
        done = _run([*command, str(source)])
        if done.returncode:
            _fails(report, done.stderr)
        if report.failed or not optimized:
            return
        figures: dict[str, str] = {}
        for name, value in _REMARK.findall(done.stderr):
            if name == "Function Name":
                figures = report.kernels.setdefault(value, {})
            else:
                figures[name] = value
        for kernel, found in report.kernels.items():
            # While there are vector registers, scalar ones spill into their lanes, which stays on the chip.
            to_memory = found.get("SGPRs Spill", "0") != "0" and int(found.get("VGPRs", "0")) >= VECTOR_REGISTERS
            if found.get("VGPRs Spill", "0") != "0" or to_memory:
                report.problems.append(f"{kernel}: spills to memory: {found}")

    def _intel(self, report: Report, folder: pathlib.Path, optimized: bool) -> None:
        """Compile with ocloc for an Intel GPU; it names kernels that spill."""
        spirv, said = self._made_spirv(report.build.source)
        if spirv is None:
            _fails(report, said)
            return
        command = [*_OCLOC, OPTIONS if optimized else f"{OPTIONS} -cl-opt-disable", "-spirv_input", "-file", str(spirv)]
        done = _run([*command, "-device", report.target, "-out_dir", str(folder)])
        said = done.stdout + done.stderr
        if done.returncode or "Build succeeded" not in said:
            _fails(report, said)
        if report.failed or not optimized:
            return
        for kernel, width, spilled in _SPILL.findall(said):
            report.problems.append(f"{kernel}: spills around {spilled} registers at SIMD{width}")
        (binary,) = folder.glob("*.bin")
        dump = folder / "dump"
        _run(["ocloc", "disasm", "-file", str(binary), "-device", report.target, "-dump", str(dump)])
        report.kernels = intel_figures((dump / "PTM.txt").read_text(encoding="latin-1"))

    def _made_spirv(self, text: str) -> tuple[pathlib.Path | None, str]:
        """A source's SPIR-V, or None and what ocloc said.

        It takes two thirds of a small kernel's time, and is the same for every target, as no kernel that Intel's GPUs
        take asks what it is compiled for.
        """
        with self._lock:
            lock = self._locks.setdefault(text, threading.Lock())
        with lock:
            if text not in self._spirv:
                folder = pathlib.Path(self._folder.name) / str(len(self._spirv)) / str(threading.get_ident())
                folder.mkdir(parents=True)
                (folder / "kernel.cl").write_text(text, encoding="utf-8")
                command = [*_OCLOC, OPTIONS, "-spv_only", "-file", str(folder / "kernel.cl"), "-device", INTEL[0]]
                done = _run([*command, "-out_dir", str(folder)])
                self._spirv[text] = (next(folder.glob("*.spv"), None), done.stdout + done.stderr)
            return self._spirv[text]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def _fails(report: Report, said: str) -> None:
    report.problems.append(f"does not build:\n{said[-3000:]}")
    report.failed = True


def trimmed_library(folder: pathlib.Path) -> pathlib.Path:
    """AMD's library of built-in functions with those alone whose names stand in kernel files, and what these call.

    Reading the whole one takes longer than compiling a small kernel. If it cannot be cut, it is the whole one.
    """
    whole, part, library = folder / "whole.ll", folder / "part.ll", folder / "part.bc"
    command = [*_FOR_AMD, "-x", "ir", "-Xclang", "-disable-llvm-passes", "-Wno-override-module", "-emit-llvm"]
    if _run([*command, "-S", str(LIBCLC), "-o", str(whole)]).returncode:
        return LIBCLC
    words: set[str] = set()
    for file in (path for path in kernel_folder().rglob("*") if path.suffix in (".cl", ".h")):
        words.update(re.findall(r"[A-Za-z_]\w*", file.read_text(encoding="utf-8")))
    part.write_text(with_functions_of(whole.read_text(encoding="utf-8"), words), encoding="utf-8")
    whole.unlink()
    return LIBCLC if _run([*command, "-c", str(part), "-o", str(library)]).returncode else library


def with_functions_of(module: str, words: set[str]) -> str:
    """A module of LLVM's language without the functions that nothing called so needs.

    Parameters
    ----------
    module : str
    words : set of str
        Names of functions as sources have them; in the module they may be mangled as C++ does it.
    """
    parts = _FUNCTION.split(module)
    functions = {_NAME.findall(body)[0]: body for body in parts[1::2]}
    needed: set[str] = set()
    todo = [name for name in functions if _plain(name) in words]
    while todo:
        name = todo.pop()
        if name in functions and name not in needed:
            needed.add(name)
            todo += _NAME.findall(functions[name])
    return "".join([*parts[::2], *(body for name, body in functions.items() if name in needed)])


def _plain(name: str) -> str:
    mangled = re.match(r"_Z(\d+)", name)
    return name[mangled.end() :][: int(mangled.group(1))] if mangled else name


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


def versions() -> dict[str, str] | None:
    """What a report for each target depends on besides the source: its compiler's packages, and this file.

    None where there is no package manager to ask.
    """
    here = pathlib.Path(__file__).read_text(encoding="utf-8")
    found = {}
    for names, packages in ((AMD, CLANG_PACKAGES), (INTEL, OCLOC_PACKAGES)):
        command = ["dpkg-query", "--show", *packages]
        try:
            told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError:
            return None
        found.update(dict.fromkeys(names, told + here))
    return found


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
