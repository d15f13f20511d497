"""TIFFs in tiles by tifffile (extra ``large``), read in parts; no tile unpacks to more than it has.

Only the first page is asked for: what tifffile calls series may lie in further files, which OME-TIFF and others name.
"""

from __future__ import annotations

import concurrent.futures
import io
import itertools
import os
import threading
import weakref
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images.guards.jpeg_segments import segments
from clquant.images.tiff.directories import check_claim
from clquant.params import reason_of
from clquant.runtime import FileError

# Numbers of TIFF's compressions.
_DEFLATE, _JPEG, _JPEG2000 = (8, 32946, 50013), (6, 7, 33007), (33003, 33004, 33005, 34712)
# Those that tifffile gives a buffer of the tile's size: none, LZW, PackBits; by imagecodecs LZMA and Zstandard.
_BOUNDED = (1, 5, 32773, 34925, 50000)
_FRAMES = range(0xC0, 0xD0)  # of JPEG's segments, with those that are none
_NO_FRAMES = (0xC4, 0xC8, 0xCC)
_JPEG2000_SIZE = b"\xff\x4f\xff\x51"


class TiledTiff:
    """The first page of a TIFF as an array that is read in parts."""

    def __init__(self, path: str, file: Any, page: Any) -> None:
        self._path, self._file, self._page = path, file, page
        self._compression, self._lock = int(page.compression), threading.Lock()
        if self._compression in _DEFLATE:
            page.compression = 1  # tiles are unpacked here, to no more than they have
        self.shape: tuple[int, ...] = page.shape
        self.ndim, self.dtype = len(self.shape), np.dtype(page.dtype)
        self.chunks = (int(page.tilelength), int(page.tilewidth))
        self._tile_bytes = self.chunks[0] * self.chunks[1] * page.samplesperpixel * self.dtype.itemsize
        self._threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, "clquant-tiles")
        weakref.finalize(self, file.close)

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        parts = (*(key if isinstance(key, tuple) else (key,)), slice(None), slice(None))[:3]
        rows, columns, channels = (slice(None) if part is Ellipsis else part for part in parts)
        sides = self.shape[:2]
        begins, ends = zip(*(part.indices(n)[:2] for part, n in zip((rows, columns), sides, strict=True)), strict=True)
        made = np.full((ends[0] - begins[0], ends[1] - begins[1], *self.shape[2:]), self._page.nodata, self.dtype)
        spans = [
            range(begin // tile, -(-end // tile)) for begin, end, tile in zip(begins, ends, self.chunks, strict=True)
        ]

        def place(tile: tuple[int, int]) -> None:
            top, left = tile[0] * self.chunks[0], tile[1] * self.chunks[1]
            pixels = self._read_tile(tile)
            if pixels is not None:
                pixels = pixels.reshape(pixels.shape[1], pixels.shape[2], *self.shape[2:])
                inner = pixels[max(begins[0] - top, 0) : ends[0] - top, max(begins[1] - left, 0) : ends[1] - left]
                row, column = max(top - begins[0], 0), max(left - begins[1], 0)
                made[row : row + inner.shape[0], column : column + inner.shape[1]] = inner

        for _ in self._threads.map(place, itertools.product(*spans)):
            pass
        return made if self.ndim == 2 else made[..., channels]

    def _read_tile(self, tile: tuple[int, int]) -> Any:
        """A tile's pixels, (1, h, w, C), cut at the picture's ends; None if the file has none."""
        page = self._page
        index = tile[0] * -(-self.shape[1] // self.chunks[1]) + tile[1]
        place, nbytes = page.dataoffsets[index], page.databytecounts[index]
        if not nbytes:
            return None
        with self._lock:
            self._file.filehandle.seek(place)
            data = self._file.filehandle.read(nbytes)
        if self._compression in _DEFLATE:
            data = zlib.decompressobj().decompress(data, self._tile_bytes)
        elif self._compression in (*_JPEG, *_JPEG2000) and (sides := _sides_of(data)) != self.chunks:
            raise FileError(f"tile {index} of {self._path!r} claims {sides}, not {self.chunks}")
        how = {name: getattr(page, name) for name in ("jpegtables", "jpegheader") if getattr(page, name) is not None}
        return page.decode(data, index, **how)[0]


def _sides_of(data: bytes) -> tuple[int, int]:
    """Height and width that a JPEG or JPEG 2000 stream claims; zeros if it names none."""
    if (at := data.find(_JPEG2000_SIZE)) >= 0:
        width, height, left, top = (int.from_bytes(data[at + 8 + 4 * i : at + 12 + 4 * i], "big") for i in range(4))
        return height - top, width - left
    for kind, at, _ in segments(io.BytesIO(data), 0):
        if kind in _FRAMES and kind not in _NO_FRAMES:
            return int.from_bytes(data[at + 1 : at + 3], "big"), int.from_bytes(data[at + 3 : at + 5], "big")
    return 0, 0


def open_tiled(path: str) -> TiledTiff | None:
    """Open a TIFF in tiles; None for strips and rarer kinds, which Pillow reads, and without tifffile."""
    try:
        import tifffile  # an extra
    except ImportError:
        return None
    try:
        file = tifffile.TiffFile(path)
        try:
            page: Any = file.pages[0]
            is_plain = page.photometric.name in ("RGB", "MINISBLACK") and page.samplesperpixel != 2  # gray with alpha
            is_bounded = int(page.compression) in (*_BOUNDED, *_DEFLATE, *_JPEG, *_JPEG2000)
            if page.is_tiled and is_plain and is_bounded and int(page.planarconfig) == 1 and page.imagedepth == 1:
                check_claim(path, (page.imagelength, page.imagewidth), (page.tilelength, page.tilewidth))
                return TiledTiff(path, file, page)
        except BaseException:
            file.close()
            raise
        file.close()
        return None
    except FileError:
        raise
    except Exception as error:
        raise FileError(f"cannot read {path!r}: {reason_of(error)}") from error
