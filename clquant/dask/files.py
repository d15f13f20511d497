"""Collections of files that workers read: one palette or codebook of all, or a result per picture."""

from __future__ import annotations

import collections
import copy
import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from clquant import params
from clquant.dask.work import client, named, release, workers
from clquant.flow.threads import stream_by_threads
from clquant.images.folders import files_below
from clquant.params import shown
from clquant.runtime import ClquantError, FileError, InvalidType, Progress, ProgressCallback

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


def numbered(numbers: Sequence[int], work: Any, *args: Any) -> Any:
    """Call `work` on some images of a collection; errors name an image by its number among all."""
    # `work` is from `named`, which the client calls: there it is known what is verified.
    try:
        return work(*args)
    except ClquantError as error:
        text = re.sub(r"images\[(\d+)\]", lambda m: f"images[{numbers[min(int(m[1]), len(numbers) - 1)]}]", str(error))
        error.args = (text, *error.args[1:])
        raise


def fit_many(engine: Any, images: Any, *, progress: ProgressCallback | None = None) -> list[Any]:
    """Fit one palette per image like the engine's `fit_many`; those of `Files` are read by workers."""
    report = Progress(params.callback("progress", progress))
    if not isinstance(images, Files):
        raise InvalidType("images has a Dask array, and fit_many needs pixels; allowed: paths, or each one's compute()")
    if client() is None:
        found: list[Any] = engine.fit_many(list(images), progress=progress)
        return found
    work, paths, found = named(_Call(engine, "fit_many", {})), list(images), []
    tasks = ((range(first, end), work, paths[first:end]) for first, end in portions(len(paths)))
    for palettes in _in_order(numbered, tasks):
        found += palettes
        report.report(len(found), len(images))
    return found


def stream(engine: Any, images: Any, method: str, depth: int, arguments: dict[str, Any]) -> Iterator[Any]:
    """Stream the results of `Files` by workers, without a cluster by threads."""
    if client() is None or not isinstance(images, Files):
        return stream_by_threads(engine, images, method, depth, arguments)
    return _in_order(named(_Call(engine, method, arguments)), ((path,) for path in images))


def _in_order(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the results of calls on the cluster, of which a few wait; closing the iterator cancels the others."""
    waiting: collections.deque[Any] = collections.deque()
    there, most = client(), WAITING * workers()
    assert there is not None, "tasks are a cluster's"
    try:
        for task in tasks:
            waiting.append(there.submit(work, *task, pure=False))
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
