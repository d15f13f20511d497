"""Telling a caller how far a long job is, and letting it stop the job."""

from __future__ import annotations

from collections.abc import Callable

from clquant.runtime.errors import StoppedError

ProgressCallback = Callable[[int, int], object]


class Progress:
    """Reports (done, total) to a callback, which stops the job by returning False."""

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback

    @property
    def wanted(self) -> bool:
        """Whether anybody listens: a job may skip the synchronisation that exact reports need."""
        return self._callback is not None

    def part(self, before: int, total: int) -> Progress:
        """Make the progress of a stage of a job of `total` steps, of which `before` precede the stage."""
        callback = self._callback
        return Progress(None if callback is None else lambda done, _: callback(before + done, total))

    def report(self, done: int, total: int) -> None:
        """Tell the callback that `done` of `total` steps are over; raises StoppedError if it returns False."""
        if self._callback is not None and self._callback(done, total) is False:
            raise StoppedError(f"stopped by the progress callback at {done} of {total}")
