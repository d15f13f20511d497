"""Jobs of `clquant.flow` on Dask arrays: maps as lazy arrays of the chunks' results."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy.typing as npt

from clquant import flow
from clquant.dask.chunks import Inner, Tiling, checked, cropped, mapped, on_grid
from clquant.dask.parts import written
from clquant.flow.driver import check_side
from clquant.images import Picture
from clquant.images.file_sinks import About
from clquant.runtime import Progress, open_session


def run(job: flow.Map, image: Any, out: Any, about: About, report: Progress) -> Any:
    """Run a map like `clquant.flow.run`: the lazy result, or `out` with it."""
    whole = checked(image)
    height, width, channels = (*whole.shape, 1)[:3]
    cuts = [on_grid(sizes, side) if side > 1 else sizes for sizes, side in zip(whole.chunks, job.block, strict=False)]
    whole = whole.rechunk(dict(enumerate(cuts)))
    picture = Picture(height, width, channels, gray=whole.ndim == 2 or channels == 1)
    check_side(picture, job.max_side)
    shape, dtype = job.result(picture)
    down, across = (tuple(-(-n // side) for n in sizes) for sizes, side in zip(cuts, job.block, strict=True))
    last = shape[2] if len(shape) == 3 else None
    lazy = mapped(whole, partial(_part, job=job), Tiling(job.halo, job.grid), dtype, last, (down, across))
    return written(lazy, out, about, report)


def _part(part: Picture, inner: Inner, job: flow.Map) -> npt.NDArray[Any]:
    """A chunk of the result."""
    rows, columns = (slice(s.start // side, -(-s.stop // side)) for s, side in zip(inner, job.block, strict=True))
    session = open_session(None)
    return cropped(flow.in_bands(session, part, job, Progress(None)), (rows, columns))
