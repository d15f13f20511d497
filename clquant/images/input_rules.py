"""From what people hold to device buffers, and back.

The rules, for every engine:

- uint8 arrays (H, W), (H, W, 3) and (H, W, 4) are taken as they are, of any strides; (H, W, 1) counts as (H, W).
- uint16 arrays keep their 16 bits where a job is done from 16 bits (docs/deep-pictures.md); else v becomes
  round(v / 257). If no value is above 255 there is a warning. bool becomes 0 and 255; floats must lie in
  0..1 and become round(255 v), half up; other integers must lie in 0..255. Every other dtype is refused.
- Arrays of other libraries, masked arrays, bytes and file objects: see `clquant.images.foreign`.
- Files and PIL images: EXIF orientation is applied; colours become sRGB (`clquant.images.color_profiles`); 1, L, RGB
  and RGBA keep their channels, but a file of gray or RGB that names one value as transparent (PNG, GIF) becomes RGBA;
  P becomes RGBA if it has transparency, else RGB; LA, PA, La and RGBa become RGBA; CMYK, YCbCr, LAB and HSV become
  RGB as Pillow converts them; 32-bit modes I and F are refused unless an I picture's values fit 16 bits. Of several
  frames the first is read; an APNG's default image that is no frame is passed over.
- 16-bit gray (in PNG, TIFF and PAM with alpha, too), and 16-bit RGB and RGBA of PNG, TIFF, PPM and PAM files, are
  uint16 as above (see `clquant.images.tiff.substitutes` for what Pillow alone does not read so). Of PIL images of
  16-bit colour whose pixels were read before the 8 bits of Pillow are taken: the high byte. A profile of tables, which
  none of 16-bit RGB and gray has as a rule, is applied to 8 bits.
- Files are read in the formats of `clquant.images.FORMATS`, whatever their names say; others must be named, with
  `allow_formats` or in `CLQUANT_FORMATS`. More than 2^29 pixels, or more than Pillow's `MAX_IMAGE_PIXELS` allows where
  the application has set it, or than a file's bytes can hold, are refused before they are decoded.
- A device array must be uint8 or uint16 of the shapes above, of any strides; its result stays on the device, on the
  same queue, and is of the same class with the same attributes (of several arrays, of the first one's).
- A picture without pixels is refused, and so is a Dask array, where a verb does not work on its chunks.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import PIL.Image

from clquant.executors import is_remote
from clquant.images import decode, foreign, storage, stores
from clquant.images.dark_values import warned_once
from clquant.images.picture import ImageLike, Picture, device_arrays
from clquant.images.picture_files import MAX_FILE_PIXELS
from clquant.images.rows import refuse_rows
from clquant.images.strided import packed
from clquant.images.tiff import geo
from clquant.params import shown
from clquant.runtime import (
    Array,
    CommandQueue,
    FileError,
    InvalidArgument,
    InvalidType,
    Scope,
    Session,
    open_session,
)


def read(
    source: ImageLike,
    *,
    argument: str = "image",
    max_channels: int = 4,
    max_bits: int = 8,
    takes_rows: bool = False,
) -> Picture:
    """Read what a person holds by the rules at the head of this module.

    Parameters
    ----------
    source : path-like, PIL image, ndarray, pyopencl.array.Array, array of another library, bytes or binary file
        Or a `Picture` that was read by the same rules, which is given back.
    argument : str
        The argument's name in error messages.
    max_channels : int
        4, or more for engines that take multi-band arrays; then every C up to it is allowed.
    max_bits : int
        8, or 16 for jobs that are done from 16-bit values, which they may get then.
    takes_rows : bool
        Whether an array that looks like rows of vectors is taken (see `clquant.images.rows`).

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
        return source if max_bits == 16 else source.narrowed()
    if not takes_rows:
        refuse_rows(source, argument)
    if isinstance(source, Array):
        return _from_device(source, argument, max_channels, max_bits)
    if is_remote(source):
        raise InvalidType(
            f"{argument} is a Dask array, of which this verb needs all pixels in one process; allowed: its compute(), "
            "where that fits, or verbs that work on chunks (fit, predict, leaves ...: docs/dask.md has them)"
        )
    try:
        array = _to_array(source, argument, max_channels, max_bits)
        gray, channels = check_shape(array.shape, argument, max_channels)
        height, width = array.shape[:2]
        packed = np.ascontiguousarray(array).reshape(height, width, channels)
    except MemoryError as error:
        raise InvalidArgument(f"{argument} is {shown(source)}, which needs more memory than there is") from error
    return Picture(height, width, channels, gray, array=packed)


