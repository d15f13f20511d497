"""Page-locked host memory, which a device with memory of its own copies from and to without the host's help.

The driver takes 0.4 ms to lock a megabyte (measured beside an NVIDIA H200), several times what touching new pages
takes, and nearly as long to unlock it. So blocks are kept when the arrays over them are gone, and results get such
memory only from the second time on that their size is asked for: a program's one picture does not pay for it.
"""

from __future__ import annotations

import bisect
import collections
import ctypes
import math
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from clquant.runtime.device.limits import host_memory
from clquant.runtime.driver_calls import driver_call
from clquant.runtime.memory.buffer_pool import BufferPool

# Most bytes per device of results in use and of blocks kept for coming ones; what users ask for is not bounded.
MOST_RESULT_BYTES = 1 << 30
MOST_SHARE_OF_HOST = 16
CONTEXTS_KEPT = 8  # as many as hosts of several GPUs commonly have devices

Bytes = npt.NDArray[np.uint8]


class Block:
    """Page-locked bytes, mapped as long as the block lives."""

    def __init__(self, queue: cl.CommandQueue, nbytes: int) -> None:
        self._queue = queue
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        self._buffer = cl.Buffer(queue.context, flags, size=nbytes)
        access = cl.map_flags.READ | cl.map_flags.WRITE
        map_buffer = cast(Any, cl.enqueue_map_buffer)  # its annotations fit no dtype
        self.bytes: Bytes
        with driver_call():
            self.bytes, event = map_buffer(queue, self._buffer, access, 0, (nbytes,), np.uint8)
            event.wait()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.bytes.base))  # see `__del__`
        self.begin = int(self.bytes.ctypes.data)
        self.end = self.begin + nbytes

    def __del__(
        self,
        ending: Callable[[], bool] = sys.is_finalizing,
        let_go: Callable[[ctypes.py_object[Any]], object] = ctypes.pythonapi.Py_DecRef,
    ) -> None:
        # PyOpenCL's mapping queues its unmapping when it goes and does not wait. Queued by Python's last steps, in
        # which not even this method is sure to be called, that still ran when the process ended, and crashed Intel's
        # runtime. So one reference is nobody's: what is mapped then, the system takes back with the process. Names of
        # modules may be gone by that time, hence the defaults.
        if hasattr(self, "end") and not ending():
            let_go(ctypes.py_object(self.bytes.base))

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self.end - self.begin


class _Owner:
    """The base of the NumPy arrays over a block, which is free again when none has it any more."""

    def __init__(self, block: Block, nbytes: int) -> None:
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (block.begin, False)}


class PinnedPool:
    """The page-locked memory of one device in one context. All methods may be called from any thread."""

    def __init__(self, context: cl.Context, device: cl.Device) -> None:
        # For copies that overlap a job's kernels.
        self.uploads = cl.CommandQueue(context, device)
        self.downloads = cl.CommandQueue(context, device)
        self._lock = threading.Lock()
        self._asked: set[int] = set()
        self._idle: list[Block] = []
        self._begins: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._users: set[int] = set()  # where those blocks begin that users asked for and have
        # Filled by finalizers, which may run at any moment, also while this thread holds the lock.
        self._returned: collections.deque[Block] = collections.deque()

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
        """Make an uninitialized array in page-locked memory; None if the driver gives none."""
        return self._array(shape, np.dtype(dtype), bounded=False)

    def result(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
        """Make an array for a result; None also when a size is asked for first, and beyond the bound of results."""
        rounded = BufferPool.rounded(math.prod(shape) * np.dtype(dtype).itemsize)
        with self._lock:
            if rounded not in self._asked:
                self._asked.add(rounded)
                return None
        return self._array(shape, np.dtype(dtype), bounded=True)

    def holds(self, array: npt.NDArray[Any]) -> bool:
        """Whether all of a C-contiguous array lies in this pool's memory."""
        begin = int(array.ctypes.data) if self._begins else 0  # asking for it takes longer than the rest
        with self._lock:
            at = bisect.bisect_right(self._begins, begin) - 1
            return at >= 0 and begin + array.nbytes <= self._blocks[self._begins[at]].end

    def clear(self) -> None:
        """Release the memory that no array uses."""
        with self._lock:
            self._take_back()
            self._drop_idle()

    def _array(self, shape: tuple[int, ...], dtype: np.dtype[Any], bounded: bool) -> npt.NDArray[Any] | None:
        nbytes = math.prod(shape) * dtype.itemsize
        with self._lock:
            block = self._block(BufferPool.rounded(max(nbytes, 1)), bounded)
            if block is not None and not bounded:
                self._users.add(block.begin)
        if block is None:
            return None
        owner = _Owner(block, nbytes)
        weakref.finalize(owner, self._returned.append, block).atexit = False
        array: npt.NDArray[Any] = np.asarray(owner).view(dtype).reshape(shape)
        return array

    def _block(self, nbytes: int, bounded: bool) -> Block | None:
        self._take_back()
        for i in reversed(range(len(self._idle))):
            if self._idle[i].nbytes == nbytes:
                return self._idle.pop(i)
        if bounded and self._total() + nbytes > _most_bytes():
            self._drop_idle()
            if self._total() + nbytes > _most_bytes():
                return None
        try:
            block = Block(self.downloads, nbytes)
        except (cl.Error, OverflowError, TypeError):  # PyOpenCL's for more bytes than its size type holds
            return None
        bisect.insort(self._begins, block.begin)
        self._blocks[block.begin] = block
        return block

    def _total(self) -> int:
        return sum(block.nbytes for begin, block in self._blocks.items() if begin not in self._users)

    def _take_back(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            self._users.discard(block.begin)
            self._idle.append(block)
        kept = sum(block.nbytes for block in self._idle)
        while kept > _most_bytes():
            kept -= self._idle[0].nbytes
            self._forget(self._idle.pop(0))

    def _drop_idle(self) -> None:
        while self._idle:
            self._forget(self._idle.pop())

    def _forget(self, block: Block) -> None:
        self._begins.remove(block.begin)
        del self._blocks[block.begin]


def _most_bytes() -> int:
    """Most bytes of results in use and of blocks kept."""
    memory = host_memory()
    return MOST_RESULT_BYTES if memory is None else min(MOST_RESULT_BYTES, memory // MOST_SHARE_OF_HOST)


_lock = threading.Lock()
_pools: OrderedDict[tuple[int, int], PinnedPool] = OrderedDict()


def pinned_pool(context: cl.Context, device: cl.Device) -> PinnedPool:
    """The pool of a device in a context, made at its first use."""
    key = (context.int_ptr, device.int_ptr)
    with _lock:
        if key not in _pools:
            _pools[key] = PinnedPool(context, device)
            while len(_pools) > CONTEXTS_KEPT:
                _pools.popitem(last=False)
        _pools.move_to_end(key)
        return _pools[key]


def is_page_locked(array: npt.NDArray[Any]) -> bool:
    """Whether all of a C-contiguous array lies in page-locked memory that this library made."""
    with _lock:
        pools = list(_pools.values())
    return bool(array.flags.c_contiguous) and any(pool.holds(array) for pool in pools)


def clear_pinned() -> None:
    """Release the memory that no array uses, of all pools."""
    with _lock:
        pools = list(_pools.values())
    for pool in pools:
        pool.clear()
