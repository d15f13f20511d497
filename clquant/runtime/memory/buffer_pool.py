"""Keeping released device buffers for the next job of the same queue.

NVIDIA's driver waits for all that the device does, copies of other queues as well, before it releases a buffer of any
size that was used; allocating and releasing a large one takes it 0.25 ms on an H200, as long as the kernels of many a
job. A kept buffer goes only to a job on the queue that used it last: commands of one queue run in order, so the last
job's are over before the next one's begin. One that another queue used last, or is to write to, must be idle. Where
host and device share memory, new pages take as long to come by as a kernel to fill them, so large buffers are kept
there too, within a smaller share; what wraps an array of the host never is.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterable
from typing import NamedTuple

import pyopencl as cl

# From this size on, sizes are rounded by little, and buffers are kept even if host and device share memory.
SMALLEST = 1 << 16
LEAST = 1 << 8
# One part in this many of the device's memory is kept; what was released first goes first.
MOST_SHARE = 8
MOST_SHARE_OF_HOST = 64
# Most queues that buffers are kept for: a program with a queue per job never asks for a buffer again.
MOST_QUEUES = 16

_Key = tuple[int, int]  # the queue, and bytes


class _Kept(NamedTuple):
    """A kept buffer."""

    ticket: int  # when it was kept
    device: int
    queue: cl.CommandQueue  # whose handle cannot be another queue's meanwhile
    buffer: cl.Buffer
    used: cl.Event | bool  # whether its last use is over, or what tells that
    elsewhere: bool  # whether that use is another queue's

    def idle(self) -> bool:
        if isinstance(self.used, bool):
            return self.used
        return bool(self.used.command_execution_status == cl.command_execution_status.COMPLETE)


class BufferPool:
    """Released buffers by queue and size, within a bound of bytes per device; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[_Key, list[_Kept]] = {}  # the last one kept is last; no list is empty
        self._bytes: collections.Counter[int] = collections.Counter()
        self._queues: collections.OrderedDict[int, None] = collections.OrderedDict()  # what kept one last is last
        self._ticket = 0

    @staticmethod
    def rounded(nbytes: int) -> int:
        """Round a size up by an eighth at most, or to a small power of two: jobs of like sizes share buffers."""
        if nbytes < SMALLEST:
            return max(LEAST, 1 << (nbytes - 1).bit_length())
        step = 1 << (nbytes.bit_length() - 4)
        return -(-nbytes // step) * step

    def take(self, queue: cl.CommandQueue, nbytes: int, idle: bool = False) -> cl.Buffer | None:
        """Take a buffer of exactly that size that this queue released, or None; if `idle` one that no command uses."""
        key = (queue.int_ptr, nbytes)
        with self._lock:
            kept = self._kept.get(key, ())
            for at in range(len(kept) - 1, -1, -1):
                if not (idle or kept[at].elsewhere) or kept[at].idle():
                    return self._remove(key, at).buffer
            return None

    def keep(
        self,
        queue: cl.CommandQueue,
        buffers: Iterable[tuple[cl.Buffer, int]],
        bound: int,
        used: cl.Event | bool,
        elsewhere: bool = False,
    ) -> None:
        """Keep a job's buffers, with their bytes, within `bound` bytes of the device.

        Their last use is over when the event `used` is, or for good; `elsewhere`: it is another queue's.
        """
        device, handle = queue.device.int_ptr, queue.int_ptr
        with self._lock:
            for buffer, nbytes in buffers:
                self._ticket += 1
                kept = _Kept(self._ticket, device, queue, buffer, used, elsewhere)
                self._kept.setdefault((handle, nbytes), []).append(kept)
                self._bytes[device] += nbytes
            self._queues[handle] = None
            self._queues.move_to_end(handle)
            if len(self._queues) > MOST_QUEUES:
                self._release_of(self._queues.popitem(last=False)[0])
            while self._bytes[device] > bound:
                self._release_oldest(device)

    def clear(self) -> None:
        """Release everything that is kept."""
        with self._lock:
            while self._queues:
                self._release_of(self._queues.popitem()[0])

    def _release_of(self, handle: int) -> None:
        """Release the buffers that are kept for a queue."""
        for key in [key for key in self._kept if key[0] == handle]:
            while key in self._kept:
                self._remove(key, -1).buffer.release()

    def _release_oldest(self, device: int) -> None:
        firsts = [(kept[0].ticket, key) for key, kept in self._kept.items() if kept[0].device == device]
        self._remove(min(firsts)[1], 0).buffer.release()

    def _remove(self, key: _Key, at: int) -> _Kept:
        kept = self._kept[key]
        found = kept.pop(at)
        if not kept:
            del self._kept[key]
        self._bytes[found.device] -= key[1]
        return found


BUFFER_POOL = BufferPool()
