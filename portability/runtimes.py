"""Which OpenCL runtimes a machine has, and how to get those that it has not."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PINS = ("intel-opencl-rt", "intel-cmplr-lib-rt")
DOWNLOAD_SECONDS = 180  # for each step of getting a runtime


class UnavailableError(Exception):
    """A runtime cannot be had on this machine; the message says why."""


@dataclass(frozen=True)
class Runtime:
    """An OpenCL implementation and the environment that its process needs.

    Attributes
    ----------
    name : str
    device : str
        Text that picks its device: part of the platform's version or the device's name. On an Intel processor other
        runtimes' devices have "Intel" in their names too.
    prepare : callable
        From the folder for downloads, and whether to download, to environment variables; raises `UnavailableError`.
    small : bool
        Whether it only takes the small jobs.
    extra : mapping
        Further environment variables.
    required : bool
        Whether its absence fails the matrix.
    trusted : bool
        False where the runtime says of itself that it may miscompile: what differs there is shown and not counted.
    """

    name: str
    device: str
    prepare: Callable[[pathlib.Path, bool], Mapping[str, str]]
    small: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    trusted: bool = True


def _bundled(folder: pathlib.Path, fetch: bool) -> Mapping[str, str]:
    return {}


def _vendor_folder(folder: pathlib.Path, name: str, library: str) -> Mapping[str, str]:
    """A folder with one .icd file in it; PyOpenCL's loader adds those that pip installed by itself."""
    icd = folder / f"icd-{name}"
    icd.mkdir(parents=True, exist_ok=True)
    (icd / f"{name}.icd").write_text(library + "\n", encoding="utf-8")
    return {"OCL_ICD_VENDORS": str(icd) + os.sep}


def _run(command: list[str], why: str, folder: pathlib.Path | None = None) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{why}: {' '.join(command)} took over {DOWNLOAD_SECONDS} s") from error
    if done.returncode:
        raise UnavailableError(f"{why}: {' '.join(command)} said {(done.stderr or done.stdout).strip()[-300:]}")


def apt_install(packages: list[str], why: str) -> None:
    """Install Debian packages, or say why that is not possible.

    Raises
    ------
    UnavailableError
        Without apt-get or the rights to use it, or if it fails.
    """
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise UnavailableError(f"{why}: needs apt-get and root to install {' '.join(packages)}")
    options = ["-o", "DPkg::Lock::Timeout=120", "-qq"]
    install = ["apt-get", *options, "install", "-y", "--no-install-recommends", *packages]
    try:
        _run(install, why)
    except UnavailableError:
        _run(["apt-get", *options, "update"], why)
        _run(install, why)


def _intel(folder: pathlib.Path, fetch: bool) -> Mapping[str, str]:
    home = folder / "intel"
    library = home / "lib" / "libintelocl.so"
    if not library.exists():
        if not fetch:
            raise UnavailableError(f"no {library}; run with --fetch to download it (0.9 GB)")
        _run([sys.executable, "-m", "venv", str(home)], "Intel's runtime")
        _run([str(home / "bin" / "pip"), "install", "-q", *PINS], "Intel's runtime")
    if not library.exists():
        raise UnavailableError(f"{' '.join(PINS)} came without {library.name}")
    return _vendor_folder(folder, "intel", str(library))


def _debian_pocl(folder: pathlib.Path, fetch: bool) -> Mapping[str, str]:
    if not list(pathlib.Path("/usr/lib").glob("*/libpocl.so.2")):
        if not fetch:
            raise UnavailableError("no libpocl.so.2; run with --fetch to install libpocl2")
        # Without pocl-opencl-icd, which would show this device to every program of the machine, other tests too.
        apt_install(["libpocl2"], "Debian's PoCL")
    return _vendor_folder(folder, "pocl", str(next(pathlib.Path("/usr/lib").glob("*/libpocl.so.2"))))


_MESA_NEEDS = ("libclang-cpp15", "libdrm-amdgpu1", "libdrm-nouveau2", "libdrm-radeon1", "libelf1", "libllvm15")
_MESA_NEEDS += ("libllvmspirvlib15", "libsensors5")


def _rusticl(folder: pathlib.Path, fetch: bool) -> Mapping[str, str]:
    """Unpacked beside the system: its package needs libclc-15, which cannot be installed together with libclc-19."""
    home = folder / "mesa"
    if not list(home.glob("usr/lib/*/libRusticlOpenCL.so.1")):
        if not fetch:
            raise UnavailableError(f"no libRusticlOpenCL.so.1 in {home}; run with --fetch to download mesa-opencl-icd")
        apt_install(list(_MESA_NEEDS), "rusticl")
        home.mkdir(parents=True, exist_ok=True)
        _run(["apt-get", "-qq", "download", "mesa-opencl-icd", "libclc-15"], "rusticl", home)
        for package in home.glob("*.deb"):
            _run(["dpkg", "-x", str(package), str(home)], "rusticl")
    for library in (home / "usr/lib/clc").glob("spirv*-mesa3d-.spv"):
        installed = pathlib.Path("/usr/lib/clc") / library.name
        if not installed.exists():  # rusticl looks nowhere else
            installed.parent.mkdir(exist_ok=True)
            shutil.copy(library, installed)
    library = next(home.glob("usr/lib/*/libRusticlOpenCL.so.1"))
    return {**_vendor_folder(folder, "rusticl", str(library)), "RUSTICL_ENABLE": "llvmpipe"}


# Bounds are always checked. Oclgrind's third check, of uninitialized values, is left off: version 21.10 takes buffers
# that clEnqueueFillBuffer cleared for uninitialized, and crashes in itself on kernels that return structures.
_CHECKS = {"OCLGRIND_DATA_RACES": "1"}

RUNTIMES = (
    Runtime("PoCL from PyPI", "PoCL 3.0", _bundled, required=True),
    Runtime("Oclgrind, races and bounds", "Oclgrind", _bundled, small=True, extra=_CHECKS, required=True),
    Runtime("Intel CPU", "Intel(R) OpenCL", _intel),
    Runtime("PoCL of Debian", "PoCL 3.1", _debian_pocl),
    Runtime("rusticl (llvmpipe)", "llvmpipe", _rusticl, trusted=False),
)
