"""Vector quantization of Dask arrays: codebooks, index tables, pictures and files by the workers that have pixels."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.dask.chunks import checked, map_chunks, parts_of
from clquant.dask.maps import mapped
from clquant.dask.parts import here, written
from clquant.dask.training import bands_of, train
from clquant.dask.work import later, values
from clquant.images import read
from clquant.images.collections import Later, expanded
from clquant.runtime import InvalidArgument, InvalidType, Progress, ProgressCallback, open_session
from clquant.training import training
from clquant.training.blocks import BlockShape, Weights
from clquant.training.search import Table
from clquant.training.shares import Band, Share
from clquant.vq.coder import BlockCoder, Size, check_size, of_blocks
from clquant.vq.coding.bands import BandLayout
from clquant.vq.coding.contexts import Contexts, Model
from clquant.vq.container.writing import Compressor
from clquant.vq.fit import block_shape, checked_plan

# Pixels of the bands that a worker codes together, about.
PIXELS_AT_ONCE = 1 << 24


def fit_codebook(
    codec: Mapping[str, Any], images: Any, sample_weight: Any, progress: ProgressCallback | None, _memory: Any
) -> tuple[training.Trained, BlockShape]:
    """Train like `fit`, on parts that workers have."""
    (plan, block), report = checked_plan(codec), Progress(params.callback("progress", progress))
    given = expanded(images if isinstance(images, list | tuple) else [images])
    bands = [bands_of(image, f"images[{i}]", block[0], _pixels) for i, image in enumerate(given)]
    unknown = iter(values([later("images", np.shape, own[0]) for own, _, shape in bands if not shape]))
    shapes = [shape or next(unknown) for *_, shape in bands]
    shape = block_shape(block, {(*shape, 1)[2] for shape in shapes})
    tables = [shape.table_shape(*size[:2]) for size in shapes]
    weights = training.check_weights(sample_weight, tables, shape.components)
    made: list[Any] = []
    counts: list[int] = []
    for i, (own, high, _) in enumerate(bands):
        for number, pixels in enumerate(own):
            most, first = high // block[0] or tables[i][0], sum(counts)
            counts.append(min(most, tables[i][0] - number * most) * tables[i][1])
            own_weights = None if weights is None else weights[first : first + counts[-1]]
            made.append(later("images", _share, pixels, own_weights, shape, first))
    return train(codec["queue"], shape, counts, weights, made, [plan], report), shape


def _share(pixels: npt.NDArray[np.uint8], weights: Weights, shape: BlockShape, first: int) -> Share:
    return Share([Band(pixels, first)], weights, shape)


def _pixels(image: Any, name: str) -> npt.NDArray[np.uint8]:
    """Read an image on a worker."""
    picture = read(image() if isinstance(image, Later) else image, argument=name)
    return picture.array  # type: ignore[return-value]


def decode(coder: BlockCoder, indices: Any, shape: Size, progress: Any, out: Any, _memory: Any, resume: bool) -> Any:
    """Decode like `VQCodec.decode`, lazily without `out`; wrong indices raise when their chunk is computed."""
    block, report = coder.shape, Progress(params.callback("progress", progress))
    if indices.ndim != 2 or any(np.isnan(side) or side == 0 for side in indices.shape):
        raise InvalidArgument(f"indices is a Dask array of shape {indices.shape}; allowed: known (rows, columns)")
    if indices.dtype.kind not in "iu":
        raise InvalidType(f"indices is a Dask array of {indices.dtype}; allowed: integers")
    size = check_size(shape, indices.shape, block)
    chunks: list[tuple[int, ...]] = [
        (*(n * side for n in lengths[:-1]), total - side * sum(lengths[:-1]))
        for lengths, side, total in zip(indices.chunks, (block.rows, block.columns), size, strict=True)
    ]
    chunks += [(block.channels,)] * (block.channels > 1)
    work = partial(BlockCoder(coder.codebook, None).decoded, progress=Progress(None))
    made = map_chunks(indices, work, tuple(chunks), np.uint8)
    return written(made, out, coder.about("decode", out, resume), of_blocks(report, indices))


def write(compressor: Compressor, file: Any, image: Any, embed: bool, report: Progress, _memory: Any) -> None:
    """Compress like `VQCodec.compress_to`: workers encode chunks, this process codes the table of all."""
    whole, plain = checked(image), BlockCoder(compressor.coder.codebook, None)
    table = mapped(plain.encoding, whole)
    made = here(table, of_blocks(report, table, 2))
    match = partial(_match, whole, dataclasses.replace(compressor, coder=plain))
    compressor.write_encoded(file, whole.shape[:2], embed, open_session(compressor.coder.queue), made, match, report)


def _match(image: Any, compressor: Compressor, _: Contexts, model: Model, table: Table) -> Table:
    """Return the table with likelier codewords; bands are independent, so that each task takes some."""
    layout, (height, width), block = BandLayout(*table.shape), image.shape[:2], compressor.coder.shape
    count = max(PIXELS_AT_ONCE // (layout.rows * block.rows * width), 1)
    cuts = list(itertools.pairwise([*range(0, len(table), count * layout.rows), len(table)]))
    windows = [((top * block.rows, min(end * block.rows, height)), (0, width)) for top, end in cuts]
    tasks = [
        later(
            f"rows from {window[0][0]} on",
            partial(compressor.matched, model, table[slice(*cut)], layout, height * width),
            part,
        )
        for part, window, cut in zip(parts_of(image, windows), windows, cuts, strict=True)
    ]
    return np.concatenate(values(tasks))
