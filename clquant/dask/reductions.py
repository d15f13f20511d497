"""Reductions of collections: arrays by chunks, paths and lazy pictures, read and reduced by workers."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from dask import compute, delayed, is_dask_collection

from clquant import flow
from clquant import images as pictures
from clquant.dask.chunks import checked, origins_of, placed
from clquant.dask.files import share_files
from clquant.dask.sums import merged
from clquant.dask.work import client, cluster_errors, held, named, workers
from clquant.flow.threads import numbered
from clquant.images.collections import Later, expanded
from clquant.runtime import CommandQueue, InvalidArgument, Progress, open_session

# Bytes of chunks that a worker reduces together, so that few states are merged.
MOST_AT_ONCE = 1 << 28


@cluster_errors()
def reduce(
    job: flow.Reduce, images: Any, queue: CommandQueue | None, report: Progress, argument: str = "images"
) -> Any:
    """Run a reduction like `clquant.flow.reduce`; with a queue its value is made here, else where the states are."""
    listed = images if isinstance(images, list | tuple) else [images]
    given = expanded(listed)
    if not given:
        raise InvalidArgument(f"{argument} is empty; allowed: at least one image")
    names = [f"{argument}[{i}]" if listed is images else argument for i in range(len(given))]
    groups = list(_groups(given, names))
    if len(groups) == 1 and queue is None:
        report.report(0, 2)
        task = groups[0].reduced(job.value, partial(_state_of, job))
        found = compute(task)[0] if is_dask_collection(task) else task.result()
        report.report(2, 2)
        return found
    states = [group.reduced(job.gather, partial(_state_of, job)) for group in groups]
    if queue is not None:
        return job.conclude([merged(job.merge, job.merge, states, report)])
    return merged(named(job.conclude), job.merge, states, report)


def _state_of(job: flow.Reduce, image: Any) -> Any:
    return flow.state_of(open_session(None), [flow.open_picture(image, max_bits=16)], job, Progress(None))


@dataclass(frozen=True)
class _Group:
    """Images that one task reads: chunks of an array by their names, or others by their numbers among all."""

    images: list[Any]
    names: list[str] | None = None
    numbers: Sequence[int] = ()

    def reduced(self, work: Callable[..., Any], state_of: Callable[[Any], Any]) -> Any:
        """Return a task that reduces the images; it starts now if workers have all, in half of the time of a graph."""
        call, cluster = named(partial(_reduced, work, state_of, self.names)), client()
        call = call if self.names else partial(numbered, self.numbers, call)
        if cluster is not None and not any(map(is_dask_collection, self.images)):
            return cluster.submit(call, self.images, pure=False)
        return delayed(call, pure=False)(self.images)


def _reduced(
    work: Callable[..., Any], state_of: Callable[[Any], Any], names: list[str] | None, given: list[Any]
) -> Any:
    if names is not None:
        chunks = zip(given, names, strict=True)
        read = [pictures.read(np.atleast_3d(chunk), argument=name, max_bits=16) for chunk, name in chunks]
        return work(read, state_of)
    made = [image() if isinstance(image, Later) else image for image in given]
    return work([one for several in made for one in (several if isinstance(several, list) else [several])], state_of)


def _groups(given: Sequence[Any], names: Sequence[str]) -> Iterator[_Group]:
    """Group the inputs by task: paths together, an array's chunks by the worker that has, or will have, them."""
    for i, (image, name) in enumerate(zip(given, names, strict=True)):
        if is_dask_collection(image):
            yield from _groups_of_chunks(placed(checked(image, name), name), name)
        elif not isinstance(image, str | os.PathLike):
            yield _Group([image], numbers=[i])
    paths = [i for i, image in enumerate(given) if isinstance(image, str | os.PathLike)]
    for first, end in share_files(len(paths)):
        yield _Group([given[i] for i in paths[first:end]], numbers=paths[first:end])


def _groups_of_chunks(image: Any, name: str) -> Iterator[_Group]:
    futures = {future.key: future for future in held(image)}
    blocks = [futures.get(block.key, block) for block in image.to_delayed(optimize_graph=not futures).ravel()]
    names = [f"{name}, chunk at row {row}, column {column}" for row, column in origins_of(image)]
    most = max(MOST_AT_ONCE // max(math.prod(image.chunksize) * image.dtype.itemsize, 1), 1)
    if futures:  # what is held takes no more memory
        most = len(blocks)
    for numbers in _places(futures, blocks):
        for first in range(0, len(numbers), most):
            chosen = numbers[first : first + most]
            yield _Group([blocks[i] for i in chosen], [names[i] for i in chosen])


def _places(futures: dict[Any, Any], blocks: Sequence[Any]) -> list[list[int]]:
    """Numbers of chunks by the worker that has them; of chunks that nobody has, each alone if there are several."""
    cluster = client()
    if cluster is None or workers() == 1:
        return [list(range(len(blocks)))]
    known = cluster.who_has(list(futures.values())) if futures else {}
    found: dict[Any, list[int]] = defaultdict(list)
    for i, block in enumerate(blocks):
        found[next(iter(known.get(block.key, ())), i)].append(i)
    return list(found.values())
