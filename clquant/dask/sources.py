"""Arrays whose own tasks say which chunk it was that they could not make."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph
from dask.utils import ensure_dict

from clquant.dask.work import held, told
from clquant.runtime import ClquantError, FileError

try:
    from dask._task_spec import Alias, Task, TaskRef, convert_legacy_graph
except ImportError:  # in older versions errors of tasks are as they were raised
    Task = None


def placed(image: Any) -> Any:
    """Return the same array; if the task of a chunk fails, the error names the chunk's place."""
    # So it does for the tasks before that nothing else needs, which Dask makes one with it.
    if Task is None or held(image):
        return image
    graph = convert_legacy_graph(ensure_dict(image.__dask_optimize__(image.__dask_graph__(), image.__dask_keys__())))
    begins = [[0, *itertools.accumulate(sizes)][:-1] for sizes in image.chunks[:2]]
    channels = (0,) * (image.ndim - 2)
    ends = {place: _end(graph, (image.name, *place, *channels)) for place in np.ndindex(*map(len, begins))}
    unplaced = {*ends.values(), *((image.name, *place, *channels) for place in ends)}
    tasks = {key: node for key, node in graph.items() if key not in unplaced}
    name, before = f"placed-{image.name}", frozenset(tasks)
    for (i, j), end in ends.items():
        node, key = graph[end], (name, i, j, *channels)
        if not isinstance(node, Task) or not node.dependencies <= before:
            return image
        needed, place = sorted(node.dependencies, key=str), f"chunk at row {begins[0][i]}, column {begins[1][j]}"
        work = partial(_made, node, needed, f"image ({image.name})", place)
        tasks[key] = Task(key, work, *map(TaskRef, needed))
    return da.Array(HighLevelGraph.from_collections(name, tasks), name, image.chunks, meta=image._meta)


def _end(graph: dict[Any, Any], key: Any) -> Any:
    """Follow aliases from a key to the one that has the task."""
    while isinstance(graph[key], Alias):
        key = graph[key].target
    return key


def _made(node: Task, keys: Sequence[Any], name: str, place: str, *values: Any) -> Any:
    try:
        with told(place):
            return node(dict(zip(keys, values, strict=True)))
    except (ClquantError, MemoryError):
        raise
    except Exception as error:
        raise FileError(f"{name}: cannot read the {place}: {error}") from error
