"""Maps of `clquant.flow` on Dask arrays as overlapping parts, scans as chains, and figures of two pictures."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt

from clquant import flow, images
from clquant.dask.chunks import Layer, begins_of, checked, joined, on_grid, parts_of, spans
from clquant.dask.parts import SERIAL, written
from clquant.dask.sums import tree
from clquant.dask.work import at_place, later, named
from clquant.flow import Carried
from clquant.flow.driver import check_side
from clquant.flow.file_sinks import About
from clquant.images import Picture
from clquant.images.assembled import assembled, part_on_host
from clquant.runtime import Array, InvalidArgument, InvalidType, Progress, open_session

# Pixels of a scan's band, about.
PIXELS = 1 << 24

Pieces = list[list[npt.NDArray[Any]]]


def run(job: flow.Map, image: Any, out: Any, about: About, report: Progress) -> Any:
    """Run a job like `clquant.flow.run`: the lazy result, or `out` with it."""
    whole = checked(image, takes_rows=job.takes_rows)
    cuts = [on_grid(sizes, side) if side > 1 else sizes for sizes, side in zip(whole.chunks, job.block, strict=False)]
    whole = whole.rechunk(dict(enumerate(cuts)))
    height, width, channels = (*whole.shape, 1)[:3]
    picture = Picture(height, width, channels, gray=whole.ndim == 2 or channels == 1)
    check_side(picture, job.max_side)
    lazy = (_chained if job.is_serial else _mapped)(job, whole, *job.result(picture))
    return written(lazy, out, about, report)


def figure(job: Any, _: object, original: Any, result: Any, *_given: object, least: int = 0) -> Any:
    """Build the lazy float64 number of a comparison of two pictures, whose sides have at least so many pixels."""
    given = map(da.asarray, (original, result))
    a, b = (one[:, :, 0] if one.ndim == 3 and one.shape[2] == 1 else one for one in given)
    known = all(side > 0 for one in (a, b) for side in one.shape)  # not if it is nan
    if not known or a.shape != b.shape or a.ndim not in (2, 3):
        raise InvalidArgument(f"original and result must be pictures of one known shape, got {a.shape} and {b.shape}")
    if min(a.shape[:2]) < least:
        raise InvalidArgument(f"original and result have the shape {a.shape}; allowed: at least {least} x {least}")
    if a.dtype != np.uint8 or b.dtype != np.uint8:
        raise InvalidArgument(f"original and result are Dask arrays of {a.dtype} and {b.dtype}; allowed: uint8")
    chunks = a.chunks[:2] + tuple((channels,) for channels in a.shape[2:])
    down, across = ([around for _, around in spans(sizes, job)] for sizes in chunks[:2])
    places = list(itertools.product(down, across))
    both = zip(*(parts_of(one.rechunk(chunks), places) for one in (a, b)), strict=True)
    total = tree(job.merge, [later("original and result", partial(_state_of_both, job), *parts) for parts in both])
    number = later("original and result", partial(_number, job, a.shape), total)
    return da.from_delayed(number, (), np.float64, meta=np.empty((), np.float64))


def _number(job: Any, shape: tuple[int, ...], total: int) -> Any:
    return np.float64(job.figure(total, shape))


def _state_of_both(job: flow.Reduce, *parts: npt.NDArray[Any]) -> Any:
    if any(part.dtype != np.uint8 for part in parts):
        raise InvalidArgument("chunks are of another dtype than their array; allowed: uint8")
    h, w, c = (*parts[0].shape, 1)[:3]
    pictures = [Picture(h, w, c, c == 1, array=np.ascontiguousarray(part).reshape(h, w, c)) for part in parts]
    return flow.state_of(open_session(None), pictures, job, Progress(None))


def _mapped(job: flow.Map, whole: Any, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """The lazy result by chunks, each read with the pixels it depends on."""
    layer, work = Layer(whole, job), named(partial(_part, job))
    rows, columns = (list(spans(sizes, job)) for sizes in whole.chunks[:2])
    for (i, (own_rows, down)), (j, (own_columns, across)) in itertools.product(enumerate(rows), enumerate(columns)):
        layer.tasks[layer.name, i, j] = (
            *(at_place, f"chunk at row {own_rows[0]}, column {own_columns[0]}", work),
            *(layer.part(down, across), [down[0], across[0]], [*own_rows, *own_columns]),
        )
    sides = [tuple(-(-n // side) for n in sizes) for sizes, side in zip(whole.chunks[:2], job.block, strict=True)]
    return layer.array((*sides, *((last,) for last in shape[2:])), dtype)


def _part(job: flow.Map, pieces: Pieces, origin: list[int], own: list[int]) -> npt.NDArray[Any]:
    """The result of own rows and columns out of pieces, put together on the device or where that is as good here."""
    read = [[images.read(np.atleast_3d(piece), max_bits=16) for piece in row] for row in pieces]
    session = open_session(None)
    with session.scope() as scope:
        picture = read[0][0] if len(read) == len(read[0]) == 1 else assembled(session, scope, read)
        picture = images.read(joined(pieces), max_bits=16) if picture is None else picture
        picture = dataclasses.replace(picture, origin=(origin[0], origin[1]))
        result = flow.in_bands(session, picture, job, Progress(None))
        (top, left), (high, wide) = origin, job.block
        rows = slice((own[0] - top) // high, -(-(own[1] - top) // high))
        columns = slice((own[2] - left) // wide, -(-(own[3] - left) // wide))
        if isinstance(result, Array):
            return part_on_host(result, rows, columns)
        return np.ascontiguousarray(np.asarray(result)[rows, columns])


def _chained(job: flow.Map, whole: Any, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """Bands of whole rows one after the other, in the image's chunks."""
    if not isinstance(job, flow.Scan):
        raise InvalidType("image is a Dask array, of which this scan needs all pixels at once; allowed: its compute()")
    width = whole.shape[1]
    most = max(PIXELS // width, 1)
    heights = [min(most, rows - begin) for rows in whole.chunks[0] for begin in range(0, rows, most)]
    layer, task, above = Layer(whole, SERIAL, job, most), named(partial(_scanned, job)), None
    for i, (top, end) in enumerate(itertools.pairwise(begins_of(heights))):
        band = (f"{layer.name}-{SERIAL}", i)
        layer.tasks[band] = (at_place, f"rows from {top} on", task, above, layer.part((top, end), (0, width)))
        layer.tasks[layer.name, i, 0] = (getitem, band, 0)
        above = (f"{layer.name}-above", i)
        layer.tasks[above] = (getitem, band, 1)
    made = layer.array((tuple(heights), (width,), *((last,) for last in shape[2:])), dtype)
    return made.rechunk((*whole.chunks[:2], *made.chunks[2:]))


def _scanned(job: flow.Scan, above: Carried | None, pieces: Pieces) -> tuple[npt.NDArray[Any], Carried]:
    carried = Carried() if above is None else dataclasses.replace(above)
    picture = dataclasses.replace(images.read(joined(pieces), max_bits=job.max_bits), origin=(carried.rows, 0))
    return np.asarray(flow.in_bands(open_session(None), picture, job, Progress(None), carried=carried)), carried
