"""Pictures that are named here and read elsewhere: files, and what a call makes."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from typing import Any, overload

from clquant.images.folders import files_below, natural_key
from clquant.params import shown
from clquant.runtime import FileError, InvalidType


class Files(Sequence[str]):
    """Picture files that workers read, for the engines' `fit`, `fit_many` and `stream`.

    Parameters
    ----------
    pictures : path-like, or sequence of these
        A pattern such as ``"photos/**/*.png"``, a folder, which stands for the pictures in it and below, or paths.
        They must name the same files on every worker.

    Raises
    ------
    FileError
        If there are none.
    InvalidType
        If it is none of these.
    """

    spread_by_dask = True

    def __init__(self, pictures: Any) -> None:
        if isinstance(pictures, str | os.PathLike):
            name = os.fsdecode(pictures)
            if os.path.isdir(name):
                pictures = files_below(name)
            else:
                pictures = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True), key=natural_key)
            if not pictures:
                raise FileError(f"there is no file {shown(name)}")
        if isinstance(pictures, bytes) or not hasattr(pictures, "__iter__"):
            raise InvalidType(f"pictures is {shown(pictures)}; allowed: a pattern, a folder, or a sequence of paths")
        given = list(pictures)
        for path in given:
            if not isinstance(path, str | os.PathLike):
                raise InvalidType(f"pictures holds {shown(path)}; allowed: paths")
        if not given:
            raise FileError("pictures is empty; allowed: at least one path")
        self._paths = [os.path.abspath(os.fsdecode(path)) for path in given]

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Files: ...
    def __getitem__(self, index: int | slice) -> str | Files:
        return Files(self._paths[index]) if isinstance(index, slice) else self._paths[index]

    def __repr__(self) -> str:
        return f"Files({len(self)} from {self._paths[0]!r} on)"


class Later:
    """A picture, or several, that a worker makes by calling `read` with the arguments."""

    spread_by_dask = True

    def __init__(self, read: Callable[..., Any], *args: Any) -> None:
        self._read, self._args = read, args

    def __call__(self) -> Any:
        return self._read(*self._args)


def expanded(images: Sequence[Any]) -> list[Any]:
    """Return images with each `Files` replaced by its paths."""
    return [one for image in images for one in (image if isinstance(image, Files) else [image])]
