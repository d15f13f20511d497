"""Picture files, PIL images and arrays of other dtypes -> uint8 or uint16 arrays, by the rules of `clquant.images`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.images.color_profiles import Conversion, ProfileConversion, conversion_of
from clquant.images.composition import begins_in_part, compose
from clquant.images.dark_values import SCALING, warn_of_dark
from clquant.images.deep_files import deep_colors, note_late_exif, orientation_of, turned_upright, upright
from clquant.images.guards.decoder_work import hidden_pictures
from clquant.images.picture_files import MAX_FILE_PIXELS, opened
from clquant.params import reason_of, shown
from clquant.runtime import FileError, InvalidArgument, InvalidType

Samples = npt.NDArray[Any]
"""uint8 or uint16."""
# Values that stay in a processor's cache between operations.
_NARROWED_AT_ONCE = 1 << 16


def narrowed(values: Samples) -> npt.NDArray[np.uint8]:
    """round(v / 257): the nearest 8-bit values of 16-bit ones, of which none lies halfway; uint8 as it is."""
    if values.dtype == np.uint8:
        return values
    nearest = np.empty(values.shape, np.uint8)
    flat, into = np.ascontiguousarray(values).reshape(-1), nearest.reshape(-1)
    for first in range(0, flat.size, _NARROWED_AT_ONCE):
        part = flat[first : first + _NARROWED_AT_ONCE]
        # v / 257 = v (1/256 - 1/65536 + ...): v less round(v / 256), over 256, is the same for all 65536 values.
        less = part - (((part >> np.uint16(7)) + np.uint16(1)) >> np.uint16(1))
        into[first : first + len(part)] = (less + np.uint16(128)) >> np.uint16(8)
    return nearest


def to_samples(array: npt.NDArray[Any], argument: str, max_bits: int = 8) -> Samples:
    """Convert an array as `to_uint8` does, but keep uint16 with 16 for `max_bits`, in the host's byte order."""
    if max_bits < 16 or array.dtype.newbyteorder("=") != np.uint16:
        return to_uint8(array, argument)
    warn_of_dark(int(array.max(initial=0)), argument)
    return array.astype(np.uint16, copy=False)


def to_uint8(array: npt.NDArray[Any], argument: str) -> npt.NDArray[np.uint8]:
    """Convert an array's values to 0..255, by the rules of `clquant.images`."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        full: npt.NDArray[np.uint8] = array.astype(np.uint8) * np.uint8(255)
        return full
    if array.dtype.newbyteorder("=") == np.uint16:
        warn_of_dark(int(array.max(initial=0)), argument)
        return narrowed(array)
    if np.issubdtype(array.dtype, np.floating):
        if array.size and not bool(((array >= 0) & (array <= 1)).all()):
            ends = f"from {float(array.min()):g} to {float(array.max()):g}"
            raise InvalidArgument(
                f"{argument} has floats outside 0..1, {ends}; allowed: 0..1, or integers in 0..255; {SCALING}"
            )
        rounded: npt.NDArray[np.uint8] = np.floor(array.astype(np.float64) * 255 + 0.5).astype(np.uint8)
        return rounded
    if array.dtype.kind in "iu":  # not a span of time, which is a signed integer to `issubdtype`
        if array.size and not 0 <= int(array.min()) <= int(array.max()) <= 255:
            raise InvalidArgument(
                f"{argument} is {shown(array)} with values from {array.min()} to {array.max()}; allowed: 0 to 255 "
                f"(of uint16: 0 to 65535); {SCALING}"
            )
        whole: npt.NDArray[np.uint8] = array.astype(np.uint8)
        return whole
    raise InvalidType(f"{argument} is {shown(array)}; allowed: integers in 0..255, bool, uint16, or floats in 0..1")


def from_file(source: str | bytes, argument: str, max_bits: int = 8) -> Samples:
    """Read the first frame of a path or a file's bytes: (H, W) or (H, W, 3 or 4), of 16 bits if allowed and there."""
    with opened(source, argument) as (image, _):
        return first_frame(image, argument, max_bits)


def first_frame(image: PIL.Image.Image, argument: str, max_bits: int = 8) -> Samples:
    """The pixels of an opened file's first frame, which its first picture need not be; see `clquant.images`."""
    hidden = hidden_pictures(image)
    return next(composed(image, hidden + 1, argument, max_bits))[0] if hidden else converted(image, argument, max_bits)


