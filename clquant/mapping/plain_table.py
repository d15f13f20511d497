"""A table of the nearest entries of all opaque 8-bit colours, for scans whose pixels would wait for their search."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.runtime import Buffer

FILE = "mapping/plain_table.cl"
COLORS_FILE = "mapping/plain_table_colors.cl"
TABLE_COLORS = 1 << 24
GROUP = 256
"""Work-items of a group, in either file."""
LISTS_COST = 4
"""How many times the pixels a table must have that is made from candidate lists, by what it costs on an NVIDIA H200."""
MAX_COLORS = 256
"""Most entries for which `cl/mapping/plain_table_colors.cl` makes a table without lists."""
BOX = {"WIDE": 32, "HIGH": 16, "DEEP": 8}
"""Sides of a work-group's box of colours."""


def is_worthwhile(palette: PaletteOnDevice, pixels: int) -> bool:
    """Whether so many pixels are worth a table of a palette, and it fits the device."""
    session = palette.session
    least = (1 if _needs_no_lists(palette) else LISTS_COST) * session.tuned("mapping.table_pays")
    return pixels >= least and TABLE_COLORS * palette.index_bytes <= session.limits.max_alloc


def _needs_no_lists(palette: PaletteOnDevice) -> bool:
    return palette.points_are_colors and len(palette.palette) <= MAX_COLORS


def plain_table(palette: PaletteOnDevice) -> Buffer:
    """The (2^24) table of the palette's index dtype, by R | G << 8 | B << 16; queued when first asked for."""

    def make() -> Buffer:
        table = palette.scope.empty(TABLE_COLORS * palette.index_bytes)
        if _needs_no_lists(palette):
            _map_boxes(palette, table)
        else:
            palette.launch(FILE, "nearest_of_all", 3, TABLE_COLORS, GROUP, {"nearest": table})
        return table

    return palette.cached("plain", make)


def _map_boxes(palette: PaletteOnDevice, table: Buffer) -> None:
    """Queue `cl/mapping/plain_table_colors.cl`."""
    session = palette.session
    constants: dict[str, Any] = {**BOX, **palette.constants(3)}
    kernel = session.program(COLORS_FILE, **constants).kernel("map_colors")
    group = session.work_group_size(kernel, GROUP)
    groups = TABLE_COLORS // int(np.prod(list(BOX.values())))
    session.launch(kernel, groups * group, group, palette.points, np.uint32(len(palette.palette)), table)
