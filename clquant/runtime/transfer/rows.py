"""Rows of bytes between buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from clquant.runtime.errors import device_errors
from clquant.runtime.profiling import record
from clquant.runtime.session import Session
from clquant.runtime.transfer.copy import order_commands


@dataclass(frozen=True)
class Rows:
    """Rows in a buffer."""

    buffer: cl.Buffer
    begin: int  # bytes before the first
    pitch: int  # bytes from the beginning of one to that of the next

    @property
    def origin(self) -> tuple[int, int]:
        """Their beginning, in bytes of a row and in rows."""
        return self.begin % self.pitch, self.begin // self.pitch


def copy_rows(session: Session, target: Rows, source: Rows, rows: int, nbytes: int) -> cl.Event:
    """Queue a copy of rows between two buffers."""
    how: Any = {"src_origin": source.origin, "dst_origin": target.origin, "region": (nbytes, rows)}
    how |= {"src_pitches": (source.pitch,), "dst_pitches": (target.pitch,)}
    with device_errors("copying between buffers"):
        event: cl.Event = cl.enqueue_copy(session.queue, target.buffer, source.buffer, **how)
        order_commands(session.queue)
    record("copy on the device", True, event)
    return event
