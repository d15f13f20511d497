"""Collections of files that workers read: one palette or codebook of all, or a result per picture."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from clquant import params
from clquant.dask.work import client, named, release, workers
from clquant.flow.threads import numbered, stream_by_threads
from clquant.images.collections import Files
from clquant.runtime import InvalidType, Progress, ProgressCallback

# Files of a task at most, and tasks per worker at least where there are enough files.
MOST_AT_ONCE, TASKS_PER_WORKER = 32, 8
# Results of `stream` per worker that wait to be taken.
WAITING = 3


def share_files(count: int) -> list[tuple[int, int]]:
    """Return half-open ranges that divide `count` files among tasks."""
    share = max(1, min(MOST_AT_ONCE, count // (TASKS_PER_WORKER * workers())))
    return [(first, min(first + share, count)) for first in range(0, count, share)]


def fit_many(engine: Any, images: Any, *, progress: ProgressCallback | None = None) -> list[Any]:
    """Fit one palette per image like the engine's `fit_many`; those of `Files` are read by workers."""
    report = Progress(params.callback("progress", progress))
    if not isinstance(images, Files):
        raise InvalidType("images has a Dask array, and fit_many needs pixels; allowed: paths, or each one's compute()")
    if client() is None:
        found: list[Any] = engine.fit_many(list(images), progress=progress)
        return found
    work, paths, found = named(partial(_called, engine, "fit_many", {})), list(images), []
    tasks = ((range(first, end), work, paths[first:end]) for first, end in share_files(len(paths)))
    for palettes in _in_order(numbered, tasks):
        found += palettes
        report.report(len(found), len(images))
    return found


def stream(engine: Any, images: Any, method: str, depth: int, arguments: dict[str, Any]) -> Iterator[Any]:
    """Stream the results of `Files` by workers, without a cluster by threads."""
    if client() is None or not isinstance(images, Files):
        return stream_by_threads(engine, images, method, depth, arguments)
    return _in_order(named(partial(_called, engine, method, arguments)), ((path,) for path in images))


def _in_order(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the results of calls on the cluster, of which a few wait; closing the iterator cancels the others."""
    waiting: collections.deque[Any] = collections.deque()
    cluster, most = client(), WAITING * workers()
    assert cluster is not None, "tasks are a cluster's"
    try:
        for task in tasks:
            waiting.append(cluster.submit(work, *task, pure=False))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        release(waiting)


def _called(engine: Any, method: str, arguments: dict[str, Any], images: Any) -> Any:
    """Call a method of a copy of an engine."""
    return getattr(copy.copy(engine), method)(images, **arguments)
