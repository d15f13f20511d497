"""What offline compilers said of builds, and a folder that keeps it for the next run."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
from dataclasses import dataclass, field

from portability.programs import Build

CLANG = "clang-19"


@dataclass
class Report:
    """What one compiler said of one build for one target; `problems` is empty where all is well.

    `failed` where there is no code at all.
    """

    build: Build
    target: str
    kernels: dict[str, dict[str, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    failed: bool = False


@functools.cache
def essence(source: str) -> str:
    """What a compiler sees of a kernel's source: no comments, and nothing that its constants leave out.

    Kernel files ask for no macro of a compiler, so it is the same for every target. Without clang it is the source.
    """
    command = [CLANG, "-x", "cl", "-cl-std=CL1.2", "-cl-no-stdinc", "-E", "-P", "-"]
    try:
        done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60)
    except OSError:  # none there, or a folder of the path that may not be read
        return source
    return source if done.returncode else done.stdout


class KeptReports:
    """Reports in a folder, each under a digest of all that it depends on: the source, the target and the compiler.

    Parameters
    ----------
    folder : path or None
        Made if it is missing. None keeps nothing.
    """

    def __init__(self, folder: pathlib.Path | None) -> None:
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, build: Build, target: str, compiler: str) -> Report | None:
        """The report of a build by its source; None where there is none that can be read.

        Parameters
        ----------
        build : Build
        target : str
        compiler : str
            Its name, version and options, and whatever else a report depends on.
        """
        if self._folder is None:
            return None
        try:
            held = json.loads(self._file(build, target, compiler).read_text(encoding="utf-8"))
            return Report(build, target, held["kernels"], held["problems"], held["failed"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, report: Report, compiler: str) -> None:
        """Keep a report, whole or not at all; a folder that takes no more is no error.

        Parameters
        ----------
        report : Report
        compiler : str
            As for `find`.
        """
        if self._folder is None:
            return
        held = {name: value for name, value in dataclasses.asdict(report).items() if name not in ("build", "target")}
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(dir=self._folder)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(held, file)
                os.replace(name, self._file(report.build, report.target, compiler))
            except OSError:
                pathlib.Path(name).unlink(missing_ok=True)
                raise

    def _file(self, build: Build, target: str, compiler: str) -> pathlib.Path:
        assert self._folder is not None
        text = "\0".join((compiler, target, essence(build.source)))
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
