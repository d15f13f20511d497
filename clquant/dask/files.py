"""Collections of files that workers read: one palette or codebook of all, or a result per picture."""

from __future__ import annotations

import collections
import copy
import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from dask import delayed

from clquant.dask.work import client, named, release, results, workers
from clquant.images.folders import files_below
from clquant.params import shown
from clquant.runtime import ClquantError, FileError, InvalidType, Progress

# Files of a task at most, and tasks per worker at least where there are enough files.
MOST_AT_ONCE, TASKS_PER_WORKER = 32, 8
# Results of `stream` per worker that wait to be taken.
WAITING = 3


class Files(Sequence[str]):
    """Picture files that workers read, for the engines' `fit`, `fit_many` and `stream`.

    Parameters
    ----------
    pictures : path-like, or sequence of these
        A pattern such as ``"photos/**/*.png"``, a folder, which stands for the pictures in it and below, or paths.
        They must name the same files on every worker.

    Raises
    ------
    FileError
        If there are none.
    InvalidType
        If it is none of these.
    """

    spread_by_dask = True

    def __init__(self, pictures: Any) -> None:
        if isinstance(pictures, str | os.PathLike):
            name = os.fsdecode(pictures)
            if os.path.isdir(name):
                pictures = files_below(name)
            else:
                pictures = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
            if not pictures:
                raise FileError(f"there is no file {shown(name)}")
        if isinstance(pictures, bytes) or not hasattr(pictures, "__iter__"):
            raise InvalidType(f"pictures is {shown(pictures)}; allowed: a pattern, a folder, or a sequence of paths")
        given = list(pictures)
        for path in given:
            if not isinstance(path, str | os.PathLike):
                raise InvalidType(f"pictures holds {shown(path)}; allowed: paths")
        if not given:
            raise FileError("pictures is empty; allowed: at least one path")
        self._paths = [os.path.abspath(os.fsdecode(path)) for path in given]

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Files: ...
    def __getitem__(self, index: int | slice) -> str | Files:
        return Files(self._paths[index]) if isinstance(index, slice) else self._paths[index]

    def __repr__(self) -> str:
        return f"Files({len(self)} from {self._paths[0]!r} on)"


class Later:
    """A picture, or several, that a worker makes by calling `read` with the arguments."""

    spread_by_dask = True

    def __init__(self, read: Callable[..., Any], *args: Any) -> None:
        self._read, self._args = read, args

    def __call__(self) -> Any:
        return self._read(*self._args)


def expanded(images: Sequence[Any]) -> list[Any]:
    """Return images with each `Files` replaced by its paths."""
    return [one for image in images for one in (image if isinstance(image, Files) else [image])]


def portions(count: int) -> list[tuple[int, int]]:
    """Return half-open ranges that divide `count` files among tasks."""
    share = max(1, min(MOST_AT_ONCE, count // (TASKS_PER_WORKER * workers())))
    return [(first, min(first + share, count)) for first in range(0, count, share)]


def numbered(first: int, work: Any, *args: Any, **options: Any) -> Any:
    """Call `work` on a portion of a collection; errors name a picture by its index among all."""
    # `work` is from `named`, which the client calls: there it is known what is verified.
    try:
        return work(*args, **options)
    except ClquantError as error:
        told = re.sub(r"images\[(\d+)\]", lambda match: f"images[{int(match[1]) + first}]", str(error))
        error.args = (told, *error.args[1:])
        raise


def fit_many(engine: Any, files: Files, report: Progress) -> list[Any]:
    """Fit one palette per path on workers, like the engine's `fit_many`."""
    ranges, work = portions(len(files)), delayed(numbered, pure=False)
    method = named(_Call(engine, "fit_many", {}))
    found: dict[int, list[Any]] = {}
    for index, palettes in results([work(first, method, files[first:end]._paths) for first, end in ranges]):
        found[index] = palettes
        report.report(sum(map(len, found.values())), len(files))
    return [palette for index in range(len(ranges)) for palette in found[index]]


def stream(engine: Any, files: Any, method: str, arguments: dict[str, Any]) -> Iterator[Any] | None:
    """Stream the results of `Files` like the engine's `stream`; None without a cluster or for other images."""
    there = client()
    return (
        None
        if there is None or not isinstance(files, Files)
        else _streamed(there, _Call(engine, method, arguments), files)
    )


def _streamed(there: Any, call: _Call, files: Files) -> Iterator[Any]:
    waiting: collections.deque[Any] = collections.deque()
    most = WAITING * workers()
    try:
        for path in files:
            waiting.append(there.submit(named(call), path, pure=False))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        release(waiting)


class _Call:
    """A method of a copy of an engine, for other processes."""

    def __init__(self, engine: Any, method: str, arguments: dict[str, Any]) -> None:
        self._engine, self._method, self._arguments = engine, method, arguments

    def __call__(self, images: Any) -> Any:
        return getattr(copy.copy(self._engine), self._method)(images, **self._arguments)
