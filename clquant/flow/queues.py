"""Several queues of this process: a thread for each, and the executor that deals portions of pictures out to them."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant.flow.file_sinks import About
from clquant.flow.job import Job, Map, Reduce
from clquant.flow.local import Local, check_side, in_bands, state_of
from clquant.flow.result_files import writing
from clquant.flow.source import Cut, PictureSource, open_picture
from clquant.images import ImageLike, Picture
from clquant.runtime import (
    CommandQueue,
    DeviceError,
    DeviceMemoryError,
    HostResult,
    Limits,
    Progress,
    describe,
    open_session,
    thread_queue,
)

T = TypeVar("T")

PORTIONS_EACH = 4  # for each queue, so that a faster device takes more of them
FAST_SECONDS = 0.5e-9  # of a pixel: a queue that takes less waits for copies, which more queues do not speed up


class QueueThreads:
    """A thread for each of several queues, which has a queue of its own on that device; for a ``with`` block.

    What one of them raises names its device.
    """

    def __init__(self, queues: Sequence[CommandQueue]) -> None:
        self._queues = list(queues)
        self._pools = [ThreadPoolExecutor(1, "clquant-queue") for _ in self._queues]

    def __enter__(self) -> QueueThreads:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools:
            pool.shutdown()

    def __len__(self) -> int:
        return len(self._queues)

    def shares_of(self, count: int) -> list[tuple[int, int]]:
        """Divide rows among the queues for good, by their devices' speed: half-open, none empty if there are enough."""
        speeds = [queue.device.max_compute_units * queue.device.max_clock_frequency for queue in self._queues]
        speeds = speeds if all(speeds) else [1] * len(speeds)  # some drivers tell no frequency
        least = int(count >= len(speeds))
        spare = count - least * len(speeds)
        sums = itertools.accumulate(speeds)
        ends = [least * number + spare * part // sum(speeds) for number, part in enumerate(sums, 1)]
        return list(itertools.pairwise([0, *ends]))

    def pays(self, work: int, nbytes: int) -> bool:
        """Whether steps of so many products are shared out, or the device of the first queue has no room for bytes."""
        limits = [Limits.of(queue.device) for queue in self._queues]
        return work >= max(one.shared_work for one in limits) or nbytes > limits[0].global_memory // 3

    def submit(self, number: int, work: Callable[..., T], *given: Any) -> Future[T]:
        """Call `work` with the queue of a thread, and what is given, on that thread."""
        return self._pools[number].submit(self._call, number, work, *given)

    def each(self, work: Callable[..., T], *given: Any) -> list[T]:
        """Call `work` with each thread's number and queue, and what is given; return the results when all are over."""
        futures = [self.submit(n, lambda queue, n=n: work(n, queue, *given)) for n in range(len(self))]
        wait(futures)
        return [future.result() for future in futures]

    def _call(self, number: int, work: Callable[..., T], *given: Any) -> T:
        try:
            return work(thread_queue(self._queues[number]), *given)
        except (DeviceError, DeviceMemoryError) as error:
            if len(self) > 1:
                error.args = (f"device {describe(self._queues[number].device)!r}: {error}", *error.args[1:])
            raise


class Several:
    """Runs jobs on several queues of this process: each takes the next portion of a picture when it is free.

    Scans, enlarged pictures, those on a device and small ones stay with one queue.
    """

    def __init__(self, queues: Sequence[CommandQueue]) -> None:
        self._queues = list(queues)

    def map(self, job: Map, image: ImageLike, *, out: Any, about: About, memory: Any, report: Progress) -> Any:
        """Return a job's result on the host, or `out` with it."""
        picture = open_picture(image, memory=memory, max_bits=job.max_bits, takes_rows=job.takes_rows)
        cuts = self._cuts(job, picture) if not job.is_serial and job.scale == 1 else []
        if len(cuts) < 2:
            return Local(self._queues).map(job, picture, out=out, about=about, memory=memory, report=report)
        check_side(picture, job.max_side)
        shape, dtype = job.result(picture)
        with writing(out, about) as sink:
            if sink is not None:
                sink.open(shape, np.dtype(dtype))
                cuts = [cut for cut in cuts if not sink.has(-(-cut.row1 // job.block[0]))]
            result = HostResult(open_session(self._queues), shape, dtype).array() if sink is None else sink.target

            def step(queue: CommandQueue, cut: Cut, part: Picture) -> tuple[int, int, npt.NDArray[Any] | None]:
                high = job.block[0]
                begin, end = cut.row0 // high, -(-cut.row1 // high)
                session, skipped = open_session(queue), begin - cut.first // high
                own = None if sink is not None else result[begin:end]
                room = None if own is None else HostResult(session, own.shape, dtype, own)
                made = in_bands(session, part, job, Progress(None), room)
                if sink is not None:
                    return begin, end, made[skipped : skipped + end - begin]
                if not np.may_share_memory(made, result):
                    result[begin:end] = made[skipped : skipped + end - begin]
                return begin, end, None

            for begin, end, rows in self._run(picture, cuts, step, report):
                if sink is not None and rows is not None:
                    sink.write(begin, end, rows)
        return result

    def reduce(self, job: Reduce, image: ImageLike, *, memory: Any, report: Progress, argument: str) -> Any:
        """Return a reduction's value for an image."""
        picture = open_picture(image, memory=memory, argument=argument, max_bits=job.max_bits)
        cuts = self._cuts(job, picture) if not job.halo else []
        if len(cuts) < 2:
            return Local(self._queues).reduce(job, picture, memory=memory, report=report, argument=argument)

        def step(queue: CommandQueue, _: Cut, part: Picture) -> Any:
            return state_of(open_session(queue), [part], job, Progress(None))

        return job.finish(job.merge(list(self._run(picture, cuts, step, report))))

    def fetch(self, result: Any, report: Progress) -> Any:  # noqa: ARG002
        """Return a result, which is in this process."""
        return result

    def _cuts(self, job: Job, picture: Picture) -> list[Cut]:
        """Divide a picture into portions for whichever queue is free; none if they would be too small."""
        if picture.on_device:
            return []
        multiple = math.lcm(job.grid, job.block[0] if isinstance(job, Map) else 1)
        least = min(open_session(queue).limits.shared_pixels for queue in self._queues)
        rows = max(-(-picture.height // (PORTIONS_EACH * len(self._queues))), -(-least // picture.width))
        cuts = PictureSource(picture).portions(None, multiple, most=-(-rows // multiple) * multiple)
        return [Cut(cut.row0, cut.row1, *job.around(cut.row0, cut.row1, picture.height)) for cut in cuts]

    def _run(
        self, picture: Picture, cuts: Sequence[Cut], step: Callable[[CommandQueue, Cut, Picture], T], report: Progress
    ) -> Iterator[T]:
        """Yield what `step` makes of portions, in their order; each queue has one at work and one waiting.

        The first portion is one queue's. If it is through as fast as its copies can be, the rest is that queue's, too.
        """
        with QueueThreads(self._queues) as threads:
            source, begin = PictureSource(picture), time.perf_counter()
            yield threads.submit(0, step, cuts[0], source.part(cuts[0])).result()
            report.report(cuts[0].row1, picture.height)
            seconds = time.perf_counter() - begin
            queues = list(range(len(threads)))
            if seconds < FAST_SECONDS * picture.width * cuts[0].row1:
                queues = queues[:1]
                cuts = (
                    cuts[1:] if source.is_stored else [Cut(cuts[1].row0, cuts[-1].row1, cuts[1].first, cuts[-1].last)]
                )
            else:
                cuts = cuts[1:]
            free, more = queues * 2, enumerate(cuts)
            running: dict[Future[T], tuple[int, int]] = {}
            found: dict[int, T] = {}
            try:
                for turn, cut in enumerate(cuts):
                    while turn not in found:
                        for number, other in itertools.islice(more, len(free)):
                            place = free.pop(0)
                            future = threads.submit(place, step, other, source.part(other))
                            running[future] = number, place
                        for future in wait(running, return_when=FIRST_COMPLETED).done:
                            number, place = running.pop(future)
                            found[number] = future.result()
                            free.append(place)
                    yield found.pop(turn)
                    report.report(cut.row1, picture.height)
            finally:
                for future in running:
                    future.cancel()
