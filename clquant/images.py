"""What people hold -> device buffers, and back.

The rules, for every engine:

- uint8 arrays (H, W), (H, W, 3) and (H, W, 4) are taken as they are, of any strides; (H, W, 1) counts as (H, W).
- bool becomes 0 and 255; uint16 becomes round(v / 257); floats must lie in 0..1 and become round(255 v), half up.
  Every other dtype is refused.
- Files and PIL images: EXIF orientation is applied; an embedded ICC profile of an RGB picture is converted to sRGB
  where Pillow can; 1, L, RGB and RGBA keep their channels; P becomes RGBA if it has transparency, else RGB; LA, PA,
  La and RGBa become RGBA; CMYK, YCbCr, LAB and HSV become RGB as Pillow converts them; 16-bit gray becomes
  round(v / 257); 32-bit modes I and F are refused unless an I picture's values fit 16 bits. Of several frames the first
  is read.
- A device array must be C-contiguous uint8 of the shapes above; its result stays on the device, on the same queue.
- A picture without pixels is refused.
"""

from __future__ import annotations

import dataclasses
import io
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageOps
from PIL import ImageCms

from clquant.params import shown
from clquant.runtime import Array, Buffer, FileError, InvalidArgument, InvalidType, Scope, Session

ImageLike = Any
MAX_FILE_PIXELS = 1 << 29  # 23170 x 23170; a file that claims more is refused before it is decoded

# GIF, PNG and TIFF make at most some 8000 pixels of a byte (deflate: 1032 bytes, eight pixels each at one bit). The
# formats named have no such bound, nor has one-bit fax coding, which spends a bit on a blank row of any length.
MOST_PIXELS_A_BYTE = 1 << 14
BOUNDLESS_FORMATS = {"AVIF", "JPEG2000", "WEBP"}

# Pillow's decoders raise all of these on damaged files.
_DECODER_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, KeyError, OverflowError)

_pillow_limit = threading.Lock()


class KeptRows:
    """A host picture's rows on a device: each is copied there once, when it is first asked for.

    Parameters
    ----------
    buffer : pyopencl.Buffer
        With room for the whole picture.
    height, row_bytes : int
    """

    def __init__(self, buffer: Buffer, height: int, row_bytes: int) -> None:
        self.buffer = buffer
        self._row_bytes = row_bytes
        self._there = np.zeros(height, np.bool_)

    def rows(self, session: Session, scope: Scope, array: npt.NDArray[np.uint8], row0: int, row1: int) -> Buffer:
        """A buffer with some rows; see `Picture.upload`. What another queue copied must be over."""
        start, nbytes = row0 * self._row_bytes, (row1 - row0) * self._row_bytes
        if not self._there[row0:row1].all():
            session.write(self.buffer, array[row0:row1], start)
            self._there[row0:row1] = True
        if nbytes == len(self._there) * self._row_bytes:
            return self.buffer
        part = scope.empty(nbytes)
        session.copy(part, self.buffer, nbytes, start)
        return part


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
    kept : KeptRows or None
        Where a picture on the host leaves its rows on the device for what comes next.
    """

    height: int
    width: int
    channels: int
    gray: bool
    array: npt.NDArray[np.uint8] | None = None
    device_array: Array | None = None
    kept: KeptRows | None = None

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

        Raises
        ------
        DeviceMemoryError
            If the device has no room; `bands` gives rows that fit one buffer.
        """
        last = self.height if row1 is None else row1
        if self.array is not None:
            if self.kept is not None:
                return self.kept.rows(session, scope, self.array, row0, last)
            return scope.upload(self.array[row0:last])
        assert self.device_array is not None
        row_bytes = self.width * self.channels
        if (row0, last) == (0, self.height) and self.device_array.offset == 0:
            return buffer_of(self.device_array)
        nbytes = (last - row0) * row_bytes
        buffer = scope.empty(nbytes)
        session.copy(buffer, buffer_of(self.device_array), nbytes, self.device_array.offset + row0 * row_bytes)
        return buffer

    def keeping_rows(self, session: Session, scope: Scope) -> Picture:
        """This picture, or where it pays one whose rows are copied to the device once, as long as `scope` lives.

        Parameters
        ----------
        session : Session
        scope : Scope

        Returns
        -------
        Picture
            Itself where host and device share memory, or the device has no room to spare.
        """
        limits, array = session.limits, self.array
        if array is None or limits.unified_memory or 2 * array.nbytes > limits.max_alloc:
            return self
        kept = KeptRows(scope.empty(array.nbytes), self.height, self.width * self.channels)
        return dataclasses.replace(self, kept=kept)

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
    source : path-like, PIL image, ndarray or pyopencl.array.Array
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
    if isinstance(source, np.ndarray):
        return _to_uint8(source, argument)
    if isinstance(source, str | os.PathLike):
        return _from_file(os.fspath(source), argument)
    if not isinstance(source, PIL.Image.Image):
        raise InvalidType(
            f"{argument} is a {type(source).__name__}; allowed: a path, a PIL image, a NumPy array or a device array"
        )
    try:
        return _from_pil(source, argument)
    except (InvalidArgument, InvalidType):
        raise
    except _DECODER_ERRORS as error:  # of its file, which is read now, or of what its `info` holds
        raise FileError(f"{argument}: cannot read the PIL image: {error}") from error


