"""Weights of pixels: checked, as integers, and as pictures that repeat pixels by their weight."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import images, params
from clquant.histogram.merging import MAX_NARROW, MAX_TOTAL, HostCounts, colors_of
from clquant.images import ImageLike, Picture
from clquant.runtime import CommandQueue, InvalidArgument, InvalidType, open_session

# The least sum of float weights: of a smaller one, the units that make 1 may be more than a float64 holds.
LEAST_SUM = 1e-280
# Samples of a weighted picture: twice as many must be below 2^32 for 64-bit products.
MAX_SAMPLES = 2**31
# Pixels that stand for a histogram: some hundred times as many as the largest map samples.
MAX_SPREAD = 2**24
PART = 1 << 17  # weights that are looked at together, as many as a cache holds


def fixed_point_weights(
    weights: Sequence[npt.NDArray[np.floating] | npt.NDArray[np.integer] | npt.NDArray[np.bool_]],
) -> tuple[list[npt.NDArray[np.unsignedinteger]], float]:
    """Convert (H, W) weights to uint32 or uint64; returns how many of their units make 1 as well."""
    # Integers and booleans stay. Floats are multiplied by the largest power of two that keeps the total of all pictures
    # below 2^32, and rounded, halves to even.
    lows, highs, sums = zip(*_over_parts(weights, lambda part: (part.min(), part.max(), _sum(part))), strict=True)
    # Comparisons that hold of no NaN.
    if not (all(low >= 0 for low in lows) and all(high < np.inf for high in highs)):
        raise InvalidArgument("sample_weight has negative or non-finite values; allowed: finite numbers from 0 up")
    if any(np.issubdtype(w.dtype, np.floating) for w in weights):
        total = float(sum(map(float, sums)))
        if total < LEAST_SUM or not np.isfinite(total):
            raise InvalidArgument(
                f"sample_weight adds up to {total:g}; allowed: a finite sum above 0, at least {LEAST_SUM:g}"
            )
        # Rounding adds at most 1/2 a pixel, and a float64 sum of n terms is short by less than n.
        room = MAX_NARROW - 2 * sum(w.size for w in weights)
        unit = 2.0 ** int(np.floor(np.log2(room / total)))
        return _converted(weights, lambda part: np.rint(part.astype(np.float64) * unit), np.uint32), unit
    largest = max(int(high) for high in highs)
    if largest > MAX_TOTAL:  # the sum might be too large for 64 bits
        raise InvalidArgument(f"sample_weight goes up to {largest}; allowed: integers that add up to 1 to {MAX_TOTAL}")
    total_units = sum(int(part) for part in sums)
    if not 0 < total_units <= MAX_TOTAL:
        raise InvalidArgument(f"sample_weight adds up to {total_units}; allowed: 1 to {MAX_TOTAL}")
    return _converted(weights, lambda part: part, np.uint32 if largest <= MAX_NARROW else np.uint64), 1.0


def total_weight(weights: npt.NDArray[np.unsignedinteger]) -> int:
    """Sum of (H, W) weights."""
    return sum(map(int, _over_parts([weights], _sum)))


def _sum(part: npt.NDArray[Any]) -> Any:
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused afterwards
        return part.sum(dtype=np.float64 if part.dtype.kind == "f" else np.uint64)


def _converted(
    weights: Sequence[npt.NDArray[Any]], convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], dtype: type
) -> list[npt.NDArray[np.unsignedinteger]]:
    """The weights in another type, by `convert` of their parts."""
    made: list[npt.NDArray[np.unsignedinteger]] = [np.empty(w.shape, dtype) for w in weights]

    def fill(part: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
        target[...] = convert(part)

    _over_parts(weights, fill, made)
    return made


def _over_parts(arrays: Sequence[npt.NDArray[Any]], function: Callable[..., Any], *others: Any) -> list[Any]:
    """Results of a function of rows that a cache holds, of arrays and others of their shapes."""
    found = []
    for together in zip(arrays, *others, strict=True):
        rows = max(1, PART // together[0][0].size)
        for row in range(0, len(together[0]), rows):
            found.append(function(*(one[row : row + rows] for one in together)))
    return found


def _weight_array(weight: Any) -> npt.NDArray[Any]:
    """Return an array of weights; a picture's are its gray values."""
    if not isinstance(weight, str | os.PathLike | PIL.Image.Image):
        return params.array("sample_weight", weight, "booleans, integers or floats", "biuf")
    drawn = images.read(weight, argument="sample_weight").array
    assert drawn is not None
    if drawn.shape[2] != 1:
        raise InvalidArgument(f"sample_weight is a picture of {drawn.shape[2]} channels; allowed: a gray one")
    return drawn[:, :, 0]


