"""The bytes of a histogram's file: docs/histogram-format.md.

Ascending codes become their differences, and differences and counts planes of bytes, of which most are zeros that
deflate takes away.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from clquant.histogram.merging import MAX_TOTAL, Codes
from clquant.params import reason_of
from clquant.runtime import FormatError

MAGIC = b"\x89CLQH\r\n\x1a"
VERSIONS = {8: 1, 16: 2}
"""By the bits of a value."""
# Default of `ColorHistogram.load`: twice the colours without alpha.
MAX_COLORS = 1 << 25
# Magic; version and three bytes of 0; colours; pixels of alpha 0; bytes of the payload.
_HEADER = struct.Struct("<8sB3xIQQ")
_CHECK = struct.Struct("<I")
_COUNT_BYTES = 5
_LEVEL = 6


def to_bytes(codes: Codes, counts: npt.NDArray[np.uint64], transparent: int) -> bytes:
    """Encode (n,) ascending codes, their counts and the transparent pixels."""
    code_bytes = codes.dtype.itemsize
    steps = np.diff(codes, prepend=codes.dtype.type(0)).astype(f"<u{code_bytes}")
    planes = [_planes(steps, code_bytes), _planes((counts - np.uint64(1)).astype("<u8"), _COUNT_BYTES)]
    payload = zlib.compress(b"".join(planes), _LEVEL)
    head = _HEADER.pack(MAGIC, VERSIONS[2 * code_bytes], len(codes), transparent, len(payload))
    return head + payload + _CHECK.pack(zlib.crc32(payload, zlib.crc32(head)))


def most_bytes(colors: int) -> int:
    """The most bytes that a file of so many colours has."""
    plain = colors * (8 + _COUNT_BYTES)
    return _HEADER.size + plain + plain // 1000 + 64 + _CHECK.size


def from_bytes(data: bytes, max_colors: int = MAX_COLORS) -> tuple[Codes, npt.NDArray[np.uint64], int]:
    """Decode codes, counts and transparent pixels; files that claim more than `max_colors` are refused."""
    if len(data) < _HEADER.size + _CHECK.size or not data.startswith(MAGIC):
        raise FormatError("the file is no colour histogram")
    _, version, n, transparent, size = _HEADER.unpack_from(data)
    if version not in VERSIONS.values():
        raise FormatError(f"the histogram is of version {version}; allowed: 1, 2")
    if zlib.crc32(data[: -_CHECK.size]) != _CHECK.unpack(data[-_CHECK.size :])[0]:
        raise FormatError("the histogram is damaged: its check differs")
    if n > max_colors:
        raise FormatError(f"the histogram has {n} colours; allowed: at most {max_colors} (see max_colors)")
    payload = data[_HEADER.size : -_CHECK.size]
    if len(payload) != size:
        raise FormatError(f"the histogram has {len(payload)} bytes of colours; its header says {size}")
    deep = version == VERSIONS[16]
    code_bytes, alpha = (8, np.uint64(0x1111111111111111)) if deep else (4, np.uint64(0x11111111))
    plain = _inflated(payload, n * (code_bytes + _COUNT_BYTES))
    steps = _joined(plain[: n * code_bytes], n, code_bytes)
    counts = _joined(plain[n * code_bytes :], n, _COUNT_BYTES) + np.uint64(1)
    codes = np.cumsum(steps, dtype=np.uint64)
    # No code stands twice, and none is of alpha 0; sums beyond 64 bits do not ascend.
    ascend = bool((codes[1:] > codes[:-1]).all()) and (deep or not n or int(codes[-1]) < 2**32)
    if not ascend or not (codes & alpha).all():
        raise FormatError("the histogram's colours are not those of a histogram")
    if int(counts.sum(dtype=np.float64)) + transparent > MAX_TOTAL:
        raise FormatError(f"the histogram has more than 2^39 = {MAX_TOTAL} pixels")
    return codes if deep else codes.astype(np.uint32), counts, transparent


def _planes(values: npt.NDArray[np.unsignedinteger], used: int) -> bytes:
    """The lowest bytes of all values, then the next ones, up to `used` bytes."""
    parts = values.view(np.uint8).reshape(len(values), values.itemsize)
    return np.ascontiguousarray(parts[:, :used].T).tobytes()


def _joined(planes: bytes, n: int, used: int) -> npt.NDArray[np.uint64]:
    values = np.zeros((n, 8), np.uint8)
    values[:, :used] = np.frombuffer(planes, np.uint8).reshape(used, n).T
    return values.view("<u8").ravel().astype(np.uint64)


def _inflated(payload: bytes, size: int) -> bytes:
    """Exactly `size` bytes."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(payload, size + 1)
    except zlib.error as error:
        raise FormatError(f"the histogram is damaged: {reason_of(error)}") from error
    if len(plain) != size or not stream.eof or stream.unused_data:
        raise FormatError(f"the histogram's colours are not {size} bytes")
    return plain
