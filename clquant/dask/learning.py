"""Learning from Dask arrays and from collections of files: counts of parts, added up as a tree, on workers' devices.

What is learned from the counts is learned where they are, so that none go to the client.
"""

from __future__ import annotations

import contextlib
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
from clquant.dask.sums import of_sums
from clquant.dask.work import begun, client, held, located, named, value_of, workers
from clquant.histogram.color_histogram import ColorHistogram, counts_of, histogram_of
from clquant.histogram.color_histogram import together as histograms_together
from clquant.histogram.device_counts import DeviceCounts, added, can_add, counted
from clquant.images.batches import read_in_groups
from clquant.images.foreign import is_dask
from clquant.images.input_rules import read_parts
from clquant.runtime import DeviceMemoryError, InvalidArgument, Progress, open_session

# What tasks add up.
Counted = DeviceCounts | ColorHistogram
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
        parts = [part(_counts) for part in _parts(given)]
        found: ColorHistogram = of_sums(_histogram_of, _together, parts, Progress(None))
    return found


def learned(engine: Any, images: Any, report: Progress, by_pixels: bool) -> dict[str, Any]:
    """Return the attributes that an engine's `fit_histogram` learns from pictures; the engine is unchanged."""
    # An engine with a queue of its own learns here, all others where the histogram is. `by_pixels`: `fit` learns the
    # same from the pixels, so that what one task counts needs no histogram.
    given = _given(images)
    with located(given):
        made = _parts(given)
        if by_pixels and len(made) == 1 and engine.queue is None:
            fitted: dict[str, Any] = value_of(made[0](functools.partial(_learned_from, engine)), report)
            return fitted
        parts = [part(_counts) for part in made]
        if engine.queue is not None:
            return _learned(engine, by_pixels, [of_sums(_together, _together, parts, report)])
        learned_there: dict[str, Any] = of_sums(
            functools.partial(named(_learned), engine, by_pixels), _together, parts, report
        )
    return learned_there


def _given(images: Any) -> list[Any]:
    given = expanded(images if isinstance(images, list | tuple) else [images])
    if not given:
        raise InvalidArgument("images is empty; allowed: at least one image")
    return given


def _counts(images: list[Any]) -> Counted:
    """Count the colours of images, in the form that adds best to other counts."""
    if any(isinstance(image, str | os.PathLike) and os.path.isdir(image) for image in images):
        return ColorHistogram.of(images)
    found: list[Counted] = []

    def together(group: dict[int, pictures.Picture]) -> None:
        counts = counted(open_session(None), list(group.values()))
        found.append(counts if isinstance(counts, DeviceCounts) else histogram_of(counts))

    def alone(_: int, picture: pictures.Picture) -> None:
        found.append(ColorHistogram.of([picture]))

    read_in_groups(images, lambda picture: picture.lazy is None and picture.bits == 8, together, alone, _read)
    return found[0] if len(found) == 1 else _together(found)


def _read(image: Any, argument: str) -> pictures.Picture:
    return read_parts(image, argument=argument, max_bits=16)


def _on_device(parts: Sequence[Counted]) -> list[DeviceCounts] | None:
    """Counts that this worker's device adds up; None if it does not."""
    found = [DeviceCounts.of_host(counts_of(p, 16)) if isinstance(p, ColorHistogram) else p for p in parts]
    own = [part for part in found if part is not None]
    return own if len(own) == len(found) and can_add(open_session(None), own) else None


def _together(parts: Sequence[Counted]) -> Counted:
    """Add up some counts."""
    own, session = _on_device(parts), open_session(None)
    if own is not None:
        with contextlib.suppress(DeviceMemoryError), session.scope() as scope:
            return DeviceCounts.of(session, added(session, scope, own))
    return _histogram_of(parts)


def _histogram_of(parts: Sequence[Counted]) -> ColorHistogram:
    return histograms_together([histogram_of(p.on_host()) if isinstance(p, DeviceCounts) else p for p in parts])


def _learned(engine: Any, by_pixels: bool, parts: Sequence[Counted]) -> dict[str, Any]:
    """Return what an engine learns from counts; k-means reads them on the device."""
    own, fresh = _on_device(parts) if by_pixels else None, copy.copy(engine)
    if own is not None:
        with contextlib.suppress(DeviceMemoryError):
            return _of_fitted(fresh._fit_counts(functools.partial(added, parts=own)))
    return _of_fitted(fresh.fit_histogram(_histogram_of(parts)))


def _learned_from(engine: Any, images: list[Any]) -> dict[str, Any]:
    return _of_fitted(copy.copy(engine).fit(images))


def _of_fitted(engine: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(engine).items() if name.endswith("_")}


def _parts(given: Sequence[Any]) -> list[Part]:
    """Return callables that each make the delayed task of some images."""
    parts: list[Part] = []
    for i, image in enumerate(given):
        if is_dask(image):
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
            own = [blocks[i] for i in chosen], [origins[i] for i in chosen]
            yield functools.partial(_counted_chunks, name, *own, {future.key: future for future in futures})


def _counted_chunks(
    name: str, blocks: list[Any], origins: list[tuple[int, int]], there: dict[Any, Any], count: Count
) -> Any:
    """Return a task that counts chunks; it starts now if workers have all, in half of the time of a graph."""
    found = [there[block.key] for block in blocks if block.key in there]
    if len(found) == len(blocks):
        return begun(named(functools.partial(_count_chunks, count, name)), found, origins)
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
