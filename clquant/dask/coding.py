"""The VQ codec's verbs on Dask arrays: .clvq files, and pictures of these and of tables of indices."""

from __future__ import annotations

import dataclasses
import itertools
import os
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed

from clquant import images, params
from clquant.dask.chunks import checked, parts_of
from clquant.dask.executor import run
from clquant.dask.parts import here, read_later, written
from clquant.dask.work import named, told
from clquant.flow.file_sinks import About
from clquant.runtime import InvalidArgument, InvalidType, Progress
from clquant.vq import VQCodec
from clquant.vq.coder import BlockCoder, check_size
from clquant.vq.coding.bands import BandLayout
from clquant.vq.coding.contexts import Model
from clquant.vq.container import clvq_format
from clquant.vq.container.stored import StoredPicture
from clquant.vq.container.writing import BandPlace, Compressor

# Of bands that are worked on together, about.
PIXELS_AT_ONCE = 1 << 24

Table = npt.NDArray[np.integer[Any]]


def _of_blocks(report: Progress, table: Any, share: int = 1) -> Progress:
    """Return a progress of a table's rows that reports `1 / share` of its blocks to another one."""
    if not report.wanted:
        return report
    return Progress(lambda row, rows: report.report(row * table.size // rows // share, table.size))


def compress(compressor: Compressor, file: Any, image: Any, embed: bool, report: Progress, _memory: Any) -> None:
    """Compress like `VQCodec.compress_to`: workers encode chunks, this process codes the table of all."""
    whole = checked(image)
    table = run(compressor.coder.encoding, whole, None, About(), Progress(None))
    made = here(table, _of_blocks(report, table, 2))
    plain = dataclasses.replace(compressor, coder=BlockCoder(compressor.coder.codebook, None))
    compressor.write_encoded(
        file, made, whole.shape[:2], embed, report, lambda model, table: _matched(whole, plain, model, table)
    )


def _matched(image: Any, compressor: Compressor, model: Model, table: Table) -> Table:
    """Return the table with likelier codewords; bands are independent, so that each task takes some."""
    layout, (height, width), block = BandLayout(*table.shape), image.shape[:2], compressor.coder.shape
    count = max(PIXELS_AT_ONCE // (layout.rows * block.rows * width), 1)
    places = [BandPlace(layout, first, min(first + count, layout.count)) for first in range(0, layout.count, count)]
    cuts = list(itertools.pairwise([0, *(min(place.end * layout.rows, len(table)) for place in places)]))
    parts = parts_of(image, [((top * block.rows, min(end * block.rows, height)), (0, width)) for top, end in cuts])
    work, shared = delayed(named(_matched_bands), pure=False), delayed((compressor, model), pure=False, traverse=False)
    tasks = [
        work(part, shared, table[top:end], place, height * width)
        for part, place, (top, end) in zip(parts, places, cuts, strict=True)
    ]
    return np.concatenate(compute(*tasks))


def _matched_bands(
    pixels: npt.NDArray[Any], shared: tuple[Compressor, Model], table: Table, place: BandPlace, total: int
) -> Table:
    compressor, model = shared
    with told(f"rows from {place.first * place.layout.rows * compressor.coder.shape.rows} on"):
        return compressor.matched(model, images.read(pixels), table, place, total)


def decode(
    coder: BlockCoder,
    indices: Any,
    shape: Any,
    progress: Any,
    out: Any,
    _memory: Any,
    resume: bool,
) -> Any:
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
    lazy = indices.map_blocks(
        _decoded,
        named(partial(BlockCoder(coder.codebook, None).decode, progress=Progress(None))),
        dtype=np.uint8,
        chunks=tuple(chunks),
        new_axis=[2] if block.channels > 1 else None,
        meta=np.empty((0,) * len(chunks), np.uint8),
    )
    return written(lazy, out, coder.about("decode", resume), _of_blocks(report, indices))


def _decoded(table: npt.NDArray[Any], work: Any, block_info: Any = None) -> npt.NDArray[Any]:
    row, column = (place[0] for place in block_info[0]["array-location"])
    with told(f"chunk at row {row}, column {column}"):
        return np.asarray(work(np.asarray(table), block_info[None]["chunk-shape"]))


def decompressed(
    path: str | os.PathLike[str], codec: VQCodec | None = None, *, max_pixels: int = clvq_format.MAX_PIXELS
) -> Any:
    """The picture in a .clvq file as a Dask array of rows that workers decode.

    Parameters
    ----------
    path : path-like
        Which every worker finds.
    codec : VQCodec, optional
        With the codebook that the file names, if it does not hold it.
    max_pixels : int
        Files that claim more are refused; default 2^29.

    Returns
    -------
    dask.array.Array
        (H, W) or (H, W, C) uint8; chunks of about 16 Mpx, whole bands of the file.

    Raises
    ------
    FileError
        If the file cannot be read.
    FormatError, NotFittedError, InvalidArgument, InvalidType
        As `VQCodec.decompress_from`, or if an argument is not allowed; damage after the file's head is found
        when chunks are computed.
    """
    stored = StoredPicture(path, codec, max_pixels)
    width = stored.shape[1]
    rows = stored.band_rows * max(PIXELS_AT_ONCE // (stored.band_rows * width), 1)
    return read_later(named(stored.read), stored.shape, np.uint8, [rows, width])
