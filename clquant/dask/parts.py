"""Pictures in storage as Dask arrays that workers read, and lazy results into files and arrays, rows in order."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Generator, Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import compute, delayed

from clquant.dask.chunks import begins_of
from clquant.dask.work import client, named, release, workers
from clquant.flow.file_sinks import About
from clquant.flow.result_files import writing
from clquant.flow.sink import Sink
from clquant.images import storage
from clquant.params import shown
from clquant.runtime import ClquantError, FileError, Progress

# Pixels of a chunk's side, about.
SIDE = 4096
# Marks layers' names: arrays of such a layer are computed in one go, as each chunk is made from the one above.
SERIAL = "serial"


def opened(path: str | os.PathLike[str]) -> Any:
    """A picture in storage as a Dask array of chunks that workers read.

    Parameters
    ----------
    path : path-like
        A zarr, or a TIFF in tiles (see `clquant.images.storage`), which every worker finds there.

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
    source = storage.open_path(name)
    if source is None:
        raise FileError(f"{shown(name)} is no picture that is read in parts; allowed: a zarr or a TIFF in tiles")
    stored = [*(getattr(source, "chunks", None) or ()), 1, 1]  # a GeoTIFF names rows alone
    sides = [max(SIDE // int(chunk), 1) * int(chunk) for chunk in stored[:2]]
    return read_later(functools.partial(_stored, name), source.shape, source.dtype, sides)


def read_later(read: Any, shape: tuple[int, ...], dtype: npt.DTypeLike, sides: list[int]) -> Any:
    """Build the Dask array of what `read` gives workers for slices, in chunks of some sides."""
    chunks = [tuple(min(side, n - at) for at in range(0, n, side)) for n, side in zip(shape, sides, strict=False)]
    chunks += [(channels,) for channels in shape[2:]]
    return da.map_blocks(
        _read, named(read), chunks=tuple(chunks), dtype=dtype, meta=np.empty((0,) * len(chunks), dtype)
    )


def _read(read: Any, block_info: Any = None) -> npt.NDArray[Any]:
    return np.asarray(read(tuple(slice(*ends) for ends in block_info[None]["array-location"])))


def _stored(path: str, place: tuple[slice, ...]) -> Any:
    try:
        return _source(path)[place]
    except Exception as error:
        where = f"row {place[0].start}, column {place[1].start}"
        raise FileError(f"{shown(path)}: cannot read the chunk at {where}: {error}") from error


@functools.lru_cache(8)
def _source(path: str) -> Any:
    return storage.open_path(path)


def here(array: Any, report: Progress) -> npt.NDArray[Any]:
    """A lazy result as an array of this process."""
    made: npt.NDArray[Any] = written(array, np.empty(array.shape, array.dtype), About(), report)
    return made


def written(array: Any, out: Any, about: About, report: Progress) -> Any:
    """Return a lazy result without `out`; else write it, report the rows, and return `out`."""
    with writing(out, about) as sink:
        return array if sink is None else store(array, sink, report)


def store(array: Any, sink: Sink, report: Progress) -> Any:
    """Compute a lazy array, write it row of chunks by row of chunks, and return what the caller gave as `out`."""
    sink.open(tuple(array.shape), array.dtype)
    rows = enumerate(itertools.pairwise(begins_of(array.chunks[0])))
    todo = [(i, top, end) for i, (top, end) in rows if not sink.has(end)]
    write = functools.partial(_write, sink, report, array.shape[0])
    keys = (key for key in array.__dask_graph__() if isinstance(key, tuple))
    if client() is None and any(str(key[0]).endswith(f"-{SERIAL}") for key in keys):
        # One computation, so that no chunk is computed twice; each write waits for the one before.
        done: Any = None
        for i, top, end in todo:
            done = delayed(write, pure=False)(top, end, _row_of(array, i), done)
        with _naming_rows(0, array.shape[0]):
            dask.compute(done, scheduler=dask.config.get("scheduler", None) or "threads")
        return sink.target
    with contextlib.closing(_computed(array, todo)) as found:
        for top, end, chunks in found:
            write(top, end, chunks)
    return sink.target


def _row_of(array: Any, i: int) -> list[Any]:
    return list(array.blocks[i].to_delayed().ravel())


def _write(sink: Sink, report: Progress, height: int, top: int, end: int, chunks: list[Any], *_: Any) -> None:
    sink.write(top, end, np.concatenate(chunks, axis=1))
    report.report(end, height)


def _computed(array: Any, todo: list[tuple[int, int, int]]) -> Generator[tuple[int, int, list[Any]], None, None]:
    """Yield the chunks of each row of chunks; workers of a cluster are some rows ahead."""
    cluster, waiting = client(), list[list[Any]]()
    ahead = 1 + -(-2 * workers() // max(array.numblocks[1], 1))
    try:
        for number, (_, top, end) in enumerate(todo):
            for i, *_ in todo[number + len(waiting) : number + ahead]:
                row = _row_of(array, i)
                waiting.append(row if cluster is None else cluster.compute(row))
            row = waiting.pop(0)
            with _naming_rows(top, end):
                found = list(compute(*row) if cluster is None else cluster.gather(row))
            release([] if cluster is None else row)
            yield top, end, found
    finally:
        if cluster is not None:
            release(itertools.chain(*waiting))


@contextlib.contextmanager
def _naming_rows(first: int, end: int) -> Iterator[None]:
    """Name the rows of a chunk that failed, unless clquant or the cluster raised the error."""
    try:
        yield
    except (ClquantError, MemoryError):
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "distributed":
            raise
        raise FileError(f"image: cannot read a chunk of rows {first} to {end - 1}: {error}") from error
