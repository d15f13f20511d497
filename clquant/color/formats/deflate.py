"""zlib streams (RFC 1950) of large data, made in bands on all cores; the same bytes for any number of threads.

zlib begins each band with the 32 KB before it as its dictionary and ends it with an empty stored block, so that bands
follow each other. libdeflate (extra ``fast``: 7 % smaller, or 3 times as fast) makes whole streams only: the mark of
the last block is taken out of those (`_unfinished`), which costs the 32 KB at a band's begin.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel

libdeflate: Any = None
with contextlib.suppress(ImportError):
    import deflate as libdeflate

# A band's size: the smaller one up to MANY_BANDS bands, then larger, up to MAX_BAND_BYTES.
BAND_BYTES, MAX_BAND_BYTES = 1 << 20, 1 << 22
MANY_BANDS = 16
WINDOW_BYTES = 1 << 15
# An empty stored block behind its header's three bits: LEN and its complement.
_EMPTY_BLOCK = b"\0\0\xff\xff"
_ADLER_MODULUS = 65521
# libdeflate ends a block after some 300 KB of data at most.
_MAX_LAST_BLOCK_BITS = 8 * 400_000
_FIRST_WINDOW_BITS = 8 << 12
# A dynamic block's header has 14 bits, 19 lengths of 3 bits, and 316 code lengths of at most 14 bits.
_MAX_HEADER_BYTES = 600
# Bits of a dynamic block's header up to its code lengths, and those of 19 lengths of 3 bits (RFC 1951, section 3.2.7).
_HEAD_BITS, _LENGTH_CODES = 17, 19


@dataclass(frozen=True)
class Effort:
    """How long to search for repetitions.

    Attributes
    ----------
    zlib, libdeflate : int
        Levels of these: 0 to 9, and 1 to 12.
    libdeflate_large, libdeflate_small : int
        The levels for streams of more than `LARGE_BYTES` and of up to `SMALL_BYTES`: those from 10 on take five times
        as long as the others, and 11 half as long again for up to 3 % less.
    """

    zlib: int
    libdeflate: int
    libdeflate_large: int
    libdeflate_small: int


LARGE_BYTES, SMALL_BYTES = 24 << 20, 1 << 17
EFFORTS = {
    "fast": Effort(3, 5, 5, 5),
    "medium": Effort(6, 7, 7, 10),
    "normal": Effort(6, 10, 7, 11),
    "small": Effort(9, 12, 12, 12),
}


@dataclass(frozen=True)
class Band:
    """One band of a stream.

    Attributes
    ----------
    data : bytes
        Compressed, with the stream's header in the first band and its checksum in the last.
    crc : int
        CRC-32 of `data`, begun with the caller's prefix.
    """

    data: bytes
    crc: int


def band_count(size: int) -> int:
    """How many bands the data are cut into."""
    band = min(max(size // MANY_BANDS, BAND_BYTES), MAX_BAND_BYTES)
    return max(round(size / band), 1)


def bands(
    count: int,
    size: int,
    part: Callable[[int], bytes],
    before: Callable[[int], bytes],
    effort: Effort,
    prefix: bytes = b"",
) -> list[Band]:
    """A zlib stream in bands.

    Parameters
    ----------
    count : int
        Bands, at least one.
    size : int
        Bytes of all of them.
    part : callable
        From a band's number to its bytes. Called from several threads.
    before : callable
        From a band's number to the `WINDOW_BYTES` bytes before it, or fewer. Called from several threads.
    effort : Effort
    prefix : bytes
        What the checksums of bands begin with.

    Returns
    -------
    list of Band
        Their data together are the stream.
    """

    if size > LARGE_BYTES:
        effort = replace(effort, libdeflate=effort.libdeflate_large)
    elif size <= SMALL_BYTES:
        effort = replace(effort, libdeflate=effort.libdeflate_small)

    def made(number: int) -> tuple[bytes, int, int]:
        data = part(number)
        return _band(data, before, number, number == count - 1, effort), zlib.adler32(data), len(data)

    parts = parallel.in_threads(made, count)
    checksum = 1
    for _, adler, nbytes in parts:
        checksum = _combined_adler(checksum, adler, nbytes)
    streams = [data for data, _, _ in parts]
    streams[0] = _header(effort) + streams[0]
    streams[-1] += struct.pack(">I", checksum)
    return [Band(data, zlib.crc32(data, zlib.crc32(prefix))) for data in streams]


def size_of(data: bytes, effort: Effort) -> int:
    """Bytes that data take as one band."""
    return len(_band(data, lambda _: b"", 0, True, effort))


def _band(data: bytes, before: Callable[[int], bytes], number: int, last: bool, effort: Effort) -> bytes:
    if libdeflate is not None and effort.zlib > 0:
        stream = bytes(libdeflate.deflate_compress(data, effort.libdeflate))
        unfinished = stream if last else _unfinished(stream, data)
        if unfinished is not None:
            return unfinished
    dictionary = before(number) if number else b""
    more: dict[str, Any] = {"zdict": dictionary} if dictionary else {}
    coder = zlib.compressobj(effort.zlib, zlib.DEFLATED, -15, zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY, **more)
    return coder.compress(data) + coder.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)


def _header(effort: Effort) -> bytes:
    """CMF and FLG of a 32-KB window; the level is what zlib writes for it."""
    level = 0 if effort.zlib < 2 else 1 if effort.zlib < 6 else 2 if effort.zlib == 6 else 3
    head = 0x78 << 8 | level << 6
    return struct.pack(">H", head + 31 - head % 31)


def _combined_adler(first: int, second: int, size: int) -> int:
    """Adler-32 of two parts one after the other, of which the second has `size` bytes."""
    low = (first & 0xFFFF) + (second & 0xFFFF) - 1
    high = (first >> 16) + (second >> 16) + size % _ADLER_MODULUS * ((first & 0xFFFF) - 1)
    return high % _ADLER_MODULUS << 16 | low % _ADLER_MODULUS


def _unfinished(stream: bytes, data: bytes) -> bytes | None:
    """A deflate stream after which another may follow: no block is marked as the last, and it ends on a whole byte.

    The last block's header is looked for from the stream's end on. What is returned has been decoded and compared.

    Parameters
    ----------
    stream : bytes
        One whole stream.
    data : bytes
        What it decodes to.

    Returns
    -------
    bytes or None
        None where the last block has no dynamic codes.
    """
    end = 8 * len(stream)
    stop, window = end, _FIRST_WINDOW_BITS
    while stop > max(end - _MAX_LAST_BLOCK_BITS, 0):
        start = max(stop - window, 0)
        for at in _final_headers(stream, start, stop):
            if not _is_last_block(stream, int(at)):
                continue
            opened = bytearray(stream)
            opened[at >> 3] &= ~(1 << (at & 7)) & 0xFF
            decoder = zlib.decompressobj(-15)
            try:
                if decoder.decompress(opened) != data or decoder.eof:
                    continue
            except zlib.error:
                continue
            # The empty block's header is in the zero bits that fill the last byte, or, of fewer than three, goes on.
            for tail in (_EMPTY_BLOCK, b"\0" + _EMPTY_BLOCK):
                if _ends_a_block(decoder.copy(), tail):
                    return bytes(opened) + tail
        stop, window = start, 2 * window
    return None


def _is_last_block(stream: bytes, at: int) -> bool:
    """Whether a block that begins at a bit decodes, and ends with the stream."""
    rest = stream[at >> 3 :]
    for piece in (rest[:_MAX_HEADER_BYTES], rest):
        shifted = (int.from_bytes(piece, "little") >> (at & 7)).to_bytes(len(piece), "little")
        whole = len(piece) == len(rest)
        decoder = zlib.decompressobj(-15, zdict=bytes(WINDOW_BYTES))  # what it refers to does not matter
        try:
            decoder.decompress(shifted if whole else shifted[:-1])
        except zlib.error:
            return False
    return decoder.eof and len(decoder.unused_data) < 2


def _ends_a_block(decoder: Any, tail: bytes) -> bool:
    """Whether a decoder takes a tail, and is then before another block: an empty last one ends the stream."""
    try:
        return decoder.decompress(tail + b"\3\0") == b"" and decoder.eof and not decoder.unused_data
    except zlib.error:
        return False


def _final_headers(stream: bytes, start: int, stop: int) -> npt.NDArray[np.int64]:
    """Bits in ``start..stop`` where the header of a last block with dynamic codes may begin, the last one first.

    Its first three bits are known, it announces at most 286 and 30 codes, and the lengths of its 19 code length codes
    fill the code space exactly.
    """
    first = start >> 3
    chunk = np.frombuffer(stream, np.uint8)[first : (stop >> 3) + 16]
    padded = np.concatenate([chunk, np.zeros(16, np.uint8)])
    bits = np.unpackbits(padded, bitorder="little")
    count = stop - 8 * first
    is_final = (bits[:count] == 1) & (bits[1 : count + 1] == 0) & (bits[2 : count + 2] == 1)
    places = np.flatnonzero(is_final)
    head = _words(padded, places)
    codes, distances = head >> np.uint64(3) & np.uint64(31), head >> np.uint64(8) & np.uint64(31)
    allowed = (codes <= 29) & (distances <= 29)
    places, head = places[allowed], head[allowed]
    announced = (head >> np.uint64(13) & np.uint64(15)) + np.uint64(4)
    lengths = _words(padded, places + _HEAD_BITS) & ((np.uint64(1) << np.uint64(3) * announced) - np.uint64(1))
    space = np.zeros(len(places), np.uint16)
    for shift in range(0, 3 * _LENGTH_CODES, 12):
        space += _code_space()[(lengths >> np.uint64(shift) & np.uint64(0xFFF)).astype(np.intp)]
    return np.asarray((places[space == 128] + 8 * first)[::-1])


@functools.cache
def _code_space() -> npt.NDArray[np.uint16]:
    """Of four lengths of three bits each, for every 12 bits: which part of a code space of 128 their codes take."""
    lengths = np.arange(4096)[:, None] >> np.arange(0, 12, 3) & 7
    return np.asarray(np.where(lengths > 0, 128 >> lengths, 0).sum(axis=1), np.uint16)


def _words(padded: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The 57 bits and more from each of some bit places on, the first one lowest."""
    at = places >> 3
    word = np.zeros(len(places), np.uint64)
    for number in range(8):
        word |= padded[at + number].astype(np.uint64) << np.uint64(8 * number)
    word >>= (places & 7).astype(np.uint64)
    # With seven bits gone, 57 are left: just those of 19 lengths.
    return word
