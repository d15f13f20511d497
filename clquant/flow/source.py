"""Sources: rows of pictures and of numbers, wherever they lie, which are read, cut and sampled in one way."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from clquant import images
from clquant.flow.background import BackgroundCall
from clquant.images import Picture, decode, storage
from clquant.images.dark_values import DarkRows, warned_once
from clquant.images.input_rules import check_shape
from clquant.images.rows import refuse_rows
from clquant.images.storage import MOST_SIDE
from clquant.runtime import FileError, InvalidArgument, Session

T = TypeVar("T")
Window = tuple[tuple[int, int], tuple[int, int]]

# Portions of a store that are in memory at a time: two that were read, one converted, and as much again on the device
# and of results.
PORTIONS_IN_MEMORY = 6
# Portions of whole chunks may be so large that memory holds only one, its copy on the device, and its indices twice:
# chunks that two portions share would be decoded twice. Without room for four the next one is not read ahead.
_PORTIONS_OF_CHUNKS, _PORTIONS_READ_AHEAD = 8 / 3, 4
_END = object()


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows `row0` to `row1` - 1 of a source, and the rows around them that are loaded with them."""

    row0: int
    row1: int
    first: int
    last: int

    @property
    def rows(self) -> tuple[int, int, int, int]:
        """`first`, `last`, `row0` and `row1`."""
        return self.first, self.last, self.row0, self.row1


class ReadAhead(Generic[T]):
    """Reads what will be asked for next, in a thread, while the caller works on what was read."""

    def __init__(self, read: Callable[[int, int], T]) -> None:
        self._read = read
        self._next: tuple[tuple[int, int], BackgroundCall[T]] | None = None

    def get(self, first: int, end: int, after: tuple[int, int] | None) -> T:
        """Return what is read of rows ``first..end``, and begin to read those `after` them."""
        known, self._next = self._next, None
        if known is not None and known[0] == (first, end):
            found = known[1].result()
        else:
            if known is not None:
                known[1].wait()  # stores are read by one thread at a time
            found = self._read(first, end)
        if after is not None:
            self._next = after, BackgroundCall(self._read, *after)
        return found

    def wait(self) -> None:
        """Wait for what is being read."""
        if self._next is not None:
            self._next[1].wait()