def checked_weights(
    sample_weight: Any, pictures: Sequence[Picture], sources: ImageLike | Sequence[ImageLike]
) -> tuple[list[npt.NDArray[np.unsignedinteger]] | None, float]:
    """Check `sample_weight` of pictures read from `sources`; None if none are given. See `fixed_point_weights`."""
    if sample_weight is None:
        return None, 1.0
    several = isinstance(sources, list | tuple)
    if several and not (isinstance(sample_weight, list | tuple) or np.ndim(sample_weight)):
        raise InvalidType(f"sample_weight is {params.shown(sample_weight)}; allowed: a list, as images is one")
    given = list(sample_weight) if several else [sample_weight]
    if len(given) != len(pictures):
        raise InvalidArgument(f"sample_weight has {len(given)} arrays; allowed: one for each of {len(pictures)} images")
    arrays = []
    for weight, picture in zip(given, pictures, strict=True):
        array = _weight_array(weight)
        if array.shape != (picture.height, picture.width):
            allowed = (picture.height, picture.width)
            raise InvalidArgument(f"sample_weight has shape {array.shape}; allowed: the image's {allowed}")
        arrays.append(array)
    return fixed_point_weights(arrays)


def resampled(
    pictures: Sequence[Picture], weights: Sequence[npt.NDArray[np.unsignedinteger]], queue: CommandQueue | None = None
) -> tuple[Picture, bool]:
    """Draw (1, N, C) pixels, each as often as its weight says; also whether some pixel has alpha 0."""
    # With c_i the total weight of the first i of N pixels and W = c_N, pixel s of the result is the pixel i with
    # c_i <= floor((2 s + 1) W / (2 N)) < c_(i + 1): systematic sampling. Equal weights give the pictures themselves.
    channels = max(picture.channels for picture in pictures)
    rows = [_pixels(picture, channels, queue) for picture in pictures]
    pixels, ends = np.concatenate(rows), np.cumsum(np.concatenate([w.ravel() for w in weights]), dtype=np.uint64)
    places = systematic_places(len(pixels), int(ends[-1]))
    chosen = np.searchsorted(ends, places, side="right")
    clear = channels == 4 and not pixels[:, 3].all()
    return images.read(np.ascontiguousarray(pixels[chosen])[None]), clear


def spread_out(histogram: HostCounts, most: int = MAX_SPREAD) -> Picture:
    """Return the pixels of a histogram, (1, N, C): first the transparent ones, then the others in its order."""
    # Counts are divided by the least power of two that makes their sum at most `most`, and rounded up.
    colors = np.concatenate([np.zeros((1, 4), np.uint8), colors_of(histogram.codes)])
    counts = np.append(np.uint64(histogram.transparent), histogram.counts)
    shift = max(-(-int(counts.sum(dtype=np.uint64)) // most) - 1, 0).bit_length()
    counts = counts + np.uint64((1 << shift) - 1) >> np.uint64(shift)
    if not histogram.partial and not histogram.transparent:
        colors = colors[:, :3]
    return images.read(np.repeat(colors, counts.astype(np.int64), axis=0)[None])


def systematic_places(count: int, total: int) -> npt.NDArray[np.uint64]:
    """Return floor((2 s + 1) W / (2 N)) for s < N, with W = `total`, at most 2^39, and N = `count`."""
    if count > MAX_SAMPLES:
        raise InvalidArgument(f"the images have {count} pixels together; allowed with weights: at most {MAX_SAMPLES}")
    # W = q 2N + r, so that one product is at most W and the other below 2N 2N.
    whole, rest = (np.uint64(part) for part in divmod(total, 2 * count))
    odd = 2 * np.arange(count, dtype=np.uint64) + np.uint64(1)
    places: npt.NDArray[np.uint64] = odd * whole + odd * rest // np.uint64(2 * count)
    return places


def _pixels(picture: Picture, channels: int, queue: CommandQueue | None) -> npt.NDArray[np.uint8]:
    """(pixels, channels) of a picture on the host; gray is opaque gray RGB where channels are more."""
    array = picture.array
    if picture.device_array is not None:
        array = picture.device_array.get(open_session(queue, [picture.device_array]).queue)
    flat = np.asarray(array, np.uint8).reshape(picture.pixels, picture.channels)
    if picture.channels == 1 and channels > 1:
        flat = np.repeat(flat, 3, axis=1)
    if flat.shape[1] == 3 and channels == 4:
        flat = np.concatenate([flat, np.full((len(flat), 1), 255, np.uint8)], axis=1)
    return flat
