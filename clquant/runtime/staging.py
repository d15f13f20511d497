"""Fast copies of large host arrays to and from devices with memory of their own.

A driver copies pageable memory through one small pinned buffer with one thread. Here several threads each take a
slice of the array through two pinned chunks and a queue of their own, so that copying into pinned memory and the
transfer overlap. Measured on an NVIDIA H200, 201 MB up: 22 ms pageable, 4.4 ms here, 3.6 ms from memory pinned
beforehand; 67 MB down: 3.9, 2.1 and 1.2 ms.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyopencl as cl

CHUNK_BYTES = 4 << 20
CHUNKS_PER_THREAD = 2
MAX_THREADS = 8
SMALLEST = 8 << 20  # below this the driver's own copy is as fast
_CONTEXTS_KEPT = 4

Bytes = npt.NDArray[np.uint8]


class Staging:
    """Pinned chunks, queues and threads of one device in one context; one copy at a time uses them."""

    def __init__(self, context: cl.Context, device: cl.Device) -> None:
        self.lock = threading.Lock()
        self._context = context
        self._threads = max(1, min(MAX_THREADS, (os.cpu_count() or 2) // 2))
        self._queues = [cl.CommandQueue(context, device) for _ in range(self._threads)]
        shape = (self._threads, CHUNKS_PER_THREAD, CHUNK_BYTES)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        self._pinned = cl.Buffer(context, flags, size=int(np.prod(shape)))
        access = cl.map_flags.READ | cl.map_flags.WRITE
        map_buffer = cast(Any, cl.enqueue_map_buffer)  # its annotations fit no dtype
        self._chunks: Bytes
        self._chunks, event = map_buffer(self._queues[0], self._pinned, access, 0, shape, np.uint8)
        event.wait()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="clquant-staging")

    def upload(self, buffer: cl.Buffer, source: Bytes, offset: int, after: list[cl.Event]) -> None:
        """Copy host bytes into a buffer at a byte offset, after some events; returns when all of it is there."""

        def work(thread: int, low: int, high: int) -> None:
            queue = self._queues[thread]
            events: list[cl.Event | None] = [None] * CHUNKS_PER_THREAD
            for turn, start in enumerate(range(low, high, CHUNK_BYTES)):
                slot = turn % CHUNKS_PER_THREAD
                pending = events[slot]
                if pending is not None:
                    pending.wait()
                stop = min(start + CHUNK_BYTES, high)
                chunk = self._chunks[thread, slot, : stop - start]
                np.copyto(chunk, source[start:stop])
                events[slot] = cl.enqueue_copy(
                    queue, buffer, chunk, dst_offset=offset + start, is_blocking=False, wait_for=after
                )
                queue.flush()
            queue.finish()

        self._share(len(source), work)

    def download(self, target: Bytes, buffer: cl.Buffer, offset: int, after: list[cl.Event]) -> None:
        """Copy a buffer's bytes from an offset into host memory, after some events."""

        def work(thread: int, low: int, high: int) -> None:
            queue = self._queues[thread]
            pending: tuple[cl.Event, Bytes, int, int] | None = None
            for turn, start in enumerate(range(low, high, CHUNK_BYTES)):
                stop = min(start + CHUNK_BYTES, high)
                chunk = self._chunks[thread, turn % CHUNKS_PER_THREAD, : stop - start]
                event = cl.enqueue_copy(
                    queue, chunk, buffer, src_offset=offset + start, is_blocking=False, wait_for=after
                )
                queue.flush()
                if pending is not None:
                    _take(target, *pending)
                pending = (event, chunk, start, stop)
            if pending is not None:
                _take(target, *pending)

        self._share(len(target), work)

    def _share(self, nbytes: int, work: Callable[[int, int, int], None]) -> None:
        cuts = [nbytes * i // self._threads for i in range(self._threads + 1)]
        futures = [self._pool.submit(work, i, cuts[i], cuts[i + 1]) for i in range(self._threads)]
        errors = [future.exception() for future in futures]  # all have ended before any is raised
        for error in errors:
            if error is not None:
                for queue in self._queues:
                    queue.finish()
                raise error


def _take(target: Bytes, event: cl.Event, chunk: Bytes, start: int, stop: int) -> None:
    event.wait()
    np.copyto(target[start:stop], chunk)


_lock = threading.Lock()
_stagings: OrderedDict[tuple[int, int], Staging | None] = OrderedDict()


def staging(context: cl.Context, device: cl.Device) -> Staging | None:
    """The staging of a device in a context, made at its first use; None where pinned memory cannot be had."""
    key = (context.int_ptr, device.int_ptr)
    with _lock:
        if key not in _stagings:
            try:
                _stagings[key] = Staging(context, device)
            except cl.Error:
                _stagings[key] = None
            while len(_stagings) > _CONTEXTS_KEPT:
                _stagings.popitem(last=False)
        _stagings.move_to_end(key)
        return _stagings[key]


def as_bytes(array: npt.NDArray[Any]) -> Bytes:
    """A C-contiguous array's memory as a flat array of bytes."""
    return array.reshape(-1).view(np.uint8)
