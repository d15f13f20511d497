"""How long a call takes by the clock on the wall."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Timing:
    """Wall-clock times of one call, in milliseconds.

    Attributes
    ----------
    median_ms, best_ms, worst_ms : float
        Over the repeats; the warm-up calls are not among them.
    repeats : int
        Calls that were timed.
    """

    median_ms: float
    best_ms: float
    worst_ms: float
    repeats: int


def time_call(call: Callable[[], object], repeat: int = 5, warmup: int = 1, budget_s: float | None = None) -> Timing:
    """Time a call that waits for its own work.

    Parameters
    ----------
    call : callable
        Without arguments; what it returns is dropped.
    repeat : int
        Timed calls, at least 1.
    warmup : int
        Calls made first and not timed: kernels are built and caches filled there.
    budget_s : float, optional
        Once this many seconds have gone (warm-up included), no further call is started, except the first timed one.

    Returns
    -------
    Timing
    """
    began = time.perf_counter()
    for done in range(warmup):
        if done and budget_s is not None and time.perf_counter() - began > budget_s:
            break
        call()
    times: list[float] = []
    while len(times) < max(repeat, 1):
        if times and budget_s is not None and time.perf_counter() - began > budget_s:
            break
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return Timing(statistics.median(times), min(times), max(times), len(times))
