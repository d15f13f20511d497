"""Learning from Dask arrays and from collections of files: histograms of parts, merged as a tree, on the workers.

What is learned from the histogram is learned where that is, so that no counts go to the client.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import delayed

from clquant import images as pictures
from clquant.dask.chunks import checked
from clquant.dask.files import Later, expanded, numbered, portions
from clquant.dask.work import client, held, located, named, tree, value_of, workers
from clquant.histogram.color_histogram import ColorHistogram
from clquant.histogram.color_histogram import together as histograms_together
from clquant.images.collections import is_lazy
from clquant.runtime import InvalidArgument, Progress

# Counts a list of images.
Count = Callable[[list[Any]], Any]
# From what counts to a delayed task.
Part = Callable[[Count], Any]
# Bytes of chunks that a worker counts together, so that few counts are merged.
MOST_AT_ONCE = 1 << 28


def histogram(images: Any) -> ColorHistogram:
    """The colour histogram of a Dask array, or of several pictures that workers read.

    Parameters
    ----------
    images : dask.array.Array, Files, or list or tuple of these, of paths or of lazy pictures
        Paths must name the same files on every worker.

    Returns
    -------
    ColorHistogram
        The same bits as of one process, whatever the workers, the chunks and their order.

    Raises
    ------
    InvalidArgument
        If there are none, or an array is no picture.
    FileError
        If a worker cannot read one.
    """
    given = _given(images)
    with located(given):
        parts = [part(ColorHistogram.of) for part in _parts(given)]
        found: ColorHistogram = value_of(tree(histograms_together, parts), parts, Progress(None))
    return found


def learned(engine: Any, images: Any, report: Progress, by_pixels: bool) -> dict[str, Any]:
    """What an engine's `fit_histogram` learns from the histogram of some pictures.

    Parameters
    ----------
    engine : KMeansPalette or NeuQuantCL
        It is left as it is. One with a queue of its own learns here, all others where the histogram is.
    images : object
        As `histogram` takes them.
    report : Progress
        Told of parts that are counted, and of the learning as one more.
    by_pixels : bool
        Whether `fit` learns the same from the pixels; what one task counts then needs no histogram.

    Returns
    -------
    dict
        Attributes, by their names.
    """
    given = _given(images)
    with located(given):
        counted = _parts(given)
        if by_pixels and len(counted) == 1 and engine.queue is None:
            parts = [counted[0](functools.partial(_learned_from, engine))]
            last = parts[0]
        else:
            parts = [part(ColorHistogram.of) for part in counted]
            last = tree(histograms_together, parts)
            if engine.queue is not None:
                return _learned(engine, value_of(last, parts, report))
            last = delayed(named(_learned), pure=False)(engine, last)
        found: dict[str, Any] = value_of(last, parts, report)
    return found


def _given(images: Any) -> list[Any]:
    given = expanded(images if isinstance(images, list | tuple) else [images])
    if not given:
        raise InvalidArgument("images is empty; allowed: at least one image")
    return given


def _learned(engine: Any, histogram: ColorHistogram) -> dict[str, Any]:
    return _of_fitted(copy.copy(engine).fit_histogram(histogram))


def _learned_from(engine: Any, images: list[Any]) -> dict[str, Any]:
    return _of_fitted(copy.copy(engine).fit(images))


def _of_fitted(engine: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(engine).items() if name.endswith("_")}


def _parts(given: Sequence[Any]) -> list[Part]:
    """What makes delayed tasks, each of some images."""
    parts: list[Part] = []
    for i, image in enumerate(given):
        if is_lazy(image):
            parts += _parts_of_chunks(checked(image), f"images[{i}], ")
        elif not isinstance(image, str | os.PathLike):
            parts.append(functools.partial(_counted, i, [image]))
    paths = [(i, image) for i, image in enumerate(given) if isinstance(image, str | os.PathLike)]
    for first, end in portions(len(paths)):
        parts += [functools.partial(_counted, run[0][0], [path for _, path in run]) for run in _runs(paths[first:end])]
    return parts


def _counted(first: int, images: list[Any], count: Count) -> Any:
    """A task that counts images, the first of which has that number."""
    return delayed(numbered, pure=False)(first, named(functools.partial(_count, count)), images)


def _parts_of_chunks(image: Any, name: str) -> Iterator[Part]:
    """Those of an array's chunks: what one worker has, or will have, together."""
    origins = list(itertools.product(*([0, *itertools.accumulate(sizes)][:-1] for sizes in image.chunks[:2])))
    futures = held(image)
    blocks = list(image.to_delayed(optimize_graph=not futures).ravel())
    most = max(MOST_AT_ONCE // max(math.prod(image.chunksize) * image.dtype.itemsize, 1), 1)
    if futures:  # what is held takes no more memory
        most = len(blocks)
    for there in _places(futures, [block.key for block in blocks]):
        for first in range(0, len(there), most):
            chosen = there[first : first + most]
            yield functools.partial(_counted_chunks, name, [blocks[i] for i in chosen], [origins[i] for i in chosen])


def _counted_chunks(name: str, blocks: list[Any], origins: list[tuple[int, int]], count: Count) -> Any:
    """A task that counts chunks."""
    return delayed(named(functools.partial(_count_chunks, count, name)), pure=True)(blocks, origins)


def _places(futures: Sequence[Any], keys: Sequence[Any]) -> list[list[int]]:
    """Numbers of chunks by the worker that has them; of chunks that nobody has, each alone if there are several."""
    there = client()
    if there is None or workers() == 1:
        return [list(range(len(keys)))]
    known = there.who_has(futures) if futures else {}
    found: dict[Any, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        found[next(iter(known.get(key, ())), i)].append(i)
    return list(found.values())


def _runs(paths: Sequence[tuple[int, Any]]) -> Iterator[list[tuple[int, Any]]]:
    """Paths whose numbers follow each other."""
    for _, group in itertools.groupby(enumerate(paths), key=lambda pair: pair[1][0] - pair[0]):
        yield [path for _, path in group]


def _count_chunks(count: Count, name: str, blocks: list[npt.NDArray[Any]], origins: list[tuple[int, int]]) -> Any:
    return count(
        [
            pictures.read(np.asarray(block), argument=f"{name}chunk at row {row}, column {column}", max_bits=16)
            for block, (row, column) in zip(blocks, origins, strict=True)
        ]
    )


def _count(count: Count, images: list[Any]) -> Any:
    given = [one() if isinstance(one, Later) else one for one in images]
    return count([one for several in given for one in (several if isinstance(several, list) else [several])])
