"""What people hold -> device buffers, and back.

The rules, for every engine:

- uint8 arrays (H, W), (H, W, 3) and (H, W, 4) are taken as they are, of any strides; (H, W, 1) counts as (H, W).
- bool becomes 0 and 255; uint16 becomes round(v / 257), with a warning if no value is above 255; floats must lie in
  0..1 and become round(255 v), half up; other integers must lie in 0..255. Every other dtype is refused.
- Arrays of other libraries, masked arrays, bytes and file objects: see `clquant.images.foreign`.
- Files and PIL images: EXIF orientation is applied; an embedded ICC profile of an RGB picture is converted to sRGB
  where Pillow can; 1, L, RGB and RGBA keep their channels, but a file of gray or RGB that names one value as
  transparent (PNG, GIF) becomes RGBA; P becomes RGBA if it has transparency, else RGB; LA, PA, La and RGBa become RGBA;
  CMYK, YCbCr, LAB and HSV become RGB as Pillow converts them; 16-bit gray becomes round(v / 257), of 16-bit colour
  Pillow reads the high byte; 32-bit modes I and F are refused unless an I picture's values fit 16 bits. Of several
  frames the first is read.
- Files are read in the formats of `clquant.images.FORMATS`, whatever their names say; others must be named, with
  `allow_formats` or in `CLQUANT_FORMATS`. More than 2^29 pixels, or more than Pillow's `MAX_IMAGE_PIXELS` allows where
  the application has set it, or than a file's bytes can hold, are refused before they are decoded.
- A device array must be uint8 of the shapes above, of any strides; its result stays on the device, on the same queue.
- A picture without pixels is refused.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.images import decode, foreign
from clquant.images.strided import packed
from clquant.images.upload import SentRows, parts
from clquant.params import shown
from clquant.runtime import (
    Array,
    Buffer,
    DeviceMemoryError,
    InvalidArgument,
    InvalidType,
    Scope,
    Session,
)

ImageLike = Any
# What of it is on the host, for signatures whose result is then there too.
HostImage = str | os.PathLike[str] | PIL.Image.Image | npt.NDArray[Any]


@dataclass(frozen=True)
class Picture:
    """A picture that was read: exactly one of `array` and `device_array` holds its pixels.

    Attributes
    ----------
    height, width, channels : int
    gray : bool
        Whether the input was two-dimensional, so that results of its shape are too.
    array : ndarray of uint8, shape (H, W, C), C-contiguous, or None
    device_array : pyopencl.array.Array of uint8 or None
    sent : SentRows or None
        Of a picture on the host that is on its way to the device.
    """

    height: int
    width: int
    channels: int
    gray: bool
    array: npt.NDArray[np.uint8] | None = None
    device_array: Array | None = None
    sent: SentRows | None = None

    @property
    def on_device(self) -> bool:
        """Whether the pixels are on a device already, so that results stay there."""
        return self.device_array is not None

    @property
    def pixels(self) -> int:
        """Height times width."""
        return self.height * self.width

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of results that look like the input: (H, W) for gray, else (H, W, C)."""
        return (self.height, self.width) if self.gray else (self.height, self.width, self.channels)

    def upload(self, session: Session, scope: Scope, row0: int = 0, row1: int | None = None) -> Buffer:
        """A read-only buffer with rows ``row0..row1`` (default: all), C bytes a pixel, rows packed.

        Parameters
        ----------
        session : Session
        scope : Scope
        row0, row1 : int

        Returns
        -------
        pyopencl.Buffer
            The caller's own where a whole device array is read.

        Raises
        ------
        DeviceMemoryError
            If the device has no room; `bands` gives rows that fit one buffer.
        """
        last = self.height if row1 is None else row1
        if self.array is not None:
            if self.sent is not None:
                return self.sent.rows(session, scope, row0, last)
            return scope.upload(self.array[row0:last])
        assert self.device_array is not None
        row_bytes = self.width * self.channels
        if (row0, last) == (0, self.height) and self.device_array.offset == 0:
            return buffer_of(self.device_array)
        nbytes = (last - row0) * row_bytes
        buffer = scope.empty(nbytes)
        session.copy(buffer, buffer_of(self.device_array), nbytes, self.device_array.offset + row0 * row_bytes)
        return buffer

    def on_host(self, session: Session) -> npt.NDArray[np.uint8]:
        """The pixels on the host, (H, W, C), which are copied there from a device array.

        Parameters
        ----------
        session : Session
        """
        if self.array is not None:
            return self.array
        assert self.device_array is not None
        source, shape = buffer_of(self.device_array), (self.height, self.width, self.channels)
        return session.download(source, shape, np.uint8, self.device_array.offset)

    def parts(self, session: Session, row_bytes: int = 0, multiple_of: int = 1) -> list[tuple[int, int]]:
        """Bands of rows to work on one after another: of a picture on the host so that transfers and kernels overlap.

        Parameters
        ----------
        session : Session
        row_bytes : int
            That a row takes in the job's largest buffer besides the picture's own.
        multiple_of : int
            Every band but the last has a multiple of this many rows.

        Returns
        -------
        list of (row0, row1)
            Half-open, top to bottom; each within the device's largest allocation.
        """
        row_bytes = max(row_bytes, self.width * self.channels)
        if self.array is None:
            return list(row_bands(self.height, row_bytes, session, multiple_of))
        there = self.sent is not None and self.sent.are_there
        return parts(session, self.height, row_bytes, session.is_pinned(self.array), multiple_of, there)

    def send(self, session: Session, scope: Scope) -> Picture:
        """This picture, where it pays on its way to the device: what asks for its rows later waits for those only.

        Parameters
        ----------
        session : Session
        scope : Scope
            The pixels must not change, and the rows stay on the device, as long as it.

        Returns
        -------
        Picture
            Itself where it was sent before, where host and device share memory, or the device has no room to spare.
        """
        limits, array = session.limits, self.array
        if array is None or self.sent is not None or limits.unified_memory or 2 * array.nbytes > limits.max_alloc:
            return self
        try:
            return dataclasses.replace(self, sent=SentRows(session, scope, array))
        except DeviceMemoryError:
            return self

    def bands(self, session: Session, bytes_per_pixel: int = 0, multiple_of: int = 1) -> Iterator[tuple[int, int]]:
        """Bands of rows whose largest buffer stays within the device's largest allocation.

        Parameters
        ----------
        session : Session
        bytes_per_pixel : int
            Of the job's largest buffer besides the picture's own.
        multiple_of : int
            Every band but the last has a multiple of this many rows.

        Yields
        ------
        (row0, row1)
            Half-open, top to bottom; one band where everything fits.

        Raises
        ------
        DeviceMemoryError
            If not even `multiple_of` rows fit.
        """
        yield from row_bands(self.height, self.width * max(bytes_per_pixel, self.channels), session, multiple_of)


