"""Running one method of an engine over many pictures, several at a time, results in order."""

from __future__ import annotations

import collections
import contextlib
import copy
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import PIL.Image

from clquant.executors import remote_executor
from clquant.images import detached
from clquant.runtime import CommandQueue, is_page_locked, thread_queue


def stream(engine: Any, images: Iterable[Any], method: str, depth: int, arguments: dict[str, Any]) -> Iterator[Any]:
    """Results of ``engine.method(image, **arguments)`` for each image, in order: by threads, or workers for `Files`."""
    executor = remote_executor(images)
    run = stream_by_threads if executor is None else executor.stream
    found: Iterator[Any] = run(engine, images, method, depth, arguments)
    return found


def stream_by_threads(
    engine: Any, given: Iterable[Any], method: str, depth: int, arguments: dict[str, Any]
) -> Iterator[Any]:
    """Results of ``engine.method(image, **arguments)`` for each image, in the images' order.

    `depth` threads, each with a queue of its own, work ahead, so that reading, transfers and kernels of neighbouring
    images overlap. At most ``depth + 1`` images and results are held at a time. Each result is what the plain call
    of a copy of the engine gives: what a method learns is that copy's. An error, of an image or of the iterator, is
    raised at its turn; what was begun by then is finished and dropped.
    """
    pending: collections.deque[Future[Any]] = collections.deque()
    images, queue = unshared(given), engine.get_params().get("queue")
    with ThreadPoolExecutor(depth, thread_name_prefix="clquant-stream") as pool:

        def call(image: Any) -> Any:
            own = copy.copy(engine)
            if isinstance(queue, CommandQueue):
                own.queue = thread_queue(queue)
            return getattr(own, method)(image, **arguments)

        def begin() -> bool:
            """Submit the next image, if there is one."""
            try:
                image = next(images)
            except StopIteration:
                return False
            except Exception as error:  # at the turn of the image that did not come
                pending.append(Future())
                pending[-1].set_exception(error)
                return False
            pending.append(pool.submit(call, image))
            return True

        more = True
        try:
            while more and len(pending) < depth:
                more = begin()
            while pending:
                result = pending.popleft().result()
                more = more and begin()
                yield result
        finally:
            for future in pending:
                future.cancel()


def unshared(images: Iterable[Any]) -> Iterator[Any]:
    """Images as they come, made safe where others may read them too, or an iterable's next step may change them.

    Arrays in page-locked memory are taken as they are: who has asked for it has done so to save the copy.
    """
    listed = isinstance(images, list | tuple)
    times = collections.Counter(id(image) for image in images) if listed else collections.Counter()
    kept = listed or isinstance(images, np.ndarray)
    for image in images:
        if isinstance(image, PIL.Image.Image):
            changes = not listed or times[id(image)] > 1
        else:
            changes = isinstance(image, np.ndarray) and not kept and not is_page_locked(image)
        if changes:
            with contextlib.suppress(Exception):  # what cannot be read is an error where it is read
                image = detached(image)
        yield image
