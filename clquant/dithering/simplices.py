"""Simplices of palette entries that cover a colour space: what ordered dithering mixes where entries are far apart.

Each point of the space lies in one simplex of four corners, and is the mean of the corners weighed by their barycentric
coordinates. Of all mixes with that mean the simplices give the one of least variance, chroma counting more than luma
(they are the regular triangulation of that square), so grays are mixed of black and white. Six corners far outside,
along luma and two differences of colour, stand for an error of the mean: at a price that no mix of entries reaches, so
that a colour within the palette's hull keeps its mean, and another one takes that of a near point of the hull.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.color.spaces import Space
from clquant.dithering import bounds

FEW, MOST_SPANNING = 7, 256
"""Opaque entries of a palette of few, and entries of the largest that spans the space."""
LEAST_SPREAD = {True: 110, False: 152}
"""Levels between neighbours, times the cube root of their number, from which a palette of few or more entries spans the
space; those learned of pictures have less, and are dithered with near entries alone."""
GRID, EVEN = 16, 0.9
"""More entries are a grid, which spans the space too, from that least distance to a neighbour over the mean one."""
CHROMA = {False: 3, True: 24}
"""How much more a square of chroma counts in the variance, by whether the space has axes of it, which are short."""
FAR, PRICE = 16, 64
"""Extents of the space at which the outer corners lie, and price of an error by an extent, of variance."""
CELL_BITS = 4
"""Log of the number of cells along an axis."""
SIMPLEX = np.dtype([("planes", np.int64, (4, 4)), ("entries", np.int32, 4), ("beyond", np.int32, 4)])
"""Of each corner: its weight is planes . (x, y, z, 1), its entry or -1, and the simplex beyond the side opposite."""

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


def covers(palette: Palette) -> bool:
    """Whether a palette's opaque entries are mixed by simplices for exact means; one or two alone have them anyhow."""
    opaque = palette.rgba()[:, 3] == 255
    return 2 < len(palette) <= bounds.MOST_COLORS and bool(opaque.any())


@lru_cache(maxsize=32)
def spans(palette: Palette) -> bool:
    """Whether the opaque entries of a palette span the space, so that they are mixed by simplices in any case."""
    opaque = np.unique(palette.rgba()[palette.rgba()[:, 3] == 255], axis=0)
    if len(opaque) <= 2 or len(palette) > MOST_SPANNING:
        return False
    is_gray = (opaque[:, 0] == opaque[:, 1]).all() and (opaque[:, 1] == opaque[:, 2]).all()
    spread = LEAST_SPREAD[len(opaque) <= FEW]
    mean, least = bounds.spacing_of(Palette(opaque[:, :3]))
    is_grid = len(opaque) > GRID and least >= EVEN * mean
    return bool(is_gray) or is_grid or mean**3 * len(opaque) >= spread**3


@lru_cache(maxsize=32)
def simplices(palette: Palette, space: Space) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int32]]:
    """(n,) of `SIMPLEX`, and per cell one around its middle; `space` of 8-bit values, of opaque colours."""
    rgba = palette.rgba()
    points = space.coordinates(rgba)[:, :3].astype(np.int64)
    opaque = np.flatnonzero(rgba[:, 3] == 255)
    _, first = np.unique(points[opaque], axis=0, return_index=True)
    entries = opaque[np.sort(first)]
    centre, outer, light = _axes(space)
    corners = np.concatenate([points[entries] - centre, outer])
    lifts = _lifts(corners[: len(entries)], light, space.definition.is_opponent)
    price = PRICE * FAR * space.extent[0] ** 2 << 16
    found, beyond = _triangulate(corners, np.concatenate([lifts, np.full(len(outer), price)]))
    order = np.argsort(-(corners @ light)[found], axis=1, kind="stable")
    found, beyond = np.take_along_axis(found, order, 1), np.take_along_axis(beyond, order, 1)
    table = np.zeros(len(found), SIMPLEX)
    table["planes"] = _planes((corners + centre)[found])
    table["entries"] = np.where(found < len(entries), np.append(entries, np.full(len(outer), -1))[found], -1)
    table["beyond"] = beyond
    return table, _walk(table, *cells_of(space))


def cells_of(space: Space) -> tuple[int, int]:
    """Log of the width of the cells that walks begin at, and their number along an axis."""
    largest = max(space.extent[:3])
    shift = max(largest.bit_length() - CELL_BITS, 0)
    return shift, (largest >> shift) + 1


def _walk(table: npt.NDArray[np.void], shift: int, side: int) -> npt.NDArray[np.int32]:
    """(side^3,) simplices around the middles of cells, each found by a walk."""
    middles = (np.indices((side, side, side)).reshape(3, -1).T << shift) + (1 << shift >> 1)
    points = np.concatenate([middles, np.ones((len(middles), 1), np.int64)], axis=1)
    found, walking = np.zeros(len(points), np.int32), np.arange(len(points))
    while len(walking):
        weights = (table["planes"][found[walking]] @ points[walking, :, None])[..., 0]
        side_beyond = weights.argmin(axis=1)
        goes_on = weights.min(axis=1) < 0
        walking, side_beyond = walking[goes_on], side_beyond[goes_on]
        found[walking] = table["beyond"][found[walking], side_beyond]
    return found


