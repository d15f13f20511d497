"""Executors: what runs jobs and verbs on the things a call is given, chosen by where these lie."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from clquant import params
from clquant.executors import remote_executor
from clquant.flow.file_sinks import About
from clquant.flow.job import Map, Reduce
from clquant.flow.local import Local
from clquant.flow.queues import Several
from clquant.flow.threads import VERBS
from clquant.images import materialize
from clquant.runtime import Progress, ProgressCallback, QueueLike, is_several, queues_of

F = TypeVar("F", bound=Callable[..., Any])


class Executor(Protocol):
    """Runs jobs where their sources lie: on queues of this process (`flow.local`), or on workers (`clquant.dask`)."""

    def map(self, job: Map, image: Any, *, out: Any, about: About, memory: Any, report: Progress) -> Any:
        """Return a job's result for an image."""

    def reduce(self, job: Reduce, image: Any, *, memory: Any, report: Progress, argument: str) -> Any:
        """Return a reduction's value for an image, or for several that workers read."""

    def fetch(self, result: Any, report: Progress) -> Any:
        """Return a result in this process, with its values computed."""


def executor_for(*given: Any, queue: QueueLike = None) -> Executor:
    """Choose the executor of what a call is given: of workers if any of it lies there, else of the queues here."""
    elsewhere = remote_executor(*given)
    if elsewhere is not None:
        return cast(Executor, elsewhere.on(queue))
    return Several(queues_of(queue)) if is_several(queue) else Local(queue)


def run(
    job: Map,
    image: Any,
    *,
    queue: QueueLike = None,
    progress: ProgressCallback | None = None,
    out: Any = None,
    about: About | None = None,
    memory: Any = None,
) -> Any:
    """Return a job's result for an image: on the device for a device array, a lazy array for Dask's, else on the host.

    `out`, `about` and `memory` are those of the public verbs.
    """
    report = Progress(params.callback("progress", progress))
    return executor_for(image, queue=queue).map(
        job, image, out=out, about=about or About(), memory=memory, report=report
    )


def reduce(
    job: Reduce,
    image: Any,
    *,
    queue: QueueLike = None,
    progress: ProgressCallback | None = None,
    memory: Any = None,
    argument: str = "image",
) -> Any:
    """Return a reduction's value for an image; arrays and files of workers, alone or in a list, are reduced there."""
    report = Progress(params.callback("progress", progress))
    return executor_for(image, queue=queue).reduce(job, image, memory=memory, report=report, argument=argument)


def fetch(result: Any, progress: ProgressCallback | None) -> Any:
    """Return a result in this process, with the values of a lazy one computed."""
    return executor_for(result).fetch(result, Progress(progress))


def verb(method: F) -> F:
    """Let the executor of what a public verb is given do the verb in its own way, if it has one."""

    @functools.wraps(method)
    def dispatched(*args: Any, **options: Any) -> Any:
        args = tuple(map(materialize, args))
        executor = remote_executor(*args, *options.values())
        verbs = executor.verbs if executor is not None else VERBS if is_several(getattr(args[0], "queue", None)) else {}
        own = verbs.get(method.__qualname__)
        return (own or method)(*args, **options)

    return cast(F, dispatched)
