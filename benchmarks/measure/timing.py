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


def rate_of_rounds(launch: Callable[[int], None], a_round: int, rounds: tuple[int, int], target_ms: float) -> float:
    """How fast a call does something that it repeats as often as it is told.

    Parameters
    ----------
    launch : callable
        Called with a number of rounds; waits for its own work.
    a_round : int
        How much it does in a round.
    rounds : tuple of int
        The least and the most; there are as many as the time below takes.
    target_ms : float
        How long the timed calls should take.

    Returns
    -------
    float
        10^9 a second, in the fastest of three calls.
    """

    def best_of(count: int, repeat: int) -> float:
        return time_call(lambda: launch(count), repeat, warmup=0).best_ms

    count, most = rounds
    while (took := best_of(count, 1)) < target_ms and count < most:
        count *= 2 if took > target_ms / 8 else 8
    return a_round * count / best_of(count, 3) * 1e-6