def read_many(
    source: ImageLike | Sequence[ImageLike], *, argument: str = "images", max_channels: int = 4
) -> list[Picture]:
    """Read one picture, or a list or tuple of them.

    Parameters
    ----------
    source : image or list or tuple of images
    argument : str
    max_channels : int

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
    """
    if not on_device:
        return session.download(buffer, shape, dtype)
    result = session.new_array(shape, dtype)
    session.copy(buffer_of(result), buffer, result.nbytes)
    return result


def buffer_of(array: Array) -> Buffer:
    """The buffer under a device array, from its beginning (the array may start at `array.offset`)."""
    return cast(Buffer, array.base_data)


def _check_shape(shape: tuple[int, ...], argument: str, max_channels: int) -> tuple[bool, int]:
    several = "3 or 4" if max_channels == 4 else f"1 to {max_channels}"
    gray = len(shape) == 2 or (len(shape) == 3 and shape[2] == 1)
    allowed_channels = {1, 3, 4} if max_channels == 4 else set(range(1, max_channels + 1))
    if len(shape) not in (2, 3) or (not gray and shape[2] not in allowed_channels):
        raise InvalidArgument(f"{argument} has the shape {shape}; allowed: (H, W) or (H, W, C) with C {several}")
    if 0 in shape:
        raise InvalidArgument(f"{argument} has the shape {shape}, so no pixels; allowed: at least one pixel")
    return gray, 1 if gray else shape[2]


def _from_device(source: Array, argument: str, max_channels: int) -> Picture:
    if source.dtype != np.uint8:
        raise InvalidType(f"{argument} is a device array of {source.dtype}; allowed: uint8")
    gray, channels = _check_shape(source.shape, argument, max_channels)
    if not source.flags.c_contiguous:
        raise InvalidArgument(f"{argument} is a device array with strides {source.strides}; allowed: C-contiguous")
    return Picture(source.shape[0], source.shape[1], channels, gray, device_array=source)


def _to_uint8(array: npt.NDArray[Any], argument: str) -> npt.NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        full: npt.NDArray[np.uint8] = array.astype(np.uint8) * np.uint8(255)
        return full
    if array.dtype == np.uint16:
        narrow: npt.NDArray[np.uint8] = ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
        return narrow
    if np.issubdtype(array.dtype, np.floating):
        if array.size and not bool(((array >= 0) & (array <= 1)).all()):
            raise InvalidArgument(f"{argument} has float values outside 0..1 (or NaN); allowed: floats in 0..1")
        rounded: npt.NDArray[np.uint8] = np.floor(array.astype(np.float64) * 255 + 0.5).astype(np.uint8)
        return rounded
    raise InvalidType(f"{argument} is {shown(array)}; allowed: uint8, bool, uint16, or floats in 0..1")


