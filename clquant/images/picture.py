"""`Picture`: what was read, and how its rows reach a device."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.images import decode
from clquant.images.decode import Samples
from clquant.images.lazy import LazyRows
from clquant.images.strided import packed
from clquant.images.upload import SentRows, parts
from clquant.runtime import Array, Buffer, DeviceMemoryError, Scope, Session

ImageLike = Any
# Images on the host, whose results are there too; for signatures.
HostImage = str | os.PathLike[str] | PIL.Image.Image | npt.NDArray[Any]
SMALL = 8  # times as large a result: the upload of its picture does not count


@dataclass(frozen=True)
class Picture:
    """A picture that was read: exactly one of `array`, `device_array` and `lazy` holds its pixels."""

    height: int
    width: int
    channels: int
    gray: bool  # whether the input was two-dimensional, so that results of its shape are too
    array: Samples | None = None  # (H, W, C), C-contiguous
    device_array: Array | None = None  # of uint8 or uint16
    sent: SentRows | None = None  # of a picture on the host that is on its way to the device
    lazy: LazyRows | None = None  # of a picture that is read in parts
    origin: tuple[int, int] = (0, 0)  # row and column of its first pixel in the picture that it is cut from

    @property
    def on_device(self) -> bool:
        """Whether the pixels are on a device already, so that results stay there."""
        return self.device_array is not None

    @property
    def pixels(self) -> int:
        """Height times width."""
        return self.height * self.width

    @property
    def bits(self) -> int:
        """8 or 16, of a value."""
        if self.lazy is not None:
            return self.lazy.bits
        pixels = self.array if self.array is not None else self.device_array
        return 8 * pixels.dtype.itemsize if pixels is not None else 8

    @property
    def dtype(self) -> type[np.uint8 | np.uint16]:
        """uint8 or uint16, of a value."""
        return np.uint16 if self.bits == 16 else np.uint8

    @property
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
        if self.lazy is not None:
            return scope.upload(self.lazy.rows(row0, last))
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
        if self.lazy is not None:
            return self.lazy.rows(0, self.height)
        assert self.device_array is not None
        source, shape = buffer_of(self.device_array), (self.height, self.width, self.channels)
        return session.download(source, shape, self.dtype, self.device_array.offset)

    def in_memory(self) -> Picture:
        """The picture with all rows of a lazy one read."""
        if self.lazy is None:
            return self
        return dataclasses.replace(self, array=self.lazy.rows(0, self.height), lazy=None)

    def narrowed(self) -> Picture:
        """The picture with 8 bits per value: round(v / 257) of 16-bit values."""
        if self.bits == 8:
            return self
        if self.lazy is not None:
            return dataclasses.replace(self, lazy=self.lazy.narrowed())
        if self.device_array is not None:
            return dataclasses.replace(self, device_array=packed(self.device_array, np.uint8))
        narrow = decode.narrowed(cast(Samples, self.array))
        return dataclasses.replace(self, array=narrow, sent=None)

    def parts(self, session: Session, row_bytes: int = 0, multiple_of: int = 1) -> list[tuple[int, int]]:
        """Return bands of rows, half-open; of a host picture so that transfers and kernels overlap."""
        if self.array is None:
            return list(self.bands(session, row_bytes, multiple_of))
        own_bytes = self.width * self.pixel_bytes
        row_bytes = max(row_bytes, own_bytes)
        small = row_bytes >= SMALL * own_bytes
        there = small or (self.sent is not None and self.sent.are_there)
        return parts(session, self.height, row_bytes, small or session.is_pinned(self.array), multiple_of, there)

    def send(self, session: Session, scope: Scope) -> Picture:
        """Begin the upload where it pays; later reads of rows wait for these rows alone."""
        limits, array = session.limits, self.array
        if array is None or self.sent is not None or limits.unified_memory or 2 * array.nbytes > limits.max_alloc:
            return self
        try:
            return dataclasses.replace(self, sent=SentRows(session, scope, array))
        except DeviceMemoryError:
            return self

    def bands(self, session: Session, row_bytes: int = 0, multiple_of: int = 1) -> Iterator[tuple[int, int]]:
        """Yield bands of rows, half-open, whose largest buffer stays within the device's largest allocation.

        Of a lazy picture they fit its bound on the host's memory, too.
        """
        row_bytes = max(row_bytes, self.width * self.pixel_bytes)
        rows = session.limits.max_alloc // row_bytes // multiple_of * multiple_of
        if self.lazy is not None:
            rows = min(rows, self.lazy.rows_at_once(row_bytes, multiple_of))
        rows = max(rows, multiple_of)  # where even that is too much, the allocation itself says so
        for row0 in range(0, self.height, rows):
            yield row0, min(row0 + rows, self.height)


def device_arrays(pictures: Sequence[Picture]) -> list[Array]:
    """The device arrays among pictures, for `runtime.open_session`."""
    return [p.device_array for p in pictures if p.device_array is not None]


def buffer_of(array: Array) -> Buffer:
    """The buffer under a device array, from its beginning (the array may start at `array.offset`)."""
    return cast(Buffer, array.base_data)
