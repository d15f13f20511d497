"""Limits that keep dithers near a pixel's colour: a penalty of entries far off, and bounds of the errors passed on.

Without them the errors of a region that the palette has no colours for would make pixels of another one show entries
that are far from their colours: specks.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.color.spaces import Space
from clquant.dithering import mixes
from clquant.mapping.palette_on_device import PaletteOnDevice, points_of
from clquant.mapping.within import entries_within
from clquant.runtime import Buffer

SPECK = 60
"""Largest difference of a channel, in 8-bit levels, that is no speck whatever the palette."""
MOST_COLORS = 1024
"""Larger palettes have neither penalty nor bounds: their colours are near each other."""
PLAIN_SHARE, ALPHA_PINWHEEL_SHARE = 2, 1.7
"""How many times `Definition.penalty` where errors are of values, and in the search; the pinwheel's with alpha."""
SEARCH_SPACING, ALPHA_SEARCH_SPACING = 40, 34
"""Mean spacing at which it is so in the search, the second of palettes with alpha; it grows with the spacing."""
SEARCH_LEAST, SEARCH_MOST = 0.75, 2
"""Limits of that growth."""
LUMA_SHARE, ALPHA_LUMA_SHARE, COMPONENT_SHARE = 2, 4, 0.75
"""Distances to the nearest entry that are passed on of luma, that with alpha, and of components that are no luma."""
CHROMA, COARSE = 12, 64
"""Levels of chroma that are passed on, and the spacing beyond which twice what it is beyond is; palettes of that mean
spacing are dithered without penalty and bounds."""
ALPHA_COARSE = 96
"""The mean spacing for which palettes with partly transparent entries are: those were learned of a picture."""
PINWHEEL_SHARE, PINWHEEL_LEAST = 20, 640
"""Sixteenths of that distance that the pinwheel passes on of a component, and how much at least."""
FEW = 16
"""Most entries that GPUs compare in turn, sooner than they read a table, and search again in place of a speck."""
FREE = 1 << 20
"""Stands for no bound."""


def constants(space: Space, share: float) -> dict[str, int]:
    """Compile-time constants of `cl/dithering/reach.h`; `share` of the penalty's root."""
    return {"PENALTY": int(share * space.definition.penalty * space.extent[0] / 255) ** 2}


def share(space: Space, plain: bool) -> float:
    """Return the share of the penalty's root in error diffusion; `plain` as in `bounds`."""
    return PLAIN_SHARE if plain else space.definition.diffusion_share


def pinwheel_share(palette: Palette) -> float:
    """Return the share of the penalty's root in the pinwheel."""
    return ALPHA_PINWHEEL_SHARE if palette.has_alpha else PLAIN_SHARE


def of_search(palette: Palette, space: Space) -> tuple[int, int]:
    """`speck`, and the search's addition to a speck's squared distance, in quarters of a level."""
    largest = speck(palette, space)
    if largest == space.white:
        return largest, 0
    mean = _mean(_spacing(palette, space.alpha))
    ratio = mean / (ALPHA_SEARCH_SPACING if palette.has_alpha else SEARCH_SPACING)
    growth = min(max(math.sqrt(ratio * math.sqrt(ratio)), SEARCH_LEAST), SEARCH_MOST)
    return largest, int(4 * PLAIN_SHARE * space.definition.penalty * growth) ** 2


def speck(palette: Palette, space: Space) -> int:
    """Largest gap of an entry that is no speck, in values; white for palettes without penalty."""
    if not 2 < len(palette) <= MOST_COLORS or _is_coarse(palette, _spacing(palette, space.alpha)):
        return space.white
    return SPECK * space.white // 255


