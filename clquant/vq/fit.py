"""The work of `VQCodec.fit`: parameters checked, pictures read, the codebook trained, here or by workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.flow.executors import on_collections
from clquant.images import Picture, device_arrays, lazy, materialize, read, read_many
from clquant.images.collections import Later, expanded
from clquant.runtime import InvalidArgument, Progress, ProgressCallback, Session, open_session
from clquant.training import training
from clquant.training.blocks import BlockShape, Weights, check_block_shape
from clquant.training.blockset import BlockSet
from clquant.training.parts import LazyParts, Part
from clquant.training.search import MAX_CODEBOOK

if TYPE_CHECKING:
    from clquant.vq.codec import VQCodec

_COPIES_IN_MEMORY = 4  # of pictures, if memory holds which they are read whole


def _spread_fit(
    executor: Any, codec: VQCodec, images: Any, sample_weight: Any, progress: ProgressCallback | None, _memory: Any
) -> tuple[training.Trained, BlockShape]:
    """Train like `fit`, on parts that workers have."""
    (plan, block), report = checked_plan(codec), Progress(params.callback("progress", progress))
    given = expanded(images if isinstance(images, list | tuple) else [images])
    bands = [executor.bands_of(image, f"images[{i}]", block[0], _pixels) for i, image in enumerate(given)]
    unknown = iter(
        executor.values([executor.later("images", np.shape, own[0]) for own, _, shape in bands if not shape])
    )
    shapes = [shape or next(unknown) for *_, shape in bands]
    shape = _block_shape(block, {(*shape, 1)[2] for shape in shapes})
    tables = [shape.table_shape(*size[:2]) for size in shapes]
    weights = training.check_weights(sample_weight, tables)
    made: list[Any] = []
    counts: list[int] = []
    for i, (own, high, _) in enumerate(bands):
        for number, pixels in enumerate(own):
            most, first = high // block[0] or tables[i][0], sum(counts)
            counts.append(min(most, tables[i][0] - number * most) * tables[i][1])
            own_weights = None if weights is None else weights[first : first + counts[-1]]
            made.append(executor.later("images", Part, pixels, own_weights, shape, first))
    session = open_session(codec.queue)
    with executor.RemoteParts(session, shape, counts, weights, made) as parts:
        return training.train(session, parts, [plan], report), shape


def _block_shape(block: tuple[int, int], channels: set[int]) -> BlockShape:
    """The blocks of pictures of so many channels."""
    if len(channels) > 1:
        raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
    return BlockShape(*block, *channels)


def _pixels(image: Any, name: str) -> npt.NDArray[np.uint8]:
    """Read an image on a worker."""
    picture = read(image() if isinstance(image, Later) else image, argument=name)
    return picture.array  # type: ignore[return-value]


@on_collections(_spread_fit)
def fit(
    codec: VQCodec, images: Any, sample_weight: Any, progress: ProgressCallback | None, memory: Any
) -> tuple[training.Trained, BlockShape]:
    """The codebook of a codec's parameters for some images, and its blocks."""
    plan, block = checked_plan(codec)
    given, reporter = materialize(images), Progress(params.callback("progress", progress))
    pictures = _read(given, lazy.memory_bytes(memory))
    shape = _block_shape(block, {p.channels for p in pictures})
    weights = training.check_weights(sample_weight, [shape.table_shape(p.height, p.width) for p in pictures])
    session = open_session(codec.queue, device_arrays(pictures))
    if any(picture.lazy is not None for picture in pictures):
        return training.train(session, _in_bands(session, pictures, weights, shape), [plan], reporter), shape
    with session.scope() as scope:
        blocks = BlockSet.of_pictures(session, scope, pictures, weights, shape)
        return training.train(session, blocks, [plan], reporter), shape


def _read(given: Any, memory: int) -> list[Picture]:
    """The pictures; lazy ones stay where they are, unless memory holds all."""
    pictures = read_many(given, memory=memory)
    nbytes = sum(picture.pixels * picture.pixel_bytes for picture in pictures)
    fit = _COPIES_IN_MEMORY * nbytes <= memory
    return [picture.in_memory() for picture in pictures] if fit else pictures


def _in_bands(session: Session, pictures: Sequence[Picture], weights: Weights, shape: BlockShape) -> LazyParts:
    """The blocks of pictures of which some are read in bands of block rows."""
    row_bytes = max(shape.table_shape(1, p.width)[1] for p in pictures) * shape.columns * shape.channels
    high = min(p.lazy.rows_at_once(row_bytes, shape.rows) for p in pictures if p.lazy is not None)
    bands = [(p, row, min(row + high, p.height)) for p in pictures for row in range(0, p.height, high)]
    tables = [shape.table_shape(row1 - row0, picture.width) for picture, row0, row1 in bands]

    def make(number: int, own: Weights, first: int) -> Part:
        picture, row0, row1 = bands[number]
        lazy = picture.lazy
        pixels = picture.on_host(session)[row0:row1] if lazy is None else lazy.rows(row0, row1)
        return Part(pixels, own, shape, first, session)

    return LazyParts(session, shape, [rows * columns for rows, columns in tables], weights, make)


def checked_plan(codec: VQCodec) -> tuple[training.Plan, tuple[int, int]]:
    """A codec's parameters that decide the training, all of them allowed, and (rows, columns) of its blocks."""
    size = params.integer("codebook_size", codec.codebook_size, 2, MAX_CODEBOOK)
    block = check_block_shape(codec.block_shape)
    plan = training.Plan(
        size=size,
        init=params.choice("init", codec.init, ("k-means++", "splitting")),
        max_iter=params.integer("max_iter", codec.max_iter, 1),
        refine=params.integer("refine", codec.refine, 0, 1000),
        seed=params.seed(codec.random_state),
    )
    return plan, block
