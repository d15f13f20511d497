"""Two pictures to compare: read by one rule, compared on the device, by Dask or band by band on the host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import flow, images, params
from clquant.flow.executors import on_collections
from clquant.images import Picture, foreign, lazy
from clquant.quality.definitions import Bands, Numbers
from clquant.runtime import Array, CommandQueue, InvalidArgument, Progress, open_session

Samples = npt.ArrayLike | Array | PIL.Image.Image | os.PathLike[str]
_NAMES = "original", "result"


@dataclass(frozen=True)
class Pair:
    """Two pictures of one shape; samples of another number of axes are rows of single samples."""

    first: Picture
    second: Picture
    shape: tuple[int, ...]
    levels: bool = True  # of 8 bits, which a device compares

    def bands(self, queue: CommandQueue | None, overlap: int = 0) -> Iterator[tuple[Numbers, Numbers]]:
        """Rows of both on the host, from top to bottom; bands of lazy pictures share `overlap` rows."""
        pictures = [self.first] if self.second is self.first else [self.first, self.second]
        readers = [one.lazy.rows if one.lazy is not None else _reader(one, queue) for one in pictures]
        begin, height = 0, self.first.height
        rows = min((one.lazy.rows_at_once(0) for one in pictures if one.lazy is not None), default=height)
        rows = max(rows, overlap + 1)
        for end in [*range(rows, height, rows), height]:
            band = [read(begin, end) for read in readers]
            yield band[0], band[-1]
            begin = max(end - overlap, 0)


def _reader(picture: Picture, queue: CommandQueue | None) -> Callable[[int, int], Numbers]:
    """Rows of a picture in memory, as `LazyRows.rows` reads them."""
    array = picture.array
    if array is None:
        array = picture.on_host(open_session(queue, images.device_arrays([picture])))
    return lambda begin, end: array[begin:end]


class Comparison(flow.Reduce):
    """A sum over two pictures of 8-bit levels, and the figure that follows from it."""

    def figure(self, total: int, shape: tuple[int, ...]) -> float:
        """The figure of two pictures of a shape."""
        raise NotImplementedError


@on_collections("figure")
def compared(
    job: Comparison | None,
    on_host: Callable[[Bands], float],
    original: Samples,
    result: Samples,
    queue: CommandQueue | None,
    memory: Any,
    least: int = 0,
) -> float:
    """Reduce two pictures of 8-bit levels, or compute a figure of bands, which share a row less than a side's `least`.

    Of Dask arrays the figure is a lazy number.
    """
    pair = as_pair(original, result, memory, least)
    if job is None or not pair.levels:
        return on_host(pair.bands(queue, max(least - 1, 0)))
    pictures = [pair.first, pair.second]
    session = open_session(queue, images.device_arrays(pictures))
    return job.figure(flow.state_of(session, pictures, job, Progress(None)), pair.shape)


def as_pair(original: Samples, result: Samples, memory: Any, least: int = 0) -> Pair:
    """Check two pictures, or samples of any shape without `least` pixels of a side; lazy ones of 8 bits stay so."""
    bound = lazy.memory_bytes(memory)
    given = [_samples(name, one) for name, one in zip(_NAMES, (original, result), strict=True)]
    shapes = [tuple(int(side) for side in one.shape) for one in given]
    shapes = [shape[:2] if len(shape) == 3 and shape[2] == 1 else shape for shape in shapes]
    if shapes[0] != shapes[1] or 0 in shapes[0] or not shapes[0]:
        got = f"{shapes[0]} and {shapes[1]}"
        raise InvalidArgument(f"original and result must be non-empty and of one shape, got {got}")
    if least and (len(shapes[0]) not in (2, 3) or min(shapes[0][:2]) < least):
        allowed = f"pictures (H, W) or (H, W, C) of at least {least} x {least} pixels"
        raise InvalidArgument(f"original and result have the shape {shapes[0]}; allowed: {allowed}")
    levels = all(one.dtype == np.uint8 for one in given)
    if not levels:
        given = [one[...] if lazy.is_lazy(one) else one for one in given]
        given = [params.array(name, one, "numbers", "buif") for name, one in zip(_NAMES, given, strict=True)]
    first, second = (_picture(one, name, bound // 2) for name, one in zip(_NAMES, given, strict=True))
    return Pair(first, first if given[1] is given[0] else second, shapes[0], levels)


def _samples(name: str, given: Any) -> Any:
    """Convert an argument to an array, unless it is a picture, a device array or a lazy picture of 8-bit levels."""
    if isinstance(given, Picture) and given.bits == 8:
        return given
    if isinstance(given, str | os.PathLike):
        found = lazy.opened(os.fsdecode(given))
        given = images.read(given, argument=name).array if found is None else found
    if isinstance(given, PIL.Image.Image) and given.mode in ("1", "P", "PA"):  # whose samples are no levels
        given = images.read(given, argument=name).array
    if isinstance(given, Array) and given.dtype == np.uint8 and given.flags.c_contiguous and given.queue is not None:
        return given
    if lazy.is_lazy(given):
        return given if given.dtype == np.uint8 and given.ndim in (2, 3) else np.asarray(given[...])
    if hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray):  # it may have no other way, or be on a GPU
        given = foreign.as_array(given, name)
    return params.array(name, given, "numbers", "buif")


def _picture(samples: Any, name: str, memory: int) -> Picture:
    """Samples as a picture (H, W, C); of another number of axes as rows of single samples."""
    if isinstance(samples, Picture):
        return samples
    shape = samples.shape
    height, width, channels = (*shape, 1, 1)[:3] if len(shape) <= 3 else (shape[0], int(np.prod(shape[1:])), 1)
    gray = len(shape) != 3 or channels == 1
    if lazy.is_lazy(samples):
        return Picture(height, width, channels, gray, lazy=lazy.LazyRows(samples, name, memory))
    if isinstance(samples, Array):
        return Picture(height, width, channels, gray, device_array=samples)
    packed = np.ascontiguousarray(samples).reshape(height, width, channels)
    return Picture(height, width, channels, gray, array=packed)
