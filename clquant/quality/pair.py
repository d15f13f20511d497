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
from clquant.images import Picture, lazy
from clquant.quality.definitions import picture_shape
from clquant.runtime import Array, CommandQueue, InvalidArgument, Progress, Session, open_session

Samples = npt.ArrayLike | Array | PIL.Image.Image | os.PathLike[str]
Numbers = npt.NDArray[np.generic]
_NAMES = "original", "result"


@dataclass(frozen=True)
class Pair:
    """Two pictures of 8-bit samples and one shape.

    Attributes
    ----------
    first, second : Picture
        (H, W, C); samples of another number of axes are rows of single samples.
    """

    first: Picture
    second: Picture
    shape: tuple[int, ...]

    @property
    def height(self) -> int:
        """Rows."""
        return self.first.height

    @property
    def width(self) -> int:
        """Pixels per row."""
        return self.first.width

    @property
    def channels(self) -> int:
        """Samples per pixel."""
        return self.first.channels

    @property
    def is_lazy(self) -> bool:
        """Whether one is read in parts."""
        return self.first.lazy is not None or self.second.lazy is not None

    def open(self, queue: CommandQueue | None) -> Session:
        """A session on `queue`, else on the queue of what is on a device already."""
        return open_session(queue, images.device_arrays([self.first, self.second]))

    def on_host(self, queue: CommandQueue | None) -> tuple[Numbers, Numbers]:
        """Both as arrays (H, W, C) on the host."""
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
    first, second = _Strip(pair.first, overlap), _Strip(pair.second, overlap)
    for end in [*range(rows, pair.height, rows), pair.height]:
        one = first.down_to(end)
        other = one if pair.second is pair.first else second.down_to(end)
        yield Pair(one, other, (one.height, *pair.shape[1:]))


def host_rows(
    original: Samples, result: Samples, memory: Any, queue: CommandQueue | None
) -> tuple[int, int, Iterator[tuple[Numbers, Numbers]]]:
    """Height and width of two pictures, and the rows of both as arrays on the host, from top to bottom."""
    pair = as_pair(original, result, memory)
    if isinstance(pair, Pair):
        return *picture_shape(pair.shape), (piece.on_host(queue) for piece in pieces(pair))
    return *picture_shape(pair[0].shape), iter([pair])


class _Strip:
    """Rows of a picture that are asked for from top to bottom."""

    def __init__(self, picture: Picture, overlap: int) -> None:
        self._picture, self._overlap = picture, overlap
        self._begin = 0
        self._kept: Any = None

    def down_to(self, end: int) -> Picture:
        """The next rows, with the last of those before."""
        picture, first = self._picture, max(self._begin - self._overlap, 0)
        if picture.lazy is None:
            rows = slice(first, end)
            if picture.device_array is not None:
                made = replace(picture, height=end - first, device_array=picture.device_array[rows])
            else:
                assert picture.array is not None
                made = replace(picture, height=end - first, array=picture.array[rows])
        else:
            array = picture.lazy.rows(self._begin, end)
            if self._kept is not None:
                array = np.concatenate([self._kept, array])
            self._kept = array[len(array) - self._overlap :] if self._overlap else None
            made = replace(picture, height=len(array), array=array, lazy=None)
        self._begin = end
        return made


def as_pair(original: Samples, result: Samples, memory: Any = None) -> tuple[Numbers, Numbers] | Pair:
    """What two pictures hold: a `Pair` of 8-bit samples (H, W, C), which a device compares, else arrays on the host.

    Lazy pictures of 8-bit samples stay where they are, for `pieces`.
    """
    bound = lazy.memory_bytes(memory)
    given = [_samples(name, one) for name, one in zip(_NAMES, (original, result), strict=True)]
    a, b = given
    shapes = [tuple(int(side) for side in one.shape) for one in given]
    if shapes[0] != shapes[1] or 0 in shapes[0] or not shapes[0]:
        raise InvalidArgument(
            f"original and result must be non-empty and of one shape, got {shapes[0]} and {shapes[1]}"
        )
    if any(one.dtype != np.uint8 for one in given):
        x, y = (params.array(name, _whole(one), "numbers", "buif") for name, one in zip(_NAMES, given, strict=True))
        return x, y
    first = _picture(a, _NAMES[0], bound // 2)
    return Pair(first, first if b is a else _picture(b, _NAMES[1], bound // 2), shapes[0])


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
    return params.array(name, given, "numbers", "buif")


def _whole(given: Any) -> Any:
    """What is elsewhere, in memory."""
    return np.asarray(given[...]) if lazy.is_lazy(given) else given


def _shown(name: str, given: PIL.Image.Image | str | os.PathLike[str]) -> Any:
    """What a file shows, or a PIL image in a mode whose samples are no levels, as the engines read it."""
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
