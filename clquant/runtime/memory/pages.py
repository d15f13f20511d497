"""Ordinary host memory of large results, kept for the next ones.

The system clears a new page at its first write, which takes as long as copying one: 12 ms for 50 MB on an Intel Xeon.
The C library keeps freed memory for itself up to 32 MB a piece and gives back the rest; that is kept here. Not at the
first time that a size is asked for: a program's one large picture is not to hold memory.
"""

from __future__ import annotations

import collections
import math
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime.memory.buffer_pool import BufferPool
from clquant.runtime.memory.headroom import releases_memory
from clquant.runtime.memory.pinned import MOST_RESULT_BYTES, host_share
from clquant.runtime.memory.scope import HOST_ALIGNMENT, PAGE, aligned_empty

SMALLEST = 32 << 20

Block = npt.NDArray[np.uint8]


class _Owner:
    """What the arrays over a block have as their base; when none has it any more, the block is free again."""

    def __init__(self, block: Block, nbytes: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (int(block.ctypes.data), False),
        }


class HostPool:
    """Memory of results, in use and kept. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: set[int] = set()
        self._idle: list[Block] = []
        self._total = 0  # bytes of the blocks that are there, in use or not
        # Filled by finalizers, which may run at any moment, also while this thread holds the lock.
        self._returned: collections.deque[Block] = collections.deque()

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A new C-contiguous array that begins at a multiple of `HOST_ALIGNMENT` bytes; its content is not defined.

        Parameters
        ----------
        shape : tuple of int
        dtype : dtype_like
        """
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        block = None
        if nbytes >= SMALLEST:
            with self._lock:
                block = self._block(BufferPool.rounded(nbytes))
        if block is None:
            return aligned_empty(shape, dtype, HOST_ALIGNMENT)
        owner = _Owner(block, nbytes)
        weakref.finalize(owner, self._returned.append, block).atexit = False
        array: npt.NDArray[Any] = np.asarray(owner).view(dtype).reshape(shape)
        return array

    def clear(self) -> None:
        """Give back to the system what no array uses."""
        with self._lock:
            self._take_back()
            while self._idle:
                self._forget_oldest()

    def _block(self, nbytes: int) -> Block | None:
        self._take_back()
        for i in reversed(range(len(self._idle))):
            if self._idle[i].nbytes == nbytes:
                return self._idle.pop(i)
        if nbytes not in self._asked:
            self._asked.add(nbytes)
            return None
        most = min(MOST_RESULT_BYTES, host_share())
        while self._idle and self._total + nbytes > most:
            self._forget_oldest()
        if self._total + nbytes > most:
            return None
        block = aligned_empty((nbytes,), np.uint8, PAGE)
        self._total += nbytes
        return block

    def _take_back(self) -> None:
        while self._returned:
            self._idle.append(self._returned.popleft())

    def _forget_oldest(self) -> None:
        self._total -= self._idle.pop(0).nbytes


HOST_POOL = HostPool()
releases_memory(HOST_POOL.clear)
