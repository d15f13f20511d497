"""VQ codebooks from Dask arrays and files."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed

from clquant import images as pictures
from clquant.dask.chunks import checked
from clquant.dask.files import Later, expanded
from clquant.dask.remote_parts import RemoteParts
from clquant.dask.work import located, named, workers
from clquant.images.foreign import is_dask
from clquant.runtime import InvalidArgument, Progress, open_session
from clquant.training import training
from clquant.training.blocks import BlockShape
from clquant.training.part import Part

# Pixels of a part, about.
MOST_PIXELS = 1 << 29


def fit(
    codec: Any, given: Sequence[Any], sample_weight: Any, plan: training.Plan, progress: Progress
) -> tuple[training.Trained, BlockShape]:
    """Train the codebook of Dask arrays, or of images that workers read, like `VQCodec.fit`."""
    images, block = expanded(given), (codec.block_shape[0], codec.block_shape[1])
    with located(images):
        bands = [_banded(image, i, block) for i, image in enumerate(images)]
        unknown = iter(compute(*[delayed(named(np.shape), pure=False)(b.pixels[0]) for b in bands if not b.heights]))
        bands = [b if b.heights else b.of_shape(next(unknown)) for b in bands]
        channels = {b.shape[2] for b in bands}
        if len(channels) > 1:
            raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
        shape = BlockShape(*block, channels.pop())
        weights = training.check_weights(sample_weight, [shape.table_shape(*b.shape[:2]) for b in bands])
        flat = None if weights is None else np.concatenate([own.ravel() for own in weights])
        with contextlib.closing(_parts(bands, shape, weights)) as parts:
            return parts.train(open_session(codec.queue), flat, plan, progress), shape


@dataclass(frozen=True)
class _Bands:
    """A picture as delayed bands of whole rows of blocks, from top to bottom."""

    pixels: list[Any]
    heights: tuple[int, ...]  # empty of a picture that a worker has yet to read, which is one band
    shape: tuple[int, int, int]

    def of_shape(self, shape: tuple[int, int, int]) -> _Bands:
        """The same picture, whose shape was found."""
        return _Bands(self.pixels, shape[:1], shape)


def _banded(image: Any, number: int, block: tuple[int, int]) -> _Bands:
    """Cut a picture, whose index is a number, into about as many bands as workers."""
    if not is_dask(image):
        return _Bands([delayed(named(_read), pure=False)(image, number)], (), (0, 0, 0))
    whole = checked(image)
    height, width = whole.shape[:2]
    most = min(-(-height // workers()), max(MOST_PIXELS // width, 1))
    high = -(-most // block[0]) * block[0]
    heights = tuple(min(high, height - top) for top in range(0, height, high))
    chunks = whole.rechunk({0: heights, 1: width}).to_delayed().ravel()
    tops = [0, *itertools.accumulate(heights)][:-1]
    work = delayed(named(_pixels), pure=False)
    channels = whole.shape[2] if whole.ndim == 3 else 1
    return _Bands([work(*each) for each in zip(chunks, tops, strict=True)], heights, (height, width, channels))


def _parts(bands: Sequence[_Bands], shape: BlockShape, weights: list[npt.NDArray[np.uint16]] | None) -> RemoteParts:
    """Make each band a part of the training set, on a worker."""
    made: list[Any] = []
    counts: list[int] = []
    work = delayed(named(Part), pure=False)
    for i, picture in enumerate(bands):
        top = 0
        for pixels, height in zip(picture.pixels, picture.heights, strict=True):
            rows, columns = shape.table_shape(height, picture.shape[1])
            own = None if weights is None else weights[i][top : top + rows]
            made.append(work(pixels, own, shape, sum(counts)))
            counts.append(rows * columns)
            top += rows
    return RemoteParts(shape, counts, made)


def _read(image: Any, number: int) -> npt.NDArray[np.uint8]:
    picture = pictures.read(image() if isinstance(image, Later) else image, argument=f"images[{number}]")
    return picture.array  # type: ignore[return-value]


def _pixels(chunk: npt.NDArray[Any], top: int) -> npt.NDArray[np.uint8]:
    picture = pictures.read(np.asarray(chunk), argument=f"chunk at row {top}, column 0")
    return picture.array  # type: ignore[return-value]
