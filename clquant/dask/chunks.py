"""Chunks of a Dask array as parts of one picture: what around a part decides it, and where parts may begin."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.utils import ensure_dict

from clquant import flow
from clquant.dask.verify import verified_share
from clquant.dask.work import at_place, held, named, workers
from clquant.images.foreign import channels_last
from clquant.images.rows import refuse_rows
from clquant.params import refuse_masked
from clquant.runtime import ClquantError, FileError, InvalidArgument

try:
    from dask._task_spec import Alias, Task, TaskRef, convert_legacy_graph
except ImportError:  # in older versions errors of tasks are as they were raised
    Task = None

Span = tuple[int, int]


def checked(image: Any, name: str = "image", takes_rows: bool = False) -> Any:
    """Return a picture (Dask or xarray) as a Dask array with its channels in one chunk and no chunk empty."""
    if not takes_rows:
        refuse_rows(image, name)
    if hasattr(image, "dims") and hasattr(image, "data"):
        image = channels_last(image.data, image)
    if image.ndim not in (2, 3) or any(np.isnan(side) or side == 0 for side in image.shape):
        raise InvalidArgument(f"{name} is a Dask array of shape {image.shape}; allowed: known (H, W) or (H, W, C)")
    return filled(image)


def filled(image: Any) -> Any:
    """Return a picture with its channels in one chunk and no chunk empty."""
    chunks = [tuple(size for size in sizes if size) for sizes in image.chunks]
    chunks[2:] = [(channels,) for channels in image.shape[2:]]
    return image if tuple(chunks) == image.chunks else image.rechunk(tuple(chunks))


def begins_of(sizes: Sequence[int]) -> list[int]:
    """Return where chunks of some sizes begin, and where the last one ends."""
    return [0, *itertools.accumulate(sizes)]


def origins_of(image: Any) -> list[Span]:
    """Return row and column of each chunk of a picture, or of rows, in the order of its blocks."""
    rows, columns = (begins_of(sizes)[:-1] for sizes in image.chunks[:2])
    return list(itertools.product(rows, columns))


def spans(sizes: Sequence[int], job: flow.Job) -> Iterator[tuple[Span, Span]]:
    """Yield each chunk's begin and end along one axis, and those of the pixels that it depends on."""
    ends = begins_of(sizes)
    for begin, end in itertools.pairwise(ends):
        yield (begin, end), job.around(begin, end, ends[-1])


def on_grid(sizes: Sequence[int], grid: int) -> tuple[int, ...]:
    """Return lengths of about as many chunks, each but the last a multiple of `grid`."""
    total = sum(sizes)
    step = max(round(total / len(sizes) / grid), 1) * grid
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
        self._begins = [begins_of(sizes) for sizes in image.chunks[:2]]

    def part(self, rows: Span, columns: Span) -> list[list[Any]]:
        """Return the keys or tasks of the pieces of a part, given by half-open rows and columns."""
        down, across = (self._overlapping(axis, span) for axis, span in enumerate((rows, columns)))
        return [[self._piece(i, j, y, x) for j, x in across] for i, y in down]

    def array(self, chunks: Any, dtype: npt.DTypeLike) -> Any:
        """Return the Dask array whose chunk (i, j) is the task of key (name, i, j); a third axis has one chunk."""
        if len(chunks) == 3:
            self.tasks = {(*key, 0) if key[0] == self.name else key: task for key, task in self.tasks.items()}
        graph = HighLevelGraph.from_collections(self.name, self.tasks, [self._image])
        return da.Array(graph, self.name, chunks, dtype, meta=np.empty((0,) * len(chunks), dtype))

    def _overlapping(self, axis: int, span: Span) -> list[tuple[int, slice]]:
        """Indices of the chunks that a span overlaps, each with the slice in it; slice(None) for a whole chunk."""
        begins, (first, last) = self._begins[axis], span
        found: list[tuple[int, slice]] = []
        for i in range(bisect.bisect_right(begins, first) - 1, bisect.bisect_left(begins, last)):
            begin, end = begins[i : i + 2]
            low, high = max(first, begin) - begin, min(last, end) - begin
            if low < high:
                found.append((i, slice(None) if high - low == end - begin else slice(low, high)))
        return found

    def _piece(self, i: int, j: int, rows: slice, columns: slice) -> Any:
        chunk = (self._image.name, i, j, *(0,) * (self._image.ndim - 2))
        if rows == columns == slice(None):
            return chunk
        if self._is_cut_late:
            return _cut, chunk, rows, columns, False
        key = (f"{self.name}-piece", i, j, rows.start, rows.stop, columns.start, columns.stop)
        self.tasks[key] = (_cut, chunk, rows, columns, True)
        return key


