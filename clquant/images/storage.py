"""Pictures in stores, which are read in portions while a job goes on: zarr, h5py, `numpy.memmap`, tiled TIFF.

A lazy picture is anything with ``shape``, ``dtype`` and ``__getitem__`` that is no array in memory. It is read from top
to bottom by `clquant.flow.source`; results are the same bits as of the whole picture in memory.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import params
from clquant.executors import is_remote
from clquant.images import ome
from clquant.images.color_profiles import ProfileConversion, is_srgb, profile_conversion
from clquant.images.stores import is_store, open_store, whole_calls, zarr_module
from clquant.images.tiff import geo
from clquant.images.tiff.directories import profile_of
from clquant.images.tiff.tiled import open_tiled
from clquant.params import reason_of, refuse_masked, shown
from clquant.runtime import Array, ClquantError, FileError, InvalidArgument, bound

# Host memory of a job on a lazy picture, unless the caller names another bound.
DEFAULT_MEMORY = 512 << 20
_UNITS = {"": 1, "b": 1} | {f"{letter}ib": 1 << 10 * n for n, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}{end}": 10 ** (3 * n) for n, letter in enumerate("kmgt", 1) for end in ("", "b")}
# Attributes of arrays in memory, those of other libraries and on other devices included.
_IN_MEMORY = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
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


def is_in_store(source: Any) -> bool:
    """Whether a picture should be read in parts: it has rows, and is no array in memory or on workers."""
    if isinstance(source, np.memmap):
        return True
    # PIL images are decoded, and copied, for their `__array_interface__`.
    if isinstance(source, np.ndarray | Array | PIL.Image.Image) or any(hasattr(source, name) for name in _IN_MEMORY):
        return False
    if isinstance(getattr(source, "dims", None), tuple):  # xarray's; those of h5py are another thing
        return False
    return all(hasattr(source, name) for name in ("shape", "dtype", "__getitem__", "ndim")) and not is_remote(source)


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
            values = source[key]
            refuse_masked(argument, values)
            return np.asarray(values)
    except ClquantError:  # of a reader of this library
        raise
    except Exception as error:  # storage fails in many ways
        raise FileError(f"{argument}: cannot read {name_of(key)}: {reason_of(error)}") from error


def name_of(key: Any) -> str:
    """The rows of a key in words."""
    rows = key[0] if isinstance(key, tuple) else key
    return f"rows {rows.start} to {rows.stop - 1}" if isinstance(rows, slice) else "it"


def open_path(path: str) -> Any | None:
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
