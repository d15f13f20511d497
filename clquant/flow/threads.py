"""Running one method of an engine over many pictures, several at a time, results in order."""

from __future__ import annotations

import collections
import contextlib
import copy
import itertools
import queue
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import PIL.Image

from clquant import params
from clquant.executors import remote_executor
from clquant.images import detached
from clquant.images.batches import listed
from clquant.runtime import (
    ClquantError,
    CommandQueue,
    Progress,
    ProgressCallback,
    is_page_locked,
    is_several,
    queues_of,
    thread_queue,
)

GROUPS_EACH = 4  # of images that are fitted at once, for each queue


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
    images, own_queue = unshared(given), engine.get_params().get("queue")
    several = itertools.cycle(queues_of(own_queue) if own_queue is not None or is_several(None) else [None])
    of_thread = threading.local()

    def begin_thread() -> None:
        of_thread.queue = next(several)

    with ThreadPoolExecutor(depth, thread_name_prefix="clquant-stream", initializer=begin_thread) as pool:

        def call(image: Any) -> Any:
            own = copy.copy(engine)
            if of_thread.queue is not None:
                own.queue = thread_queue(of_thread.queue)
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


def numbered(numbers: Sequence[int], work: Any, *args: Any) -> Any:
    """Call `work` on some images of a collection; errors name an image by its number among all."""
    try:
        return work(*args)
    except ClquantError as error:
        text = re.sub(r"images\[(\d+)\]", lambda m: f"images[{numbers[min(int(m[1]), len(numbers) - 1)]}]", str(error))
        error.args = (text, *error.args[1:])
        raise


def fit_many(engine: Any, images: Iterable[Any], *, progress: ProgressCallback | None = None) -> list[Any]:
    """Fit a palette per image like the engine, each of several queues some images when it is free."""
    report, sources = Progress(params.callback("progress", progress)), listed(images)
    queues = queues_of(engine.queue)
    step = -(-len(sources) // (GROUPS_EACH * len(queues)))
    free: queue.SimpleQueue[CommandQueue] = queue.SimpleQueue()
    for one in queues:
        free.put(one)

    def fit(first: int) -> list[Any]:
        own, given = copy.copy(engine), sources[first : first + step]
        taken = free.get()
        try:
            own.queue = thread_queue(taken)
            return numbered(range(first, first + len(given)), own.fit_many, given)  # type: ignore[no-any-return]
        finally:
            free.put(taken)

    found: list[Any] = []
    with ThreadPoolExecutor(len(queues), thread_name_prefix="clquant-fit") as pool:
        futures = [pool.submit(fit, first) for first in range(0, len(sources), step)]
        try:
            for future in futures:
                found += future.result()
                report.report(len(found), len(sources))
        finally:
            for future in futures:
                future.cancel()
    return found


# Public verbs that several queues of this process do in their own way, by their qualified names.
VERBS = {"KMeansPalette.fit_many": fit_many, "NeuQuantCL.fit_many": fit_many}


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