def _to_array(source: Any, argument: str, max_channels: int, max_bits: int) -> decode.Samples:
    # numpy.ma takes a while to import, and while another thread does so it is there without its class.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(source, masked):
        check_shape(source.shape, argument, 4)
        filled = decode.to_samples(source.filled(0), argument, max_bits)
        return foreign.with_mask_as_alpha(source, filled)
    if isinstance(source, np.ndarray):
        return decode.to_samples(source, argument, max_bits)
    if isinstance(source, str | os.PathLike):
        stored: Any = (
            storage.open_path(os.fsdecode(source)) if stores.is_store(source) or geo.is_geotiff(source) else None
        )
        if stored is not None:
            if math.prod(stored.shape[:2]) > MAX_FILE_PIXELS:
                sides = "x".join(str(side) for side in stored.shape[1::-1])
                raise FileError(f"{argument}: it claims {sides} pixels; allowed at once: {MAX_FILE_PIXELS}")
            check_shape(tuple(stored.shape), argument, max_channels)
            nbytes = math.prod(stored.shape) * np.dtype(stored.dtype).itemsize
            storage.check_sizes(stored, argument, max(storage.DEFAULT_MEMORY, nbytes))
            return decode.to_samples(storage.values_of(stored, ..., argument), argument, max_bits)
        return decode.from_file(os.fsdecode(source), argument, max_bits)
    if isinstance(source, PIL.Image.Image):
        return decode.from_pil(source, argument, max_bits)
    array = foreign.as_array(source, argument)
    if array is not None:
        return decode.to_samples(array, argument, max_bits)
    data = foreign.encoded(source, argument)
    if data is not None:
        return decode.from_file(data, argument, max_bits)
    raise InvalidType(
        f"{argument} is {shown(source)}; allowed: a path, a PIL image, an array of NumPy, a device or any "
        "library with __array__ or __dlpack__, bytes or a binary file"
    )


def detached(source: Any, argument: str = "image") -> Any:
    """Make an iterator's item safe from its next step: read PIL images, copy arrays, leave the rest.

    ``PIL.ImageSequence.Iterator`` gives one image again and again, and moves it to another frame each time; readers of
    videos give one array again and again.
    """
    if isinstance(source, np.ndarray):
        return source.copy()
    return read(source, argument=argument, max_bits=16) if isinstance(source, PIL.Image.Image) else source


def materialize(source: Any, argument: str = "images") -> Any:
    """Return an iterator's items (a generator, ``Path.glob``) as a list, and anything else as it is."""
    if not hasattr(type(source), "__next__") or hasattr(source, "read"):
        return source
    return [detached(one, f"{argument}[{i}]") for i, one in enumerate(source)]


@contextlib.contextmanager
def sent(image: ImageLike, queue: CommandQueue | None) -> Iterator[tuple[Any, Any]]:
    """A session and a picture that stays on its device while several jobs share it, where it fits.

    A Dask array stays what it is, without a session.
    """
    if is_remote(image):
        yield None, image
        return
    with all_sent([read(image, max_bits=16)], queue) as (session, (picture,)):
        yield session, picture


@contextlib.contextmanager
def all_sent(pictures: Sequence[Picture], queue: CommandQueue | None) -> Iterator[tuple[Session, list[Picture]]]:
    """A session and pictures that stay on its device while several jobs share them, where all fit."""
    session = open_session(queue, device_arrays(pictures))
    with session.scope() as scope:
        yield session, sent_together(session, scope, pictures)


def sent_together(session: Session, scope: Scope, pictures: Sequence[Picture]) -> list[Picture]:
    """Begin the uploads of pictures that several launches share, where all of them fit the device."""
    fit = 2 * sum(picture.pixels * picture.pixel_bytes for picture in pictures) <= session.limits.max_alloc
    return [picture.send(session, scope) if fit else picture for picture in pictures]


def read_many(
    source: ImageLike | Sequence[ImageLike],
    *,
    argument: str = "images",
    max_channels: int = 4,
    max_bits: int = 8,
) -> list[Picture]:
    """Read one picture, or a list or tuple of them."""
    how: dict[str, Any] = {"max_channels": max_channels, "max_bits": max_bits}
    if not isinstance(source, list | tuple):
        return [read(source, argument=argument, **how)]
    if not source:
        raise InvalidArgument(f"{argument} is empty; allowed: at least one image")
    with warned_once():
        return [read(s, argument=f"{argument}[{i}]", **how) for i, s in enumerate(source)]


def check_shape(shape: tuple[int, ...], argument: str, max_channels: int) -> tuple[bool, int]:
    """Return whether an array's shape is that of a gray picture, and its channels; refuse what is no picture's."""
    bands = "3 or 4" if max_channels == 4 else f"1 to {max_channels}"
    gray = len(shape) == 2 or (len(shape) == 3 and shape[2] == 1)
    allowed_channels = {1, 3, 4} if max_channels == 4 else set(range(1, max_channels + 1))
    if len(shape) not in (2, 3) or (not gray and shape[2] not in allowed_channels):
        raise InvalidArgument(f"{argument} has the shape {shape}; allowed: (H, W) or (H, W, C) with C {bands}")
    if 0 in shape:
        raise InvalidArgument(f"{argument} has the shape {shape}, so no pixels; allowed: at least one pixel")
    return gray, 1 if gray else shape[2]


def _from_device(source: Array, argument: str, max_channels: int, max_bits: int) -> Picture:
    if source.dtype not in (np.uint8, np.uint16):
        raise InvalidType(f"{argument} is a device array of {source.dtype}; allowed: uint8, uint16")
    gray, channels = check_shape(source.shape, argument, max_channels)
    dtype = source.dtype if max_bits == 16 else np.uint8
    if not source.flags.c_contiguous or source.dtype != dtype:
        source = packed(source, dtype)
    return Picture(source.shape[0], source.shape[1], channels, gray, device_array=source)
