"""Codecs of zarr chunks that unpack no more than a chunk has: by its header, or by stopping there."""

from __future__ import annotations

import asyncio
import bz2
import functools
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numcodecs
from numcodecs.abc import Codec

NAME = "clquant.bounded"
_LZMA_MEMORY = 1 << 27  # of a decoder; its files name the size of a dictionary
_ZSTD_MAGIC, _ZSTD_SKIPPED = 0xFD2FB528, 0x184D2A50
_ZSTD_BLOCK, _ZSTD_RAW, _ZSTD_REPEAT = 1 << 17, 0, 1
_SIZES: dict[str, Callable[[memoryview], int]] = {
    "blosc": lambda data: _number(data, 4, 4),
    "lz4": lambda data: _number(data, 0, 4),
    "zstd": lambda data: zstd_size(data),
}
_UNPACKED: dict[str, Callable[[memoryview, int], bytes]] = {
    "bz2": lambda data, most: bz2.BZ2Decompressor().decompress(data, most),
    "gzip": lambda data, most: gzip.GzipFile(fileobj=io.BytesIO(data)).read(most),
    "lzma": lambda data, most: lzma.LZMADecompressor(lzma.FORMAT_AUTO, _LZMA_MEMORY).decompress(data, most),
    "zlib": lambda data, most: zlib.decompressobj().decompress(data, most),
}
PACKERS = frozenset({*_SIZES, *_UNPACKED})


def unpack(codec: str, data: Any, most: int) -> Any:
    """Unpack a chunk by numcodecs' codec of a name; ValueError if that makes more than `most` bytes."""
    view = memoryview(data).cast("B")
    if codec in _SIZES:
        size = _SIZES[codec](view)
        found = numcodecs.get_codec({"id": codec}).decode(view) if size <= most else b""
    else:
        found = _UNPACKED[codec](view, most + 1)
        size = len(found)
    if size > most:
        raise ValueError(f"a chunk unpacks to more than the {most} bytes that it may have")
    return found


def zstd_size(data: memoryview) -> int:
    """Bound what Zstandard frames unpack to: as they say; without that, by their blocks."""
    total = at = 0
    while at < len(data):
        magic = _number(data, at, 4)
        if magic & ~15 == _ZSTD_SKIPPED:
            at += 8 + _number(data, at + 4, 4)
            continue
        if magic != _ZSTD_MAGIC:
            raise ValueError("a chunk is not packed by Zstandard")
        flags = _number(data, at + 4, 1)
        is_one_segment = flags >> 5 & 1
        size_bytes = (is_one_segment, 2, 4, 8)[flags >> 6]
        at += 6 - is_one_segment + (0, 1, 2, 4)[flags & 3]
        stated = _number(data, at, size_bytes) + (256 if size_bytes == 2 else 0)
        at, counted = _zstd_blocks(data, at + size_bytes)
        at += 4 * (flags >> 2 & 1)
        total += stated if size_bytes else counted
    return total


def _zstd_blocks(data: memoryview, at: int) -> tuple[int, int]:
    """The end of a frame's blocks, and the most bytes that they unpack to beyond one block."""
    counted = packed = is_last = 0
    while not is_last:
        head = _number(data, at, 3)
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        at += 3 + (1 if kind == _ZSTD_REPEAT else size)
        counted += size if kind in (_ZSTD_RAW, _ZSTD_REPEAT) else _ZSTD_BLOCK
        packed |= kind not in (_ZSTD_RAW, _ZSTD_REPEAT)
    return at, counted - _ZSTD_BLOCK * packed


def _number(data: memoryview, at: int, size: int) -> int:
    if at + size > len(data):
        raise ValueError("a chunk is cut off")
    return int.from_bytes(data[at : at + size], "little")


class BoundedCodec(Codec):
    """For arrays of zarr format 2: `codec` is the name of the array's own."""

    codec_id = NAME

    def __init__(self, codec: str, most: int) -> None:
        self.codec, self.most = codec, most

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Unpack a chunk; `out` is filled and returned."""
        found = unpack(self.codec, numcodecs.compat.ensure_contiguous_ndarray(buf), self.most)
        return found if out is None else numcodecs.compat.ndarray_copy(found, out)

    def encode(self, buf: Any) -> Any:
        """Refuse: arrays of strangers are read alone."""
        raise NotImplementedError


@functools.cache
def register() -> None:
    """Let zarr and numcodecs find the codec by its name."""
    numcodecs.register_codec(BoundedCodec)
    try:
        from zarr.abc.codec import BytesBytesCodec
        from zarr.registry import register_codec
    except ImportError:  # zarr 2, whose codecs are numcodecs' alone
        return

    class Zarr3BoundedCodec(BytesBytesCodec):
        """The same for arrays of zarr format 3."""

        is_fixed_size = False
        codec: str
        most: int

        def __init__(self, codec: str, most: int) -> None:
            object.__setattr__(self, "codec", codec)  # zarr's base classes are frozen
            object.__setattr__(self, "most", most)

        @classmethod
        def from_dict(cls, data: Mapping[str, Any]) -> Zarr3BoundedCodec:
            """Make the codec of an array's metadata."""
            return cls(**data["configuration"])

        def to_dict(self) -> dict[str, Any]:
            """Name and configuration."""
            return {"name": NAME, "configuration": {"codec": self.codec, "most": self.most}}

        def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
            """Refuse to say: sizes are not known beforehand."""
            raise NotImplementedError

        async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
            found = await asyncio.to_thread(unpack, self.codec, chunk_data.as_numpy_array(), self.most)
            return chunk_spec.prototype.buffer.from_bytes(found)

    register_codec(NAME, Zarr3BoundedCodec)
