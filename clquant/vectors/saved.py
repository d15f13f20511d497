"""Files of trained quantizers: a .npz whose header is JSON and whose other arrays are whole numbers."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images import files
from clquant.params import reason_of, shown
from clquant.runtime import ClquantError, FileError, FormatError
from clquant.training.search import MAX_CODEBOOK
from clquant.vectors.files import array_of
from clquant.vectors.fixed_point import FixedPoint, checked_scale
from clquant.vectors.rows import MAX_COMPONENTS

VERSION = 1
_HEADER = "header.npy"
_DTYPES = ["u1", "i1", "u2", "i2", "f4", "f8"]
_DATE = (1980, 1, 1, 0, 0, 0)  # of entries, so that equal quantizers give equal files
Arrays = dict[str, npt.NDArray[Any]]
State = dict[str, Any]


def write(path: Any, header: State, arrays: Arrays) -> None:
    """Write a file, whole or not at all."""
    text = np.frombuffer(json.dumps({"format": VERSION, **header}, sort_keys=True).encode(), np.uint8)
    with files.atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in {_HEADER: text, **{f"{key}.npy": array for key, array in arrays.items()}}.items():
            with archive.open(zipfile.ZipInfo(name, _DATE), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)


def read(path: Any) -> tuple[State, Arrays]:
    """The header and the arrays of a file."""
    target = files.path_of(path)
    what = shown(os.fspath(target))
    try:
        size = target.stat().st_size
        with zipfile.ZipFile(target) as archive:
            entries = archive.infolist()
            if any(e.compress_type != zipfile.ZIP_STORED for e in entries) or sum(e.file_size for e in entries) > size:
                raise FormatError(f"{what} is no saved quantizer: it is compressed or larger than it is")
            arrays = {e.filename.removesuffix(".npy"): array_of(archive.read(e), what) for e in entries}
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != VERSION:
            raise FormatError(f"{what} has the format {shown(header['format'])}; allowed: {VERSION}")
    except ClquantError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {what}: {error.strerror or error}") from error
    except Exception as error:  # `zipfile` raises all kinds on damaged files
        raise FormatError(f"{what} is no saved quantizer: {reason_of(error)}") from error
    return header, arrays


def fixed_state(fixed: FixedPoint) -> State:
    """A fixed point as JSON."""
    return {**dataclasses.asdict(fixed), "dtype": fixed.dtype.str[1:]}


def dtype_of(state: State) -> np.dtype[Any]:
    """The dtype of rows that JSON names."""
    if state["dtype"] not in _DTYPES:
        raise ValueError(f"the dtype {shown(state['dtype'])}")
    return np.dtype(state["dtype"])


def fixed_of(state: State) -> FixedPoint:
    """A fixed point of JSON."""
    bits, offset, scale, flag = (state[name] for name in ("bits", "offset", "scale", "is_normalized"))
    origin = tuple(map(float, state.get("origin", ())))
    whole = isinstance(bits, int) and 8 <= bits <= 16 and offset in (0, 1 << bits - 1)
    if not (
        whole
        and isinstance(scale, float)
        and checked_scale(scale)
        and isinstance(flag, bool)
        and all(map(math.isfinite, origin))
    ):
        raise ValueError("a fixed point that there is not")
    return FixedPoint(dtype_of(state), bits, offset, scale, flag, origin)


def words_of(array: npt.NDArray[Any], fixed: FixedPoint) -> npt.NDArray[Any]:
    """Codewords as whole numbers, checked."""
    wanted = fixed.shape(1).dtype
    sizes = array.ndim == 2 and 1 <= array.shape[0] <= MAX_CODEBOOK and 1 <= array.shape[1] <= MAX_COMPONENTS
    if not sizes or array.dtype != wanted or int(array.max()) >> fixed.bits:
        raise ValueError(f"codewords {array.shape} of {array.dtype}")
    return array
