"""The entries that ordered dithering mixes with another: its nearest, as `cl/dithering/ordered.cl` takes them.

An entry may stand beside another only if it is one of the other's nearest, so that the reach of the dithering follows
the local spacing of the palette: an outlier is not drawn where a gradient passes between entries that are near.
"""

from __future__ import annotations

from typing import Any

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
LANES = 8
"""Of `cl/mapping/candidates_lanes.h`."""
ALPHA_LIGHTNESS = 64
"""Weight of alpha where entries are ordered by lightness, as SPACE_LIGHTNESS has it."""
MIX = np.dtype(
    {
        "names": ["weights", "square", "spread", "entry", "least"],
        "formats": [(np.int32, 4), np.int64, np.int64, np.int32, np.int32],
        "itemsize": 48,
    }
)


def mixes(palette: Palette, space: Space) -> npt.NDArray[np.void]:
    """(k, neighbours) of `MIX`, one row an entry; an entry without so many neighbours has -1 for those it lacks."""
    points = np.zeros((len(palette), 4), np.int64)
    points[:, : space.dims] = space.coordinates(palette.rgba())
    lightness = np.array((*space.definition.lightness, 0), np.int64)
    order = np.argsort(points @ lightness, kind="stable")
    exact = np.float32 if space.bits == 8 else np.float64  # squared distances are at most 2^24, of 16 bits below 2^36
    near = _neighbours(points[:, : space.dims].T.astype(exact, order="C"), order, NEIGHBOURS[space.alpha])
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


def mixes_in_lanes(palette: Palette, space: Space) -> npt.NDArray[np.uint32]:
    """`mixes` as (k, blocks, rows, `LANES`), a `Mixes` of `cl/dithering/ordered_lanes.cl` per block."""
    found = mixes(palette, space)
    entry = np.maximum(found["entry"], 0)
    light = space.coordinates(palette.rgba()) @ np.array((*space.definition.lightness, ALPHA_LIGHTNESS)[: space.dims])
    values = space.values(palette.rgba()).astype(np.int64)[:, : space.dims]
    if space.alpha:
        values[:, :3] = values[:, :3] * values[:, 3:] // space.white
    step = values[entry] - values[:, None]
    gaps = np.maximum(abs(step), abs(step - step[..., 3:])) if space.alpha else abs(step)
    is_darker = light[entry] < light[:, None]
    weights = np.moveaxis(found["weights"][..., : space.dims], 2, 0)
    packed = (values[entry] << 8 * np.arange(space.dims)).sum(axis=2)
    numbers = found["square"], found["spread"], entry << 14 | found["least"] << 1 | is_darker, gaps.max(axis=2), packed
    rows = np.stack([*weights, *numbers], axis=1)
    lanes = np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % LANES))).astype(np.uint32)
    return np.ascontiguousarray(lanes.reshape(*rows.shape[:2], -1, LANES).swapaxes(1, 2))


def _neighbours(axes: npt.NDArray[Any], order: npt.NDArray[np.intp], most: int) -> npt.NDArray[np.int32]:
    """(k, most) indices of the nearest other points (axes, k), the lowest of equally far ones first; -1 beyond them."""
    near = np.full((len(order), most), -1, np.int32)
    for begin in range(0, len(order), ROWS):
        rows = order[begin : begin + ROWS]
        others = order[max(0, begin - WINDOW) : begin + ROWS + WINDOW]
        far = squared_distances(axes[:, rows], axes[:, others])
        far[far == 0] = np.inf
        last = min(most, len(others)) - 1
        row, other = np.nonzero(far <= np.partition(far, last, axis=1)[:, last, None])
        by_distance = np.lexsort((others[other], far[row, other], row))
        row, other = row[by_distance], other[by_distance]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        kept = (rank < most) & (far[row, other] < np.inf)
        near[rows[row[kept]], rank[kept]] = others[other[kept]]
    return near


def squared_distances(points: npt.NDArray[Any], others: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
    """(n, m) between points (axes, n) and (axes, m), in two buffers: new memory for each term costs more than sums."""
    others = points if others is None else others
    far = np.zeros((points.shape[1], others.shape[1]), points.dtype)
    step = np.empty_like(far)
    for mine, theirs in zip(points, others, strict=True):
        np.subtract(mine[:, None], theirs, out=step)
        step *= step
        far += step
    return far
