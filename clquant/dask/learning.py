"""Learning from Dask arrays and from collections of files: a histogram per part, merged as a tree."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed

from clquant import images as pictures
from clquant.dask.chunks import checked
from clquant.dask.files import Later, expanded, numbered, portions
from clquant.dask.work import located, named, tree
from clquant.histogram.color_histogram import ColorHistogram
from clquant.runtime import InvalidArgument


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
    given = expanded(images if isinstance(images, list | tuple) else [images])
    if not given:
        raise InvalidArgument("images is empty; allowed: at least one image")
    parts: list[Any] = []
    work = delayed(numbered, pure=False)
    for i, image in enumerate(given):
        if hasattr(image, "__dask_graph__"):
            whole = checked(image)
            origins = itertools.product(*([0, *itertools.accumulate(sizes)][:-1] for sizes in whole.chunks[:2]))
            blocks = zip(whole.to_delayed().ravel(), origins, strict=True)
            parts += [delayed(named(_count_chunk), pure=True)(block, origin) for block, origin in blocks]
        elif not isinstance(image, str | os.PathLike):
            parts.append(work(i, named(_count), [image]))
    paths = [(i, image) for i, image in enumerate(given) if isinstance(image, str | os.PathLike)]
    for first, end in portions(len(paths)):
        parts += [work(group[0][0], named(_count), [path for _, path in group]) for group in _runs(paths[first:end])]
    with located(given):
        (found,) = compute(tree(_added, parts))
    made: ColorHistogram = found
    return made


def _runs(paths: Sequence[tuple[int, Any]]) -> Iterator[list[tuple[int, Any]]]:
    """Paths whose numbers follow each other."""
    for _, group in itertools.groupby(enumerate(paths), key=lambda pair: pair[1][0] - pair[0]):
        yield [path for _, path in group]


def _count_chunk(block: npt.NDArray[Any], origin: tuple[int, int]) -> ColorHistogram:
    argument = f"chunk at row {origin[0]}, column {origin[1]}"
    return ColorHistogram.of(pictures.read(np.asarray(block), argument=argument, max_bits=16))


def _count(image: list[Any]) -> ColorHistogram:
    given = [one() if isinstance(one, Later) else one for one in image]
    return ColorHistogram.of(
        [one for several in given for one in (several if isinstance(several, list) else [several])]
    )


def _added(parts: Sequence[ColorHistogram]) -> ColorHistogram:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
