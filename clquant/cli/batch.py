"""Work through the inputs of a call: reading, the device and writing overlap, and a bad file does not end the rest."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from clquant.cli import common, inputs, outputs, streams
from clquant.cli.common import shown
from clquant.cli.inputs import Pair, Source
from clquant.color.formats import parallel
from clquant.images import picture_files
from clquant.runtime import (
    ClquantError,
    DeviceMemoryError,
    FileError,
    FormatError,
    PictureError,
    ProgressCallback,
    bound,
    host_memory,
)

T = TypeVar("T")

Report = Callable[[], None]
"""Says that a result is written; called in the inputs' order."""
Finish = Callable[[], Report]
"""Encodes and writes one input's result, beside the next input's work."""
Read = Callable[[Source, str | None], T]
Sizes = tuple[int | None, int | None]  # bytes of a result and of its input, as far as they are known

# Errors of one input, and none of the arguments.
_OF_AN_INPUT = (FileError, FormatError, PictureError, DeviceMemoryError)
# Inputs whose size no header tells are at work at most so many at a time.
_MOST_UNKNOWN = 4
_PIXEL_BYTES, _MEMORY_SHARE = 4, 16


@dataclass(frozen=True)
class Item:
    """One input at work."""

    args: argparse.Namespace
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

    def counted(self, colors: int) -> Item:
        """The item with the number of colours that was found in its result's name (see `outputs.COUNT`)."""
        return dataclasses.replace(self, target=outputs.with_count(self.target, colors))

    def write(self, data: bytes) -> None:
        """Write its result."""
        outputs.write(self.place, data)

    def seconds(self) -> float:
        """Time since the work on it began."""
        return time.perf_counter() - self.begin

    def said(self, shape: Sequence[int], what: str, *, to: str = "", timed: bool = True, **record: Any) -> Report:
        """Make the report of a result of `shape` rows and columns; `to` names it if it is no file."""
        height, width = shape[:2]
        text = f"{self.source.relative} -> {to or shown(self.place)}: {width}x{height}{what}"
        record = {"input": self.source.path, "output": self.target, "width": width, "height": height, **record}
        if timed:
            seconds = record.setdefault("seconds", self.seconds())
            text += f", {seconds:.2f} s"
        return partial(common.say, self.args, text, **record)

    def skipped(self, nbytes: int, input_bytes: int | None) -> Report | None:
        """Make the report of a result that ``--no-clobber`` or ``--skip-if-larger`` leaves out, else None."""
        if self.args.no_clobber and outputs.is_there(self.place):
            return partial(outputs.note_existing, self.args, self.place, self.source)
        if not self.args.skip_if_larger or input_bytes is None or nbytes <= input_bytes:
            return None
        text = f"{self.source.relative}: left out, as the result would be larger{sizes(nbytes, input_bytes)}"
        record: dict[str, Any] = {"input": self.source.path, "skipped": "larger", "bytes": nbytes}
        return partial(common.say, self.args, text, **record, input_bytes=input_bytes)


def sizes(nbytes: int | None, input_bytes: int | None) -> str:
    """End a line about a result with its bytes and its input's, as far as they are known."""
    before = "" if input_bytes is None else f"{input_bytes} -> "
    return "" if nbytes is None else f", {before}{nbytes} bytes"


