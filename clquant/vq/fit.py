"""What `VQCodec.fit` does: parameters checked, pictures read, the codebook trained, here or by workers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clquant import params
from clquant.images import device_arrays, materialize, read_many
from clquant.images.collections import verbs_of
from clquant.runtime import InvalidArgument, Progress, ProgressCallback, open_session
from clquant.vq import training
from clquant.vq.blocks import BlockShape, check_block_shape
from clquant.vq.encode import MAX_CODEBOOK

if TYPE_CHECKING:
    from clquant.vq.codec import VQCodec


def fit(
    codec: VQCodec, images: Any, sample_weight: Any, progress: ProgressCallback | None
) -> tuple[training.Trained, BlockShape]:
    """The codebook of a codec's parameters for some images, and its blocks.

    Parameters
    ----------
    codec : VQCodec
        It is left as it is.
    images, sample_weight, progress
        As `VQCodec.fit` takes them.

    Raises
    ------
    InvalidArgument, InvalidType
        If a parameter or picture is not allowed.
    StoppedError
        If `progress` returned False.
    """
    plan, block = _checked(codec)
    given, reporter = materialize(images), Progress(params.callback("progress", progress))
    listed = given if isinstance(given, list | tuple) else [given]
    for collection in filter(None, map(verbs_of, listed)):
        trained, shape = collection.fit_codec(codec, listed, sample_weight, plan, reporter)
        return trained, shape
    pictures = read_many(given)
    channels = {p.channels for p in pictures}
    if len(channels) > 1:
        raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
    shape = BlockShape(*block, channels.pop())
    weights = training.check_weights(sample_weight, [shape.table_shape(p.height, p.width) for p in pictures])
    session = open_session(codec.queue, device_arrays(pictures))
    return training.train(session, pictures, weights, shape, plan, reporter), shape


def _checked(codec: VQCodec) -> tuple[training.Plan, tuple[int, int]]:
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
