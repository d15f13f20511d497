"""Serial error diffusion of Dask arrays: bands of rows one after the other, each with the errors from above.

No two bands run at once, so that a cluster is no faster than one device; what is read before and written after is.
"""

from __future__ import annotations

import itertools
from operator import getitem
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images
from clquant.color.palette import Palette
from clquant.dask.chunks import Layer, checked, joined
from clquant.dask.work import named, told
from clquant.dithering.diffusion_job import Above
from clquant.dithering.error_diffusion import CLASSIC, ErrorDiffusion
from clquant.dithering.registry import find_dither

# Of a band, about.
PIXELS = 1 << 24
# Of layers' names: arrays of such a layer are computed in one go, as each chunk is made from the one above.
SERIAL = "serial"


def serial_scan(dither: Any) -> ErrorDiffusion | None:
    """Return the scan that `dither` names if each pixel waits for those above; else None."""
    if dither == CLASSIC:
        return ErrorDiffusion(CLASSIC, error_space="srgb")
    owner = getattr(find_dither(dither), "__self__", None)
    return owner if isinstance(owner, ErrorDiffusion) and owner.tile_size is None else None


def predict(image: Any, palette: Palette, scan: ErrorDiffusion, color_space: str) -> Any:
    """Build lazy indices (H, W) for a serial dither, in the image's chunks, like `clquant.palette.engine.predict`."""
    whole = checked(image)
    width = whole.shape[1]
    most = max(PIXELS // width, 1)
    heights = [min(most, rows - begin) for rows in whole.chunks[0] for begin in range(0, rows, most)]
    layer = Layer(whole, SERIAL, palette, scan, color_space, most)
    task, above = named(_diffused), None
    for i, end in enumerate(itertools.accumulate(heights)):
        top = end - heights[i]
        band, pieces = (f"{layer.name}-{SERIAL}", i), layer.part((top, end), (0, width))
        layer.tasks[band] = (_band, task, above, pieces, top, scan, palette, color_space)
        layer.tasks[layer.name, i, 0] = (getitem, band, 0)
        above = (f"{layer.name}-above", i)
        layer.tasks[above] = (getitem, band, 1)
    made = layer.array((tuple(heights), (width,)), palette.index_dtype)
    return made.rechunk(whole.chunks[:2])


def is_serial(array: Any) -> bool:
    """Whether chunks of a Dask array are computed from those above."""
    return any(isinstance(key, tuple) and str(key[0]).endswith(f"-{SERIAL}") for key in array.__dask_graph__())


def _band(
    work: Any,
    above: Above | None,
    pieces: list[list[npt.NDArray[Any]]],
    top: int,
    scan: ErrorDiffusion,
    palette: Palette,
    color_space: str,
) -> tuple[npt.NDArray[Any], Above]:
    with told(f"rows from {top} on"):
        found: tuple[npt.NDArray[Any], Above] = work(above, joined(pieces), scan, palette, color_space)
    return found


def _diffused(
    above: Above | None, pixels: npt.NDArray[Any], scan: ErrorDiffusion, palette: Palette, color_space: str
) -> tuple[npt.NDArray[Any], Above]:
    indices, below = scan.dither_after(above, images.read(pixels, max_bits=16), palette, color_space=color_space)
    return np.asarray(indices), below
