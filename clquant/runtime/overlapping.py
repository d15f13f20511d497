"""Running independent parts of one job so that their uploads, kernels and downloads overlap."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from clquant.runtime.profiling import profiled
from clquant.runtime.progress import Progress
from clquant.runtime.session import Session
from clquant.runtime.staging import SMALLEST, Staging, staging

T = TypeVar("T")


def overlap(
    session: Session,
    parts: Sequence[T],
    work: Callable[[Session, T], None],
    progress: Progress | None = None,
) -> None:
    """Call ``work(session, part)`` for every part; on devices with memory of their own, several at a time.

    Each thread brings a session with a queue and pinned memory of its own, so that one part's kernels run while
    another's pixels are on their way. On devices that share the host's memory, for a single part, inside `profile()`
    (the threads' queues carry no times), and where the progress callback of a job that has the lanes began this one,
    the parts run one after another on `session` itself. All work is over when this returns.

    Parameters
    ----------
    session : Session
        What it has queued before is waited for.
    parts : sequence
        Independent of each other: no part reads what another writes.
    work : callable
        Uses only the session that it is given, and leaves nothing queued that touches host memory.
    progress : Progress, optional
        Told the parts that are over, from the calling thread where they run one after another.

    Raises
    ------
    The error of the first lane that failed; parts not begun by then are left out.
    """
    shared = None
    if len(parts) > 1 and not session.limits.unified_memory and not session.has_lane and not profiled():
        shared = staging(session.context, session.device)
    told = progress if progress is not None else Progress(None)
    if shared is not None:
        session.finish()
        with shared.claim() as mine:
            if mine:
                shared.run(_LaneWork(shared, parts, work, told))
                return
    for done, part in enumerate(parts, 1):
        work(session, part)
        told.report(done, len(parts))


class _LaneWork(Generic[T]):
    """What every lane does: take the next part until none is left or one has failed."""

    def __init__(
        self, shared: Staging, parts: Sequence[T], work: Callable[[Session, T], None], progress: Progress
    ) -> None:
        self._shared = shared
        self._waiting = iter(parts)
        self._total = len(parts)
        self._done = 0
        self._work = work
        self._progress = progress
        self._turn = threading.Lock()
        self._failed = threading.Event()

    def __call__(self, index: int) -> None:
        lane = self._shared.lanes[index]
        session = Session(lane.queue, lane)
        while not self._failed.is_set():
            with self._turn:
                part = next(self._waiting, None)
            if part is None:
                session.finish()
                return
            try:
                self._work(session, part)
                with self._turn, self._shared.calling_back():
                    self._done += 1
                    self._progress.report(self._done, self._total)
            except BaseException:
                self._failed.set()
                raise


def overlap_bands(session: Session, height: int, row_bytes: int, multiple_of: int = 1) -> list[tuple[int, int]]:
    """Bands of rows to overlap: `transfer.bands` of the picture, or what fits the largest allocation if that is less.

    Parameters
    ----------
    session : Session
    height, row_bytes : int
        Rows, and bytes a row of the largest buffer that a band needs.
    multiple_of : int
        Every band but the last has a multiple of this many rows.

    Returns
    -------
    list of (row0, row1)
        Half-open, top to bottom. One band where the device shares the host's memory, or the picture is small.
    """
    most = max(session.limits.max_alloc // max(row_bytes, 1), 1)
    if not session.limits.unified_memory and height * row_bytes >= SMALLEST:
        bands = session.tuned("transfer.bands")
        most = min(most, max(-(-height // bands), SMALLEST // bands // max(row_bytes, 1), 1))
    rows = max(most // multiple_of, 1) * multiple_of
    return [(row0, min(row0 + rows, height)) for row0 in range(0, height, rows)]
