"""`python -m benchmarks.clvq_work`: processor time of the `.clvq` files that cost most for their bytes.

Hostile files may take a microsecond for each byte beside what the pixels that they claim may take, and a constant part.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from benchmarks import harness
from benchmarks.harness import Options
from clquant import ClquantError, VQCodec, runtime
from clquant.cli.table import Table
from clquant.vq.coding.bands import BandLayout, CodedBand
from clquant.vq.coding.codebook_coding import encode_codebook
from clquant.vq.container import clvq_format

CONSTANT_MS, BYTE_NS, PIXEL_NS = 100.0, 1000, 500
BLOCKS = ((1, 1), (2, 2), (3, 5), (4, 4), (16, 16))
Book = npt.NDArray[np.uint8]


def flat(size: int, block: tuple[int, int], channels: int) -> Book:
    """A codebook of one value a codeword, which takes few bytes."""
    values = (np.arange(size) * 255 // (size - 1)).astype(np.uint8)
    return np.broadcast_to(values[:, None, None, None], (size, *block, channels)).copy()


def chained(size: int) -> Book:
    """4x4 codewords, each of which is continued by the next one alone."""
    rng = np.random.default_rng(0)
    book = np.full((size, 4, 4, 1), 128, np.uint8)
    book[:, :, 0, 0] = rng.integers(0, 256, (size, 4))
    book[:, :, 3] = np.roll(book[:, :, 0], -1, 0)
    book[:, 1:3, 1:3, 0] = rng.integers(0, 256, (size, 2, 2))
    return book


def codec_of(book: Book, queue: runtime.CommandQueue) -> VQCodec:
    codec = VQCodec(len(book), book.shape[1:3], queue=queue)
    codec.codebook_ = book if book.shape[3] > 1 else book[..., 0]
    return codec


def hostile(codec: VQCodec, side: int, queue: runtime.CommandQueue) -> bytes:
    """A file whose bands have no words."""
    book = codec.codebook_
    channels = book.shape[3] if book.ndim == 4 else 1
    header = clvq_format.Header(
        clvq_format.PICTURE, channels, book.shape[1:3], len(book), (side, side), 0, clvq_format.codebook_id(book)
    )
    layout = BandLayout(*header.table_shape)
    coded = encode_codebook(runtime.open_session(queue), book.reshape(len(book), -1), header.block)
    band = CodedBand(np.full(layout.lanes, 1 << 16, np.uint32), np.zeros(0, np.uint16))
    return clvq_format.whole_file(header, coded, bands=[band] * layout.count)


def files(queue: runtime.CommandQueue, side: int) -> Iterator[tuple[str, VQCodec, bytes]]:
    """Names, readers and bytes."""
    for block, channels in itertools.product(BLOCKS, (1, 3)):
        codec = codec_of(flat(2, block, channels), queue)
        shape = (side, side, channels)[: 2 if channels == 1 else 3]
        yield f"blank {block[0]}x{block[1]}x{channels}", VQCodec(queue=queue), codec.compress(np.zeros(shape, np.uint8))
    for size in (2, 256, 4096):
        codec = codec_of(flat(size, (4, 4), 1), queue)
        table = np.zeros((side // 4, side // 4), np.uint16 if size > 256 else np.uint8)
        np.fill_diagonal(table, 1)
        yield f"diagonal, N = {size}", VQCodec(queue=queue), codec.compress(codec.decode(table))
    for size, embedded in itertools.product((16, 256, 1024, 4096), (True, False)):
        codec = codec_of(chained(size), queue)
        starts = np.random.default_rng(1).integers(0, size, (side // 4, 1))
        table = ((np.arange(side // 4) + starts) % size).astype(np.uint8 if size <= 256 else np.uint16)
        data = codec.compress(codec.decode(table), embed_codebook=embedded)
        yield f"chain, N = {size}{'' if embedded else ', named'}", codec, data
    for size, small in itertools.product((2, 256, 1024, 4096, 65536), (64, 512, side)):
        codec = codec_of(flat(size, (4, 4), 1), queue)
        yield f"no words, N = {size}, {small} x {small}", VQCodec(queue=queue), hostile(codec, small, queue)


def processor_ms(codec: VQCodec, data: bytes) -> float:
    """The least of three calls with nothing kept, after one that builds kernels."""
    found = []
    for _ in range(4):
        runtime.release_memory()
        began = time.process_time()
        with contextlib.suppress(ClquantError):
            codec.decompress(data)
        found.append(1e3 * (time.process_time() - began))
    return min(found[1:])


def run(options: Options) -> Iterator[Table]:
    """One table."""
    columns = {"file": "file", "bytes": "bytes", "ms": "ms", "allowed": "allowed, ms", "share": "share"}
    note = f"Allowed: {BYTE_NS} ns a byte, {PIXEL_NS} ns a pixel, and {CONSTANT_MS} ms."
    side = 1024 if options.quick else 4096
    table = Table(f"Processor time of .clvq files, {side} x {side} where nothing else is said", columns, note=note)
    queue = options.queue()
    for name, codec, data in files(queue, side):
        ms = processor_ms(codec, data)
        height, width = clvq_format.Header.from_bytes(data[: clvq_format.HEADER_BYTES]).shape
        allowed = (BYTE_NS * len(data) + PIXEL_NS * height * width) / 1e6 + CONSTANT_MS
        table.add(file=name, bytes=len(data), ms=ms, allowed=allowed, share=ms / allowed)
    yield table


if __name__ == "__main__":
    harness.main(run)
