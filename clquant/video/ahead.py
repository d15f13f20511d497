"""Work of neighbouring stages at one time, and frames that can be read again, with few of them in memory."""

from __future__ import annotations

import pickle
import queue
import struct
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

DEPTH = 1
_END = object()
_LENGTH = struct.Struct("<Q")


def ahead(items: Iterable[T], depth: int = DEPTH) -> Iterator[T]:
    """Yield items that a thread takes from an iterable, up to `depth` of them early; its errors come at their turn."""
    ready: queue.Queue[Any] = queue.Queue(depth)
    stopped = threading.Event()

    def take() -> None:
        try:
            for item in items:
                ready.put((item, None))
                if stopped.is_set():
                    return
            ready.put((_END, None))
        except BaseException as error:  # raised where the item was to come
            ready.put((_END, error))

    thread = threading.Thread(target=take, name="clquant-frames", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        stopped.set()
        while thread.is_alive():  # it may wait for room
            while not ready.empty():
                ready.get()
            thread.join(0.01)


class Spool(Generic[T]):
    """Items of a source that can be read once, kept in a file without a name and read any number of times."""

    def __init__(self, items: Iterable[T]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the spool goes
        weakref.finalize(self, self._file.close)
        self._count = 0
        for item in items:
            data = zlib.compress(pickle.dumps(item), 1)
            self._file.write(_LENGTH.pack(len(data)) + data)
            self._count += 1
        self.expected = self._count

    def __iter__(self) -> Iterator[T]:
        at = 0
        for _ in range(self._count):
            self._file.seek(at)
            (size,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
            at += _LENGTH.size + size
            yield pickle.loads(zlib.decompress(self._file.read(size)))
