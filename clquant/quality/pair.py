"""Two pictures to compare: read by one rule, compared on the device, by Dask or band by band on the host."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import flow, images, params
from clquant.flow.source import PictureSource, StoredRows, common_portions
from clquant.images import Picture, foreign, memory_bytes, storage
from clquant.quality.definitions import Bands, Numbers
from clquant.runtime import Array, CommandQueue, InvalidArgument, Progress, open_session

Samples = npt.ArrayLike | Array | PIL.Image.Image | os.PathLike[str]


@dataclass(frozen=True)
class Pair:
    """Two pictures of one shape; samples of another number of axes are rows of single samples."""

    first: Picture
    second: Picture
    shape: tuple[int, ...]
    levels: bool = True  # of 8 bits, which a device compares

    def bands(self, queue: CommandQueue | None, overlap: int = 0) -> Iterator[tuple[Numbers, Numbers]]:
        """Rows of both on the host, from top to bottom; those of stores in portions, which share `overlap` rows."""
        pictures = [self.first] if self.second is self.first else [self.first, self.second]
        pictures = [_on_host(one, queue) for one in pictures]
        sources = list(map(PictureSource, pictures))
        for cut in common_portions(None, pictures, multiple=overlap + 1):
            rows = [source.fetch(max(cut.row0 - overlap, 0), cut.row1) for source in sources]
            yield rows[0], rows[-1]


def _on_host(picture: Picture, queue: CommandQueue | None) -> Picture:
    """A picture that is not on a device."""
    if not picture.on_device:
        return picture
    array = picture.on_host(open_session(queue, images.device_arrays([picture])))
    return dataclasses.replace(picture, array=array, device_array=None)


class Comparison(flow.Reduce):
    """A sum over two pictures of 8-bit levels, and the figure that follows from it."""

    def figure(self, total: int, shape: tuple[int, ...]) -> float:
        """The figure of two pictures of a shape."""
        raise NotImplementedError


@flow.verb
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
    bound = memory_bytes(memory) // 2
    shape, first = _picture("original", original, bound)
    other, second = (shape, first) if result is original else _picture("result", result, bound)
    if shape != other or 0 in shape or not shape:
        raise InvalidArgument(f"original and result must be non-empty and of one shape, got {shape} and {other}")
    if least and (len(shape) not in (2, 3) or min(shape[:2]) < least):
        allowed = f"pictures (H, W) or (H, W, C) of at least {least} x {least} pixels"
        raise InvalidArgument(f"original and result have the shape {shape}; allowed: {allowed}")
    levels = all(one.array is None or one.array.dtype == np.uint8 for one in (first, second))
    return Pair(first, second, shape, levels)


def _picture(name: str, given: Any, memory: int) -> tuple[tuple[int, ...], Picture]:
    """Read samples as a picture, those of other than 2 or 3 axes as rows; the shape has no axis of one channel."""
    if isinstance(given, str | os.PathLike) and (opened := storage.open_path(os.fsdecode(given))) is not None:
        given = opened
    is_image = isinstance(given, PIL.Image.Image) and given.mode in ("1", "P", "PA")  # whose samples are no levels
    if is_image or isinstance(given, str | os.PathLike):
        given = images.read(given, argument=name)
    if isinstance(given, Picture) and given.bits == 8:
        return given.shape, given
    found: dict[str, Any]
    if isinstance(given, Array) and given.dtype == np.uint8 and given.flags.c_contiguous and given.queue is not None:
        found = {"device_array": given}
    elif storage.is_in_store(given) and given.dtype == np.uint8 and given.ndim in (2, 3):
        found = {"store": StoredRows(given, name, memory)}
    else:
        if storage.is_in_store(given):
            given = np.asarray(given[...])
        elif hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray):  # it may be on a GPU
            given = foreign.as_array(given, name)
        given = params.array(name, given, "numbers", "buif")
        found = {"array": np.ascontiguousarray(given)}
    shape = tuple(int(side) for side in given.shape)
    shape = shape[:2] if len(shape) == 3 and shape[2] == 1 else shape
    height, width, channels = (*shape, 1, 1, 1)[:3] if len(shape) <= 3 else (shape[0], math.prod(shape[1:]), 1)
    if "array" in found:
        found["array"] = found["array"].reshape(height, width, channels)
    return shape, Picture(height, width, channels, len(shape) != 3, **found)
