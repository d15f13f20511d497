"""Pictures of pieces that lie beside each other, put together on the device, and parts of results from there.

On the host, a picture of a large piece and of thin ones around it would take a copy of them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images.picture import Picture, buffer_of
from clquant.runtime import (
    Array,
    Buffer,
    DeviceMemoryError,
    HostResult,
    Rows,
    Scope,
    Session,
    copy_rows,
    open_session,
)


def assembled(session: Session, scope: Scope, pieces: Sequence[Sequence[Picture]]) -> Picture | None:
    """Assemble host pictures, in rows of one height each, on the device; None if the host does it as well."""
    first = pieces[0][0]
    height, width = sum(row[0].height for row in pieces), sum(piece.width for piece in pieces[0])
    row_bytes, limits = width * first.pixel_bytes, session.limits
    kinds = {(piece.channels, piece.dtype, piece.gray) for row in pieces for piece in row}
    if limits.unified_memory or len(kinds) > 1 or 2 * height * row_bytes > limits.max_alloc:
        return None
    try:
        buffer = scope.room_for(np.broadcast_to(np.uint8(0), (height, row_bytes)))
        top = 0
        for row in pieces:
            left = 0
            for piece in row:
                _send(session, scope, piece, buffer, (top, left), row_bytes)
                left += piece.width * piece.pixel_bytes
            top += row[0].height
    except DeviceMemoryError:
        return None
    shape = (height, width) if first.gray else (height, width, first.channels)
    array = Array(session.queue, shape, np.dtype(first.dtype), data=buffer)
    return Picture(height, width, first.channels, first.gray, device_array=array)


def _send(
    session: Session, scope: Scope, piece: Picture, buffer: Buffer, place: tuple[int, int], row_bytes: int
) -> None:
    """Send a piece to its place, a row and bytes from the left, in a picture of so many bytes per row."""
    assert piece.array is not None
    own, begin = piece.width * piece.pixel_bytes, place[0] * row_bytes + place[1]
    if own == row_bytes:
        scope.begin_upload(buffer, piece.array, begin).order()
    else:
        source = Rows(scope.copy_of(piece.array), 0, own)
        copy_rows(session, Rows(buffer, begin, row_bytes), source, piece.height, own)


def part_on_host(array: Array, rows: slice, columns: slice) -> npt.NDArray[Any]:
    """Download a rectangle of a C-contiguous device array."""
    top, bottom, _ = rows.indices(array.shape[0])
    left, right, _ = columns.indices(array.shape[1])
    pixel = array.dtype.itemsize * (array.shape[2] if array.ndim == 3 else 1)
    pitch, own = array.shape[1] * pixel, (right - left) * pixel
    session = open_session(None, [array])
    result = HostResult(session, (bottom - top, right - left, *array.shape[2:]), array.dtype)
    begin = array.offset + top * pitch + left * pixel
    with session.scope() as scope:
        if own == pitch:
            result.store(scope, 0, bottom - top, buffer_of(array), begin)
        else:
            room = result.room(scope, 0, bottom - top)
            copy_rows(session, Rows(room, 0, own), Rows(buffer_of(array), begin, pitch), bottom - top, own)
            result.store(scope, 0, bottom - top, room)
        return result.array()
