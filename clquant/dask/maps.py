"""Maps of `clquant.flow` on Dask arrays as overlapping parts, and scans as chains of bands."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial
from operator import getitem
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, images
from clquant.dask.chunks import Layer, begins_of, checked, joined, on_grid, spans
from clquant.dask.parts import SERIAL
from clquant.dask.work import at_place, named
from clquant.flow import Carried
from clquant.flow.local import check_side
from clquant.images import Picture
from clquant.images.assembled import assembled, part_on_host
from clquant.runtime import Array, InvalidType, Progress, open_session

# Pixels of a scan's band, about.
PIXELS = 1 << 24

Pieces = list[list[npt.NDArray[Any]]]


def mapped(job: flow.Map, image: Any) -> Any:
    """Build the lazy result of a job."""
    whole = checked(image, takes_rows=job.takes_rows)
    cuts = [on_grid(sizes, side) if side > 1 else sizes for sizes, side in zip(whole.chunks, job.block, strict=False)]
    whole = whole.rechunk(dict(enumerate(cuts)))
    height, width, channels = (*whole.shape, 1)[:3]
    picture = Picture(height, width, channels, gray=whole.ndim == 2 or channels == 1)
    check_side(picture, job.max_side)
    return (_chain_bands if job.is_serial else _map_chunks)(job, whole, *job.result(picture))


def _map_chunks(job: flow.Map, whole: Any, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
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


def _chain_bands(job: flow.Map, whole: Any, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
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
