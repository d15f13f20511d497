"""The form of the search for nearest entries that a device, a palette and its pixels take."""

from __future__ import annotations

from typing import Any

from clquant.mapping import nearest
from clquant.mapping.nearest import LaneSearch, PixelSearch
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.small_palette import SmallPalette
from clquant.runtime import Limits, Variant

VARIANTS = (
    Variant("lanes", nearest.LANE_FILE, Limits.has_lanes, launchers=(SmallPalette, LaneSearch), gain=9.6),
    Variant("portable", nearest.PIXEL_FILE, launchers=(PixelSearch,)),
)
"""Forms of the mapping."""


def search_of(palette: PaletteOnDevice, channels: int, table: tuple[Variant, ...] = VARIANTS) -> Any:
    """Choose the first form of a table that suits a palette on its device; for 16 bits the portable one."""
    chosen = palette.session.choose(table) if palette.space.bits == 8 else table[-1]
    *special, general = chosen.launchers
    form = next((each for each in special if each.suits(palette, channels)), general)
    return palette.cached(form, lambda: form(palette))
