"""Work through the inputs of a call: reading, the device and writing overlap, and a bad file does not end the rest."""

from __future__ import annotations

import argparse
import collections
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from clquant.cli import common, streams
from clquant.cli.inputs import Source
from clquant.runtime import ClquantError, DeviceMemoryError, FileError, FormatError, PictureError

T = TypeVar("T")

Report = Callable[[], None]
"""Says that a result is written; called in the inputs' order."""
Finish = Callable[[], Report]
"""Encodes and writes one input's result, beside the next input's work."""
Pair = tuple[Source, str | None]
"""An input, and where its result goes; None for no file."""
Read = Callable[[Source, str | None], T]

EXIT_FAILED = 1
MOST_READERS = 4
# After a picture of this many bytes only one more is read ahead.
LARGE_BYTES = 1 << 26


def run(
    args: argparse.Namespace,
    pairs: Sequence[Pair],
    read: Read[T],
    work: Callable[[Source, str | None, T], Finish],
) -> int:
    """Read, work on and finish every input, in order; 1 if some of several failed, while a single one raises."""
    if len(pairs) == 1:
        work(*pairs[0], read(*pairs[0]))()()
        return 0
    failed: list[tuple[Source, ClquantError]] = []

    def fail(source: Source, error: ClquantError) -> None:
        failed.append((source, error))
        complain(source, error)

    with _Stages() as stages:
        for number, (source, target) in enumerate(pairs):
            stages.read_ahead(pairs, number, read)
            try:
                picture = stages.picture()
            except ClquantError as error:
                fail(source, error)
                continue
            try:
                finish = work(source, target, picture)
            except ClquantError as error:
                if not is_about(source, error):
                    raise
                fail(source, error)
                continue
            stages.finish(source, finish, fail)
        stages.finish_all(fail)
    return report_failures(args, len(pairs), failed)


def complain(source: Source, error: ClquantError) -> None:
    """Say that an input failed."""
    text = str(error)
    streams.complain(f"clquant: {text if source.shown in text else f'{source.shown}: {text}'}\n")


def report_failures(args: argparse.Namespace, total: int, failed: Sequence[tuple[Source, ClquantError]]) -> int:
    """Say at the end which inputs failed, and give the exit status."""
    common.record_failures(args, [(source.path, str(error)) for source, error in failed])
    if failed:
        names = ", ".join(source.shown for source, _ in failed)
        streams.complain(f"clquant: {len(failed)} of {total} inputs failed: {names}\n")
    return EXIT_FAILED if failed else 0


def is_about(source: Source, error: ClquantError) -> bool:
    """Whether an error is one input's own, and none of the arguments'."""
    return isinstance(error, FileError | FormatError | PictureError | DeviceMemoryError) or str(error).startswith(
        source.shown
    )


class _Stages:
    """The threads that read ahead and finish."""

    def __init__(self) -> None:
        self._threads = min(MOST_READERS, os.cpu_count() or 1)
        self._readers = ThreadPoolExecutor(self._threads, thread_name_prefix="clquant-read")
        self._writers = ThreadPoolExecutor(self._threads, thread_name_prefix="clquant-write")
        self._reading: collections.deque[Future[Any]] = collections.deque()
        self._finishing: collections.deque[tuple[Source, Future[Report]]] = collections.deque()
        self._begun = 0
        self._ahead = self._threads

    def __enter__(self) -> _Stages:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave what was not begun undone, and wait for the rest."""
        for pool in (self._readers, self._writers):
            pool.shutdown(cancel_futures=True)

    def read_ahead(self, pairs: Sequence[Pair], number: int, read: Read[Any]) -> None:
        """Begin to read an input, and some of those after it."""
        while self._begun < min(number + 1 + self._ahead, len(pairs)):
            self._reading.append(self._readers.submit(read, *pairs[self._begun]))
            self._begun += 1

    def picture(self) -> Any:
        """Wait for the next input's picture."""
        picture = self._reading.popleft().result()
        self._ahead = 1 if getattr(picture, "nbytes", 0) > LARGE_BYTES else self._threads
        return picture

    def finish(self, source: Source, finish: Finish, fail: Callable[[Source, ClquantError], None]) -> None:
        """Begin to finish an input, as soon as few enough are being finished."""
        self._finishing.append((source, self._writers.submit(finish)))
        while len(self._finishing) > self._ahead or (self._finishing and self._finishing[0][1].done()):
            self._finish_first(fail)

    def finish_all(self, fail: Callable[[Source, ClquantError], None]) -> None:
        """Wait until all inputs are finished."""
        while self._finishing:
            self._finish_first(fail)

    def _finish_first(self, fail: Callable[[Source, ClquantError], None]) -> None:
        source, done = self._finishing.popleft()
        try:
            done.result()()
        except ClquantError as error:
            fail(source, error)
