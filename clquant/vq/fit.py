"""The work of `VQCodec.fit`: parameters checked, pictures read, the codebook trained, here or by workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clquant import flow, params
from clquant.images import Picture, device_arrays, lazy, materialize, read_many
from clquant.runtime import InvalidArgument, Progress, ProgressCallback, Session, open_session
from clquant.training import training
from clquant.training.blocks import BlockShape, Weights, check_block_shape
from clquant.training.blockset import BlockSet
from clquant.training.parts import LazyParts, Part
from clquant.training.search import MAX_CODEBOOK
from clquant.training.seeding import STARTS

if TYPE_CHECKING:
    from clquant.vq.codec import VQCodec

_COPIES_IN_MEMORY = 4  # of pictures, if memory holds which they are read whole


def block_shape(block: tuple[int, int], channels: set[int]) -> BlockShape:
    """The blocks of pictures of so many channels."""
    if len(channels) > 1:
        raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
    return BlockShape(*block, *channels)


@flow.verb
def fit_codebook(
    codec: VQCodec, images: Any, sample_weight: Any, progress: ProgressCallback | None, memory: Any
) -> tuple[training.Trained, BlockShape]:
    """The codebook of a codec's parameters for some images, and its blocks."""
    plan, block = checked_plan(codec)
    given, reporter = materialize(images), Progress(params.callback("progress", progress))
    pictures = _read(given, lazy.memory_bytes(memory))
    shape = block_shape(block, {p.channels for p in pictures})
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
        init=params.choice("init", codec.init, STARTS),
        max_iter=params.integer("max_iter", codec.max_iter, 1),
        refine=params.integer("refine", codec.refine, 0, 1000),
        seed=params.seed(codec.random_state),
    )
    return plan, block
