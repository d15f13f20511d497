"""Files of rows: .npy, .fvecs, .bvecs and zarr, mapped or read in portions, and written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import math
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from clquant.images import files, stores
from clquant.images.storage import values_of
from clquant.params import reason_of, shown
from clquant.runtime import ClquantError, FileError, FormatError, InvalidArgument

COUNTED: dict[str, np.dtype[Any]] = {".fvecs": np.dtype("<f4"), ".bvecs": np.dtype("u1")}
SUFFIXES = (".npy", *COUNTED, ".zarr")
_CHUNK_BYTES = 1 << 22  # of a zarr that is written
Put = Callable[[npt.NDArray[Any]], object]


class CountedRows:
    """The rows of a .fvecs or .bvecs file, each after its length as a 32-bit number, which is checked when read."""

    def __init__(self, path: pathlib.Path, dtype: np.dtype[Any]) -> None:
        size = path.stat().st_size
        head = np.fromfile(path, "<i4", 1)
        components = int(head[0]) if len(head) else 0
        if components < 1 or size % (4 + components * dtype.itemsize):
            raise ValueError("its rows are not of one length")
        self._table = np.memmap(path, np.dtype([("count", "<i4"), ("row", dtype, (components,))]), mode="r")
        self._path = path
        self.shape, self.dtype = (len(self._table), components), dtype

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Some rows."""
        found = self._table[rows]
        if not bool((found["count"] == self.shape[1]).all()):
            raise FormatError(f"{shown(os.fspath(self._path))} is no file of rows: its rows are not of one length")
        read: npt.NDArray[Any] = found["row"]
        return read


class StoredRows:
    """An array of a zarr, of any shape; what cannot be read is an error that names the file."""

    def __init__(self, path: pathlib.Path, array: Any) -> None:
        self._name, self._array = shown(os.fspath(path)), array
        self.shape, self.ndim, self.dtype, self.chunks = array.shape, array.ndim, array.dtype, array.chunks

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        """Some rows."""
        return values_of(self._array, rows, self._name)


def opened(path: pathlib.Path) -> Any:
    """The rows of a file, which are read when they are asked for; an array of any shape in a .npy or zarr."""
    if stores.is_store(path):
        return StoredRows(path, _zarr(path))
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidArgument(f"X is the path {shown(os.fspath(path))}; allowed: {', '.join(SUFFIXES)}")
    try:
        if suffix in COUNTED:
            return CountedRows(path, COUNTED[suffix])
        if suffix == ".zarr" or path.is_dir():
            raise FileError(f"cannot read {shown(os.fspath(path))}: it is no {suffix}")
        return np.lib.format.open_memmap(path, mode="r")
    except ClquantError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {shown(os.fspath(path))}: {error.strerror or error}") from error
    except Exception as error:  # a damaged header, which NumPy parses as Python
        raise FormatError(f"{shown(os.fspath(path))} is no file of rows: {reason_of(error)}") from error


def array_of(data: bytes, what: str) -> npt.NDArray[Any]:
    """The array in the bytes of a .npy file, which is not larger than they are."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
            claim = f"{shape} numbers of {shown(str(dtype))}"
            raise FormatError(f"{what} is no .npy file: its bytes are not the {claim} that it claims")
        stream.seek(0)
        found: npt.NDArray[Any] = np.load(stream, allow_pickle=False)
    except FormatError:
        raise
    except Exception as error:  # as above
        raise FormatError(f"{what} is no .npy file: {reason_of(error)}") from error
    return found


def _zarr(path: pathlib.Path) -> Any:
    name = shown(os.fspath(path))
    zarr = stores.zarr_module(f"read {name}")
    try:
        found = stores.open_store(os.fspath(path), zarr)
    except Exception as error:  # storage fails in many ways
        raise FileError(f"cannot read {name}: {reason_of(error)}") from error
    if not hasattr(found, "dtype"):
        raise FormatError(f"{name} is a zarr group; allowed: the path of an array")
    return found


@contextlib.contextmanager
def written(path: str | os.PathLike[str], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Put]:
    """A function that appends rows to a file of rows, which appears when the block ends without an error."""
    target = files.path_of(path)
    suffix = target.suffix.lower()
    check_target(target, shape, dtype)
    if suffix == ".zarr":
        with _written_zarr(target, shape, dtype) as put:
            yield put
        return
    with files.atomic_write(target) as file:
        if suffix == ".npy":
            write_header(file, shape, dtype)
            yield lambda rows: file.write(np.ascontiguousarray(rows, dtype).tobytes())
        else:
            counted = np.dtype([("count", "<i4"), ("row", COUNTED[suffix], shape[1:])])

            def put_counted(rows: npt.NDArray[Any]) -> None:
                table = np.empty(len(rows), counted)
                table["count"], table["row"] = shape[1], rows
                file.write(table.tobytes())

            yield put_counted


def check_target(target: pathlib.Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse a file that cannot hold such rows."""
    suffix, name = target.suffix.lower(), shown(os.fspath(target))
    if suffix not in SUFFIXES:
        raise InvalidArgument(f"the output {name} has the suffix {suffix!r}; allowed: {', '.join(SUFFIXES)}")
    if suffix == ".zarr" and os.path.lexists(target):
        raise FileError(f"cannot write {name}: it exists, and a zarr is not replaced")
    if suffix in COUNTED and (len(shape) != 2 or dtype != COUNTED[suffix]):
        held = "float32" if suffix == ".fvecs" else "uint8"
        raise InvalidArgument(f"the output {name} holds rows of {held}, not {shape} of {dtype}; allowed: .npy or .zarr")


def write_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Begin a .npy file of an array in C order."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


@contextlib.contextmanager
def _written_zarr(target: pathlib.Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Put]:
    zarr = stores.zarr_module(f"write {shown(os.fspath(target))}")
    part = target.parent / f".{target.name[:40]}.{os.urandom(8).hex()}.part"
    row_bytes = max(math.prod(shape[1:]) * dtype.itemsize, 1)
    rows_per_chunk = max(1, min(max(shape[0], 1), _CHUNK_BYTES // row_bytes))
    done = 0
    try:
        array = zarr.open(str(part), mode="w", shape=shape, chunks=(rows_per_chunk, *shape[1:]), dtype=dtype)

        def put(rows: npt.NDArray[Any]) -> None:
            nonlocal done
            with stores.whole_calls():
                array[done : done + len(rows)] = rows
            done += len(rows)

        yield put
        os.rename(part, target)
    except OSError as error:
        raise FileError(f"cannot write {shown(os.fspath(target))}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
