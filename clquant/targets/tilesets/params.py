"""The parameters of `TilePalettes`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color import spaces
from clquant.color.display import DisplayFormat, checked_format
from clquant.color.palette import MOST_COLORS, checked_colors
from clquant.color.spaces import Space
from clquant.dithering.ordered import OrderedDither
from clquant.dithering.registry import find_dither
from clquant.dithering.threshold_maps import ORDERED
from clquant.runtime import InvalidArgument

MOST_SIDE, MOST_PIXELS, MOST_PALETTES = 256, 256, 256


@dataclass(frozen=True)
class TileParams:
    """The arguments of an engine, all of them allowed."""

    n_palettes: int
    n_colors: int
    side: tuple[int, int]  # rows and columns of a tile
    shared: npt.NDArray[np.uint8] | None  # (3,) uint8: a first entry that all palettes have
    reserves: bool  # whether the first entries are transparent whether or not a picture has transparent pixels
    learns_shared: bool  # whether all palettes have a first entry that is learned
    space: Space
    display: DisplayFormat | None
    rounds: int
    seed: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> TileParams:
        """Check the arguments of an engine, given by their names."""
        n_palettes = params.integer("n_palettes", given["n_palettes"], 1, MOST_PALETTES)
        n_colors = params.integer("n_colors", given["n_colors"], 2, 256)
        if n_palettes * n_colors > MOST_COLORS - 1:
            raise InvalidArgument(
                f"n_palettes is {n_palettes} with n_colors={n_colors}; allowed: fewer than {MOST_COLORS} colours in all"
            )
        display, color = checked_format(given["color_format"]), given["shared_color"]
        has_color = color is not None and not isinstance(color, bool)
        shared, reserves = _checked_shared(color, display) if has_color else (None, False)
        return cls(
            n_palettes=n_palettes,
            n_colors=n_colors,
            side=_checked_side(given["tile_size"]),
            shared=shared,
            reserves=reserves,
            learns_shared=color is True,
            space=spaces.space(params.choice("color_space", given["color_space"], spaces.NAMES), False),
            display=display,
            rounds=params.integer("swap_rounds", given["swap_rounds"], 0, 1000),
            seed=params.seed(given["random_state"]),
        )


def _checked_side(size: Any) -> tuple[int, int]:
    """Rows and columns of a tile."""
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2:
        raise InvalidArgument(f"tile_size is {params.shown(size)}; allowed: a number, or rows and columns")
    rows, columns = (params.integer("tile_size", side, 1, MOST_SIDE) for side in pair)
    if rows * columns > MOST_PIXELS:
        raise InvalidArgument(f"tile_size is {params.shown(size)}; allowed: at most {MOST_PIXELS} pixels")
    return rows, columns


def _checked_shared(color: Any, display: DisplayFormat | None) -> tuple[npt.NDArray[np.uint8], bool]:
    """(3,) uint8: a shared colour, as a display has it; and whether it is transparent."""
    colors = checked_colors([color], "shared_color")
    alpha = int(colors[0, 3]) if colors.shape[1] == 4 else 255
    if alpha not in (0, 255):
        raise InvalidArgument(f"shared_color is {params.shown(color)}; allowed: an opaque colour, or one of alpha 0")
    rgb = colors[:, :3]
    return np.asarray((rgb if display is None else display.nearest(rgb))[0], np.uint8), alpha == 0


def checked_dither(dither: Any) -> Any:
    if dither is None or dither is False:
        return None
    if not isinstance(dither, OrderedDither) and not (isinstance(dither, str) and dither in ORDERED):
        names = ", ".join(map(repr, ORDERED))
        raise InvalidArgument(
            f"dither is {params.shown(dither)}; allowed for tiles: None, {names}, or an OrderedDither"
        )
    find_dither(dither)
    return dither
