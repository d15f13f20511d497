"""Work of file formats on all cores: NumPy and the libraries that compress release Python's lock while they work."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

# Entries that a thread looks up at a time, so that NumPy's 8-byte copies of their indices stay in a core's cache.
_LOOKUP_ENTRIES = 1 << 16
_PART_ENTRIES = 1 << 20


def cores() -> int:
    """Processor cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def in_threads(work: Callable[[int], T], count: int) -> list[T]:
    """``work(0)`` to ``work(count - 1)``, on as many threads as there are cores for this process.

    Parameters
    ----------
    work : callable
    count : int

    Returns
    -------
    list
    """
    if count == 1:
        return [work(0)]
    with ThreadPoolExecutor(min(count, cores()), thread_name_prefix="clquant-files") as pool:
        return list(pool.map(work, range(count)))


def looked_up(table: npt.NDArray[Any], indices: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
    """``table[indices]``.

    Parameters
    ----------
    table : ndarray, shape (n,) or (n, C)
    indices : ndarray of unsigned integers
        Each below n.

    Returns
    -------
    ndarray
        Of the shape of `indices`, with C more.
    """
    flat = np.ascontiguousarray(indices).reshape(-1)
    found = np.empty((len(flat), *table.shape[1:]), table.dtype)

    def fill(number: int) -> None:
        end = min((number + 1) * _PART_ENTRIES, len(flat))
        for start in range(number * _PART_ENTRIES, end, _LOOKUP_ENTRIES):
            some = slice(start, min(start + _LOOKUP_ENTRIES, end))
            np.take(table, flat[some], axis=0, out=found[some], mode="clip")

    in_threads(fill, max(-(-len(flat) // _PART_ENTRIES), 1))
    return found.reshape(*indices.shape, *table.shape[1:])


def counted(indices: npt.NDArray[np.integer[Any]], count: int) -> npt.NDArray[np.int64]:
    """(count,) int64: how often each index from 0 to ``count - 1`` is there.

    Parameters
    ----------
    indices : ndarray of unsigned integers
        Each below `count`.
    count : int

    Returns
    -------
    ndarray
    """
    flat = np.ascontiguousarray(indices).reshape(-1)

    def of_part(number: int) -> npt.NDArray[np.int64]:
        total = np.zeros(count, np.int64)
        end = min((number + 1) * _PART_ENTRIES, len(flat))
        for start in range(number * _PART_ENTRIES, end, _LOOKUP_ENTRIES):
            total += np.bincount(flat[start : min(start + _LOOKUP_ENTRIES, end)], minlength=count)
        return total

    return np.asarray(np.sum(in_threads(of_part, max(-(-len(flat) // _PART_ENTRIES), 1)), axis=0))