def _from_file(path: str, argument: str) -> npt.NDArray[np.uint8]:
    try:
        with _open(path) as image:
            _check_claim(image, os.path.getsize(path))
            image.load()
            return _from_pil(image, argument)
    except FileNotFoundError as error:
        raise FileError(f"{argument}: cannot read {path!r}: there is no such file") from error
    except PIL.UnidentifiedImageError as error:
        raise FileError(f"{argument}: cannot read {path!r}: not a picture in a format that Pillow knows") from error
    except PIL.Image.DecompressionBombError as error:
        raise FileError(f"{argument}: cannot read {path!r}: more than {MAX_FILE_PIXELS} pixels") from error
    except (InvalidArgument, InvalidType):
        raise
    except _DECODER_ERRORS as error:
        raise FileError(f"{argument}: cannot read {path!r}: {error}") from error
    except MemoryError as error:
        raise FileError(f"{argument}: cannot read {path!r}: it needs more memory than there is") from error


def _check_claim(image: PIL.Image.Image, nbytes: int) -> None:
    """Refuse a damaged size before its pixels are made: no file of these formats holds so many in so few bytes."""
    boundless = image.mode == "1" or image.format in BOUNDLESS_FORMATS
    if not boundless and image.width * image.height > MOST_PIXELS_A_BYTE * nbytes:
        raise ValueError(f"it claims {image.width} x {image.height} pixels, more than its {nbytes} bytes can hold")


def _open(path: str) -> PIL.Image.Image:
    """Open a file under this library's own bound on pixels instead of Pillow's lower one."""
    with _pillow_limit, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = PIL.Image.MAX_IMAGE_PIXELS
        PIL.Image.MAX_IMAGE_PIXELS = MAX_FILE_PIXELS // 2  # Pillow raises above twice this number
        try:
            return PIL.Image.open(path)
        finally:
            PIL.Image.MAX_IMAGE_PIXELS = before


def _from_pil(image: PIL.Image.Image, argument: str) -> npt.NDArray[np.uint8]:
    if 0 in image.size:
        raise InvalidArgument(f"{argument} has the size {image.size}, so no pixels; allowed: at least one pixel")
    upright = _to_srgb(PIL.ImageOps.exif_transpose(image) or image)
    mode = upright.mode
    if mode in ("L", "RGB", "RGBA"):
        return np.asarray(upright)
    if mode == "1":
        return np.asarray(upright.convert("L"))
    if mode.startswith("I;16") or mode == "I":
        values = np.asarray(upright).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise InvalidType(f"{argument} is a PIL image of mode I with values outside 0..65535; convert it first")
        return _to_uint8(values.astype(np.uint16), argument)
    if mode == "F":
        raise InvalidType(f"{argument} is a PIL image of mode F; allowed: 8- or 16-bit pictures; convert it first")
    transparent = mode in ("LA", "PA", "La", "RGBa") or "transparency" in upright.info
    if mode == "La":
        upright = upright.convert("LA")
    return np.asarray(upright.convert("RGBA" if transparent else "RGB"))


def _to_srgb(image: PIL.Image.Image) -> PIL.Image.Image:
    """The picture in sRGB if it carries a profile that Pillow can convert; else as it is."""
    profile = image.info.get("icc_profile")
    if not profile or image.mode not in ("RGB", "RGBA"):
        return image
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if "srgb" in ImageCms.getProfileDescription(source).lower():
            return image
        converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode=image.mode)
    except (ImportError, OSError, ValueError, ImageCms.PyCMSError):
        return image  # a broken profile says nothing about the colours
    return converted or image
