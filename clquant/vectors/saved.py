"""Files of trained quantizers: a .npz whose header is JSON and whose other arrays are whole numbers."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import zipfile
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant.estimator import Estimator
from clquant.images import files
from clquant.params import shown
from clquant.runtime import CommandQueue, FileError, FormatError
from clquant.training.search import MAX_CODEBOOK
from clquant.vectors.files import array_of
from clquant.vectors.fixed_point import FixedPoint
from clquant.vectors.rows import MAX_COMPONENTS

VERSION = 1
_HEADER = "header.npy"
_DTYPES = ["u1", "i1", "u2", "i2", "f4", "f8"]
_DATE = (1980, 1, 1, 0, 0, 0)  # of entries, so that equal quantizers give equal files
Arrays = dict[str, npt.NDArray[Any]]
State = dict[str, Any]
S = TypeVar("S", bound="Saved")


class Saved(Estimator):
    """A quantizer that files keep."""

    def save(self, path: Any) -> None:
        """Write what was learned, and the parameters, to a file (.npz), whole or not at all.

        Parameters
        ----------
        path : path_like
            An existing file is replaced.

        Raises
        ------
        NotFittedError
            Before `fit`.
        FileError
            If it cannot be written.
        """
        self._check_fitted("n_features_in_")
        state, arrays = self._state()
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in self.get_params().items() if k != "queue"}
        given = {k: v for k, v in plain.items() if isinstance(v, str | int | float | None)}  # no arrays of `init`
        header = {"format": VERSION, "kind": type(self).__name__, "parameters": given, **state}
        text = np.frombuffer(json.dumps(header, sort_keys=True).encode(), np.uint8)
        with files.atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in {_HEADER: text, **{f"{key}.npy": array for key, array in arrays.items()}}.items():
                with archive.open(zipfile.ZipInfo(name, _DATE), "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)

    @classmethod
    def load(cls: type[S], path: Any, *, queue: CommandQueue | None = None) -> S:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path_like
        queue : pyopencl.CommandQueue, optional
            Default: the best device.

        Returns
        -------
        The quantizer.

        Raises
        ------
        FileError, FormatError
            If it cannot be read, or is no such file.
        """
        header, arrays = read(path)
        what = shown(os.fspath(path))
        if header.get("kind") != cls.__name__:
            raise FormatError(f"{what} holds a {shown(header.get('kind'))}; allowed: a {cls.__name__}")
        try:
            made = cls(**header["parameters"])
            made.set_params(queue=queue)
            made._restore(header, arrays)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FormatError(f"{what} is no saved {cls.__name__}: {error}") from error
        return made

    def _state(self) -> tuple[State, Arrays]:
        """What was learned, as JSON and arrays."""
        raise NotImplementedError

    def _restore(self, state: State, arrays: Arrays) -> None:
        """Take what `_state` gave; `ValueError` if it is not that."""
        raise NotImplementedError


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
    except OSError as error:
        raise FileError(f"cannot read {what}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"{what} is no saved quantizer: {error}") from error
    return header, arrays


def fixed_state(fixed: FixedPoint) -> State:
    """A fixed point as JSON."""
    return {**dataclasses.asdict(fixed), "dtype": fixed.dtype.str[1:]}


def fixed_of(state: State) -> FixedPoint:
    """A fixed point of JSON."""
    if state["dtype"] not in _DTYPES:
        raise ValueError(f"the dtype {shown(state['dtype'])}")
    bits, offset, scale, flag = (state[name] for name in ("bits", "offset", "scale", "is_normalized"))
    whole = isinstance(bits, int) and 8 <= bits <= 16 and offset in (0, 1 << bits - 1)
    if not (whole and isinstance(scale, float) and math.frexp(scale)[0] == 0.5 and isinstance(flag, bool)):
        raise ValueError("a fixed point that there is not")
    return FixedPoint(np.dtype(state["dtype"]), bits, offset, scale, flag)


def words_of(array: npt.NDArray[Any], fixed: FixedPoint) -> npt.NDArray[Any]:
    """Codewords as whole numbers, checked."""
    wanted = fixed.shape(1).dtype
    sizes = array.ndim == 2 and 1 <= array.shape[0] <= MAX_CODEBOOK and 1 <= array.shape[1] <= MAX_COMPONENTS
    if not sizes or array.dtype != wanted or int(array.max()) >> fixed.bits:
        raise ValueError(f"codewords {array.shape} of {array.dtype}")
    return array
