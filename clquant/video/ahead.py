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

_END = object()
_LENGTH = struct.Struct("<Q")


def ahead(items: Iterable[T], depth: int = 1) -> Iterator[T]:
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

    thread = threading.Thread(target=take, name="clquant-frames", daemon=True)
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