def _axes(space: Space) -> tuple[Int, Int, Int]:
    """Mid-gray, the outer corners around it, and the weights of luma."""
    light = np.array(space.definition.lightness, np.int64)
    if space.definition.is_opponent:
        luma, chroma = light, 256 * np.eye(3, dtype=np.int64)[1:]
        centre = np.array([space.extent[0] // 2, *space.definition.neutral[1:]], np.int64)
    else:
        luma = np.full(3, 256)
        chroma = 256 * np.eye(3, dtype=np.int64)[[0, 2]] - light[[0, 2], None]
        centre = np.array(space.extent[:3], np.int64) // 2
    axes = np.stack([luma // 4, *chroma])  # an error of luma costs four times as much
    return centre, np.concatenate([axes, -axes]) * FAR * space.extent[0] // 256, light


def _lifts(points: Int, light: Int, is_opponent: bool) -> Int:
    """Weighted squares times 2^16, with a little of each point's own below that, as no five are to be on one sphere."""
    gray = (points @ light)[:, None] * (np.array([1, 0, 0]) if is_opponent else np.ones(3, np.int64))
    own = np.arange(1, len(points) + 1, dtype=np.int64) * 0x9E3779B1 & 0xFFFFFFFF
    own = ((own ^ own >> 15) * 0x5EBCA77 & 0xFFFFFFFF) >> 16
    squares: Int = (points**2).sum(axis=1) << 16
    chroma: Int = ((256 * points - gray) ** 2).sum(axis=1)
    return squares + CHROMA[is_opponent] * chroma + own


def _triangulate(corners: Int, lifts: Int) -> tuple[Int, Int]:
    """(n, 4) corners of the simplices below which no lifted point lies, and the simplices beyond opposite sides.

    Each side that is still open, at first one of the outer corners alone, is completed by the corner that is beyond it
    and lifted least.
    """
    points, heights = corners.astype(np.float64), lifts.astype(np.float64)
    first = len(points) - 6
    sides: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    found: dict[tuple[int, ...], int] = {}
    open_sides = [((first, first + 1, first + 2), points[first : first + 3].sum(axis=0))]
    while open_sides:
        faces = np.array([face for face, _ in open_sides])
        chosen = _corners_beyond(faces, np.array([behind for _, behind in open_sides]), points, heights)
        touched = []
        for face, corner in zip(faces.tolist(), chosen.tolist(), strict=True):
            simplex = tuple(sorted((*face, corner)))
            if simplex not in found:
                found[simplex] = len(found)
                for at in range(4):
                    side = simplex[:at] + simplex[at + 1 :]
                    sides.setdefault(side, []).append((found[simplex], at))
                    touched.append((side, points[simplex[at]]))
        open_sides = [(side, behind) for side, behind in touched if len(sides[side]) == 1 and side[0] < first]
    beyond = np.full((len(found), 4), -1, np.int64)
    for pair in sides.values():
        for (simplex_number, at), (other, _) in itertools.permutations(pair, 2):
            beyond[simplex_number, at] = other
    return np.array(list(found)), beyond


def _corners_beyond(faces: npt.NDArray[Any], behind: Float, points: Float, heights: Float) -> npt.NDArray[np.intp]:
    """(n,) corners with which faces (n, 3) make simplices; the points `behind` (n, 3) are on their other sides."""
    base, one, two = (points[faces[:, k]] for k in range(3))
    one, two = one - base, two - base
    normal = np.cross(one, two)
    normal *= np.where(((behind - base) * normal).sum(axis=1) < 0, 1.0, -1.0)[:, None]
    height = heights[faces] - heights[faces[:, :1]]
    across = np.cross(one, two)
    slope = height[:, 1:2] * np.cross(two, across) + height[:, 2:] * np.cross(across, one)
    slope /= (normal**2).sum(axis=1)[:, None]
    far = np.zeros((len(faces), len(points)))
    lift = heights - heights[faces[:, :1]]
    for axis in range(3):
        step = points[:, axis] - base[:, axis : axis + 1]
        far += normal[:, axis : axis + 1] * step
        lift -= slope[:, axis : axis + 1] * step
    return np.asarray(np.where(far > 0, lift / np.where(far > 0, far, 1), np.inf).argmin(axis=1))


def _planes(corners: Int) -> Int:
    """(n, 4, 4): the weights of the corners (n, 4, 3) of simplices, times six times their volumes, as affine maps."""
    planes = np.zeros((len(corners), 4, 4), np.int64)
    for at in range(4):
        base, one, two = (corners[:, (at + step) % 4] for step in (1, 2, 3))
        normal = np.cross(one - base, two - base)
        normal *= np.sign(((corners[:, at] - base) * normal).sum(axis=1))[:, None]
        planes[:, at, :3] = normal
        planes[:, at, 3] = -(normal * base).sum(axis=1)
    return planes
