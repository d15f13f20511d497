"""Which kernel files are built with which constants: recorded from the jobs, in every form a device can ask for."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clquant import runtime
from clquant.runtime.program import programs
from portability.jobs import JOBS

# What a mid-range GPU of any vendor has; CPU-shaped variants and zero-copy are out of the way.
GPU_LIKE = "is_cpu=0,unified_memory=0,work_group=256,local_memory=32768"

PORTABLE = "portable"
# Every form: the environment in which PoCL asks for its programs.
FORMS: Mapping[str, Mapping[str, str]] = {
    PORTABLE: {"CLQUANT_LIMITS": GPU_LIKE, "CLQUANT_VARIANT": "portable"},
    "GPU": {"CLQUANT_LIMITS": GPU_LIKE},
    "CPU": {},
}

# Kernel files that no job can build here, and why.
NOT_BUILT = {
    "kmeans/lloyd_grid.cl": "a grid barrier by inline PTX, for NVIDIA alone; its hashes are checked on an H200",
    "training/search_mma.cl": "inline PTX, for NVIDIA alone; its hashes are checked on an H200",
}


# Kernel files that only devices with doubles are given.
NEED_DOUBLES = ("quadtree/paper_layout.cl",)


@dataclass(frozen=True, order=True)
class Build:
    """A kernel file and its compile-time constants."""

    file: str
    constants: tuple[tuple[str, int | str], ...]

    @property
    def source(self) -> str:
        """The text a driver is given."""
        return runtime.full_source(self.file, dict(self.constants))

    def __str__(self) -> str:
        return f"{self.file} " + " ".join(f"{name}={value}" for name, value in self.constants)


@contextlib.contextmanager
def recorded() -> Iterator[set[Build]]:
    """Collect what is built or looked up inside the block, in all threads."""
    found: set[Build] = set()
    lock = threading.Lock()
    plain = programs.PROGRAMS.get

    def get(context: Any, device: Any, file: str, constants: programs.Constants) -> programs.Program:
        with lock:
            found.add(Build(file, tuple(sorted(constants.items()))))
        return plain(context, device, file, constants)

    programs.PROGRAMS.get = get  # type: ignore[method-assign]
    try:
        yield found
    finally:
        programs.PROGRAMS.get = plain  # type: ignore[method-assign]


def save(builds: Iterable[Build], file: pathlib.Path) -> None:
    """Keep builds in a file, for `load`."""
    file.write_text(json.dumps(sorted([build.file, build.constants] for build in builds)), encoding="utf-8")


def load(file: pathlib.Path) -> set[Build]:
    """Builds that `save` kept."""
    rows = json.loads(file.read_text(encoding="utf-8"))
    return {Build(name, tuple((key, value) for key, value in constants)) for name, constants in rows}


def _jobs_builds(form: str) -> set[Build]:
    names = ("CLQUANT_LIMITS", "CLQUANT_VARIANT")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ.update(FORMS[form])
    try:
        with recorded() as found:
            queue = runtime.default_queue()
            for job in JOBS:
                job.run(queue)
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
    return found


def builds_by_form(folder: pathlib.Path | None = None) -> dict[Build, str]:
    """What the jobs build, and the first form that asks for it; in the order of `FORMS`.

    Parameters
    ----------
    folder : path, optional
        With files that `hashes --record` wrote, one a form; what is missing there is recorded now.
    """
    found: dict[Build, str] = {}
    for form in FORMS:
        file = None if folder is None else folder / f"{form}.json"
        builds = load(file) if file is not None and file.exists() else _jobs_builds(form)
        for build in sorted(builds):
            found.setdefault(build, form)
    return found


def unbuilt(builds: Iterable[Build]) -> list[str]:
    """Kernel files that none of the builds is of, and that `NOT_BUILT` does not name."""
    folder = programs.kernel_folder()
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.cl")}
    return sorted(files - {build.file for build in builds} - set(NOT_BUILT))
