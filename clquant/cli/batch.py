"""Work through the inputs of a call: reading, the device and writing overlap, and a bad file does not end the rest."""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from clquant.cli import common, inputs, streams
from clquant.cli.common import shown
from clquant.cli.inputs import Pair, Source
from clquant.cli.outputs import Outputs
from clquant.runtime import ClquantError, DeviceMemoryError, FileError, FormatError, PictureError, ProgressCallback

T = TypeVar("T")

Report = Callable[[], None]
"""Says that a result is written; called in the inputs' order."""
Finish = Callable[[], Report]
"""Encodes and writes one input's result, beside the next input's work."""
Read = Callable[[Source, str | None], T]

EXIT_FAILED = 1
MOST_READERS = 4
# After a picture of this many bytes only one more is read ahead.
LARGE_BYTES = 1 << 26


@dataclass(frozen=True)
class Item:
    """One input at work."""

    args: argparse.Namespace
    places: Outputs
    source: Source
    target: str | None  # the place of its result; None for no file
    begin: float = field(default_factory=time.perf_counter)

    @property
    def label(self) -> str:
        """Its name beside progress bars."""
        return self.source.relative.name

    @property
    def place(self) -> str:
        """The place of a result that is always written."""
        return str(self.target)

    @contextlib.contextmanager
    def working(self, what: str = "") -> Iterator[ProgressCallback]:
        """Name the input in errors and show progress within the block."""
        with inputs.named(self.source), common.progress_bar(self.args, self.label + what) as progress:
            yield progress

    def write(self, data: bytes) -> None:
        """Write its result."""
        self.places.write(self.place, data)

    def note_lost(self, lost: Iterable[str]) -> None:
        """Say in one line what the result does not keep of the input, if there is something."""
        if names := ", ".join(lost):
            common.note(self.args, f"{self.source.relative}: {names} not kept in {shown(self.place)}")

    def seconds(self) -> float:
        """Time since the work on it began."""
        return time.perf_counter() - self.begin

    def said(
        self, shape: Sequence[int], what: str, *, to: str = "", seconds: float | None = None, **record: Any
    ) -> Report:
        """Make the report of a result of `shape` rows and columns; `to` names it if it is no file."""
        height, width = shape[:2]
        seconds = self.seconds() if seconds is None else seconds
        text = f"{self.source.relative} -> {to or shown(self.place)}: {width}x{height}{what}"
        places: dict[str, Any] = {"input": self.source.path, "output": self.target, "width": width, "height": height}
        return partial(common.say, self.args, f"{text}, {seconds:.2f} s", **places, **record, seconds=seconds)

    def skipped_as_larger(self, nbytes: int, input_bytes: int | None) -> Report | None:
        """Make the report of a result that ``--skip-if-larger`` leaves out; None if it is written."""
        if not self.args.skip_if_larger or input_bytes is None or nbytes <= input_bytes:
            return None
        text = f"{self.source.relative}: left out, as the result would be larger{sizes(nbytes, input_bytes)}"
        record: dict[str, Any] = {"input": self.source.path, "skipped": "larger", "bytes": nbytes}
        return partial(common.say, self.args, text, **record, input_bytes=input_bytes)


def sizes(nbytes: int | None, input_bytes: int | None) -> str:
    """End a line about a result with its bytes and its input's, as far as they are known."""
    before = "" if input_bytes is None else f" of {input_bytes}"
    return "" if nbytes is None else f", {nbytes}{before} bytes"


def run(
    args: argparse.Namespace,
    places: Outputs,
    pairs: Sequence[Pair],
    read: Read[T],
    work: Callable[[Item, T], Finish],
) -> int:
    """Read, work on and finish every input, in order; 1 if some of several failed, while a single one raises."""
    if len(pairs) == 1:
        loaded = read(*pairs[0])
        work(Item(args, places, *pairs[0]), loaded)()()
        return 0
    failed: list[tuple[Source, ClquantError]] = []

    @contextlib.contextmanager
    def collected(source: Source, every: bool) -> Iterator[None]:
        """Collect an error, `every` one or only the input's own; others are raised."""
        try:
            yield
        except ClquantError as error:
            if not every and not is_about(source, error):
                raise
            failed.append((source, error))
            complain(source, error)

    with _Stages() as stages:
        for number, pair in enumerate(pairs):
            stages.read_ahead(pairs, number, read)
            with collected(pair[0], every=False):
                loaded = stages.picture()
                stages.finish(pair[0], work(Item(args, places, *pair), loaded))
            stages.report(collected)
        stages.report(collected, to_the_end=True)
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
    own = FileError | FormatError | PictureError | DeviceMemoryError
    return isinstance(error, own) or str(error).startswith(source.shown)


class _Stages:
    """The threads that read ahead and finish."""

    def __init__(self) -> None:
        self._threads = self._ahead = min(MOST_READERS, os.cpu_count() or 1)
        self._readers = ThreadPoolExecutor(self._threads, thread_name_prefix="clquant-read")
        self._writers = ThreadPoolExecutor(self._threads, thread_name_prefix="clquant-write")
        self._reading: collections.deque[Future[Any]] = collections.deque()
        self._finishing: collections.deque[tuple[Source, Future[Report]]] = collections.deque()
        self._begun = 0

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

    def finish(self, source: Source, finish: Finish) -> None:
        """Begin to finish an input."""
        self._finishing.append((source, self._writers.submit(finish)))

    def report(self, collected: Callable[[Source, bool], Any], to_the_end: bool = False) -> None:
        """Report what is finished; wait while too much is not, or until all is."""
        most = 0 if to_the_end else self._ahead
        while self._finishing and (len(self._finishing) > most or self._finishing[0][1].done()):
            source, done = self._finishing.popleft()
            with collected(source, True):
                done.result()()
