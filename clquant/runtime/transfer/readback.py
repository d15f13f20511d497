"""Short buffers on their way to the host, while the host goes on to queue work."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from clquant.runtime.errors import device_errors
from clquant.runtime.memory.pinned import pinned_pool
from clquant.runtime.profiling import profiled
from clquant.runtime.session import Session
from clquant.runtime.transfer.copy import keep_until_over, order_commands


class Readback:
    """A download begun after everything queued so far; what is queued later may change the buffer.

    Where host and device share memory it is read at once, as waiting costs little there.
    """

    def __init__(self, session: Session, buffer: cl.Buffer, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> None:
        sizes = (int(shape),) if isinstance(shape, int | np.integer) else shape
        self._event: cl.Event | None = None
        pinned: npt.NDArray[Any] | None = None
        if not session.limits.unified_memory and not profiled():
            pinned = pinned_pool(session.context, session.device).result(sizes, dtype)
        if pinned is None:
            self._array = session.download(buffer, sizes, dtype)
            return
        self._array = pinned
        with device_errors("copying from the device"):
            self._event = cl.enqueue_copy(session.queue, pinned, buffer, is_blocking=False)
            order_commands(session.queue)
            session.queue.flush()
        keep_until_over(self._event)

    def array(self) -> npt.NDArray[Any]:
        """Wait for the copy and return the array."""
        if self._event is not None:
            with device_errors("copying from the device"):
                self._event.wait()
            self._event = None
        return self._array
