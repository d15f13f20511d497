"""Running one method of an engine over many pictures, several at a time, results in order."""

from __future__ import annotations

import collections
import copy
import itertools
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from clquant.runtime import CommandQueue, sibling_queue


def stream(engine: Any, images: Iterable[Any], method: str, depth: int, arguments: dict[str, Any]) -> Iterator[Any]:
    """Results of ``engine.method(image, **arguments)`` for each image, in the images' order.

    `depth` threads, each with a queue of its own, work ahead, so that reading, transfers and kernels of neighbouring
    images overlap. At most ``depth + 1`` images and results are held at a time. Each result is what the plain call
    gives. An error is raised at its image's turn; what was begun by then is finished and dropped.

    Parameters
    ----------
    engine : Estimator
    images : iterable
        Read one by one, as results are taken.
    method : str
    depth : int
    arguments : dict
    """
    thread_engines = threading.local()

    def call(image: Any) -> Any:
        if not hasattr(thread_engines, "engine"):
            thread_engines.engine = _with_own_queue(engine)
        return getattr(thread_engines.engine, method)(image, **arguments)

    source = iter(images)
    pending: collections.deque[Future[Any]] = collections.deque()
    with ThreadPoolExecutor(depth, thread_name_prefix="clquant-stream") as pool:
        try:
            pending.extend(pool.submit(call, image) for image in itertools.islice(source, depth))
            while pending:
                result = pending.popleft().result()
                pending.extend(pool.submit(call, image) for image in itertools.islice(source, 1))
                yield result
        finally:
            for future in pending:
                future.cancel()


def _with_own_queue(engine: Any) -> Any:
    """The engine itself, or where a queue was named a copy on another queue of the same context and device."""
    queue = engine.get_params().get("queue")
    if not isinstance(queue, CommandQueue):
        return engine
    own = copy.copy(engine)
    own.queue = sibling_queue(queue)
    return own
