"""Jobs of `clquant.flow` on Dask arrays: maps as overlapping parts, scans as chains, reductions as trees.

No two bands of a scan run at once, so that a cluster is no faster than one device; what is read before and written
after is.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import delayed

from clquant import flow, images
from clquant.dask.chunks import Inner, Layer, checked, cropped, joined, mapped, on_grid, parts_of, spans
from clquant.dask.parts import SERIAL, written
from clquant.dask.sums import of_sums
from clquant.dask.work import located, named, told, tree
from clquant.flow import Carried
from clquant.flow.driver import check_side
from clquant.flow.file_sinks import About
from clquant.images import Picture
from clquant.runtime import InvalidArgument, InvalidType, Progress, open_session

# Of a scan's band, about.
PIXELS = 1 << 24


def run(job: flow.Map, image: Any, out: Any, about: About, report: Progress) -> Any:
    """Run a job like `clquant.flow.run`: the lazy result, or `out` with it."""
    whole = checked(image)
    height, width, channels = (*whole.shape, 1)[:3]
    cuts = [on_grid(sizes, side) if side > 1 else sizes for sizes, side in zip(whole.chunks, job.block, strict=False)]
    whole = whole.rechunk(dict(enumerate(cuts)))
    picture = Picture(height, width, channels, gray=whole.ndim == 2 or channels == 1)
    check_side(picture, job.max_side)
    shape, dtype = job.result(picture)
    last = shape[2] if len(shape) == 3 else None
    if job.is_serial:
        lazy = _chained(job, whole, last, dtype)
    else:
        down, across = (tuple(-(-n // side) for n in sizes) for sizes, side in zip(cuts, job.block, strict=True))
        lazy = mapped(whole, partial(_part, job=job), job, dtype, last, (down, across))
    return written(lazy, out, about, report)


def reduce(job: flow.Reduce, image: Any, report: Progress, argument: str) -> Any:
    """Run a reduction like `clquant.flow.reduce`: a state of each chunk, merged as a tree on the workers."""
    whole = checked(image)
    work = delayed(named(partial(_state, job, argument)), pure=True)
    with located([image]):
        states = [work(block) for block in whole.to_delayed().ravel()]
        return of_sums(partial(_finished, job), job.merge, states, report)


def _state(job: flow.Reduce, argument: str, block: Any) -> Any:
    picture = images.read(np.asarray(block), argument=argument, max_bits=job.max_bits)
    return flow.state_of(open_session(None), [picture], job, Progress(None))


def figure(job: flow.Reduce, last: Callable[[Any], float], original: Any, result: Any) -> Any:
    """Build the lazy float64 number of a reduction of two pictures: `last` of its value."""
    a, b = da.asarray(original), da.asarray(result)
    known = all(side > 0 for one in (a, b) for side in one.shape)  # not if it is nan
    if not known or a.shape != b.shape or a.ndim not in (2, 3):
        raise InvalidArgument(f"original and result must be pictures of one known shape, got {a.shape} and {b.shape}")
    if a.dtype != np.uint8 or b.dtype != np.uint8:
        raise InvalidArgument(f"original and result are Dask arrays of {a.dtype} and {b.dtype}; allowed: uint8")
    chunks = a.chunks[:2] + tuple((channels,) for channels in a.shape[2:])
    down, across = ([span[2:] for span in spans(sizes, job)] for sizes in chunks[:2])
    places, work = list(itertools.product(down, across)), delayed(named(partial(_state_of_both, job)), pure=True)
    both = zip(*(parts_of(one.rechunk(chunks), places) for one in (a, b)), strict=True)
    total = tree(job.merge, [work(*parts) for parts in both])
    number = delayed(partial(_number, job, last), pure=True)(total)
    return da.from_delayed(number, (), np.float64, meta=np.empty((), np.float64))


def _number(job: flow.Reduce, last: Callable[[Any], float], total: Any) -> Any:
    return np.float64(last(job.finish(total)))


def _state_of_both(job: flow.Reduce, *parts: npt.NDArray[Any]) -> Any:
    if any(part.dtype != np.uint8 for part in parts):
        raise InvalidArgument("chunks are of another dtype than their array; allowed: uint8")
    h, w, c = (*parts[0].shape, 1)[:3]
    pictures = [Picture(h, w, c, c == 1, array=np.ascontiguousarray(part).reshape(h, w, c)) for part in parts]
    return flow.state_of(open_session(None), pictures, job, Progress(None))


def _finished(job: flow.Reduce, states: Any) -> Any:
    return job.finish(job.merge(states))


def _part(part: Picture, inner: Inner, job: flow.Map) -> npt.NDArray[Any]:
    """A chunk of the result."""
    rows, columns = (slice(s.start // side, -(-s.stop // side)) for s, side in zip(inner, job.block, strict=True))
    return cropped(flow.in_bands(open_session(None), part, job, Progress(None)), (rows, columns))


def _chained(job: flow.Map, whole: Any, channels: int | None, dtype: npt.DTypeLike) -> Any:
    """Bands of whole rows one after the other, in the image's chunks."""
    if not isinstance(job, flow.Scan):
        raise InvalidType("image is a Dask array, of which this scan needs all pixels at once; allowed: its compute()")
    width = whole.shape[1]
    most = max(PIXELS // width, 1)
    heights = [min(most, rows - begin) for rows in whole.chunks[0] for begin in range(0, rows, most)]
    layer = Layer(whole, SERIAL, job, most)
    task, above = named(_scanned), None
    for i, end in enumerate(itertools.accumulate(heights)):
        top = end - heights[i]
        band, pieces = (f"{layer.name}-{SERIAL}", i), layer.part((top, end), (0, width))
        layer.tasks[band] = (_band, task, above, pieces, top, job)
        layer.tasks[layer.name, i, 0] = (getitem, band, 0)
        above = (f"{layer.name}-above", i)
        layer.tasks[above] = (getitem, band, 1)
    sides = (tuple(heights), (width,))
    made = layer.array(sides if channels is None else (*sides, (channels,)), dtype)
    return made.rechunk((*whole.chunks[:2], *made.chunks[2:]))


def _band(
    work: Any, above: Carried | None, pieces: list[list[npt.NDArray[Any]]], top: int, job: flow.Scan
) -> tuple[npt.NDArray[Any], Carried]:
    with told(f"rows from {top} on"):
        found: tuple[npt.NDArray[Any], Carried] = work(above, joined(pieces), job)
    return found


def _scanned(above: Carried | None, pixels: npt.NDArray[Any], job: flow.Scan) -> tuple[npt.NDArray[Any], Carried]:
    carried = Carried() if above is None else dataclasses.replace(above)
    picture = dataclasses.replace(images.read(pixels, max_bits=job.max_bits), origin=(carried.rows, 0))
    return np.asarray(flow.in_bands(open_session(None), picture, job, Progress(None), carried=carried)), carried
