"""Calls that a worker makes while the client waits: the client is told of progress, and if it goes the call stops."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from clquant.dask.work import release
from clquant.runtime import Progress

# What this client's calls tell, by their labels: pairs of steps that are done and of all; None at the end.
_told: dict[str, SimpleQueue[tuple[int, int] | None]] = {}


@dataclass(frozen=True)
class Teller:
    """Reports a worker's progress to its client."""

    topic: str  # of events at the scheduler; empty if the client does not listen
    label: str  # the call's

    def progress(self) -> Progress:
        """Return the running task's progress, which ends the job once nobody waits for the task."""
        from distributed import get_worker

        worker = get_worker()
        key = worker.get_current_task()

        def tell(done: int, total: int) -> bool:
            if self.topic:
                worker.log_event(self.topic, [self.label, done, total])
            task = worker.state.tasks.get(key)
            return task is not None and task.state != "cancelled"

        return Progress(tell)


def called(there: Any, progress: Progress, begin: Callable[[Teller], Any]) -> Any:
    """Wait for a call on a worker, report its progress in this thread, and return its value."""
    # A call that is made again, as its worker was lost, reports nothing twice. StoppedError: the progress callback
    # returned False; the call stops at its next report.
    teller = Teller(there.id if progress.wanted else "", uuid.uuid4().hex)
    if not progress.wanted:
        return begin(teller).result()
    news = _told[teller.label] = SimpleQueue()
    there.subscribe_topic(teller.topic, _hear)
    future = begin(teller)
    future.add_done_callback(lambda _: news.put(None))
    most = -1
    try:
        while (heard := news.get()) is not None:
            if heard[0] > most:
                most = heard[0]
                progress.report(*heard)
        return future.result()
    finally:
        del _told[teller.label]
        release([future])


def _hear(event: tuple[float, Any]) -> None:
    """Queue the progress that a call reports; the client's topic carries other events too."""
    match event[1]:
        case [str(label), int(done), int(total)] if label in _told:
            _told[label].put((done, total))
