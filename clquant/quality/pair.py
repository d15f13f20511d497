"""Two pictures to compare: read by one rule, and on the device band by band."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import flow, images, params
from clquant.images import Picture, foreign, lazy
from clquant.quality.definitions import picture_shape
from clquant.runtime import Array, CommandQueue, InvalidArgument, Progress, Session, open_session

Samples = npt.ArrayLike | Array | PIL.Image.Image | os.PathLike[str]
Numbers = npt.NDArray[np.generic]
_NAMES = "original", "result"


@dataclass(frozen=True)
class Pair:
    """Two pictures of one shape; samples of another number of axes are rows of single samples."""

    first: Picture
    second: Picture
    shape: tuple[int, ...]
    levels: bool = True  # of 8 bits, which a device compares

    @property
    def height(self) -> int:
        """Rows."""
        return self.first.height

    @property
    def width(self) -> int:
        """Pixels per row."""
        return self.first.width

    def open(self, queue: CommandQueue | None) -> Session:
        """A session on `queue`, else on the queue of what is on a device already."""
        return open_session(queue, images.device_arrays([self.first, self.second]))

    def on_host(self, queue: CommandQueue | None) -> tuple[Numbers, Numbers]:
        """Both as arrays (H, W, C) on the host."""
        if self.first.array is not None and self.second.array is not None:
            return self.first.array, self.second.array
        session = self.open(queue)
        return self.first.on_host(session), self.second.on_host(session)

    def reduced(self, job: flow.Reduce, queue: CommandQueue | None) -> Any:
        """The value of a reduction of both."""
        return job.finish(flow.state_of(self.open(queue), [self.first, self.second], job, Progress(None)))


def pieces(pair: Pair, overlap: int = 0) -> Iterator[Pair]:
    """Yield a pair as pairs in memory, from top to bottom; one in memory or on a device as a whole."""
    readers = [one.lazy for one in (pair.first, pair.second) if one.lazy is not None]
    if not readers:
        yield pair
        return
    rows = max(min(reader.rows_at_once(0) for reader in readers), overlap + 1)
    begin = 0
    for end in [*range(rows, pair.height, rows), pair.height]:
        one = _rows(pair.first, begin, end)
        other = one if pair.second is pair.first else _rows(pair.second, begin, end)
        yield replace(pair, first=one, second=other, shape=(end - begin, *pair.shape[1:]))
        begin = max(end - overlap, 0)


def _rows(picture: Picture, begin: int, end: int) -> Picture:
    """Rows of a picture, which are in memory or on the device."""
    array = picture.array if picture.lazy is None else picture.lazy.rows(begin, end)
    device = picture.device_array
    return replace(
        picture,
        height=end - begin,
        array=array if array is None or picture.lazy is not None else array[begin:end],
        device_array=None if device is None else device[begin:end],
        lazy=None,
    )


def host_rows(
    original: Samples, result: Samples, memory: Any, queue: CommandQueue | None
) -> tuple[int, int, Iterator[tuple[Numbers, Numbers]]]:
    """Height and width of two pictures, and the rows of both as arrays on the host, from top to bottom."""
    pair = as_pair(original, result, memory)
    return *picture_shape(pair.shape), (piece.on_host(queue) for piece in pieces(pair))


def as_pair(original: Samples, result: Samples, memory: Any = None) -> Pair:
    """Check two pictures; lazy ones of 8-bit samples stay where they are, for `pieces`."""
    bound = lazy.memory_bytes(memory)
    given = [_samples(name, one) for name, one in zip(_NAMES, (original, result), strict=True)]
    shapes = [tuple(int(side) for side in one.shape) for one in given]
    if shapes[0] != shapes[1] or 0 in shapes[0] or not shapes[0]:
        got = f"{shapes[0]} and {shapes[1]}"
        raise InvalidArgument(f"original and result must be non-empty and of one shape, got {got}")
    levels = all(one.dtype == np.uint8 for one in given)
    if not levels:
        given = [params.array(name, _whole(one), "numbers", "buif") for name, one in zip(_NAMES, given, strict=True)]
    first, second = (_picture(one, name, bound // 2) for name, one in zip(_NAMES, given, strict=True))
    return Pair(first, first if given[1] is given[0] else second, shapes[0], levels)


def _samples(name: str, given: Any) -> Any:
    """An array of what was given; a picture that was read, a device array or a lazy picture stays where it is."""
    if isinstance(given, Picture) and given.bits == 8:
        return given
    if isinstance(given, str | os.PathLike):
        found = lazy.opened(os.fsdecode(given))
        given = _shown(name, given) if found is None else found
    if isinstance(given, PIL.Image.Image) and given.mode in ("1", "P", "PA"):
        given = _shown(name, given)
    if isinstance(given, Array) and given.dtype == np.uint8 and given.flags.c_contiguous and given.queue is not None:
        return given
    if lazy.is_lazy(given):
        return given if given.dtype == np.uint8 and given.ndim in (2, 3) else _whole(given)
    if hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray):  # it may have no other way, or be on a GPU
        given = foreign.as_array(given, name)
    return params.array(name, given, "numbers", "buif")


def _whole(given: Any) -> Any:
    """Read a lazy picture whole."""
    return np.asarray(given[...]) if lazy.is_lazy(given) else given


def _shown(name: str, given: PIL.Image.Image | str | os.PathLike[str]) -> Any:
    """Read a file, or a PIL image in a mode whose samples are no levels, as the engines do."""
    picture = images.read(given, argument=name)
    assert picture.array is not None
    return picture.array[..., 0] if picture.gray else picture.array


def _picture(samples: Any, name: str, memory: int) -> Picture:
    """Samples as a picture (H, W, C); of another number of axes as rows of single samples."""
    if isinstance(samples, Picture):
        return samples
    shape = samples.shape
    height, width, channels = (*shape, 1, 1)[:3] if len(shape) <= 3 else (shape[0], int(np.prod(shape[1:])), 1)
    gray = len(shape) != 3
    if lazy.is_lazy(samples):
        return Picture(height, width, channels, gray, lazy=lazy.LazyRows(samples, name, memory))
    if isinstance(samples, Array):
        return Picture(height, width, channels, gray, device_array=samples)
    packed = np.ascontiguousarray(samples).reshape(height, width, channels)
    return Picture(height, width, channels, gray, array=packed)
