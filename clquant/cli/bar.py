"""The line about work that takes over a second: what is done, how much of it, and how long it still takes.

It stands on standard error if that is a terminal. A thread draws it, so that it moves while an engine computes.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator

from clquant.cli import streams

DELAY_SECONDS, COLUMNS = 1.0, 20
_TICK_SECONDS, _RUNNER = 0.25, 4


class Task:
    """A step of the work, and what was last reported about it."""

    def __init__(self, label: str) -> None:
        self.label, self.begin = streams.printable(label), time.monotonic()
        self.done = self.total = 0
        self._since, self._from = self.begin, 0  # of the reports that count the same things
        self._last = self.begin

    def report(self, done: int, total: int) -> None:
        """Note that `done` of `total` parts are over: a ``progress=`` callback."""
        self._last = time.monotonic()
        if self.total and (total != self.total or done < self.done):
            self._since, self._from = self._last, done
        self.done, self.total = done, total
        _LINE.draw()

    def text(self, now: float) -> str:
        """Describe the step: a bar with its share and the time left, or a running one with the time spent."""
        if not 0 <= self.done <= self.total or not self.total:
            place = int(now / _TICK_SECONDS) % (2 * (COLUMNS - _RUNNER))
            place = min(place, 2 * (COLUMNS - _RUNNER) - place)
            return f"{self.label} [{' ' * place + '#' * _RUNNER:{COLUMNS}}] {now - self.begin:.0f} s"
        share = f"{'#' * (COLUMNS * self.done // self.total):{COLUMNS}}] {100 * self.done // self.total} %"
        over = self.done - self._from
        if over < 1:
            return f"{self.label} [{share}"
        left = (self._last - self._since) * (self.total - self.done) / over - (now - self._last)
        return f"{self.label} [{share}, {max(left, 0):.0f} s left"


class _Line:
    """All steps at work, outer ones first, and the thread that draws the line about them."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @contextlib.contextmanager
    def about(self, label: str) -> Iterator[Task]:
        """Show a step for the block."""
        task = Task(label)
        with self._lock:
            self._tasks.append(task)
            if len(self._tasks) == 1:
                self._ended = threading.Event()
                threading.Thread(target=self._run, args=(self._ended,), name="clquant-bar", daemon=True).start()
        try:
            yield task
        finally:
            with self._lock:
                self._tasks.remove(task)
                if not self._tasks:
                    self._ended.set()
                    streams.show_status("")

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(_TICK_SECONDS):
            self.draw()

    def draw(self) -> None:
        """Draw the line about the innermost step that has lasted; of inputs before it, which of how many it is."""
        now = time.monotonic()
        with self._lock:
            lasting = [task for task in self._tasks if now - task.begin >= DELAY_SECONDS]
            if not lasting:
                return
            outer = next((task for task in lasting[:-1] if task.total > 1), None)
            which = "" if outer is None else f"{min(outer.done + 1, outer.total)} of {outer.total}: "
            streams.show_status((which + lasting[-1].text(now))[: shutil.get_terminal_size().columns - 1])


_LINE = _Line()
about = _LINE.about
