"""Pictures that are read row by row while a job goes on: zarr, h5py, `numpy.memmap`, tiled TIFF.

A lazy picture is anything with ``shape``, ``dtype`` and ``__getitem__`` that is no array in memory. A job asks for
bands of rows from top to bottom; the next band is read by a thread while the device works on this one. Results are the
same bits as of the whole picture in memory.
"""

from __future__ import annotations

import concurrent.futures
import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import params
from clquant.executors import is_remote
from clquant.images import decode, ome
from clquant.images.color_profiles import ProfileConversion, is_srgb, profile_conversion
from clquant.images.dark_values import DarkRows, warned_once
from clquant.images.stores import is_store, open_store, whole_calls, zarr_module
from clquant.images.tiff import geo
from clquant.images.tiff.directories import profile_of
from clquant.images.tiff.tiled import open_tiled
from clquant.params import reason_of, shown
from clquant.runtime import Array, ClquantError, FileError, InvalidArgument, bound

# Host memory of a job on a lazy picture, unless the caller names another bound.
DEFAULT_MEMORY = 512 << 20
# Bands that are in memory at a time: two that were read, one converted, and as much again on the device and of results.
BANDS_IN_MEMORY = 6
# Bands of whole chunks may be so large that memory holds only a band, its copy on the device, and its indices twice:
# chunks that two bands share would be decoded twice. Without room for four the next band is not read ahead.
_BANDS_OF_CHUNKS, _BANDS_READ_AHEAD = 8 / 3, 4
_UNITS = {"": 1, "b": 1} | {f"{letter}ib": 1 << 10 * n for n, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}{end}": 10 ** (3 * n) for n, letter in enumerate("kmgt", 1) for end in ("", "b")}
# Attributes of arrays in memory, those of other libraries and on other devices included.
_IN_MEMORY = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
Window = tuple[tuple[int, int], tuple[int, int]]
_MOST_MEMORY = 1 << 60
# Each is looked up by its own name; of 256 x 256 pixels, 2^26 of them hold 2^42.
_MOST_CHUNKS = 1 << 26
MOST_SIDE = (1 << 31) - 1
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*\Z")


def memory_bytes(memory: Any, argument: str = "memory") -> int:
    """Parse a bound on host memory into bytes."""
    most = min(bound("lazy.memory"), _MOST_MEMORY)
    if memory is None:
        return min(DEFAULT_MEMORY, most)
    if isinstance(memory, str):
        match = _SIZE.match(memory)
        if match is None or match[2].lower() not in _UNITS:
            raise InvalidArgument(f"{argument} is {shown(memory)}; allowed: bytes, or a text such as '1 GiB'")
        memory = int(min(float(match[1]) * _UNITS[match[2].lower()], _MOST_MEMORY))
    return min(params.integer(argument, memory, min(1 << 20, most)), most)


def is_lazy(source: Any) -> bool:
    """Whether a picture should be read in parts: it has rows, and is no array in memory or on workers."""
    if isinstance(source, np.memmap):
        return True
    # PIL images are decoded, and copied, for their `__array_interface__`.
    if isinstance(source, np.ndarray | Array | PIL.Image.Image) or any(hasattr(source, name) for name in _IN_MEMORY):
        return False
    if isinstance(getattr(source, "dims", None), tuple):  # xarray's; those of h5py are another thing
        return False
    return all(hasattr(source, name) for name in ("shape", "dtype", "__getitem__", "ndim")) and not is_remote(source)


