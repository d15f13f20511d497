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
    """What a call on a worker tells its client.

    Attributes
    ----------
    topic : str
        Of events at the scheduler; empty if the client does not listen.
    label : str
        The call's.
    """

    topic: str
    label: str

    def progress(self) -> Progress:
        """The progress of the task that asks for it: ends the job if nobody waits for the task any more."""
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
    """The value of a call that a worker makes.

    A call that is made again, as its worker was lost, tells nothing twice.

    Parameters
    ----------
    there : distributed.Client
    progress : Progress
        Told in this thread.
    begin : callable
        From a `Teller` for the call to the call's future.

    Raises
    ------
    StoppedError
        If the progress callback returned False; the call stops at its next report.
    """
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
    """Pass on what a call tells; the topic is the client's own, which has other events too."""
    match event[1]:
        case [str(label), int(done), int(total)] if label in _told:
            _told[label].put((done, total))
