"""Keeping released device buffers for the next job of the same queue.

Allocating and releasing a large buffer takes an NVIDIA H200's driver about 0.25 ms, as long as the kernels of many a
job. A kept buffer goes only to a job on the queue that used it last: commands of one queue run in order, so the last
job's are over before the next one's begin. One that another queue used last, or is to write to, must be idle. Where
host and device share memory, new pages take as long to come by as a kernel to fill them, so buffers are kept there too,
within a smaller share; what wraps an array of the host never is. A job may leave a buffer all zeros, for the next that
needs one: then it goes to no other.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import pyopencl as cl

SMALLEST = 1 << 16
# Of the device's memory; what was released first goes first.
MOST_SHARE = 8
MOST_SHARE_OF_HOST = 64

# The queue, bytes, and whether all of them are 0.
_Key = tuple[int, int, bool]


class _Kept(NamedTuple):
    """A kept buffer, its queue (whose handle cannot be another queue's meanwhile), and the end of its last use, which
    may be another queue's.
    """

    key: _Key
    queue: cl.CommandQueue
    buffer: cl.Buffer
    used: cl.Event | None
    elsewhere: bool

    def idle(self) -> bool:
        return self.used is None or self.used.command_execution_status == cl.command_execution_status.COMPLETE


class Recycler:
    """Released buffers by queue and size, within a bound of bytes a device.

    All methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._by_key: dict[_Key, list[int]] = {}
        self._bytes: dict[int, int] = {}
        self._ticket = 0

    @staticmethod
    def rounded(nbytes: int) -> int:
        """The size to allocate, so that jobs of nearly the same size share buffers: at most an eighth more."""
        if nbytes < SMALLEST:
            return nbytes
        step = 1 << (nbytes.bit_length() - 4)
        return -(-nbytes // step) * step

    def take(self, queue: cl.CommandQueue, nbytes: int, idle: bool = False, zeros: bool = False) -> cl.Buffer | None:
        """A kept buffer of exactly that size that this queue released, or None.

        Parameters
        ----------
        queue : pyopencl.CommandQueue
        nbytes : int
        idle : bool
            Only one whose last use is over, so that another queue may write to it at once.
        zeros : bool
            Only one that was left all zeros; otherwise none of these.
        """
        key = (queue.int_ptr, nbytes, zeros)
        with self._lock:
            for ticket in reversed(self._by_key.get(key, ())):
                kept = self._kept[ticket]
                if not (idle or kept.elsewhere) or kept.idle():
                    return self._remove(ticket)
            return None

    def keep(
        self,
        queue: cl.CommandQueue,
        buffer: cl.Buffer,
        bound: int,
        used: cl.Event | None = None,
        elsewhere: bool = False,
        zeros: bool = False,
    ) -> None:
        """Keep a buffer that a job on this queue is done with.

        Parameters
        ----------
        queue : pyopencl.CommandQueue
        buffer : pyopencl.Buffer
        bound : int
            Bytes of the device beyond which the buffers kept longest are released.
        used : pyopencl.Event, optional
            Over when the buffer's last use is; without it, it counts as over.
        elsewhere : bool
            Whether that use is another queue's.
        zeros : bool
            Whether all its bytes are 0 once what is queued is done.
        """
        nbytes = buffer.size
        device = queue.device.int_ptr
        with self._lock:
            self._ticket += 1
            key = (queue.int_ptr, nbytes, zeros)
            self._kept[self._ticket] = _Kept(key, queue, buffer, used, elsewhere)
            self._by_key.setdefault(key, []).append(self._ticket)
            self._bytes[device] = self._bytes.get(device, 0) + nbytes
            for ticket in list(self._kept):
                if self._bytes[device] <= bound:
                    break
                if self._kept[ticket].queue.device.int_ptr == device:
                    self._remove(ticket).release()

    def clear(self) -> None:
        """Release everything that is kept."""
        with self._lock:
            for ticket in list(self._kept):
                self._remove(ticket).release()

    def _remove(self, ticket: int) -> cl.Buffer:
        key, queue, buffer, _, _ = self._kept.pop(ticket)
        self._by_key[key].remove(ticket)
        if not self._by_key[key]:
            del self._by_key[key]
        self._bytes[queue.device.int_ptr] -= buffer.size
        return buffer


RECYCLER = Recycler()
