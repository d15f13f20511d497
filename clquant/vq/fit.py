"""What `VQCodec.fit` does: parameters checked, pictures read, the codebook trained, here or by workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clquant import params
from clquant.flow.executors import on_collections
from clquant.images import Picture, device_arrays, is_read_in_parts, lazy, materialize, read_many, read_parts
from clquant.runtime import InvalidArgument, Progress, ProgressCallback, open_session
from clquant.training import training
from clquant.training.blocks import BlockShape, check_block_shape
from clquant.training.lazy import COPIES_IN_MEMORY, LazyBlocks, PictureBands
from clquant.training.search import MAX_CODEBOOK

if TYPE_CHECKING:
    from clquant.vq.codec import VQCodec


@on_collections("fit_codec")
def fit(
    codec: VQCodec, images: Any, sample_weight: Any, progress: ProgressCallback | None, memory: Any
) -> tuple[training.Trained, BlockShape]:
    """The codebook of a codec's parameters for some images, and its blocks."""
    plan, block = checked_plan(codec)
    given, reporter = materialize(images), Progress(params.callback("progress", progress))
    listed = given if isinstance(given, list | tuple) else [given]
    bound = lazy.memory_bytes(memory)
    pictures = _read(given, listed, bound)
    channels = {p.channels for p in pictures}
    if len(channels) > 1:
        raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
    shape = BlockShape(*block, channels.pop())
    weights = training.check_weights(sample_weight, [shape.table_shape(p.height, p.width) for p in pictures])
    session = open_session(codec.queue, device_arrays(pictures))
    if all(picture.lazy is None for picture in pictures):
        return training.train(session, pictures, weights, shape, plan, reporter), shape
    with session.scope() as scope:
        blocks = LazyBlocks(session, scope, PictureBands(session, pictures, weights, shape))
        return blocks.train(scope, plan, reporter), shape


def _read(given: Any, listed: Sequence[Any], memory: int) -> list[Picture]:
    """The pictures; lazy ones stay where they are, unless memory holds all."""
    if not any(map(is_read_in_parts, listed)):
        return read_many(given)
    names = [f"images[{i}]" if listed is given else "images" for i in range(len(listed))]
    pictures = [read_parts(image, memory=memory, argument=name) for image, name in zip(listed, names, strict=True)]
    nbytes = sum(picture.pixels * picture.pixel_bytes for picture in pictures)
    fit = COPIES_IN_MEMORY * nbytes <= memory
    return [picture.in_memory() for picture in pictures] if fit else pictures


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
