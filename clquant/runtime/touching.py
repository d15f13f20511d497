"""Host memory for results, whose new pages are touched in the background while the device is still at work.

The first write to a new page stops until the system has cleared it: measured beside an NVIDIA H200, 0.17 ms a megabyte
with one thread, several times what the transfer takes. It pays where the host has nothing else to do: beside an
upload, whose threads want the same memory, nothing was gained.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime.limits import Limits
from clquant.runtime.staging import SMALLEST_DOWN, as_bytes

THREADS = 4
# Slices end where the largest usual pages do.
ALIGNMENT = 2 << 20
PAGE = 4096


class Room:
    """A new array on the host; what it holds is not defined.

    Parameters
    ----------
    limits : Limits
        Where host and device share memory nothing is touched ahead: kernels and copies use the cores there.
    shape : tuple of int
    dtype : dtype_like
    """

    def __init__(self, limits: Limits, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._array = np.empty(shape, dtype)
        self._touched: list[Future[None]] = []
        if limits.unified_memory or self._array.nbytes < SMALLEST_DOWN or (os.cpu_count() or 1) <= THREADS:
            return
        flat = as_bytes(self._array)
        step = -(-len(flat) // THREADS // ALIGNMENT) * ALIGNMENT
        self._touched = [_pool().submit(_touch, flat[at : at + step]) for at in range(0, len(flat), step)]

    def array(self) -> npt.NDArray[Any]:
        """The array, once nothing else writes to it."""
        for future in self._touched:
            future.result()
        self._touched.clear()
        return self._array

    def fits(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> bool:
        """Whether the array has this shape and type.

        Parameters
        ----------
        shape : tuple of int
        dtype : dtype_like
        """
        return self._array.shape == shape and self._array.dtype == dtype


def _touch(part: npt.NDArray[np.uint8]) -> None:
    part[::PAGE] = 0


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="clquant-pages")
