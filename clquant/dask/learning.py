"""Learning from Dask arrays and from collections of files: a histogram per part, merged as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from dask import compute, delayed

from clquant.dask.chunks import checked
from clquant.histogram.color_histogram import ColorHistogram
from clquant.runtime import InvalidArgument

MERGED_AT_ONCE = 8


def histogram(images: Any) -> ColorHistogram:
    """The colour histogram of a Dask array, or of several pictures that workers read.

    Parameters
    ----------
    images : dask.array.Array, or list or tuple of these, of paths or of lazy pictures
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
    given = list(images) if isinstance(images, list | tuple) else [images]
    if not given:
        raise InvalidArgument("images is empty; allowed: at least one image")
    parts: list[Any] = []
    for image in given:
        if hasattr(image, "__dask_graph__"):
            parts += [delayed(_count, pure=True)(block) for block in checked(image).to_delayed().ravel()]
        else:
            parts.append(delayed(_count, pure=True)(image))
    while len(parts) > 1:
        parts = [
            delayed(_added, pure=True)(parts[i : i + MERGED_AT_ONCE]) for i in range(0, len(parts), MERGED_AT_ONCE)
        ]
    (found,) = compute(parts[0])
    made: ColorHistogram = found
    return made


def _count(image: npt.NDArray[Any]) -> ColorHistogram:
    return ColorHistogram.of(image)


def _added(parts: Sequence[ColorHistogram]) -> ColorHistogram:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
