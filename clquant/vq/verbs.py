"""The verbs of a `VQCodec` that has a codebook: parameters checked, jobs done here or by workers of a cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.flow.executors import on_collections
from clquant.flow.result_files import writing
from clquant.images import ImageLike, lazy
from clquant.runtime import FormatError, InvalidArgument, InvalidType, Progress
from clquant.vq.coder import BlockCoder, HostTable, Pixels, Report, Size, Table, check_size, of_blocks, opened_table
from clquant.vq.container import clvq_format
from clquant.vq.container.codebook_files import codebook_of
from clquant.vq.container.pipes import Sink, Source
from clquant.vq.container.reading import check_rows, read_picture
from clquant.vq.container.writing import Compressor

if TYPE_CHECKING:
    from clquant.vq.codec import VQCodec


def _spread_decode(
    executor: Any, coder: BlockCoder, indices: Any, shape: Any, progress: Any, out: Any, _memory: Any, resume: bool
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
    lazy = executor.map_chunks(indices, partial(_decoded, coder.without_queue()), tuple(chunks), np.uint8)
    return executor.written(lazy, out, coder.about("decode", resume), of_blocks(report, indices))


def _decoded(coder: BlockCoder, table: Table, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    return np.asarray(coder.decode(table, shape, Progress(None)))


@on_collections(_spread_decode)
def decode(
    coder: BlockCoder,
    indices: Table | HostTable,
    shape: Size,
    progress: Report,
    out: Any,
    memory: Any,
    resume: bool,
) -> Pixels:
    """Decode as `VQCodec.decode` does, with the codec's codebook ready in a coder."""
    report = Progress(params.callback("progress", progress))
    bound = lazy.memory_bytes(memory)
    table = opened_table(indices, out)
    with writing(out, coder.about("decode", resume)) as sink:
        return coder.decode(table, shape, report, sink, bound)


def compress_to(
    codec: VQCodec, coder: BlockCoder, file: Sink, image: ImageLike, embed: bool, progress: Report, memory: Any
) -> None:
    """Compress as `VQCodec.compress_to` does, with the codec's codebook ready in a coder."""
    report = Progress(params.callback("progress", progress))
    embed = params.boolean("embed_codebook", embed)
    if not hasattr(file, "write"):
        raise InvalidType(f"file is {params.shown(file)}; allowed: a binary file open for writing")
    Compressor.of(coder, codec.state_size, codec.tolerance).write(file, image, embed, report, memory)


def decompress_from(
    codec: VQCodec,
    file: Source,
    max_pixels: int,
    max_codebook: int,
    rows: tuple[int, int] | None,
    progress: Report,
) -> npt.NDArray[np.uint8]:
    """As `VQCodec.decompress_from`; the codec may be without a codebook."""
    if not hasattr(file, "read"):
        raise InvalidType(f"file is {params.shown(file)}; allowed: a binary file open for reading")
    report = Progress(params.callback("progress", progress))
    most = params.integer("max_pixels", max_pixels, 1), params.integer("max_codebook", max_codebook, 1)
    reader = clvq_format.Reader(file, *most)
    if reader.header.kind == clvq_format.CODEBOOK:
        raise FormatError("this .clvq file holds a codebook and no picture; VQCodec.load reads it")
    wanted = check_rows(rows, reader.header.shape[0])
    codebook = codebook_of(reader, codec)
    return read_picture(reader, codebook.reshape(len(codebook), -1), codec.queue, wanted, report)
