"""Work of file formats on all cores: NumPy and the libraries that compress release Python's lock while they work."""

from __future__ import annotations

import collections
import math
import os
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import PIL.Image

S = TypeVar("S")
T = TypeVar("T")

# Entries that a thread looks up at a time: NumPy's 8-byte copies of their indices stay in a core's second cache, and
# calls take long enough for 16 threads not to wait for Python's lock (67 million bytes: 11 ms; 24 to 28 by 2^15).
_LOOKUP_ENTRIES = 1 << 18
_THREAD_ENTRIES = 1 << 20
# From this many bytes on two are looked up at once, in a table of all pairs.
_PAIRS_PAY = 1 << 20


def cores() -> int:
    """Processor cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def in_threads(work: Callable[[int], T], count: int) -> list[T]:
    """Call ``work(0)`` to ``work(count - 1)`` on as many threads as this process has cores."""
    if count == 1:
        return [work(0)]
    with ThreadPoolExecutor(min(count, cores()), thread_name_prefix="clquant-files") as pool:
        return list(pool.map(work, range(count)))


def ordered(
    work: Callable[[S], T],
    items: Iterable[S],
    most: int = 64,
    *,
    early: bool = False,
    weigh: Callable[[S], int] = lambda _: 0,
    room: float = math.inf,
) -> Generator[T, None, None]:
    """``work(item)`` for each item, in order; as many as there are cores, up to `most`, are in work at a time.

    `early`: results are given as soon as they are there, before further items are begun. `weigh` gives an item's
    bytes: those in work and those whose results wait have at most `room` together, or are one alone.
    """
    pending: collections.deque[tuple[Future[T], int]] = collections.deque()
    limit, used = min(cores(), most), 0
    with ThreadPoolExecutor(limit, thread_name_prefix="clquant-files") as pool:
        try:
            for item in items:
                size = weigh(item)
                while pending and used + size > room:
                    used -= pending[0][1]
                    yield pending.popleft()[0].result()
                used += size
                pending.append((pool.submit(work, item), size))
                while pending and (len(pending) > limit or (early and pending[0][0].done())):
                    used -= pending[0][1]
                    yield pending.popleft()[0].result()
            while pending:
                yield pending.popleft()[0].result()
        finally:
            for future, _ in pending:
                future.cancel()


def looked_up(table: npt.NDArray[Any], indices: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
    """``table[indices]``."""
    flat = np.ascontiguousarray(indices).reshape(-1)
    found = np.empty((len(flat), *table.shape[1:]), table.dtype)
    if table.ndim == 1 and table.dtype == flat.dtype == np.uint8 and len(flat) >= _PAIRS_PAY and len(flat) % 2 == 0:
        _look_up(_of_pairs(table), flat.view(np.uint16), found.view(np.uint16))
    else:
        _look_up(table, flat, found)
    return found.reshape(*indices.shape, *table.shape[1:])


def _of_pairs(table: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
    """(65536,): lookup of byte pairs in the table; 0 beyond it."""
    whole = np.zeros(256, np.uint8)
    whole[: len(table)] = table
    pairs = np.empty((256, 256, 2), np.uint8)
    places = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(256, 256, 2)
    np.take(whole, places, out=pairs, mode="clip")
    return pairs.reshape(-1).view(np.uint16)


def _look_up(table: npt.NDArray[Any], flat: npt.NDArray[np.integer[Any]], found: npt.NDArray[Any]) -> None:
    """``found[:] = table[flat]``, in threads."""

    def fill(number: int) -> None:
        end = min((number + 1) * _THREAD_ENTRIES, len(flat))
        for start in range(number * _THREAD_ENTRIES, end, _LOOKUP_ENTRIES):
            some = slice(start, min(start + _LOOKUP_ENTRIES, end))
            np.take(table, flat[some], axis=0, out=found[some], mode="clip")

    in_threads(fill, max(-(-len(flat) // _THREAD_ENTRIES), 1))


def counted(indices: npt.NDArray[np.integer[Any]], count: int) -> npt.NDArray[np.int64]:
    """Count each index from 0 to ``count - 1``; (count,) int64."""
    flat = np.ascontiguousarray(indices).reshape(-1)

    def of_range(number: int) -> npt.NDArray[np.int64]:
        if flat.dtype == np.uint8:  # of which Pillow counts four while NumPy counts one, and without Python's lock
            some = flat[number * _THREAD_ENTRIES : (number + 1) * _THREAD_ENTRIES]
            if not len(some):
                return np.zeros(count, np.int64)
            row = PIL.Image.frombuffer("L", (len(some), 1), some, "raw", "L", 0, 1)
            return np.resize(np.array([*row.histogram(), *[0] * count], np.int64), count)
        total = np.zeros(count, np.int64)
        end = min((number + 1) * _THREAD_ENTRIES, len(flat))
        for start in range(number * _THREAD_ENTRIES, end, _LOOKUP_ENTRIES):
            total += np.bincount(flat[start : min(start + _LOOKUP_ENTRIES, end)], minlength=count)
        return total

    return np.asarray(np.sum(in_threads(of_range, max(-(-len(flat) // _THREAD_ENTRIES), 1)), axis=0))
