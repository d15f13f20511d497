"""`Picture`: what was read, and how its rows reach a device."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.images import decode
from clquant.images.decode import Samples
from clquant.images.strided import packed
from clquant.images.upload import SentRows, part_rows
from clquant.runtime import Array, Buffer, DeviceMemoryError, Scope, Session

ImageLike = Any
# Images on the host, whose results are there too; for signatures.
HostImage = str | os.PathLike[str] | PIL.Image.Image | npt.NDArray[Any]
SMALL = 8  # times as large a result: the upload of its picture does not count


class RowStore(Protocol):
    """Rows of a picture that are read when they are asked for (`clquant.flow.source.StoredRows`)."""

    bits: int
    memory: int
    chunk_rows: int
    row_bytes: int

    def rows(self, row0: int, row1: int) -> Samples:
        """Return some rows, (rows, W, C)."""

    def window(self, rows: tuple[int, int], columns: tuple[int, int]) -> Samples:
        """Return a rectangle."""

    def narrowed(self) -> RowStore:
        """Return the same rows, of 8 bits per value."""


@dataclass(frozen=True)
class Picture:
    """A picture that was read: exactly one of `array`, `device_array` and `store` holds its pixels."""

    height: int
    width: int
    channels: int
    gray: bool  # whether the input was two-dimensional, so that results of its shape are too
    array: Samples | None = None  # (H, W, C), C-contiguous
    device_array: Array | None = None  # of uint8 or uint16
    sent: SentRows | None = None  # of a picture on the host that is on its way to the device
    store: RowStore | None = None  # of a picture that is read in portions
    origin: tuple[int, int] = (0, 0)  # row and column of its first pixel in the picture that it is cut from

    @property
    def on_device(self) -> bool:
        """Whether the pixels are on a device already, so that results stay there."""
        return self.device_array is not None

    @functools.cached_property
    def pixels(self) -> int:
        """Height times width."""
        return self.height * self.width

    @functools.cached_property
    def bits(self) -> int:
        """8 or 16, of a value."""
        if self.store is not None:
            return self.store.bits
        pixels = self.array if self.array is not None else self.device_array
        return 8 * pixels.dtype.itemsize if pixels is not None else 8

    @property
    def dtype(self) -> type[np.uint8 | np.uint16]:
        """uint8 or uint16, of a value."""
        return np.uint16 if self.bits == 16 else np.uint8

    @functools.cached_property
    def pixel_bytes(self) -> int:
        """Channels times bytes of a value."""
        return self.channels * self.bits // 8

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of results that look like the input: (H, W) for gray, else (H, W, C)."""
        return (self.height, self.width) if self.gray else (self.height, self.width, self.channels)

    def upload(self, session: Session, scope: Scope, row0: int = 0, row1: int | None = None) -> Buffer:
        """Return a read-only buffer with rows ``row0..row1`` (default: all), C values per pixel, packed."""
        last = self.height if row1 is None else row1
        if self.store is not None:
            return scope.upload(self.store.rows(row0, last))
        if self.array is not None:
            if self.sent is not None:
                return self.sent.rows(session, scope, row0, last)
            return scope.upload(self.array[row0:last])
        assert self.device_array is not None
        row_bytes = self.width * self.pixel_bytes
        if (row0, last) == (0, self.height) and self.device_array.offset == 0:
            return buffer_of(self.device_array)
        nbytes = (last - row0) * row_bytes
        buffer = scope.empty(nbytes)
        session.copy(buffer, buffer_of(self.device_array), nbytes, self.device_array.offset + row0 * row_bytes)
        return buffer

    def on_host(self, session: Session) -> Samples:
        """Return the pixels on the host, (H, W, C) of `dtype`; downloads a device array."""
        if self.array is not None:
            return self.array
        if self.store is not None:
            return self.store.rows(0, self.height)
        assert self.device_array is not None
        source, shape = buffer_of(self.device_array), (self.height, self.width, self.channels)
        return session.download(source, shape, self.dtype, self.device_array.offset)

    def in_memory(self) -> Picture:
        """The picture with all rows of a lazy one read."""
        if self.store is None:
            return self
        return dataclasses.replace(self, array=self.store.rows(0, self.height), store=None)

    def narrowed(self) -> Picture:
        """The picture with 8 bits per value: round(v / 257) of 16-bit values."""
        if self.bits == 8:
            return self
        if self.store is not None:
            return dataclasses.replace(self, store=self.store.narrowed())
        if self.device_array is not None:
            return dataclasses.replace(self, device_array=packed(self.device_array, np.uint8))
        narrow = decode.narrowed(cast(Samples, self.array))
        return dataclasses.replace(self, array=narrow, sent=None)

    def overlapping_rows(self, session: Session, row_bytes: int, multiple_of: int) -> int:
        """Return the rows of a portion by which transfers and kernels overlap, of a picture on the host; else all."""
        if self.array is None:
            return self.height
        small = row_bytes >= SMALL * self.width * self.pixel_bytes
        there = small or (self.sent is not None and self.sent.are_there)
        pinned = small or session.is_pinned(self.array)
        return min(part_rows(session, self.height, row_bytes, pinned, multiple_of, there), self.height)

    def send(self, session: Session, scope: Scope) -> Picture:
        """Begin the upload where it pays; later reads of rows wait for these rows alone."""
        limits, array = session.limits, self.array
        if array is None or self.sent is not None or limits.unified_memory or 2 * array.nbytes > limits.max_alloc:
            return self
        try:
            return dataclasses.replace(self, sent=SentRows(session, scope, array))
        except DeviceMemoryError:
            return self


def device_arrays(pictures: Sequence[Picture]) -> list[Array]:
    """The device arrays among pictures, for `runtime.open_session`."""
    return [p.device_array for p in pictures if p.device_array is not None]


def buffer_of(array: Array) -> Buffer:
    """The buffer under a device array, from its beginning (the array may start at `array.offset`)."""
    return cast(Buffer, array.base_data)