class LazyRows:
    """Read rows of a lazy picture as uint8 or uint16, by the rules of `clquant.images`."""

    def __init__(
        self, source: Any, argument: str, memory: int, max_bits: int = 8, dark: DarkRows | None = None
    ) -> None:
        check_sizes(source, argument, memory)
        self._source = source
        self._dark = dark or DarkRows()
        self._argument = argument
        self._ahead: tuple[int, int, concurrent.futures.Future[decode.Samples]] | None = None
        self._last: tuple[int, int] | None = None  # rows that were asked for
        self._overlap = 0  # of rows that are asked for with those before
        self._reader = concurrent.futures.ThreadPoolExecutor(1, "clquant-read")
        self.height, self.width = (int(side) for side in source.shape[:2])
        self.channels = int(source.shape[2]) if len(source.shape) == 3 else 1
        self._item = np.dtype(source.dtype).itemsize
        self.bits = 16 if max_bits == 16 and np.dtype(source.dtype).newbyteorder("=") == np.uint16 else 8
        self.memory = memory
        chunks = getattr(source, "chunks", None)
        self.chunk_rows = max(int(chunks[0]), 1) if chunks and isinstance(chunks[0], int) else 1

    def rows_at_once(self, out_row_bytes: int, multiple_of: int = 1) -> int:
        """Return a band's rows within the bound on memory; whole chunks if memory holds 8/3 bands of these."""
        row_bytes = max(self.width * self.channels * self._item, out_row_bytes, 1)
        most = max(self.memory // (BANDS_IN_MEMORY * row_bytes), 1)
        whole = math.lcm(self.chunk_rows, multiple_of)
        if whole > most and _BANDS_OF_CHUNKS * row_bytes * whole <= self.memory:
            return whole
        step = whole if whole <= most else multiple_of
        return int(max(most // step * step, multiple_of))

    def narrowed(self) -> LazyRows:
        """The same rows, of 8 bits per value."""
        return LazyRows(self._source, self._argument, self.memory, dark=self._dark)

    def rows(self, row0: int, row1: int) -> decode.Samples:
        """Rows ``row0..row1``, (rows, W, C) of `bits`, C-contiguous.

        The rows after them are begun to be read, if memory holds four such bands.
        """
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (row0, row1):
            found = ahead[2].result()
        else:
            if ahead is not None and not ahead[2].cancel():
                concurrent.futures.wait([ahead[2]])
            found = self._read((row0, row1), (0, self.width))
        if self._last is not None and self._last[0] < row0 <= self._last[1]:
            self._overlap = self._last[1] - row0
        self._last = row0, row1
        begin = row1 - self._overlap
        after = min(begin + row1 - row0, self.height)
        row_bytes = self.width * self.channels * self._item
        if row1 < after and _BANDS_READ_AHEAD * row_bytes * (row1 - row0) <= self.memory:
            self._ahead = (begin, after, self._reader.submit(self._read, (begin, after), (0, self.width)))
        self._dark.passed(row0, row1, self.height, self._argument)
        return found

    def windows(self, windows: Iterable[Window]) -> Iterator[decode.Samples]:
        """Yield rectangles of the picture, each read while the caller works on the one before."""
        ahead: concurrent.futures.Future[decode.Samples] | None = None
        for rows, columns in windows:
            after = self._reader.submit(self._read, rows, columns)
            if ahead is not None:
                yield ahead.result()
            ahead = after
        if ahead is not None:
            yield ahead.result()

    def _read(self, rows: tuple[int, int], columns: tuple[int, int]) -> decode.Samples:
        key = slice(*rows) if columns == (0, self.width) else (slice(*rows), slice(*columns))
        values = values_of(self._source, key, self._argument)
        shape = rows[1] - rows[0], columns[1] - columns[0]
        if values.shape[:2] != shape:
            raise FileError(f"{self._argument}: {_shown(key)} have the shape {values.shape}")
        self._dark.note(values)
        with warned_once(before=True):  # parts of a picture say nothing of all of it
            converted = decode.to_samples(values, self._argument, self.bits)
        return np.ascontiguousarray(converted).reshape(*shape, self.channels)


def check_sizes(source: Any, argument: str, memory: int, most_side: int = MOST_SIDE) -> None:
    """Refuse an array elsewhere that is too large or in too many chunks, or of which memory holds no row or chunk."""
    shape, item = [int(side) for side in source.shape], np.dtype(source.dtype).itemsize
    if max(shape) > most_side:
        raise InvalidArgument(f"{argument} has the shape {tuple(shape)}; allowed: sides of up to {most_side}")
    chunks = getattr(source, "chunks", None)
    sides = [int(side) for side in chunks] if chunks and all(isinstance(side, int) for side in chunks) else []
    count = math.prod(-(-side // max(chunk, 1)) for side, chunk in zip(shape, sides, strict=False))
    if count > _MOST_CHUNKS:
        found = f"the shape {tuple(shape)} in {count} chunks of {tuple(sides)}"
        raise InvalidArgument(f"{argument} has {found}; allowed: {_MOST_CHUNKS} chunks")
    row = math.prod(shape[1:]) * item
    chunk = math.prod([*sides, *shape[len(sides) :]][1:]) * sides[0] * item if len(sides) > 1 else 0
    for what, nbytes in (("a row", row), ("a chunk", chunk)):
        if nbytes > memory:
            raise InvalidArgument(f"{argument}: {what} takes {nbytes} bytes; allowed by memory: {memory}")


def values_of(source: Any, key: Any, argument: str) -> npt.NDArray[Any]:
    """Read rows, a rectangle or all of an array or a store."""
    try:
        with whole_calls():
            return np.asarray(source[key])
    except ClquantError:  # of a reader of this library
        raise
    except Exception as error:  # storage fails in many ways
        raise FileError(f"{argument}: cannot read {_shown(key)}: {reason_of(error)}") from error


def _shown(key: Any) -> str:
    """The rows of a key in words."""
    rows = key[0] if isinstance(key, tuple) else key
    return f"rows {rows.start} to {rows.stop - 1}" if isinstance(rows, slice) else "it"


def opened(path: str) -> Any | None:
    """Open a zarr array or a tiled TIFF by its path, to be read lazily; None for every other path."""
    if is_store(path):
        return _zarr_array(path)
    found: Any = geo.opened(path)
    if found is None and os.path.splitext(path)[1].lower() in (".tif", ".tiff", ".btf", ".svs"):
        found = open_tiled(path) if os.path.isfile(path) else None
    if found is None or found.dtype not in (np.uint8, np.uint16) or found.shape[2:] not in ((), (1,), (3,), (4,)):
        return found
    conversion = profile_conversion(profile_of(path))
    return found if conversion is None or is_srgb(conversion) else ConvertedRows(found, conversion)


class ConvertedRows:
    """A lazy picture in sRGB."""

    def __init__(self, source: Any, conversion: ProfileConversion) -> None:
        self._source, self._conversion = source, conversion
        self.shape, self.ndim, self.chunks = source.shape, len(source.shape), getattr(source, "chunks", None)
        self.dtype = np.dtype(source.dtype if conversion.light is not None else np.uint8)

    def __getitem__(self, where: Any) -> npt.NDArray[Any]:
        values = np.asarray(self._source[where])
        if values.shape[2:] == (1,):
            return self._conversion.convert(values[..., 0])[..., None]
        return self._conversion.convert(values)


def _zarr_array(path: str) -> Any:
    zarr = zarr_module(f"read {path!r}")
    try:
        return ome.picture_of(open_store(path, zarr), path, zarr)
    except Exception as error:
        raise FileError(f"cannot read {path!r}: {reason_of(error)}") from error
