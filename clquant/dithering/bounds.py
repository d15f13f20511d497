"""How far dithers go from a pixel's colour: bounds of each entry that follow the local spacing of the palette.

Without them the errors of a region that the palette has no colours for would make pixels of another one show entries
that are far from their colours: specks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.color.spaces import Space
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.runtime import Buffer

SPECK = 60
"""Largest difference of a channel, in 8-bit levels, that is no speck whatever the palette."""
MOST_COLORS = 1024
"""Larger palettes have no bounds: their colours are near each other."""
CLOSEST = ("linear", "oklab")
"""Spaces whose nearest entries may be specks themselves."""
NEIGHBOUR, ALPHA_REACH = 1, 1.4
"""An entry may be off by the distance from the pixel's own entry to this neighbour, counted from 0; with alpha, whose
steps are shorter than colours' in that distance, by so many times as much."""
LUMA_SHARE, COMPONENT_SHARE = 2, 0.75
"""Distances to the nearest entry that are passed on of luma, and of components that are no luma, at least."""
CHROMA, ALPHA_CHROMA, COARSE = 12, 6, 64
"""Levels of chroma that are passed on, those with alpha, and the spacing beyond which twice what it is beyond is;
palettes of that mean spacing are dithered without bounds."""
PINWHEEL_SHARE = 20
"""Sixteenths of that distance that the pinwheel passes on of a component."""
FREE = 1 << 20
"""Stands for no bound."""


def constants(space: Space) -> dict[str, int | str]:
    """Compile-time constants of `cl/dithering/reach.h`."""
    return {
        "SPECK": SPECK * space.white // 255,
        "FREE": FREE,
        "CLOSEST": int(space.name in CLOSEST),
    }


def speck(palette: Palette, space: Space) -> int:
    """Largest gap of an entry that is no speck, in values; `FREE` for palettes without bounds."""
    if not NEIGHBOUR + 1 < len(palette) <= MOST_COLORS or _seen(palette, space)[:, 0].mean() >= COARSE:
        return FREE
    return SPECK * space.white // 255


def on_the_device(on_device: PaletteOnDevice, plain: bool) -> dict[str, Any]:
    """Kernel arguments of a palette's bounds, by name; `plain` as in `bounds`."""

    def send() -> Buffer:
        return on_device.scope.copy_of(bounds(on_device.palette, on_device.space, plain))

    return {"bounds": on_device.cached(("bounds", plain), send), "n_entries": np.int32(len(on_device.palette))}


def bounds(palette: Palette, space: Space, plain: bool) -> npt.NDArray[np.int32]:
    """(k, 4): per entry the most of its error's first and other components; the reach of its pixels, in values;
    the most of the pinwheel's, in 1/16.

    Parameters
    ----------
    space : Space
        Where colours are compared.
    plain : bool
        Whether errors are of values, else of the space's coordinates.
    """
    colors = palette.rgba()
    found = np.full((len(colors), 4), FREE, np.int64)
    if not 2 <= len(colors) <= MOST_COLORS:
        return found.astype(np.int32)
    has_alpha = bool((colors[:, 3] < 255).any())  # an opaque palette dithers RGBA as it does RGB
    seen = _seen(palette, space)
    if seen[:, 0].mean() >= COARSE:
        return found.astype(np.int32)
    luma_first = not plain and space.definition.is_opponent
    own = _distances(space.values(colors) if plain else space.coordinates(colors))[:, 0]
    nearest = np.maximum(seen[:, 0], 1)
    chroma = np.minimum(np.maximum(ALPHA_CHROMA if has_alpha else CHROMA, 2 * (nearest - COARSE)) / nearest, 1)
    share = LUMA_SHARE if luma_first else np.maximum(COMPONENT_SHARE, CHROMA / nearest)
    found[:, 0] = np.minimum(share * own, FREE)
    found[:, 1] = np.minimum(chroma * own, FREE) if luma_first else found[:, 0]
    found[:, 3] = np.minimum(PINWHEEL_SHARE * own, FREE)
    if len(colors) > NEIGHBOUR + 1:
        reach = np.maximum((ALPHA_REACH if has_alpha else 1) * seen[:, NEIGHBOUR], SPECK)
        found[:, 2] = np.minimum(reach * (space.white / 255), FREE)
    return found.astype(np.int32)


def _seen(palette: Palette, space: Space) -> npt.NDArray[np.float64]:
    """`_distances` of colours in luma and chroma, in 8-bit levels."""
    return _distances(spaces.luma_chroma(space.alpha).coordinates(palette.rgba())) / 4


def _distances(points: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """(k, NEIGHBOUR + 1 or less): the least distances from each point to others, ascending; `FREE` for equal ones."""
    wide = points.astype(np.int64)
    squared = sum((axis[:, None] - axis[None]) ** 2 for axis in wide.T)
    far = np.where(squared > 0, squared, FREE * FREE)
    if far.shape[1] > NEIGHBOUR + 1:
        far = np.partition(far, NEIGHBOUR, axis=1)[:, : NEIGHBOUR + 1]
    return np.asarray(np.sqrt(np.sort(far, axis=1)))
