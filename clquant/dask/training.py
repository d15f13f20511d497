"""Codebooks of Dask arrays and files: repeated reductions over parts of the blocks, which stay on their workers.

A part that is lost with its worker is made anew from its graph. Nothing of a codebook depends on how blocks are shared
out (see `clquant.training.parted`). Steps on samples are made by the process that trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed, persist

from clquant import images as pictures
from clquant import params
from clquant.dask.chunks import checked, placed
from clquant.dask.files import Later, expanded
from clquant.dask.sums import tree
from clquant.dask.work import held, named, release, workers
from clquant.images.foreign import is_dask
from clquant.runtime import CommandQueue, InvalidArgument, Progress, open_session
from clquant.training import training
from clquant.training.blocks import BlockShape
from clquant.training.part import MERGES, Part, Rows, Worst
from clquant.training.parted import PartedBlocks, cut_numbers, steps_on
from clquant.vq.fit import checked_plan

# Pixels of a part, about.
MOST_PIXELS = 1 << 29


class RemoteParts:
    """`Part` objects that delayed calls make, in order, for `PartedBlocks`; closing releases them."""

    def __init__(self, shape: BlockShape, counts: Sequence[int], made: Sequence[Any]) -> None:
        self._shape, self._starts = shape, np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._parts = persist(*made)

    def __enter__(self) -> RemoteParts:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            release(held(part))

    def train(
        self, queue: CommandQueue | None, weights: Any, plans: Sequence[training.Plan], progress: Progress
    ) -> training.Trained:
        """Train like `training.train`, with samples on a queue; the training of least error, the first of equals."""
        found, session = list[training.Trained](), open_session(queue)
        for plan, own in training.each_of(plans, progress):
            with session.scope() as scope:
                blocks = PartedBlocks(session, scope, self._shape, int(self._starts[-1]), weights, self)
                found.append(training.train_on(session, scope, blocks, plan, own, steps_on))
        return min(found, key=lambda trained: trained.mse)

    def sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        """Add up `Part.sums`."""
        found: npt.NDArray[np.uint64] = self._reduced("sums", codebook, capacity)
        return found

    def worst(self, codebook: Rows, capacity: int) -> Worst:
        """Find the worst block of each codeword."""
        found: Worst = self._reduced("worst", codebook, capacity)
        return found

    def squares(self, capacity: int) -> int:
        """Add up the weighted squared lengths of all blocks."""
        return int(self._reduced("squares", capacity))

    def rows(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Return blocks by their numbers, each from the part that has it."""
        work = delayed(named(Part.rows), pure=False)
        found = compute(*[work(self._parts[i], places) for i, places in cut_numbers(numbers, self._starts)])
        return np.concatenate([np.empty((0, self._shape.components), self._shape.dtype), *found])

    def _reduced(self, method: str, *args: Any) -> Any:
        """Call a method of each part on its worker, and merge the results as a tree."""
        common = [delayed(one, pure=False) if isinstance(one, np.ndarray) else one for one in args]
        work = delayed(named(getattr(Part, method)), pure=False)
        return compute(tree(MERGES[method], [work(part, *common) for part in self._parts]))[0]


def fit_codec(
    codec: Any, images: Any, sample_weight: Any, progress: Any, _memory: Any
) -> tuple[training.Trained, BlockShape]:
    """Train the codebook of Dask arrays, or of images that workers read, like `VQCodec.fit`."""
    (plan, block), report = checked_plan(codec), Progress(params.callback("progress", progress))
    given = expanded(images if isinstance(images, list | tuple) else [images])
    bands = [_bands_of(image, f"images[{i}]", block) for i, image in enumerate(given)]
    unknown = iter(compute(*[delayed(np.shape)(own[0]) for own, _, shape in bands if not shape]))
    shapes = [shape or next(unknown) for *_, shape in bands]
    channels = {(*shape, 1)[2] for shape in shapes}
    if len(channels) > 1:
        raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
    shape = BlockShape(*block, channels.pop())
    tables = [shape.table_shape(*size[:2]) for size in shapes]
    weights = training.check_weights(sample_weight, tables)
    made: list[Any] = []
    counts: list[int] = []
    work = delayed(named(Part), pure=False)
    for i, (own, high, _) in enumerate(bands):
        for number, pixels in enumerate(own):
            rows = slice(number * (high or tables[i][0]), min((number + 1) * (high or tables[i][0]), tables[i][0]))
            made.append(work(pixels, None if weights is None else weights[i][rows], shape, sum(counts)))
            counts.append((rows.stop - rows.start) * tables[i][1])
    flat = None if weights is None else np.concatenate([own.ravel() for own in weights])
    with RemoteParts(shape, counts, made) as parts:
        return parts.train(codec.queue, flat, [plan], report), shape


def _bands_of(image: Any, name: str, block: tuple[int, int]) -> tuple[list[Any], int, tuple[int, ...]]:
    """Cut a picture into about as many bands as workers: their pixels, rows of blocks in one, the picture's shape."""
    work = delayed(named(_pixels), pure=False)
    if not is_dask(image):
        return [work(image, name)], 0, ()  # a worker finds the shape
    whole = placed(checked(image, name), name)
    height, width = whole.shape[:2]
    most = min(-(-height // workers()), max(MOST_PIXELS // width, 1))
    high = -(-most // block[0])
    tops = range(0, height, high * block[0])
    heights = tuple(min(high * block[0], height - top) for top in tops)
    chunks = whole.rechunk({0: heights, 1: width}).to_delayed().ravel()
    return [work(*each) for each in zip(chunks, tops, strict=True)], high, whole.shape


def _pixels(image: Any, place: str | int) -> npt.NDArray[np.uint8]:
    """Read an image under its name, or a band by its first row."""
    image = image() if isinstance(image, Later) else image
    name = place if isinstance(place, str) else f"chunk at row {place}, column 0"
    picture = pictures.read(image, argument=name)
    return picture.array  # type: ignore[return-value]