def run(
    args: argparse.Namespace, pairs: Sequence[Pair], read: Read[T], work: Callable[[Item, T], Finish], drivers: int = 1
) -> int:
    """Read, work on and finish every input, in order; 1 if some of several failed, while a single one raises.

    As many threads as there are cores read, as many finish. `work` is called in this thread, or in several: `drivers`.
    """
    if len(pairs) == 1:
        with common.progress_bar(args, pairs[0][0].relative.name):
            loaded = read(*pairs[0])
            work(Item(args, *pairs[0]), loaded)()()
        return 0
    failures = Failures(args, len(pairs))
    room = min(bound("folders.bytes"), (host_memory() or sys.maxsize) // _MEMORY_SHARE)
    weigh = functools.cache(partial(_pixel_bytes, room))

    def drive(given: tuple[Pair, T | ClquantError]) -> Finish | ClquantError:
        pair, found = given
        try:
            return found if isinstance(found, ClquantError) else work(Item(args, *pair), found)
        except ClquantError as error:
            return error

    def worked() -> Iterator[tuple[Source, Finish]]:
        reading = parallel.ordered(partial(tried, read), pairs, weigh=lambda pair: weigh(pair[0]), room=room)
        given = zip(pairs, reading, strict=True)
        driven = (
            (drive(each) for each in given) if drivers == 1 else parallel.ordered(drive, given, drivers, early=True)
        )
        with contextlib.closing(reading), contextlib.closing(driven):
            for number, ((source, _), finish) in enumerate(zip(pairs, driven, strict=True)):
                progress(number, len(pairs))
                if isinstance(finish, ClquantError):
                    failures.add(source, finish)
                else:
                    yield source, finish

    def finished(worked: tuple[Source, Finish]) -> Report:
        source, finish = worked
        try:
            return finish()
        except ClquantError as error:
            return partial(failures.add, source, error, always=True)

    reporting = parallel.ordered(finished, worked(), early=True, weigh=lambda made: weigh(made[0]), room=room)
    with common.progress_bar(args, "inputs") as progress, contextlib.closing(reporting) as reports:
        for report in reports:
            report()
    return failures.status()


def _pixel_bytes(room: int, source: Source) -> int:
    """Bytes of an input's pixels, as its header says, about; a share of all room where none does."""
    with contextlib.suppress(ClquantError):
        if not source.piped and os.path.isfile(source.path):
            with picture_files.opened(source.path, source.shown) as (image, _):
                if not getattr(image, "is_animated", False):
                    return _PIXEL_BYTES * image.width * image.height
    return room // _MOST_UNKNOWN


def read_together(args: argparse.Namespace, read: Read[T], pairs: Sequence[Pair]) -> tuple[Read[T], dict[Source, T]]:
    """Read all inputs once; return what gives or raises each of them again, and those that could be read."""
    kept = {}
    with common.progress_bar(args, "reading") as progress:
        for number, pair in enumerate(pairs, 1):
            kept[pair[0]] = tried(read, pair)
            progress(number, len(pairs))

    def again(source: Source, _: str | None) -> T:
        found = kept[source]
        if isinstance(found, ClquantError):
            raise found
        return found

    good = {source: found for source, found in kept.items() if not isinstance(found, ClquantError)}
    if not good:
        again(*pairs[0])
    return again, good


def tried(read: Read[T], pair: Pair) -> T | ClquantError:
    """Read an input; its error instead, to be raised at its turn."""
    try:
        return read(*pair)
    except ClquantError as error:
        return error


class Failures:
    """Inputs that failed while others go on; the error of a single input, or about the arguments, is raised."""

    def __init__(self, args: argparse.Namespace, total: int) -> None:
        self._args, self._total = args, total
        self._errors: list[tuple[Source, ClquantError]] = []

    def add(self, source: Source, error: ClquantError, always: bool = False) -> None:
        """Keep and print an input's error; `always`, whatever it is about."""
        is_its_own = isinstance(error, _OF_AN_INPUT) or str(error).startswith(source.shown)
        if self._total == 1 or not (always or is_its_own):
            raise error
        if hasattr(self._args, "messages"):  # in a worker, whose messages the command prints
            self._args.messages.append(("", {"failed": (source.path, error)}))
            return
        text = common.as_typed(self._args, str(error))
        self._errors.append((source, error))
        streams.complain(f"clquant: {text if source.shown in text else f'{source.shown}: {text}'}\n")

    def status(self) -> int:
        """Print at the end which inputs failed; the exit status."""
        if not self._errors:
            return 0
        common.record_failures(
            self._args, [(source.path, common.as_typed(self._args, str(error))) for source, error in self._errors]
        )
        names = ", ".join(source.shown for source, _ in self._errors)
        streams.complain(f"clquant: {len(self._errors)} of {self._total} inputs failed: {names}\n")
        return common.EXIT_FAILED
