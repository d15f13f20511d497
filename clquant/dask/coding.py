"""The VQ codec's verbs on Dask arrays: tables of indices, pictures from them, and .clvq files."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import delayed

from clquant import images, params
from clquant.dask.chunks import checked, parts_of
from clquant.dask.executor import run
from clquant.dask.parts import written
from clquant.dask.work import named, results, told
from clquant.flow.file_sinks import About
from clquant.images import files
from clquant.runtime import FileError, FormatError, InvalidArgument, InvalidType, NotFittedError, Progress
from clquant.training.blocks import BlockShape
from clquant.vq import VQCodec
from clquant.vq.coder import BlockCoder, check_size
from clquant.vq.coding.bands import BandLayout
from clquant.vq.coding.contexts import Model
from clquant.vq.container import clvq_format
from clquant.vq.container.codebook_files import codebook_of
from clquant.vq.container.writing import BandPlace, Compressor

# Of bands that are worked on together, about.
PIXELS_AT_ONCE = 1 << 24

Table = npt.NDArray[np.integer[Any]]


def _of_blocks(report: Progress, table: Any, share: int = 1) -> Progress:
    """Return a progress of a table's rows that reports `1 / share` of its blocks to another one."""
    if not report.wanted:
        return report
    return Progress(lambda row, rows: report.report(row * table.size // rows // share, table.size))


def compress_to(file: Any, image: Any, codec: Any, compressor: Compressor, embed: bool, report: Progress) -> None:
    """Compress like `VQCodec.compress_to`: workers encode chunks, this process codes the table of all."""
    whole = checked(image)
    table = run(compressor.coder.encoding, whole, None, About(), Progress(None))
    made = np.empty(table.shape, table.dtype)
    written(table, made, About(), _of_blocks(report, table, 2))
    plain = dataclasses.replace(compressor, coder=BlockCoder(codec.codebook_, None))
    compressor.write_encoded(file, made, whole.shape[:2], embed, report, partial(_matched, whole, plain))


def _matched(image: Any, compressor: Compressor, model: Model, table: Table) -> Table:
    """Return the table with likelier codewords; bands are independent, so that each task takes some."""
    layout, (height, width), block = BandLayout(*table.shape), image.shape[:2], compressor.coder.shape
    count = max(PIXELS_AT_ONCE // (layout.rows * block.rows * width), 1)
    places = [BandPlace(layout, first, min(first + count, layout.count)) for first in range(0, layout.count, count)]
    ends = [place.end * layout.rows for place in places]
    cuts = list(itertools.pairwise([0, *ends]))
    parts = parts_of(image, [((top * block.rows, min(end * block.rows, height)), (0, width)) for top, end in cuts])
    work, shared = delayed(named(_matched_bands), pure=False), delayed((compressor, model), pure=False, traverse=False)
    tasks = [
        work(part, shared, table[top:end], place, height * width)
        for part, place, (top, end) in zip(parts, places, cuts, strict=True)
    ]
    matched = np.empty_like(table)
    for number, rows in results(tasks):
        matched[slice(*cuts[number])] = rows
    return matched


def _matched_bands(
    pixels: npt.NDArray[Any], shared: tuple[Compressor, Model], table: Table, place: BandPlace, total: int
) -> Table:
    compressor, model = shared
    with told(f"rows from {place.first * place.layout.rows * compressor.coder.shape.rows} on"):
        return compressor.matched(model, images.read(pixels), table, place, total)


def decode(indices: Any, codec: Any, shape: Any, out: Any, about: About, report: Progress) -> Any:
    """Decode like `VQCodec.decode`, lazily without `out`; wrong indices raise when their chunk is computed."""
    rows = codec.codebook_.reshape(len(codec.codebook_), *codec.codebook_.shape[1:3], -1)
    block = BlockShape(*rows.shape[1:])
    if indices.ndim != 2 or any(np.isnan(side) or side == 0 for side in indices.shape):
        raise InvalidArgument(f"indices is a Dask array of shape {indices.shape}; allowed: known (rows, columns)")
    if indices.dtype.kind not in "iu":
        raise InvalidType(f"indices is a Dask array of {indices.dtype}; allowed: integers")
    height, width = check_size(shape, indices.shape, block)
    chunks: list[tuple[int, ...]] = [
        (*(n * side for n in lengths[:-1]), total - side * sum(lengths[:-1]))
        for lengths, side, total in zip(indices.chunks, (block.rows, block.columns), (height, width), strict=True)
    ]
    if block.channels > 1:
        chunks.append((block.channels,))
    lazy = indices.map_blocks(
        _decoded,
        codec=codec,
        dtype=np.uint8,
        chunks=tuple(chunks),
        new_axis=[2] if block.channels > 1 else None,
        meta=np.empty((0,) * len(chunks), np.uint8),
    )
    return written(lazy, out, about, _of_blocks(report, indices))


def _decoded(part: npt.NDArray[Any], codec: Any, block_info: Any = None) -> npt.NDArray[Any]:
    table = np.asarray(part)
    if not block_info:  # Dask looks at what an empty one gives
        return np.empty((0,) * (codec.codebook_.ndim - 1), np.uint8)
    row, column = (place[0] for place in block_info[0]["array-location"])
    with told(f"chunk at row {row}, column {column}"):
        return np.asarray(named(codec.decode)(table, block_info[None]["chunk-shape"]))


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
    name = os.path.abspath(files.path_of(path))
    if codec is not None and not isinstance(codec, VQCodec):
        raise InvalidType(f"codec is a {type(codec).__name__}; allowed: VQCodec or None")
    shared = VQCodec() if codec is None else copy.copy(codec).set_params(queue=None)
    most = params.integer("max_pixels", max_pixels, 1)
    header = _of_file(name, partial(_head, codec=shared, max_pixels=most))
    height, width = header.shape
    rows = BandLayout(*header.table_shape).rows * header.block.rows
    rows *= max(PIXELS_AT_ONCE // (rows * width), 1)
    heights = tuple(min(rows, height - top) for top in range(0, height, rows))
    chunks = (heights, (width,), *((header.channels,) for _ in range(header.channels > 1)))
    meta = np.empty((0,) * len(chunks), np.uint8)
    return da.map_blocks(_decompressed, name, shared, most, chunks=chunks, dtype=np.uint8, meta=meta)


def _of_file(path: str, read: Callable[[Any], Any]) -> Any:
    """Read from a .clvq file; errors begin with its path."""
    try:
        with open(path, "rb") as file:
            return read(file)
    except OSError as error:
        raise FileError(f"cannot read {path!r}: {error.strerror or error}") from error
    except (FormatError, NotFittedError, InvalidArgument) as error:
        error.args = (f"{path!r}: {error}", *error.args[1:])
        raise


def _head(file: Any, codec: VQCodec, max_pixels: int) -> clvq_format.Header:
    reader = clvq_format.Reader(file, max_pixels)
    if reader.header.kind == clvq_format.CODEBOOK:
        raise FormatError("this .clvq file holds a codebook and no picture; allowed: files of pictures")
    codebook_of(reader, codec)
    return reader.header


def _decompressed(path: str, codec: VQCodec, max_pixels: int, block_info: Any = None) -> npt.NDArray[np.uint8]:
    rows = block_info[None]["array-location"][0]
    read = partial(named(VQCodec.decompress_from), codec, max_pixels=max_pixels, rows=rows)
    with told(f"rows {rows[0]} to {rows[1] - 1}"):
        found: npt.NDArray[np.uint8] = _of_file(path, read)
    return found
