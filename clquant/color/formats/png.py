"""PNG files (ISO/IEC 15948) of indexed, gray and colour pictures.

Rows are written at the least depth that holds the indices, without a filter, unless a sample of the picture is clearly
smaller with a filter chosen per row, or, for 3 to 16 colours, with a byte per pixel, or with both. The order of the
palette is kept. libdeflate (extra ``cli``) compresses the rows, 7 % smaller than zlib, which does so without it.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.formats import parallel
from clquant.runtime import InvalidArgument, InvalidType, bound

libdeflate: Any = None
with contextlib.suppress(ImportError):
    import deflate as libdeflate

MAX_COLORS = 256
MAX_SIDE = 2**31 - 1
MAX_DPI = 50_000_000  # of which pixels per metre fit the file
# Options of `indexed` and `picture`, for those who pass on what they were given.
OPTIONS = frozenset({"effort", "dpi", "icc_profile"})

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GRAY, RGB, INDEXED, RGBA = 0, 2, 3, 6  # kinds of pixels
_METRES_PER_INCH = 0.0254

# A picture up to this many bytes is its own sample; a larger one is sampled by strips of rows over its height.
_WHOLE_SAMPLE_BYTES = 1 << 17
_SAMPLE_STRIPS, _STRIP_BYTES = 3, 1 << 15
# Filters, and bytes per pixel instead of packed bits, are taken if the sample shrinks to less than these shares.
_FILTER_GAIN, _UNPACKED_GAIN = 0.98, 0.97

Bytes = npt.NDArray[np.uint8]


EFFORTS = ("fast", "normal", "small")
_ZLIB_LEVELS = dict(zip(EFFORTS, (3, 6, 9), strict=True))
_LEVELS = dict(zip(EFFORTS, (5, 10, 12), strict=True))
# libdeflate's levels of "normal" for few bytes, and for many: levels from 10 on take five times as long as 7.
_SMALL_BYTES, _SMALL_LEVEL = 1 << 17, 11
_LARGE_BYTES, _LARGE_LEVEL = 24 << 20, 7


def compress(data: bytes, level: int) -> bytes:
    """Make a zlib stream (RFC 1950)."""
    return zlib.compress(data, level) if libdeflate is None else bytes(libdeflate.zlib_compress(data, level))


def _level(effort: str, nbytes: int) -> int:
    """Level of compression for a picture of so many bytes."""
    if libdeflate is None:
        return _ZLIB_LEVELS[effort]
    if effort == "normal" and not _SMALL_BYTES < nbytes <= _LARGE_BYTES:
        return _SMALL_LEVEL if nbytes <= _SMALL_BYTES else _LARGE_LEVEL
    return _LEVELS[effort]


@dataclass(frozen=True)
class _Layout:
    """Rows of (H, W) or (H, W, C) pixels with so many bits per value, and perhaps a filter chosen for each."""

    pixels: Bytes
    depth: int
    filtered: bool

    @property
    def pixel_bytes(self) -> int:
        """Distance in bytes of a pixel from the one before, for filters."""
        return int(self.pixels.shape[2]) if self.pixels.ndim == 3 else 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, with its filter's number."""
        return 1 + -(-int(self.pixels.shape[1]) * self.pixel_bytes * self.depth // 8)

    def packed(self, row0: int, row1: int) -> Bytes:
        """Pack rows without filters into (row1 - row0, row_bytes - 1) uint8."""
        rows = self.pixels[row0:row1]
        if self.depth == 8:
            return np.ascontiguousarray(rows).reshape(len(rows), -1)
        return packed_rows(rows, self.depth)

    def data(self) -> bytes:
        """Pack and filter all rows, in threads."""
        height = len(self.pixels)
        count = min(-(-height * self.row_bytes // bound("png.band")), height)
        edges = [height * number // count for number in range(count + 1)]
        return b"".join(parallel.in_threads(lambda i: self.bytes_of(edges[i], edges[i + 1]), count))

    def bytes_of(self, row0: int, row1: int) -> bytes:
        """Pack and filter some rows, each after its filter's number."""
        out = np.empty((row1 - row0, self.row_bytes), np.uint8)
        if not self.filtered:
            out[:, 0] = 0
            out[:, 1:] = self.packed(row0, row1)
            return out.tobytes()
        rows = self.packed(max(row0 - 1, 0), row1)
        above = rows[:-1] if row0 else np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
        candidates = _filters(rows[1:] if row0 else rows, above, self.pixel_bytes)
        chosen = np.argmin([_entropy(candidate) for candidate in candidates], axis=0)
        out[:, 0] = chosen
        for number, candidate in enumerate(candidates):
            mine = chosen == number
            out[mine, 1:] = candidate[mine]
        return out.tobytes()


def indexed(
    indices: Bytes,
    rgba: Bytes,
    *,
    gray: bool = False,
    effort: str = "normal",
    dpi: tuple[float, float] | None = None,
    icc_profile: bytes | None = None,
) -> bytes:
    """Write a picture of at most 256 colours."""
    depth = bits_of(len(rgba))
    chunks = [] if gray else palette_chunks(rgba)
    kind = GRAY if gray else INDEXED
    return _file(indices, depth, kind, chunks, gray or depth in (1, 8), effort, _about(dpi, icc_profile))


def palette_chunks(rgba: Bytes) -> list[bytes]:
    """Write the chunks of (n, 4) colours, alpha only if there is some."""
    chunks = [chunk(b"PLTE", np.ascontiguousarray(rgba[:, :3]).tobytes())]
    faint = np.flatnonzero(rgba[:, 3] < 255)
    if len(faint):
        chunks.append(chunk(b"tRNS", rgba[: faint[-1] + 1, 3].tobytes()))
    return chunks


def compressed(pixels: Bytes, depth: int, effort: str = "normal") -> bytes:
    """Make the zlib stream of a picture's rows."""
    return _encoded(pixels, depth, True, effort)[1]


def picture(
    pixels: Bytes,
    *,
    effort: str = "normal",
    dpi: tuple[float, float] | None = None,
    icc_profile: bytes | None = None,
) -> bytes:
    """Write a picture of 8 bits per channel."""
    kind = GRAY if pixels.ndim == 2 else RGB if pixels.shape[2] == 3 else RGBA
    return _file(pixels, 8, kind, [], True, effort, _about(dpi, icc_profile))


class RowWriter:
    """A picture of 8 bits per channel that is written from top to bottom to a binary file, by zlib alone."""

    def __init__(self, write: Callable[[bytes], Any], height: int, width: int, channels: int) -> None:
        self._write, self._deflate = write, zlib.compressobj(_ZLIB_LEVELS["normal"])
        self._above = np.empty((0, width, channels), np.uint8)
        kind = {1: GRAY, 3: RGB, 4: RGBA}[channels]
        write(SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)))

    def write(self, rows: Bytes) -> None:
        """Write the next rows, (n, W, C)."""
        layout = _Layout(np.concatenate([self._above, rows]), 8, filtered=True)
        first, count = len(self._above), len(layout.pixels) - len(self._above)
        bands = -(-count * layout.row_bytes // bound("png.band"))
        edges = [first + count * number // bands for number in range(bands + 1)]
        for data in parallel.in_threads(lambda i: layout.bytes_of(edges[i], edges[i + 1]), bands):
            self._put(self._deflate.compress(data))
        self._above = rows[-1:].copy()

    def close(self) -> None:
        """End the file."""
        self._put(self._deflate.flush())
        self._write(chunk(b"IEND", b""))

    def _put(self, data: bytes) -> None:
        if data:
            self._write(chunk(b"IDAT", data))


def _file(
    pixels: Bytes, depth: int, kind: int, chunks: list[bytes], fixed_depth: bool, effort: str, about: bytes
) -> bytes:
    height, width = pixels.shape[:2]
    if max(height, width) > MAX_SIDE:
        raise InvalidArgument(f"a PNG is at most {MAX_SIDE} pixels wide and high; this picture is {width}x{height}")
    layout, data = _encoded(pixels, depth, fixed_depth, effort)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, layout.depth, kind, 0, 0, 0))
    stream = [chunk(b"IDAT", data[at : at + bound("png.chunk")]) for at in range(0, len(data), bound("png.chunk"))]
    return b"".join([SIGNATURE, header, about, *chunks, *stream, chunk(b"IEND", b"")])


def _encoded(pixels: Bytes, depth: int, fixed_depth: bool, effort: str) -> tuple[_Layout, bytes]:
    """Choose the layout of the smallest sample, if that is clear enough (see the head of this module), and use it."""
    params.choice("effort", effort, EFFORTS)
    layouts = [_Layout(pixels, depth, filtered=False), _Layout(pixels, depth, filtered=True)]
    gains = [1.0, _FILTER_GAIN]
    if not fixed_depth:
        layouts += [_Layout(pixels, 8, filtered=False), _Layout(pixels, 8, filtered=True)]
        gains += [_UNPACKED_GAIN, _UNPACKED_GAIN]
    level = _level(effort, len(pixels) * layouts[0].row_bytes)
    strips = _strips(len(pixels), layouts[0].row_bytes)
    if strips == [(0, len(pixels))]:
        made = parallel.in_threads(lambda i: compress(layouts[i].data(), level), len(layouts))
        best = int(np.argmin(np.divide([len(data) for data in made], gains)))
        return layouts[best], made[best]

    def size(number: int) -> int:
        return len(compress(b"".join(layouts[number].bytes_of(*strip) for strip in strips), level))

    layout = layouts[int(np.argmin(np.divide(parallel.in_threads(size, len(layouts)), gains)))]
    return layout, compress(layout.data(), level)


def _strips(height: int, row_bytes: int) -> list[tuple[int, int]]:
    """Choose half-open ranges of rows as a sample of a picture."""
    if height * row_bytes <= _WHOLE_SAMPLE_BYTES:
        return [(0, height)]
    rows = max(_STRIP_BYTES // row_bytes, 1)
    count = min(_SAMPLE_STRIPS, height // rows)
    starts = [(height - rows) * number // max(count - 1, 1) for number in range(count)]
    return [(start, start + rows) for start in starts]


def _filters(rows: Bytes, above: Bytes, pixel_bytes: int) -> list[Bytes]:
    """Apply the five filters to rows, in the order of their numbers (ISO/IEC 15948, section 9.2)."""
    left, corner = np.zeros_like(rows), np.zeros_like(rows)
    left[:, pixel_bytes:] = rows[:, :-pixel_bytes]
    corner[:, pixel_bytes:] = above[:, :-pixel_bytes]
    mean = (left >> 1) + (above >> 1) + (left & above & 1)
    # Distances of left, above and corner to their prediction left + above - corner.
    up, along = above.astype(np.int16) - corner, left.astype(np.int16) - corner
    to_left, to_above, to_corner = np.abs(up), np.abs(along), np.abs(up + along)
    nearest = np.where(to_above <= to_corner, above, corner)
    paeth = np.where((to_left <= to_above) & (to_left <= to_corner), left, nearest)
    return [rows, rows - left, rows - above, rows - mean, rows - paeth]


def _entropy(rows: Bytes) -> npt.NDArray[np.float64]:
    """Estimate the entropy of each row's bytes, in bits, less a constant."""
    count, width = rows.shape
    places = rows + np.arange(count, dtype=np.int32)[:, None] * 256
    counts = np.bincount(places.ravel(), minlength=256 * count).reshape(count, 256)
    terms = np.arange(width + 1, dtype=np.float64)
    terms[1:] *= np.log2(terms[1:])
    return -np.asarray(terms[counts].sum(axis=1))


def _about(dpi: Any, profile: bytes | None) -> bytes:
    """Write the chunks of resolution and colour profile."""
    chunks = b""
    if profile is not None:
        if not isinstance(profile, bytes):
            raise InvalidType(f"icc_profile is {params.shown(profile)}; allowed: bytes")
        chunks += chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(profile, 9))
    if dpi is not None:
        if not isinstance(dpi, tuple | list) or len(dpi) != 2:
            raise InvalidType(f"dpi is {params.shown(dpi)}; allowed: two numbers, across and down")
        across, down = (
            round(params.real(f"dpi[{i}]", value, 0, MAX_DPI) / _METRES_PER_INCH) for i, value in enumerate(dpi)
        )
        chunks += chunk(b"pHYs", struct.pack(">IIB", across, down, 1))
    return chunks


def chunk(kind: bytes, data: bytes) -> bytes:
    """Write a chunk with its length and checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def packed_rows(pixels: Bytes, bits: int) -> Bytes:
    """Numbers of a few bits each, the first pixel in a byte's highest bits; each row begins with a new byte."""
    if bits == 1:
        return np.packbits(pixels, axis=1)
    if bits == 8:
        return np.ascontiguousarray(pixels)
    per_byte = 8 // bits
    height, width = pixels.shape
    packed = np.zeros((height, -(-width // per_byte)), np.uint8)
    for place in range(per_byte):
        values = pixels[:, place::per_byte]
        packed[:, : values.shape[1]] |= values << np.uint8(8 - bits * (place + 1))
    return packed


def bits_of(count: int) -> int:
    """The least bits per pixel, 1, 2, 4 or 8, that hold so many colours, at most 256."""
    return next(bits for bits in (1, 2, 4, 8) if count <= 1 << bits)
