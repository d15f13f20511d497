"""The entries that ordered dithering mixes with another: its nearest, as `cl/dithering/ordered.h` takes them.

An entry may stand beside another only if it is one of the other's nearest, so that the reach of the dithering follows
the local spacing of the palette: an outlier is not drawn where a gradient passes between entries that are near.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.color.spaces import Space

NEIGHBOURS = {False: 6, True: 12}
"""By whether alpha is an axis."""
LUMA = 2
"""How much more an error of luma counts than one along an axis."""
SPREAD = {False: 2, True: 3}
"""How often less the variance of mixed pixels counts than the square of what their mean misses, by the same."""
LEAST_SHARE, LEAST_COLORS = 6554, 7
"""In 1/65536: smaller shares of an entry half of the range away are not drawn by palettes of so many colours."""
WINDOW, ROWS = 512, 256
"""Entries are compared, `ROWS` at once, with those up to `WINDOW` places away in the order of lightness."""
MIX = np.dtype(
    {
        "names": ["weights", "square", "spread", "entry", "least"],
        "formats": [(np.int32, 4), np.int64, np.int64, np.int32, np.int32],
        "offsets": [0, 16, 24, 32, 36],
        "itemsize": 48,
    }
)
_NONE = np.iinfo(np.int64).max

Int = npt.NDArray[np.int64]


def mixes(palette: Palette, space: Space) -> npt.NDArray[np.void]:
    """(k, neighbours) of `MIX`, one row an entry; an entry without so many neighbours has -1 for those it lacks."""
    points = np.zeros((len(palette), 4), np.int64)
    points[:, : space.dims] = space.coordinates(palette.rgba())
    lightness = np.array((*space.definition.lightness, 0), np.int64)
    near = _neighbours(points, np.argsort(points @ lightness, kind="stable"), NEIGHBOURS[space.alpha])
    found = np.zeros(near.shape, MIX)
    found["entry"] = near
    step = np.where(near[..., None] >= 0, points[near] - points[:, None], 0)
    luma = LUMA * (step @ lightness)
    seen = 65536 * step + luma[..., None] * lightness
    seen[..., 3] += LUMA * 65536 * step[..., 3]  # an error of alpha is one of luma over black and over white
    square = np.maximum((seen * step).sum(axis=-1), 1)
    found["weights"] = ((seen << 25) + square[..., None]) // (2 * square[..., None])
    found["square"] = square >> 16
    length = (step**2).sum(axis=-1)
    found["spread"] = length // SPREAD[space.alpha]
    if len(palette) >= LEAST_COLORS:
        found["least"] = np.minimum(2 * np.sqrt(length) / space.extent[0], 1) * LEAST_SHARE
    return found


def _neighbours(points: Int, order: npt.NDArray[np.intp], most: int) -> npt.NDArray[np.int32]:
    """(k, most) indices of the nearest other points, the lowest of equally far ones first; -1 beyond them."""
    count = len(points)
    near = np.full((count, most), -1, np.int32)
    for begin in range(0, count, ROWS):
        rows = order[begin : begin + ROWS]
        others = order[max(0, begin - WINDOW) : begin + ROWS + WINDOW]
        far = sum((points[rows, axis, None] - points[others, axis]) ** 2 for axis in range(4))
        keys = np.where(far > 0, far << 16 | others, _NONE)
        if keys.shape[1] > most:
            keys = np.partition(keys, most - 1, axis=1)[:, :most]
        keys.sort(axis=1)
        near[rows, : keys.shape[1]] = np.where(keys < _NONE, keys & 65535, -1)
    return near
