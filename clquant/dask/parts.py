"""Pictures in storage as Dask arrays that workers read, and lazy results into files and arrays, rows in order."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import compute, delayed

from clquant.dask.work import client, release, workers
from clquant.flow.file_sinks import About
from clquant.flow.result_files import writing
from clquant.flow.sink import ArraySink, Sink
from clquant.images import lazy
from clquant.params import shown
from clquant.runtime import ClquantError, FileError, Progress

# Pixels of a chunk's side, about.
SIDE = 4096
# Of layers' names: arrays of such a layer are computed in one go, as each chunk is made from the one above.
SERIAL = "serial"


def opened(path: str | os.PathLike[str]) -> Any:
    """A picture in storage as a Dask array of chunks that workers read.

    Parameters
    ----------
    path : path-like
        A zarr, or a TIFF in tiles (see `clquant.images.lazy`), which every worker finds there.

    Returns
    -------
    dask.array.Array
        (H, W) or (H, W, C); chunks of about 16 Mpx that are whole chunks of the storage.

    Raises
    ------
    FileError
        If it is neither, or cannot be read.
    """
    name = os.path.abspath(os.fsdecode(path))
    source = lazy.opened(name)
    if source is None:
        raise FileError(f"{shown(name)} is no picture that is read in parts; allowed: a zarr or a TIFF in tiles")
    stored = getattr(source, "chunks", None) or (1, 1)
    sides = [
        _lengths(length, max(SIDE // int(chunk), 1) * int(chunk))
        for length, chunk in zip(source.shape[:2], stored, strict=False)
    ]
    chunks = (*sides, *((channels,) for channels in source.shape[2:]))
    meta = np.empty((0,) * len(chunks), source.dtype)
    return da.map_blocks(_read, name, chunks=chunks, dtype=source.dtype, meta=meta)


def here(array: Any, report: Progress) -> npt.NDArray[Any]:
    """A lazy result as an array of this process."""
    made: npt.NDArray[Any] = np.empty(array.shape, array.dtype)
    store(array, ArraySink(made), report)
    return made


def store(array: Any, sink: Sink, report: Progress) -> Any:
    """Compute a lazy array, write it row of chunks by row of chunks, and return what the caller gave as `out`."""
    sink.checked(tuple(array.shape), array.dtype)
    if client() is None and _is_serial(array):
        return _stored_at_once(array, sink, report)
    there, height = client(), array.shape[0]
    across = max(array.numblocks[1], 1)
    ahead = 1 + -(-2 * workers() // across)
    ends = itertools.accumulate(array.chunks[0])
    todo = [(i, end) for i, end in enumerate(ends) if not sink.has(end)]
    waiting: list[list[Any]] = []
    try:
        for number, (i, end) in enumerate(todo):
            for later, _ in todo[number + len(waiting) : number + ahead]:
                blocks = list(array.blocks[later].to_delayed().ravel())
                waiting.append(blocks if there is None else there.compute(blocks))
            row = waiting.pop(0)
            with _told_rows(end - array.chunks[0][i], end):
                found = compute(*row) if there is None else there.gather(row)
            release([] if there is None else row)
            sink.write(end - array.chunks[0][i], end, np.concatenate(found, axis=1))
            report.report(end, height)
    finally:
        if there is not None:
            release(itertools.chain(*waiting))
    return sink.target


def written(array: Any, out: Any, about: About, report: Progress) -> Any:
    """Return a lazy result without `out`; else write it, report the rows, and return `out`."""
    with writing(out, about) as sink:
        return array if sink is None else store(array, sink, report)


def _is_serial(array: Any) -> bool:
    """Whether chunks of a Dask array are computed from those above."""
    return any(isinstance(key, tuple) and str(key[0]).endswith(f"-{SERIAL}") for key in array.__dask_graph__())


@contextlib.contextmanager
def _told_rows(first: int, end: int) -> Iterator[None]:
    """Name the rows of a chunk that failed, unless clquant or the cluster raised the error."""
    try:
        yield
    except (ClquantError, MemoryError):
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "distributed":
            raise
        raise FileError(f"image: cannot read a chunk of rows {first} to {end - 1}: {error}") from error


def _stored_at_once(array: Any, sink: Sink, report: Progress) -> Any:
    """Store by one threaded computation, so that no chunk is computed twice; each write waits for the one before."""
    ends = list(itertools.accumulate(array.chunks[0]))

    def write(_: Any, end: int, i: int, *row: npt.NDArray[Any]) -> None:
        if not sink.has(end):
            sink.write(end - array.chunks[0][i], end, np.concatenate(row, axis=1))
        report.report(end, array.shape[0])

    written: Any = None
    for i, end in enumerate(ends):
        written = delayed(write, pure=False)(written, end, i, *array.blocks[i].to_delayed().ravel())
    with _told_rows(0, array.shape[0]):
        dask.compute(written, scheduler=dask.config.get("scheduler", None) or "threads")
    return sink.target


def _lengths(length: int, side: int) -> tuple[int, ...]:
    return tuple(min(side, length - first) for first in range(0, length, side))


def _read(path: str, block_info: Any = None) -> npt.NDArray[Any]:
    places = block_info[None]["array-location"]
    try:
        return np.asarray(_source(path)[tuple(slice(*place) for place in places)])
    except Exception as error:
        row, column = places[0][0], places[1][0]
        raise FileError(f"{shown(path)}: cannot read the chunk at row {row}, column {column}: {error}") from error


@functools.lru_cache(8)
def _source(path: str) -> Any:
    return lazy.opened(path)
