"""Making Intel's OpenCL runtime of PyPI (extra ``intel``) known to the loader, which its package does not do.

The package ``intel-opencl-rt`` leaves its library in the environment's ``lib`` (Windows: ``Library\\bin``), and an .icd
file that names a place on the machine where it was packed. Loaders read the folder that `OCL_ICD_VENDORS` names when
they are first asked for platforms, and never again: for that moment it names a folder with what the system has and
this library beside it. Khronos's loader on Windows takes `OCL_ICD_FILENAMES` beside the registry.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import site
import sys
import tempfile
from collections.abc import Iterator

VENDORS_VARIABLE = "OCL_ICD_VENDORS"
FILENAMES_VARIABLE = "OCL_ICD_FILENAMES"
_SYSTEM = "/etc/OpenCL/vendors"

_asked = False


def intel_library() -> pathlib.Path | None:
    """Intel's runtime as pip installs it into this environment, or None."""
    name = ("Library", "bin", "intelocl64.dll") if sys.platform == "win32" else ("lib", "libintelocl.so")
    for base in (sys.prefix, site.getuserbase()):
        path = pathlib.Path(base, *name)
        if path.is_file():
            return path
    return None


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """Around the first question for platforms: the loader finds what pip has installed, and all that it finds else.

    Where the person has set one of the variables, that alone counts.
    """
    global _asked
    library = None if _asked or VENDORS_VARIABLE in os.environ else intel_library()
    _asked = True
    if library is None:
        yield
    elif sys.platform == "win32":
        before = os.environ.get(FILENAMES_VARIABLE)
        with _set(FILENAMES_VARIABLE, str(library) if before is None else f"{before};{library}"):
            yield
    else:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # nothing can be written: then the system's alone are found
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="clquant-icd-"))
                _fill(pathlib.Path(folder), library)
                stack.enter_context(_set(VENDORS_VARIABLE, folder + os.sep))
            yield


def _fill(folder: pathlib.Path, library: pathlib.Path) -> None:
    """Put the .icd files of the system and of a conda environment into a folder, and one of this library."""
    for place in (_SYSTEM, os.path.join(sys.prefix, "etc", "OpenCL", "vendors")):
        for path in sorted(pathlib.Path(place).glob("*.icd")):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                named = path.read_text(encoding="utf-8").strip()
                if named and (not os.path.isabs(named) or os.path.isfile(named)):
                    (folder / path.name).write_text(named + "\n", encoding="utf-8")
    (folder / "clquant-intel.icd").write_text(f"{library}\n", encoding="utf-8")


@contextlib.contextmanager
def _set(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