def row_bands(height: int, row_bytes: int, session: Session, multiple_of: int = 1) -> Iterator[tuple[int, int]]:
    """Bands of rows of `row_bytes` bytes that fit the device's largest allocation (see `Picture.bands`)."""
    rows = session.limits.max_alloc // max(row_bytes, 1) // multiple_of * multiple_of
    rows = max(rows, multiple_of)  # where even that is too much, the allocation itself says so
    for row0 in range(0, height, rows):
        yield row0, min(row0 + rows, height)


def read(source: ImageLike, *, argument: str = "image", max_channels: int = 4) -> Picture:
    """Read what a person holds by the rules at the head of this module.

    Parameters
    ----------
    source : path-like, PIL image, ndarray, pyopencl.array.Array, array of another library, bytes or binary file
        Or a `Picture` that was read by the same rules, which is given back.
    argument : str
        The argument's name in error messages.
    max_channels : int
        4, or more for engines that take multi-band arrays; then every C up to it is allowed.

    Returns
    -------
    Picture

    Raises
    ------
    InvalidType
        If it is none of these, or of a dtype or mode that is refused.
    InvalidArgument
        If the shape or the values are refused.
    FileError
        If a file cannot be read, is damaged, or claims more than 2^29 pixels.
    """
    if isinstance(source, Picture):
        return source
    if isinstance(source, Array):
        return _from_device(source, argument, max_channels)
    try:
        array = _to_array(source, argument)
        gray, channels = _check_shape(array.shape, argument, max_channels)
        height, width = array.shape[:2]
        packed = np.ascontiguousarray(array).reshape(height, width, channels)
    except MemoryError as error:
        raise InvalidArgument(f"{argument} is {shown(source)}, which needs more memory than there is") from error
    return Picture(height, width, channels, gray, array=packed)


def _to_array(source: Any, argument: str) -> npt.NDArray[np.uint8]:
    masked = sys.modules.get("numpy.ma")  # which takes a while to import
    if masked is not None and isinstance(source, masked.MaskedArray):
        _check_shape(source.shape, argument, 4)
        filled = decode.to_uint8(source.filled(0), argument)
        return foreign.with_mask_as_alpha(source, filled)
    if isinstance(source, np.ndarray):
        return decode.to_uint8(source, argument)
    if isinstance(source, str | os.PathLike):
        return decode.from_file(os.fspath(source), argument)
    if isinstance(source, PIL.Image.Image):
        return decode.from_pil(source, argument)
    array = foreign.as_array(source, argument)
    if array is not None:
        return decode.to_uint8(array, argument)
    data = foreign.encoded(source, argument)
    if data is not None:
        return decode.from_bytes(data, argument)
    raise InvalidType(
        f"{argument} is a {type(source).__name__}; allowed: a path, a PIL image, an array of NumPy, a device or any "
        "library with __array__ or __dlpack__, bytes or a binary file"
    )