def parts_of(image: Any, places: Sequence[tuple[Span, Span]]) -> list[Any]:
    """Return the given half-open (rows, columns) of an image as delayed arrays."""
    layer = Layer(image, places)
    for n, (rows, columns) in enumerate(places):
        layer.tasks[layer.name, n] = (joined, layer.part(rows, columns))
    made = layer.array(((np.nan,) * len(places),), image.dtype)  # as if each part had one axis
    return list(made.to_delayed())


def map_chunks(array: Any, work: Callable[..., Any], chunks: tuple[tuple[int, ...], ...], dtype: npt.DTypeLike) -> Any:
    """Build the lazy array of `work` of each chunk of a table and the shape of its result."""
    new, dropped = list(range(array.ndim, len(chunks))), list(range(len(chunks), array.ndim))
    given = {"dtype": dtype, "chunks": chunks, "meta": np.empty((0,) * len(chunks), dtype)}
    return array.map_blocks(_of_chunk, named(work), **given, new_axis=new or None, drop_axis=dropped or None)


def _of_chunk(chunk: npt.NDArray[Any], work: Callable[..., Any], block_info: Any = None) -> Any:
    row, column = (place[0] for place in block_info[0]["array-location"])
    shape, name = block_info[None]["chunk-shape"], f"chunk at row {row}, column {column}"
    refuse_masked(name, chunk)
    return at_place(name, work, np.asarray(chunk), shape)


def records(parts: Sequence[Any], dtype: npt.DTypeLike) -> Any:
    """Build the lazy array of delayed records, a chunk each, of unknown length."""
    # `dask.array.concatenate` would give the records another layout.
    name = f"records-{parts[0].key}"
    graph = HighLevelGraph.from_collections(name, {(name, i): one.key for i, one in enumerate(parts)}, parts)
    return da.Array(graph, name, ((np.nan,) * len(parts),), dtype, meta=np.empty((0,), dtype))


def _cut(chunk: npt.NDArray[Any], rows: slice, columns: slice, copied: bool) -> npt.NDArray[Any]:
    """Cut a part out of a chunk; a copy lets the chunk be freed, and sends the part alone."""
    part: npt.NDArray[Any] = np.asarray(chunk)[rows, columns]
    return part.copy() if copied else part


def joined(pieces: list[list[Any]]) -> npt.NDArray[Any]:
    """Join the pieces of `Layer.part` to one array (H, W, C)."""
    rows: Any = [[[np.atleast_3d(piece)] for piece in row] for row in pieces]
    return np.asarray(rows[0][0][0] if len(rows) == len(rows[0]) == 1 else np.block(rows))


def placed(image: Any, name: str = "image") -> Any:
    """Make errors of the chunks' tasks name the chunk's place; the array is the same."""
    # Dask fuses tasks before it that nothing else needs: their errors name the place, too.
    if Task is None or held(image):
        return image
    graph = convert_legacy_graph(ensure_dict(image.__dask_optimize__(image.__dask_graph__(), image.__dask_keys__())))
    channels = (0,) * (image.ndim - 2)
    places = [(*place, *channels) for place in np.ndindex(image.numblocks[:2])]
    ends = [_end(graph, (image.name, *place)) for place in places]
    replaced = {*ends, *((image.name, *place) for place in places)}
    tasks = {key: node for key, node in graph.items() if key not in replaced}
    label, before = f"placed-{tokenize(image.name, name)}", frozenset(tasks)
    for place, end, (row, column) in zip(places, ends, origins_of(image), strict=True):
        node, key = graph[end], (label, *place)
        if not isinstance(node, Task) or not node.dependencies <= before:
            return image
        needed = sorted(node.dependencies, key=str)
        work = partial(_made, node, needed, f"{name} ({image.name})", f"chunk at row {row}, column {column}")
        tasks[key] = Task(key, work, *map(TaskRef, needed))
    return da.Array(HighLevelGraph.from_collections(label, tasks), label, image.chunks, meta=image._meta)


def _end(graph: dict[Any, Any], key: Any) -> Any:
    """Follow aliases from a key to the one that has the task."""
    while isinstance(graph[key], Alias):
        key = graph[key].target
    return key


def _made(node: Task, keys: Sequence[Any], name: str, place: str, *values: Any) -> Any:
    try:
        return at_place(place, node, dict(zip(keys, values, strict=True)))
    except (ClquantError, MemoryError):
        raise
    except Exception as error:
        raise FileError(f"{name}: cannot read the {place}: {error}") from error
