"""Chunks of a Dask array as parts of one picture: what around a part decides it, and where parts may begin."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from clquant import flow, images
from clquant.dask.sources import placed
from clquant.dask.verify import verified_share
from clquant.dask.work import held, named, told, workers
from clquant.images import Picture
from clquant.images.assembled import assembled, part_on_host
from clquant.images.foreign import channels_last
from clquant.runtime import Array, InvalidArgument, open_session

# The rows and columns of a chunk within the part that decides it.
Inner = tuple[slice, slice]
Work = Callable[[Picture, Inner], npt.NDArray[Any]]


def checked(image: Any) -> Any:
    """Return a picture (Dask or xarray) as a Dask array with its channels in one chunk and no chunk empty."""
    if hasattr(image, "dims") and hasattr(image, "data"):
        image = channels_last(image.data, image)
    if image.ndim not in (2, 3) or any(np.isnan(side) or side == 0 for side in image.shape):
        raise InvalidArgument(f"image is a Dask array of shape {image.shape}; allowed: known (H, W) or (H, W, C)")
    filled = [tuple(size for size in sizes if size) for sizes in image.chunks]
    filled[2:] = [(channels,) for channels in image.shape[2:]]
    return image if tuple(filled) == image.chunks else image.rechunk(tuple(filled))


def spans(chunks: tuple[int, ...], job: flow.Job) -> Iterator[tuple[int, int, int, int]]:
    """Yield each chunk's begin and end along one axis, and those of the pixels that it depends on."""
    ends = list(itertools.accumulate(chunks))
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        around = -(-job.halo // job.grid) * job.grid
        first, last = max(begin // job.grid * job.grid - around, 0), -(-end // job.grid) * job.grid + around
        yield begin, end, first, min(last, ends[-1])


def on_grid(chunks: tuple[int, ...], grid: int) -> tuple[int, ...]:
    """Return lengths of about as many chunks, each but the last a multiple of `grid`."""
    total = sum(chunks)
    step = max(round(total / len(chunks) / grid), 1) * grid
    return tuple(min(step, total - begin) for begin in range(0, total, step))


class Layer:
    """Tasks over parts of a picture, as one graph layer; `given` is what the tasks depend on besides the image."""

    # The layer is made by hand: each slice of Dask's takes the client milliseconds.

    def __init__(self, image: Any, *given: Any) -> None:
        self._image = placed(image)
        self.name = f"clquant-{tokenize(image.name, verified_share(), *given)}"
        self.tasks: dict[Any, Any] = {}
        # Then chunks are not moved, and stay in memory anyway.
        self._is_cut_late = workers() == 1 and bool(held(image))
        self._begins = [[0, *itertools.accumulate(sizes)] for sizes in image.chunks[:2]]

    def part(self, rows: tuple[int, int], columns: tuple[int, int]) -> list[list[Any]]:
        """Return the keys or tasks of the pieces of a part, given by half-open rows and columns."""
        down, across = (self._overlapping(axis, span) for axis, span in enumerate((rows, columns)))
        return [[self._piece(i, j, y, x) for j, x in across] for i, y in down]

    def array(self, chunks: Any, dtype: npt.DTypeLike) -> Any:
        """Return the Dask array whose chunk (i, j) is the task of key (name, i, j); a third axis has one chunk."""
        if len(chunks) == 3:
            self.tasks = {(*key, 0) if key[0] == self.name else key: task for key, task in self.tasks.items()}
        graph = HighLevelGraph.from_collections(self.name, self.tasks, [self._image])
        return da.Array(graph, self.name, chunks, dtype, meta=np.empty((0,) * len(chunks), dtype))

    def _overlapping(self, axis: int, span: tuple[int, int]) -> list[tuple[int, tuple[int, int] | None]]:
        """Numbers of chunks, and what is wanted of each; None: all."""
        begins, (first, last) = self._begins[axis], span
        start = bisect.bisect_right(begins, first) - 1
        found: list[tuple[int, tuple[int, int] | None]] = []
        for i in range(start, bisect.bisect_left(begins, last)):
            low, high = max(first, begins[i]), min(last, begins[i + 1])
            whole = (low, high) == (begins[i], begins[i + 1])
            if low < high:
                found.append((i, None if whole else (low - begins[i], high - begins[i])))
        return found

    def _piece(self, i: int, j: int, rows: tuple[int, int] | None, columns: tuple[int, int] | None) -> Any:
        chunk = (self._image.name, i, j, *(0,) * (self._image.ndim - 2))
        if rows is None and columns is None:
            return chunk
        cut = tuple(slice(None) if span is None else slice(*span) for span in (rows, columns))
        if self._is_cut_late:
            return _seen, chunk, *cut
        key = (f"{self.name}-piece", i, j, *(rows or ()), "x", *(columns or ()))
        self.tasks[key] = (_cut, chunk, *cut)
        return key


def parts_of(image: Any, places: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> list[Any]:
    """Return the given half-open (rows, columns) of an image as delayed arrays."""
    layer = Layer(image, places)
    for n, (rows, columns) in enumerate(places):
        layer.tasks[layer.name, n] = (joined, layer.part(rows, columns))
    made = layer.array(((np.nan,) * len(places),), image.dtype)  # as if each part had one axis
    return list(made.to_delayed())


def _cut(chunk: npt.NDArray[Any], rows: slice, columns: slice) -> npt.NDArray[Any]:
    """Copy a part of a chunk, so that the chunk can be freed, and no more is sent."""
    return np.array(np.asarray(chunk)[rows, columns])


def _seen(chunk: npt.NDArray[Any], rows: slice, columns: slice) -> npt.NDArray[Any]:
    """Slice a chunk without a copy, as it stays in memory."""
    return np.asarray(chunk)[rows, columns]


def joined(pieces: list[list[Any]]) -> npt.NDArray[Any]:
    """Join the pieces of `Layer.part` to one array."""
    if len(pieces) == len(pieces[0]) == 1:
        return np.asarray(pieces[0][0])
    first = np.asarray(pieces[0][0])
    height, width = sum(len(row[0]) for row in pieces), sum(piece.shape[1] for piece in pieces[0])
    whole: npt.NDArray[Any] = np.empty((height, width, *first.shape[2:]), first.dtype)
    top = 0
    for row in pieces:
        left = 0
        for piece in row:
            whole[top : top + piece.shape[0], left : left + piece.shape[1]] = piece
            left += piece.shape[1]
        top += len(row[0])
    return whole


def mapped(
    image: Any,
    work: Work,
    job: flow.Map,
    dtype: npt.DTypeLike,
    channels: int | None,
    chunks: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
) -> Any:
    """Build the lazy array of `work` over the chunks of an image, each read with the pixels it depends on."""
    # `work` takes a part of the image, a `Picture` that knows its origin, and the chunk's two slices in it, and returns
    # the chunk's results. `channels` None: results of two axes; `chunks`: those of the results.
    whole = checked(image)
    layer = Layer(whole, work, job, np.dtype(dtype).str)
    task = named(partial(_of_pieces, work))
    rows, columns = (list(spans(whole.chunks[axis], job)) for axis in (0, 1))
    for (i, (top, bottom, first, last)), (j, (left, right, begin, end)) in itertools.product(
        enumerate(rows), enumerate(columns)
    ):
        pieces = layer.part((first, last), (begin, end))
        layer.tasks[layer.name, i, j] = (_worked, task, pieces, [first, begin], [top, bottom, left, right])
    sizes = whole.chunks[:2] if chunks is None else chunks
    return layer.array(sizes if channels is None else (*sizes, (channels,)), dtype)


def _worked(
    work: Callable[..., npt.NDArray[Any]], pieces: list[list[Any]], origin: list[int], span: list[int]
) -> npt.NDArray[Any]:
    """Run `work` on a chunk on a worker; errors name the chunk's place."""
    (row, column), (top, bottom, left, right) = origin, span
    with told(f"chunk at row {top}, column {left}"):
        return work(pieces, (row, column), (slice(top - row, bottom - row), slice(left - column, right - column)))


def _of_pieces(work: Work, pieces: list[list[Any]], origin: tuple[int, int], inner: Inner) -> npt.NDArray[Any]:
    """`work` of the pieces put together: on the device, or on the host where that is as good."""
    read = [[images.read(np.asarray(piece), max_bits=16) for piece in row] for row in pieces]
    session = open_session(None)
    with session.scope() as scope:
        picture = read[0][0] if len(read) == len(read[0]) == 1 else assembled(session, scope, read)
        if picture is None:
            picture = images.read(joined(pieces), max_bits=16)
        return work(dataclasses.replace(picture, origin=origin), inner)


def cropped(result: Any, inner: Inner) -> npt.NDArray[Any]:
    """Cut a chunk's own pixels out of the result and return them on the host."""
    if isinstance(result, Array):
        return part_on_host(result, *inner)
    own = np.asarray(result)[inner]
    if own.flags.c_contiguous:
        return own
    kept: npt.NDArray[Any] = np.empty(own.shape, own.dtype)
    kept[...] = own
    return kept
