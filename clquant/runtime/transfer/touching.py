"""Touching the new pages of host memory for results in the background, while the device is still at work.

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

from clquant.runtime.device.limits import Limits
from clquant.runtime.transfer.staging import SMALLEST_DOWN, as_bytes, threads_run

THREADS = 4
# Slices end where the largest usual pages do.
ALIGNMENT = 2 << 20
PAGE = 4096


def touch_ahead(array: npt.NDArray[Any], limits: Limits) -> list[Future[None]]:
    """Begin to touch the pages of a new array, whose content is not defined; it is whole when all futures are done.

    Parameters
    ----------
    array : ndarray
        C-contiguous.
    limits : Limits
        Where host and device share memory nothing is touched ahead: kernels and copies use the cores there.

    Returns
    -------
    list of Future
        Empty for arrays too small, and machines with too few cores, to gain anything.
    """
    few_cores = (os.cpu_count() or 1) <= THREADS
    if limits.unified_memory or array.nbytes < SMALLEST_DOWN or few_cores or not threads_run():
        return []
    flat = as_bytes(array)
    step = -(-len(flat) // THREADS // ALIGNMENT) * ALIGNMENT
    return [_pool().submit(_touch, flat[at : at + step]) for at in range(0, len(flat), step)]


def _touch(part: npt.NDArray[np.uint8]) -> None:
    part[::PAGE] = 0


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="clquant-pages")
