"""What offline compilers said of builds, and a folder that keeps it for the next run."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import tempfile
from dataclasses import dataclass, field

from tests.portability.programs import Build

# A text in quotes, which stays, or a comment.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//(?:\\\n|[^\n])*|/\*.*?\*/', re.DOTALL)


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


def essence(source: str) -> str:
    """A source without what changes nothing: comments, indentation, empty lines."""
    bare = _COMMENT.sub(lambda match: match.group(1) or " ", source)
    lines = (" ".join(line.split()) for line in bare.splitlines())
    return "\n".join(line for line in lines if line)


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
