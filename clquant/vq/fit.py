"""The work of `VQCodec.fit`: parameters checked, pictures read, the codebook trained, here or by workers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clquant import flow, params
from clquant.flow import PictureSource, open_pictures
from clquant.flow.queues import QueueThreads
from clquant.flow.residents import InTurn, OnQueues
from clquant.images import Picture, device_arrays, materialize, memory_bytes
from clquant.runtime import (
    CommandQueue,
    InvalidArgument,
    Progress,
    ProgressCallback,
    Session,
    is_several,
    open_session,
    queues_of,
)
from clquant.training import training
from clquant.training.blocks import BlockShape, Weights, check_block_shape
from clquant.training.blockset import BlockSet
from clquant.training.search import MAX_CODEBOOK
from clquant.training.seeding import STARTS
from clquant.training.shares import MERGES, Band, Share, SharedBlocks

_COPIES_IN_MEMORY = 4  # of pictures, if memory holds which they are read whole


def block_shape(block: tuple[int, int], channels: set[int]) -> BlockShape:
    """The blocks of pictures of so many channels."""
    if len(channels) > 1:
        raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
    return BlockShape(*block, *channels)


@flow.verb
def fit_codebook(
    codec: Mapping[str, Any], images: Any, sample_weight: Any, progress: ProgressCallback | None, memory: Any
) -> tuple[training.Trained, BlockShape]:
    """The codebook of a codec's parameters, by their names, for some images, and its blocks."""
    plan, block = checked_plan(codec)
    given, reporter = materialize(images), Progress(params.callback("progress", progress))
    pictures = _read(given, memory_bytes(memory))
    shape = block_shape(block, {p.channels for p in pictures})
    weights = training.check_weights(
        sample_weight, [shape.table_shape(p.height, p.width) for p in pictures], shape.components
    )
    session = open_session(codec["queue"], device_arrays(pictures))
    if any(picture.store is not None for picture in pictures):
        return training.train(session, _in_turn(session, pictures, weights, shape), [plan], reporter), shape
    pixels = sum(p.pixels * p.channels for p in pictures)
    if is_several(codec["queue"]) and not device_arrays(pictures):
        with QueueThreads(queues_of(codec["queue"])) as threads:
            enough = any(shape.table_shape(p.height, p.width)[0] >= len(threads) for p in pictures)
            if not enough or not threads.pays(pixels * plan.size, pixels):
                return _on_one(session, pictures, weights, shape, plan, reporter), shape
            blocks = _on_queues(session, threads, pictures, weights, shape)
            return training.train(session, blocks, [plan], reporter), shape
    return _on_one(session, pictures, weights, shape, plan, reporter), shape


def _on_one(
    session: Session,
    pictures: Sequence[Picture],
    weights: Weights,
    shape: BlockShape,
    plan: training.Plan,
    reporter: Progress,
) -> training.Trained:
    """Train on blocks that one device holds."""
    with session.scope() as scope:
        blocks = BlockSet.of_pictures(session, scope, pictures, weights, shape)
        return training.train(session, blocks, [plan], reporter)


def _read(given: Any, memory: int) -> list[Picture]:
    """The pictures; lazy ones stay where they are, unless memory holds all."""
    pictures = open_pictures(given, memory=memory)
    nbytes = sum(picture.pixels * picture.pixel_bytes for picture in pictures)
    fit = _COPIES_IN_MEMORY * nbytes <= memory
    return [picture.in_memory() for picture in pictures] if fit else pictures


def _in_turn(session: Session, pictures: Sequence[Picture], weights: Weights, shape: BlockShape) -> SharedBlocks:
    """The blocks of pictures of which some are read in bands of block rows, one after another."""
    cuts = [
        (source, cut)
        for source in map(PictureSource, pictures)
        for cut in source.portions(session, shape.rows, row_bytes=_block_row_bytes(source.picture, shape))
    ]
    counts = [math.prod(shape.table_shape(cut.row1 - cut.row0, own.picture.width)) for own, cut in cuts]
    starts = [0, *itertools.accumulate(counts)]

    def make(number: int) -> Share:
        (source, cut), (first, end) = cuts[number], starts[number : number + 2]
        pixels = source.fetch(cut.row0, cut.row1)
        return Share([Band(pixels, first)], None if weights is None else weights[first:end], shape, session)

    return SharedBlocks(session, shape, counts, weights, InTurn(MERGES, len(cuts), make))


def _block_row_bytes(picture: Picture, shape: BlockShape) -> int:
    """Bytes of a row of pixels as whole blocks."""
    return shape.table_shape(1, picture.width)[1] * shape.columns * shape.channels


def _on_queues(
    session: Session, threads: QueueThreads, pictures: Sequence[Picture], weights: Weights, shape: BlockShape
) -> SharedBlocks:
    """The blocks of pictures in memory, of each picture some rows of blocks on each of several queues."""
    counts, owners = list[int](), list[int]()
    bands: list[list[Band]] = [[] for _ in range(len(threads))]
    for picture in pictures:
        assert picture.array is not None
        rows, columns = shape.table_shape(picture.height, picture.width)
        for owner, (top, end) in enumerate(threads.shares_of(rows)):
            if top == end:
                continue
            bands[owner].append(Band(picture.array[top * shape.rows : end * shape.rows], sum(counts)))
            counts.append((end - top) * columns)
            owners.append(owner)

    def make(number: int, queue: CommandQueue) -> Share:
        own = None
        if weights is not None:
            runs = zip(itertools.accumulate(counts), counts, owners, strict=True)
            own = np.concatenate([weights[end - count : end] for end, count, owner in runs if owner == number])
        return Share(bands[number], own, shape, open_session(queue))

    return SharedBlocks(session, shape, counts, weights, OnQueues(MERGES, threads, make), owners)


def checked_plan(codec: Mapping[str, Any]) -> tuple[training.Plan, tuple[int, int]]:
    """A codec's parameters that decide the training, all of them allowed, and (rows, columns) of its blocks."""
    size = params.integer("codebook_size", codec["codebook_size"], 2, MAX_CODEBOOK)
    block = check_block_shape(codec["block_shape"])
    plan = training.Plan(
        size=size,
        init=params.choice("init", codec["init"], STARTS),
        max_iter=params.integer("max_iter", codec["max_iter"], 1),
        refine=params.integer("refine", codec["refine"], 0, 1000),
        seed=params.seed(codec["random_state"]),
    )
    return plan, block