def entries(on_device: PaletteOnDevice, plain: bool) -> dict[str, Any]:
    """Kernel arguments of `Entries` of `cl/dithering/error_diffusion.h`, by name; `plain` as in `bounds`."""
    palette, space = on_device.palette, on_device.space

    def send() -> Buffer:
        rgba, dtype = palette.rgba(), np.int16 if space.bits == 8 else np.int32
        most = bounds(palette, space, plain)[:, [0, 1, 1, 0]]
        parts = np.stack([space.values(rgba), points_of(rgba, space), most])
        return on_device.scope.copy_of(np.minimum(parts, np.iinfo(dtype).max).astype(dtype))

    return {"entries": on_device.cached(("entries", plain), send), **penalty(on_device)}


def is_few(on_device: PaletteOnDevice) -> bool:
    """Whether GPUs take `entry_of_few` of `cl/dithering/reach.h`."""
    return len(on_device.palette) <= FEW and on_device.points_are_colors


def penalty(on_device: PaletteOnDevice) -> dict[str, Any]:
    """Kernel arguments that define a speck, by name."""
    palette, space = on_device.palette, on_device.space
    most = on_device.cached("speck", lambda: speck(palette, space))
    near = on_device.cached("within", lambda: on_device.scope.copy_of(entries_within(palette, space, most)))
    return {"within": near, "n_entries": np.int32(len(palette)), "speck": np.int32(most)}


@lru_cache(maxsize=32)
def bounds(palette: Palette, space: Space, plain: bool) -> npt.NDArray[np.int32]:
    """Per entry the most of its error's first and other components, (k, 4), of the pinwheel's in 1/16, and nothing.

    Errors are of values if `plain`, else of the space's coordinates.
    """
    colors = palette.rgba()
    found = np.full((len(colors), 4), FREE, np.int32)
    if not 2 <= len(colors) <= MOST_COLORS:
        return found
    spacing = _spacing(palette, space.alpha)
    if _is_coarse(palette, spacing):
        return found
    own = _nearest(space.values(colors) if plain else space.coordinates(colors))
    nearest = np.maximum(spacing, 1)
    share = other = np.maximum(COMPONENT_SHARE, CHROMA / nearest)
    if not plain and space.definition.is_opponent:
        # an opaque palette dithers RGBA as it does RGB
        share = np.full(len(colors), ALPHA_LUMA_SHARE if (colors[:, 3] < 255).any() else LUMA_SHARE)
        other = np.minimum(np.maximum(CHROMA, 2 * (nearest - COARSE)) / nearest, 1)
    found[:, 0] = np.minimum(share * own, FREE)
    found[:, 1] = np.minimum(other * own, FREE)
    found[:, 2] = np.minimum(np.maximum(PINWHEEL_SHARE * own, PINWHEEL_LEAST), FREE)
    return found


def spacing_of(palette: Palette) -> tuple[float, float]:
    """Return mean and least distance of opaque colours to the nearest other, in luma and chroma, in 8-bit levels."""
    spacing = _spacing(palette, False)
    return _mean(spacing), float(spacing.min())


@lru_cache(maxsize=32)
def _spacing(palette: Palette, alpha: bool) -> npt.NDArray[np.float64]:
    """`_nearest` of colours in luma and chroma, in 8-bit levels."""
    return _nearest(spaces.luma_chroma(alpha).coordinates(palette.rgba())) / 4


def _is_coarse(palette: Palette, spacing: npt.NDArray[np.float64]) -> bool:
    """Whether a palette's entries are so far apart that they are mixed from afar."""
    alpha = palette.rgba()[:, 3]
    return _mean(spacing) >= (ALPHA_COARSE if ((alpha > 0) & (alpha < 255)).any() else COARSE)


def _mean(spacing: npt.NDArray[np.float64]) -> float:
    """The mean of an exact sum, so that hosts agree."""
    return math.fsum(spacing) / len(spacing)


def _nearest(points: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """(k,): the least distance from each point to one that differs; `FREE` if there is none."""
    exact = np.float32 if points.max() <= 2048 else np.float64  # four squares are at most 2^24
    squared = mixes.squared_distances(points.T.astype(exact, order="C"))
    squared[squared == 0] = FREE * FREE
    return np.asarray(np.sqrt(squared.min(axis=1), dtype=np.float64))
