"""The colours of palette indices, looked up on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant import images
from clquant.color.palette import Palette
from clquant.images.upload import parts
from clquant.runtime import Array, Buffer, CommandQueue, HostResult, Scope, Session, open_session

INDEX_TYPES = {1: "uchar", 2: "ushort"}
PIXELS_PER_ITEM = 4
# Fewer indices on the host are looked up there before a kernel could be queued.
FEWEST_SENT = 1 << 15


class ColorLookup:
    """A palette's colours on the device."""

    def __init__(self, session: Session, scope: Scope, palette: Palette) -> None:
        self._session = session
        self._colors = scope.copy_of(np.ascontiguousarray(palette.rgba()).view(np.uint32))
        program = session.program(
            "mapping/lookup.cl",
            INDEX=INDEX_TYPES[palette.index_dtype.itemsize],
            OUT_CHANNELS=palette.colors.shape[1],
        )
        self._kernel = program.kernel("apply_palette")

    def apply(self, indices: Buffer, count: int, out: Buffer) -> None:
        """Queue the lookup of (count) indices into (count, 3) or (count, 4) uint8."""
        items = -(-count // PIXELS_PER_ITEM)
        group = self._session.work_group_size(self._kernel, self._session.tuned("mapping.group"))
        self._session.launch(self._kernel, items, group, indices, self._colors, out, np.uint64(count))


def applied(chosen: Any, palette: Palette, queue: CommandQueue | None) -> Any:
    """The colours (H, W, 3 or 4) uint8 of indices (H, W); on the device for a device array."""
    channels = palette.colors.shape[1]
    if isinstance(chosen, Array):
        session = open_session(queue, [chosen])
        colors = session.new_array((*chosen.shape, channels), np.uint8)
        with session.scope() as scope:
            packed = scope.empty(chosen.nbytes)
            session.copy(packed, images.buffer_of(chosen), chosen.nbytes, chosen.offset)
            ColorLookup(session, scope, palette).apply(packed, int(chosen.size), images.buffer_of(colors))
        return session.hand_over(colors)
    if chosen.size < FEWEST_SENT:
        return np.take(palette.colors, chosen, axis=0)
    session = open_session(queue)
    height, width = chosen.shape
    result = HostResult(session, (height, width, channels), np.uint8)
    with session.scope() as scope:
        lookup = ColorLookup(session, scope, palette)
        for row0, row1 in parts(session, height, width * 4, session.is_pinned(chosen)):
            with session.scope() as band:
                room = result.room(band, row0, row1)
                lookup.apply(band.upload(chosen[row0:row1]), (row1 - row0) * width, room)
                result.store(band, row0, row1, room)
    return result.array()
