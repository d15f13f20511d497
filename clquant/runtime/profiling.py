"""Collecting the events of this thread's launches and copies, for kernel times in benchmarks."""

from __future__ import annotations

import contextlib
import contextvars
from collections import Counter, defaultdict
from collections.abc import Iterator

import pyopencl as cl

_collector: contextvars.ContextVar[Profile | None] = contextvars.ContextVar("clquant_profile", default=None)


class Profile:
    """The events of one `profile()` block; times are read after the block's work has finished."""

    def __init__(self) -> None:
        self._events: list[tuple[str, bool, cl.Event]] = []

    def add(self, name: str, is_kernel: bool, event: cl.Event) -> None:
        """Keep an event under a name; fills and copies within the device count as kernels, those to the host do not."""
        self._events.append((name, is_kernel, event))

    def by_name(self) -> dict[str, float]:
        """Milliseconds of device time by kernel or copy, summed over launches, longest first."""
        total: dict[str, float] = defaultdict(float)
        for name, _, event in self._events:
            event.wait()
            total[name] += (event.profile.end - event.profile.start) * 1e-6
        return dict(sorted(total.items(), key=lambda item: -item[1]))

    def kernel_ms(self) -> float:
        """Milliseconds of device time of all kernels and fills; copies between host and device are left out."""
        copies = {name for name, is_kernel, _ in self._events if not is_kernel}
        return sum(ms for name, ms in self.by_name().items() if name not in copies)

    def counts(self) -> dict[str, int]:
        """Count the launches of each kernel or copy."""
        return dict(Counter(name for name, _, _ in self._events))

    def launches(self) -> int:
        """Count the kernels, fills and copies within the device."""
        return sum(is_kernel for _, is_kernel, _ in self._events)


@contextlib.contextmanager
def profile() -> Iterator[Profile]:
    """Collect the events of every launch and copy that this thread makes inside the block.

    Times are read from a queue that carries `PROFILING_ENABLE` (see `profiling_queue`), once the work is done.
    """
    collector = Profile()
    token = _collector.set(collector)
    try:
        yield collector
    finally:
        _collector.reset(token)


def record(name: str, is_kernel: bool, event: cl.Event) -> None:
    """Hand an event to the profile that is open in this thread, if any."""
    collector = _collector.get()
    if collector is not None:
        collector.add(name, is_kernel, event)


def profiled() -> bool:
    """Whether a profile is open in this thread."""
    return _collector.get() is not None