def held(source: Any, argument: str = "image") -> Any:
    """What an iterator gave, safe from its next step: PIL images are read now, arrays copied, the rest is as it was.

    ``PIL.ImageSequence.Iterator`` gives one image again and again, and moves it to another frame each time; readers of
    videos give one array again and again.

    Parameters
    ----------
    source : image
    argument : str
        The argument's name in error messages.

    Returns
    -------
    Picture, ndarray, or `source` itself

    Raises
    ------
    InvalidType, InvalidArgument, FileError
        As `read`.
    """
    if isinstance(source, np.ndarray):
        return source.copy()
    return read(source, argument=argument) if isinstance(source, PIL.Image.Image) else source


def several(source: Any, argument: str = "images") -> Any:
    """A list of what an iterator gives (a generator, ``Path.glob``), and anything else as it is.

    Parameters
    ----------
    source : image, or list, tuple or iterator of images
    argument : str

    Returns
    -------
    list, or `source` itself

    Raises
    ------
    InvalidType, InvalidArgument, FileError
        As `read`, naming ``argument[i]``: what the iterator gives is made safe from its next step (see `held`).
    """
    if not isinstance(source, Iterator) or hasattr(source, "read"):
        return source
    return [held(one, f"{argument}[{i}]") for i, one in enumerate(source)]


def read_many(
    source: ImageLike | Sequence[ImageLike], *, argument: str = "images", max_channels: int = 4
) -> list[Picture]:
    """Read one picture, or a list or tuple of them.

    Parameters
    ----------
    source : image or list or tuple of images
    argument : str
    max_channels : int

    Returns
    -------
    list of Picture

    Raises
    ------
    InvalidArgument
        If the list is empty; else as `read`, naming ``argument[i]``.
    """
    if not isinstance(source, list | tuple):
        return [read(source, argument=argument, max_channels=max_channels)]
    if not source:
        raise InvalidArgument(f"{argument} is empty; allowed: at least one image")
    return [read(s, argument=f"{argument}[{i}]", max_channels=max_channels) for i, s in enumerate(source)]


def device_arrays(pictures: Sequence[Picture]) -> list[Array]:
    """The device arrays among pictures, for `runtime.open_session`."""
    return [p.device_array for p in pictures if p.device_array is not None]


def emit(
    session: Session, on_device: bool, buffer: Buffer, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> npt.NDArray[Any] | Array:
    """A result as the input was: an ndarray for host input, a device array on the session's queue for device input.

    Parameters
    ----------
    session : Session
    on_device : bool
    buffer : pyopencl.Buffer
        Holds the result, packed.
    shape, dtype
        Of the result.

    Returns
    -------
    ndarray or pyopencl.array.Array
    """
    if not on_device:
        return session.download(buffer, shape, dtype)
    result = session.new_array(shape, dtype)
    session.copy(buffer_of(result), buffer, result.nbytes)
    return session.hand_over(result)


def buffer_of(array: Array) -> Buffer:
    """The buffer under a device array, from its beginning (the array may start at `array.offset`)."""
    return cast(Buffer, array.base_data)


def _check_shape(shape: tuple[int, ...], argument: str, max_channels: int) -> tuple[bool, int]:
    bands = "3 or 4" if max_channels == 4 else f"1 to {max_channels}"
    gray = len(shape) == 2 or (len(shape) == 3 and shape[2] == 1)
    allowed_channels = {1, 3, 4} if max_channels == 4 else set(range(1, max_channels + 1))
    if len(shape) not in (2, 3) or (not gray and shape[2] not in allowed_channels):
        raise InvalidArgument(f"{argument} has the shape {shape}; allowed: (H, W) or (H, W, C) with C {bands}")
    if 0 in shape:
        raise InvalidArgument(f"{argument} has the shape {shape}, so no pixels; allowed: at least one pixel")
    return gray, 1 if gray else shape[2]


def _from_device(source: Array, argument: str, max_channels: int) -> Picture:
    if source.dtype != np.uint8:
        raise InvalidType(f"{argument} is a device array of {source.dtype}; allowed: uint8")
    gray, channels = _check_shape(source.shape, argument, max_channels)
    if not source.flags.c_contiguous:
        source = packed(source)
    return Picture(source.shape[0], source.shape[1], channels, gray, device_array=source)
