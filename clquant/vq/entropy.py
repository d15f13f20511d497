"""Tables of small integers as bytes: the transforms and the general-purpose coders that a .clvq section may use.

A section's plain bytes are its values as bits packed one after another, or as byte planes (all low bytes, then all high
bytes), or as byte planes of the differences to the left neighbour. The plain bytes are stored, deflated or coded by
LZMA2, whichever is shortest. The reader knows the length of the plain bytes beforehand, so that decoding is bounded.
"""

from __future__ import annotations

import lzma
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import FormatError

STORED, DEFLATE, LZMA2 = 0, 1, 2
METHODS = (STORED, DEFLATE, LZMA2)
PACKED_BITS, BYTE_PLANES, DIFFERENCES = 0, 1, 2
TRANSFORMS = (PACKED_BITS, BYTE_PLANES, DIFFERENCES)

_FILTERS: list[dict[str, Any]] = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]
_DEFLATE_BITS = -15

Values = npt.NDArray[np.integer[Any]]


def value_bits(limit: int) -> int:
    """Bits that hold every value below `limit`."""
    return max(1, (limit - 1).bit_length())


def plain_length(count: int, limit: int, transform: int) -> int:
    """Bytes of `count` values below `limit` (2..65536) under a transform."""
    bits = value_bits(limit)
    if transform == PACKED_BITS:
        return (count * bits + 7) // 8
    return count * (1 if bits <= 8 else 2)


def to_plain(values: Values, limit: int, transform: int) -> bytes:
    """Turn a table of values into plain bytes.

    Parameters
    ----------
    values : ndarray of int, shape (rows, columns)
        Each at least 0 and below `limit`.
    limit : int
        2..65536.
    transform : int
        PACKED_BITS, BYTE_PLANES or DIFFERENCES.

    Returns
    -------
    bytes
    """
    bits = value_bits(limit)
    if transform == PACKED_BITS:
        wide = np.ascontiguousarray(values.ravel(), dtype=">u2").view(np.uint8).reshape(-1, 2)
        return np.packbits(np.unpackbits(wide, axis=1)[:, 16 - bits :]).tobytes()
    if transform == DIFFERENCES:
        signed = values.astype(np.int32)
        signed[:, 1:] -= values[:, :-1]
        values = signed % limit
    low = (values & 255).astype(np.uint8).tobytes()
    return low if bits <= 8 else low + (values >> 8).astype(np.uint8).tobytes()


def from_plain(plain: bytes, shape: tuple[int, int], limit: int, transform: int) -> npt.NDArray[np.uint16]:
    """Turn plain bytes of the right length back into the table that `to_plain` was given.

    Parameters
    ----------
    plain : bytes
        `plain_length(rows * columns, limit, transform)` of them.
    shape : tuple of int
        (rows, columns).
    limit, transform : int
        As for `to_plain`.

    Returns
    -------
    ndarray of uint16, shape (rows, columns)

    Raises
    ------
    FormatError
        If a value is not below `limit`, or a spare bit is not 0.
    """
    bits, count = value_bits(limit), shape[0] * shape[1]
    if transform == PACKED_BITS:
        stream = np.unpackbits(np.frombuffer(plain, np.uint8), count=count * bits).reshape(count, bits)
        wide = np.zeros((count, 16), np.uint8)
        wide[:, 16 - bits :] = stream
        values = np.packbits(wide, axis=1).view(">u2").astype(np.uint16).reshape(shape)
        if plain and plain[-1] & (1 << (-count * bits) % 8) - 1:
            raise FormatError("a .clvq section has spare bits that are not 0")
    else:
        planes = np.frombuffer(plain, np.uint8).reshape(1 if bits <= 8 else 2, *shape).astype(np.uint16)
        values = planes[0] if bits <= 8 else planes[0] | (planes[1] << np.uint16(8))
    if values.size and int(values.max()) >= limit:
        raise FormatError(f"a .clvq section holds the value {int(values.max())}; it must be below {limit}")
    if transform == DIFFERENCES:
        values = (np.cumsum(values, axis=1, dtype=np.int64) % limit).astype(np.uint16)
    return values


def pack(plain: bytes) -> tuple[int, bytes]:
    """The shortest of the plain bytes, their deflation and their LZMA2 coding.

    Parameters
    ----------
    plain : bytes

    Returns
    -------
    method : int
        STORED, DEFLATE or LZMA2; the first of these on a tie.
    payload : bytes
    """
    choices = [(STORED, plain)]
    for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY):
        coder = zlib.compressobj(9, zlib.DEFLATED, _DEFLATE_BITS, 9, strategy)
        choices.append((DEFLATE, coder.compress(plain) + coder.flush()))
    choices.append((LZMA2, lzma.compress(plain, lzma.FORMAT_RAW, filters=_FILTERS)))
    return min(choices, key=lambda choice: len(choice[1]))


def pack_table(values: Values, limit: int) -> tuple[int, int, bytes]:
    """The shortest coding of a table over all transforms and methods.

    Parameters
    ----------
    values : ndarray of int, shape (rows, columns)
    limit : int
        Values are below it.

    Returns
    -------
    transform, method : int
    payload : bytes
    """
    coded = [(transform, *pack(to_plain(values, limit, transform))) for transform in TRANSFORMS]
    return min(coded, key=lambda choice: len(choice[2]))


def longest_payload(length: int) -> int:
    """Most bytes that any method makes of `length` plain bytes; longer payloads are refused unread."""
    return length + length // 1000 + 64


def unpack(method: int, payload: bytes, length: int) -> bytes:
    """The plain bytes of a payload, which must be exactly `length`; memory use is bounded by it.

    Parameters
    ----------
    method : int
        STORED, DEFLATE or LZMA2.
    payload : bytes
    length : int

    Returns
    -------
    bytes

    Raises
    ------
    FormatError
        If the payload is no such coding or its plain bytes are more or fewer.
    """
    if method == STORED:
        plain, whole = payload, True
    elif method == DEFLATE:
        inflater = zlib.decompressobj(_DEFLATE_BITS)
        try:
            plain = inflater.decompress(payload, length + 1)
        except zlib.error as error:
            raise FormatError(f"a .clvq section does not inflate: {error}") from error
        whole = inflater.eof and not inflater.unused_data
    elif method == LZMA2:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_FILTERS)
        try:
            plain = decoder.decompress(payload, length + 1)
        except lzma.LZMAError as error:
            raise FormatError(f"a .clvq section is no LZMA2 stream: {error}") from error
        whole = decoder.eof and not decoder.unused_data
    else:
        raise FormatError(f"a .clvq section names the coding method {method}; 0, 1 and 2 are known")
    if not whole or len(plain) != length:
        raise FormatError(f"a .clvq section does not hold the {length} bytes that its header promises")
    return plain
