"""The base of sinks that write files of results: a file appears under its name whole or not at all."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import json
import os
import pathlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.flow.sink import Sink
from clquant.images import files
from clquant.runtime import FileError, InvalidArgument


@dataclass(frozen=True)
class About:
    """Metadata of a file of results.

    Attributes
    ----------
    palette : ndarray or None
        (n, 3 or 4) uint8: what indices stand for.
    source : object
        The picture that the caller gave.
    resume : bool
        Whether the work of a job that was stopped is kept and gone on with.
    settings : mapping of str
        What else decides the result, as values that JSON has: a job that goes on must have the same.
    """

    palette: npt.NDArray[np.uint8] | None = None
    source: Any = None
    resume: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        params.boolean("resume", self.resume)

    def fingerprint(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Any]:
        """Describe the job of a result, for a later job that would resume it."""
        made: dict[str, Any] = json.loads(json.dumps({**self.settings, "shape": shape, "dtype": str(dtype)}))
        return made

    @property
    def transparent(self) -> int | None:
        """The palette's first entry of alpha 0."""
        if self.palette is None or self.palette.shape[1] == 3:
            return None
        found = np.flatnonzero(self.palette[:, 3] == 0)
        return int(found[0]) if len(found) else None


def digest_of(value: Any) -> str:
    """Return the SHA-256 of values: arrays, numbers, texts, containers and objects of these."""
    import hashlib  # loads OpenSSL, which other jobs do without

    state = hashlib.sha256()
    _feed(state, value)
    return state.hexdigest()


def _feed(state: Any, value: Any) -> None:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        state.update(f"{array.dtype.descr}{array.shape}".encode())
        names = array.dtype.names
        for part in [array] if names is None else [array[name] for name in names]:  # not what pads records
            state.update(np.ascontiguousarray(part).tobytes())
    elif isinstance(value, list | tuple):
        state.update(f"{len(value)},".encode())
        for one in value:
            _feed(state, one)
    elif isinstance(value, Mapping):
        _feed(state, [(repr(key), value[key]) for key in sorted(value, key=repr)])
    elif dataclasses.is_dataclass(value):
        _feed(state, [getattr(value, field.name) for field in dataclasses.fields(value)])
    elif value is None or isinstance(value, bool | int | float | str | bytes):
        state.update(repr(value).encode() + b",")
    elif isinstance(value, type):
        state.update(value.__qualname__.encode() + b",")
    else:
        _feed(state, [type(value), *value.__reduce_ex__(2)[1:3]])


class FileSink(Sink):
    """Write a file of results; rows are kept until they fill a row of tiles."""

    block_rows: int = 1

    def __init__(self, out: str | os.PathLike[str], about: About) -> None:
        super().__init__(out)
        self.about = about
        self.path = pathlib.Path(os.path.realpath(files.path_of(out, "out")))
        part = "part" if about.resume else f"{os.urandom(8).hex()}.part"
        self.part = self.path.parent / f".{self.path.name[:40]}.{part}"
        self.shape: tuple[int, ...] = ()
        self._lock = threading.Lock()
        self._closed = False
        self._waiting: list[npt.NDArray[Any]] = []

    def open(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Begin the file, where one may be written."""
        if not self.path.parent.is_dir():
            raise FileError(f"cannot write {str(self.path)!r}: there is no folder {str(self.path.parent)!r}")
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise FileError(f"cannot write {str(self.path)!r}: it is read-only")
        self.shape = shape
        with self._errors():
            self.begin(shape, dtype)

    def write(self, begin: int, end: int, rows: npt.NDArray[Any]) -> None:  # noqa: ARG002
        """Write the whole blocks among the rows so far."""
        with self._lock, self._errors():
            if self._closed:
                return
            self._waiting.append(rows)
            first = end - sum(len(part) for part in self._waiting)
            last = end if end == self.shape[0] else end // self.block_rows * self.block_rows
            if last <= first:
                return
            held = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
            self._waiting = [held[last - first :].copy()] if last < end else []
            self.put(first, held[: last - first])

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (FileError, InvalidArgument):
            raise
        except Exception as error:  # storage fails in many ways
            raise FileError(f"cannot write {str(self.path)!r}: {params.reason_of(error)}") from error

    def finish(self) -> None:
        """Give the file its name."""
        with self._lock, self._errors():
            self._closed = True
            self.close()
            os.replace(self.part, self.path)

    def discard(self) -> None:
        """Leave nothing behind."""
        with self._lock:
            self._closed = True
            with contextlib.suppress(Exception):
                self.abandon()
            with contextlib.suppress(OSError):
                os.unlink(self.part)

    @abc.abstractmethod
    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Make `part`."""

    @abc.abstractmethod
    def put(self, begin: int, rows: npt.NDArray[Any]) -> None:
        """Write whole rows of tiles, or the last rows."""

    @abc.abstractmethod
    def close(self) -> None:
        """Complete the file once all rows are written."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """Stop writing."""