def composed(
    image: PIL.Image.Image, count: int, argument: str, max_bits: int = 8, most: int = MAX_FILE_PIXELS
) -> Iterator[tuple[Samples, Fraction]]:
    """Yield the frames of an opened file's first `count` pictures, with their seconds (see `composition.compose`)."""
    note_late_exif(image)
    orientation = orientation_of(image) if "exif" in image.info else 1
    for pixels, seconds in compose(image, count, most, argument, lambda part, name: converted(part, name, max_bits)):
        yield upright(pixels, orientation), seconds


def from_pil(image: PIL.Image.Image, argument: str, max_bits: int = 8) -> Samples:
    """Convert a PIL image, whose file may be read only now, to (H, W) or (H, W, 3 or 4)."""
    try:
        return converted(image, argument, max_bits)
    except (InvalidArgument, InvalidType, MemoryError):
        raise
    except Exception as error:  # decoders raise all kinds on damaged files
        raise FileError(f"{argument}: cannot read the PIL image: {reason_of(error)}") from error


def converted(image: PIL.Image.Image, argument: str, max_bits: int = 8) -> Samples:
    """The pixels of an open image; see `from_pil`."""
    if 0 in image.size:
        raise InvalidArgument(f"{argument} has the size {image.size}, so no pixels; allowed: at least one pixel")
    if begins_in_part(image):
        return next(composed(image, 1, argument))[0]
    conversion = conversion_of(image, argument)
    deep = deep_colors(image)
    if deep is not None:
        return to_samples(_in_srgb(deep, conversion, argument), argument, max_bits)
    key = _color_key(image)
    upright = turned_upright(image)
    if upright.mode == "CMYK" and isinstance(conversion, ProfileConversion):
        return np.asarray(conversion.transform.apply(upright))
    if key is not None and upright.mode in ("1", "L", "RGB"):
        upright.info["transparency"] = key
        upright = upright.convert("RGBA")
    mode = upright.mode
    if mode in ("L", "RGB", "RGBA"):
        return _in_srgb(np.asarray(upright), conversion, argument)
    if mode == "1":
        return np.asarray(upright.convert("L"))
    if mode.startswith("I;16") or mode == "I":
        values = np.asarray(upright).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise InvalidType(f"{argument} is a PIL image of mode I with values outside 0..65535; convert it first")
        gray = to_samples(_in_srgb(values.astype(np.uint16), conversion, argument), argument, max_bits)
        opaque = np.iinfo(gray.dtype).max
        return gray if key is None else np.dstack([gray, gray, gray, gray.dtype.type(opaque) * (values != key)])
    if mode == "F":
        raise InvalidType(f"{argument} is a PIL image of mode F; allowed: 8- or 16-bit pictures; convert it first")
    transparent = mode in ("LA", "PA", "La", "RGBa") or "transparency" in upright.info
    transparent |= mode == "P" and getattr(upright.palette, "mode", "RGB") == "RGBA"  # as Image.quantize makes
    if mode == "La":
        upright = upright.convert("LA")
    return _in_srgb(np.asarray(upright.convert("RGBA" if transparent else "RGB")), conversion, argument)


# Pillow multiplies a PNG's gray values of 2 and 4 bits by these, but not the value that the file names as transparent.
_KEY_SCALES = {"L;2": 85, "L;4": 17}


def _color_key(image: PIL.Image.Image) -> Any:
    """The gray value or colour that a file says is transparent, on the scale of its pixels; None without one.

    An image that was converted or made in memory has no format: its mode counts, whatever its `info` still says.
    """
    key = image.info.get("transparency")
    if image.format is None or image.mode == "P" or key is None:
        return None
    if image.format != "PNG":
        return key
    if image.mode == "1":  # the bit itself before Pillow 12.1
        return 255 if key else 0
    if image.mode == "RGB" and max(key) > 255:  # 16 bits per channel, of which Pillow reads the high byte
        return tuple(part >> 8 for part in key)
    tiles = getattr(image, "tile", None)  # until the pixels are read
    return key * _KEY_SCALES.get(str(tiles[0][3]), 1) if tiles and image.mode == "L" else key


def _in_srgb(values: Samples, conversion: Conversion | None, argument: str) -> Samples:
    """Values in sRGB, of 8 bits where a profile has no more."""
    if conversion is None:
        return values
    converted = conversion.convert(values)
    if converted.dtype != values.dtype:
        warnings.warn(f"{argument} has 16 bits per value and a profile that is applied to 8 of them", stacklevel=4)
    return converted