def take_ahead(items: Iterable[T], depth: int = 1) -> Iterator[T]:
    """Yield items that a thread takes from an iterable, up to `depth` of them early; its errors come at their turn."""
    ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
    room, stopped = threading.Semaphore(depth), threading.Event()

    def take() -> None:
        try:
            source = iter(items)
            while room.acquire() and not stopped.is_set():
                item = next(source, _END)
                ready.put((item, None))
                if item is _END:
                    return
                del item  # not kept while it waits for room
        except BaseException as error:  # raised where the item was to come
            ready.put((_END, error))

    thread = threading.Thread(target=take, name="clquant-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            room.release()
            yield item
    finally:
        stopped.set()
        room.release()
        thread.join()


class Source(abc.ABC):
    """Rows of a picture or of numbers: in memory, on a device, or in a store, which is read in portions."""

    is_stored: bool = False
    memory: int = storage.DEFAULT_MEMORY  # host memory for portions of a store
    chunk_rows: int = 1  # rows of a chunk of a store

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """Rows."""

    @property
    @abc.abstractmethod
    def row_bytes(self) -> int:
        """Bytes of a row on a device."""

    @property
    def stored_row_bytes(self) -> int:
        """Bytes of a row as a store has it."""
        return self.row_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.count * self.row_bytes

    @abc.abstractmethod
    def fetch(self, first: int, end: int) -> npt.NDArray[Any]:
        """Return rows on the host."""

    def portions(
        self,
        session: Session | None = None,
        multiple: int = 1,
        reach: int = 0,
        row_bytes: int = 0,
        *,
        least: int = 1,
        most: int = MOST_SIDE,
        whole: bool = False,
    ) -> list[Cut]:
        """Cut the rows into portions, each but the last a multiple of some rows.

        `reach` rows above and below are loaded with a portion; `row_bytes` are those of a row in the largest buffer
        beside the rows'. A portion has `least` rows where there is room, and `most` at most. `whole`: as large as the
        device's largest allocation allows, not so small that transfers and kernels overlap.
        """
        widest, rows = max(row_bytes, self.row_bytes, 1), self.count
        fit = min(session.limits.max_alloc // widest if session is not None else rows, most)
        fit = rows if rows <= fit else max((fit - 2 * reach) // multiple * multiple, multiple)
        if self.is_stored:
            own = self._rows_in_memory(max(widest, self.stored_row_bytes), multiple)
            own = own if own >= rows else max((own - 2 * reach) // multiple * multiple, multiple)
        else:
            own = fit if whole or session is None else max(self._overlapping_rows(session, widest, multiple), least)
        high = min(fit, own)
        pairs = itertools.pairwise([*range(0, rows, high), rows])
        return [Cut(row0, row1, max(row0 - reach, 0), min(row1 + reach, rows)) for row0, row1 in pairs]

    def pick(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return rows by their increasing numbers, on the host."""
        first = int(places.min())
        return self.fetch(first, int(places.max()) + 1)[places - first]

    def _rows_in_memory(self, widest: int, multiple: int) -> int:
        """Rows of a portion of a store within the bound on memory; whole chunks if memory holds 8/3 of these."""
        most = max(self.memory // (PORTIONS_IN_MEMORY * widest), 1)
        chunks = math.lcm(self.chunk_rows, multiple)
        if chunks > most and _PORTIONS_OF_CHUNKS * widest * chunks <= self.memory:
            return chunks
        step = chunks if chunks <= most else multiple
        return int(max(most // step * step, multiple))

    def _overlapping_rows(self, session: Session, widest: int, multiple: int) -> int:  # noqa: ARG002
        """Rows of a portion by which transfers and kernels overlap; by default all."""
        return self.count


class PictureSource(Source):
    """A picture wherever it lies."""

    def __init__(self, picture: Picture) -> None:
        self.picture, self.is_stored = picture, picture.store is not None
        if picture.store is not None:
            self.memory, self.chunk_rows = picture.store.memory, picture.store.chunk_rows

    @property
    def count(self) -> int:
        """Rows of pixels."""
        return self.picture.height

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on a device."""
        return self.picture.width * self.picture.pixel_bytes

    @property
    def stored_row_bytes(self) -> int:
        """Bytes of a row as a store has it."""
        return self.row_bytes if self.picture.store is None else self.picture.store.row_bytes

    def fetch(self, first: int, end: int) -> decode.Samples:
        """Return rows of a picture in memory or in a store, (rows, W, C)."""
        if self.picture.store is not None:
            return self.picture.store.rows(first, end)
        assert self.picture.array is not None
        return self.picture.array[first:end]

    def part(self, cut: Cut) -> Picture:
        """The loaded rows of a portion as a picture in memory."""
        array, picture = self.fetch(cut.first, cut.last), self.picture
        origin = picture.origin[0] + cut.first, picture.origin[1]
        return dataclasses.replace(picture, height=len(array), array=array, store=None, sent=None, origin=origin)

    def parts_in_memory(self) -> Iterator[Picture]:
        """Yield the picture as pictures in memory, from top to bottom; one that is no store as it is."""
        if not self.is_stored:
            yield self.picture
            return
        for cut in self.portions():
            array = self.fetch(cut.row0, cut.row1)
            yield dataclasses.replace(self.picture, height=len(array), array=array, store=None)

    def windows(self, windows: Iterable[Window]) -> Iterator[decode.Samples | None]:
        """Yield rectangles of a store, each read while the caller works on the one before; None of other pictures."""
        store = self.picture.store
        return itertools.repeat(None) if store is None else take_ahead(store.window(*window) for window in windows)

    def _overlapping_rows(self, session: Session, widest: int, multiple: int) -> int:
        return self.picture.overlapping_rows(session, widest, multiple)


class StoredRows:
    """Rows of a picture in a store as uint8 or uint16, by the rules of `clquant.images`."""

    def __init__(
        self, source: Any, argument: str, memory: int, max_bits: int = 8, dark: DarkRows | None = None
    ) -> None:
        storage.check_sizes(source, argument, memory)
        self._source, self._argument = source, argument
        self._dark = dark or DarkRows()
        self._ahead = ReadAhead(lambda first, end: self.window((first, end), (0, self.width)))
        self._last: tuple[int, int] | None = None  # rows that were asked for
        self._overlap = 0  # of rows that are asked for with those before
        self.height, self.width = (int(side) for side in source.shape[:2])
        self.channels = int(source.shape[2]) if len(source.shape) == 3 else 1
        self.row_bytes = self.width * self.channels * np.dtype(source.dtype).itemsize
        self.bits = 16 if max_bits == 16 and np.dtype(source.dtype).newbyteorder("=") == np.uint16 else 8
        self.memory = memory
        chunks = getattr(source, "chunks", None)
        self.chunk_rows = max(int(chunks[0]), 1) if chunks and isinstance(chunks[0], int) else 1

    def narrowed(self) -> StoredRows:
        """The same rows, of 8 bits per value."""
        return StoredRows(self._source, self._argument, self.memory, dark=self._dark)

    def rows(self, row0: int, row1: int) -> decode.Samples:
        """Rows ``row0..row1``, (rows, W, C) of `bits`, C-contiguous.

        The rows after them are begun to be read, if memory holds four such portions.
        """
        if self._last is not None and self._last[0] < row0 <= self._last[1]:
            self._overlap = self._last[1] - row0
        self._last = row0, row1
        begin = row1 - self._overlap
        after = begin, min(begin + row1 - row0, self.height)
        fits = row1 < after[1] and _PORTIONS_READ_AHEAD * self.row_bytes * (row1 - row0) <= self.memory
        found = self._ahead.get(row0, row1, after if fits else None)
        self._dark.passed(row0, row1, self.height, self._argument)
        return found

    def window(self, rows: tuple[int, int], columns: tuple[int, int]) -> decode.Samples:
        """A rectangle of the picture, by half-open rows and columns."""
        key = slice(*rows) if columns == (0, self.width) else (slice(*rows), slice(*columns))
        values = storage.values_of(self._source, key, self._argument)
        shape = rows[1] - rows[0], columns[1] - columns[0]
        if values.shape[:2] != shape:
            raise FileError(f"{self._argument}: {storage.name_of(key)} have the shape {values.shape}")
        self._dark.note(values)
        with warned_once(before=True):  # parts of a picture say nothing of all of it
            converted = decode.to_samples(values, self._argument, self.bits)
        return np.ascontiguousarray(converted).reshape(*shape, self.channels)


def open_picture(
    source: Any,
    *,
    memory: Any = None,
    argument: str = "image",
    max_channels: int = 4,
    max_bits: int = 8,
    takes_rows: bool = False,
) -> Picture:
    """Read a picture for a job on portions: one in a store stays where it is (see `clquant.images.read`)."""
    bound = images.memory_bytes(memory)
    if not takes_rows:
        refuse_rows(source, argument)
    if isinstance(source, str | os.PathLike):
        opened = storage.open_path(os.fsdecode(source))
        source = source if opened is None else opened
    if not isinstance(source, Picture) and storage.is_in_store(source):
        gray, channels = check_shape(tuple(int(side) for side in source.shape), argument, max_channels)
        rows = StoredRows(source, argument, bound, max_bits)
        return Picture(rows.height, rows.width, channels, gray, store=rows)
    return images.read(source, argument=argument, max_channels=max_channels, max_bits=max_bits, takes_rows=True)


def open_pictures(source: Any, *, memory: int, argument: str = "images", max_bits: int = 8) -> list[Picture]:
    """Read one picture, or a list or tuple of them; those in stores stay where they are."""
    read_one = partial(open_picture, memory=memory, max_bits=max_bits)
    if not isinstance(source, list | tuple):
        return [read_one(source, argument=argument)]
    if not source:
        raise InvalidArgument(f"{argument} is empty; allowed: at least one image")
    with warned_once():
        return [read_one(one, argument=f"{argument}[{i}]") for i, one in enumerate(source)]


def is_stored(source: Any) -> bool:
    """Return whether `open_picture` leaves an image where it is."""
    if isinstance(source, str | os.PathLike):
        return storage.open_path(os.fsdecode(source)) is not None
    return not isinstance(source, Picture) and storage.is_in_store(source)


def common_portions(session: Session | None, pictures: Sequence[Picture], **how: Any) -> list[Cut]:
    """Cut pictures of one size into portions of the same rows, which all have room for; see `Source.portions`."""
    return max((PictureSource(one).portions(session, **how) for one in pictures), key=len)
