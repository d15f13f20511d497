"""The answers for all colours in a table, which is made first where a picture has more pixels than that costs.

Each pixel then takes one read instead of a search. `cl/mapping/full_table.h` says how a table lies in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.pixel_batch import PixelBatch
from clquant.runtime import Buffer, Session

FILE = "mapping/full_table.cl"
PLAIN_FILE = "mapping/full_table_plain.cl"
COLORS_FILE = "mapping/full_table_colors.cl"
COLUMNS, MAX_ROWS = 256, 32
"""COLUMNS of `cl/mapping/full_table.cl`: pixels that a tile is wide; most rows of one."""
TILES_PER_UNIT = 8
"""Tiles that a compute unit should have at least."""
GROUP, TABLE_GROUP, COLORS_GROUP = 512, 256, 256
"""Work-items that share a tile; that make a table; that share a box of `cl/mapping/full_table_colors.cl`."""
LISTS_COST = 4
"""How many times the pixels a table must have that is made from candidate lists, by what it costs on an NVIDIA H200."""
MAX_COLORS = 256
"""Most entries for which `cl/mapping/full_table_colors.cl` makes a table without lists."""
BOX, PLAIN_BOX = (16, 16, 16), (32, 16, 8)
"""Sides of a work-group's box of colours, in a table by bricks and in a plain one."""
ANY_WIDTH = 4096
"""How wide pixels in no rows are taken to be."""


class FullTable:
    """Maps by a table of all colours' nearest entries.

    Parameters
    ----------
    palette : PaletteOnDevice
    """

    def __init__(self, palette: PaletteOnDevice) -> None:
        self._palette = palette

    @staticmethod
    def suits(palette: PaletteOnDevice, channels: int) -> bool:
        """Whether so many pixels are expected that a table is worthwhile, and it fits the device.

        Parameters
        ----------
        palette : PaletteOnDevice
        channels : int
            Of the pixels: 1, 3 or 4.
        """
        return is_worthwhile(palette, channels, palette.index_bytes)

    def map(self, batch: PixelBatch) -> None:
        """Queue the mapping of pixels to their nearest entries.

        Parameters
        ----------
        batch : PixelBatch
        """
        palette, channels = self._palette, batch.channels
        width = batch.width if batch.width is not None and batch.width >= COLUMNS else ANY_WIDTH
        tiles, rows = tiles_of_rows(palette.session, batch.count, width, COLUMNS, MAX_ROWS)
        constants: Any = {"ALIGNED": aligned(width, batch)}
        kernel = palette.session.program(FILE, **palette.constants(channels), **constants).kernel("map_pixels")
        group = palette.session.work_group_size(kernel, GROUP)
        own = {"table": nearest_table(palette, channels), "width": np.uint32(width), "rows": np.uint32(rows)}
        given = {**palette.arguments(searches=channels == 4), **batch.arguments, **own}
        palette.session.launch(kernel, tiles * group, group, **given)


def is_worthwhile(palette: PaletteOnDevice, channels: int, entry_bytes: int, cost: int = 1) -> bool:
    """Whether a table of such entries should be made, and fits the device.

    Parameters
    ----------
    palette : PaletteOnDevice
    channels : int
        Of the pixels: 1, 3 or 4.
    entry_bytes : int
    cost : int
        Of the table, beside that of nearest entries.
    """
    session = palette.session
    least = cost * (1 if _needs_no_lists(palette, channels) else LISTS_COST) * session.tuned("mapping.table_pays")
    return palette.expected_pixels >= least and table_colors(channels) * entry_bytes <= session.limits.max_alloc


def _needs_no_lists(palette: PaletteOnDevice, channels: int) -> bool:
    return channels != 1 and palette.points_are_colors and len(palette.palette) <= MAX_COLORS


def aligned(width: int, batch: PixelBatch) -> int:
    """ALIGNED of `cl/mapping/full_table.h`.

    Parameters
    ----------
    width : int
    batch : PixelBatch
    """
    return int(width % 4 == 0 and batch.count % 4 == 0)


def table_colors(channels: int) -> int:
    """Entries of a table.

    Parameters
    ----------
    channels : int
    """
    return 1 << (8 if channels == 1 else 24)


def nearest_table(palette: PaletteOnDevice, channels: int) -> Buffer:
    """The table of nearest entries, made when it is first asked for.

    Parameters
    ----------
    palette : PaletteOnDevice
    channels : int

    Returns
    -------
    pyopencl.Buffer
        Of the palette's index dtype, in the order of `cl/mapping/full_table.h`.
    """
    colors = table_colors(channels)

    def make() -> Buffer:
        table = palette.scope.empty(colors * palette.index_bytes)
        if _needs_no_lists(palette, channels):
            _map_boxes(palette, table, channels, plain=False)
        else:
            over_colors(
                palette, FILE, "map_colors", channels, {"table": table, "quads": np.uint32(colors // 4)}, ALIGNED=1
            )
        return table

    return palette.cached(("nearest", channels), make)


def over_colors(
    palette: PaletteOnDevice, file: str, kernel_name: str, channels: int, own: Mapping[str, Any], **constants: Any
) -> None:
    """Queue a kernel with a work-item for every four colours of a table.

    Parameters
    ----------
    palette : PaletteOnDevice
    file, kernel_name : str
    channels : int
    own : mapping
        The kernel's own arguments by name.
    **constants : int
    """
    items, fine = table_colors(channels) // 4, channels != 1
    palette.launch(file, kernel_name, channels, items, TABLE_GROUP, own, fine=fine, **constants)


def _map_boxes(palette: PaletteOnDevice, table: Buffer, channels: int, *, plain: bool) -> None:
    """Queue `cl/mapping/full_table_colors.cl`."""
    session, box = palette.session, PLAIN_BOX if plain else BOX
    sides: Any = dict(zip(("WIDE", "HIGH", "DEEP"), box, strict=True))
    program = session.program(COLORS_FILE, **sides, PLAIN=int(plain), **palette.constants(channels))
    kernel = program.kernel("map_colors")
    group = session.work_group_size(kernel, COLORS_GROUP)
    groups = table_colors(channels) // int(np.prod(box))
    session.launch(kernel, groups * group, group, palette.points, np.uint32(len(palette.palette)), table)


def plain_table(palette: PaletteOnDevice) -> Buffer:
    """Queue what finds the nearest entries of all opaque colours.

    Parameters
    ----------
    palette : PaletteOnDevice

    Returns
    -------
    pyopencl.Buffer
        (2^24) of the palette's index dtype, by R | G << 8 | B << 16.
    """
    channels = 3

    def make() -> Buffer:
        table = palette.scope.empty(table_colors(channels) * palette.index_bytes)
        if _needs_no_lists(palette, channels):
            _map_boxes(palette, table, channels, plain=True)
        else:
            own = {"nearest": table}
            palette.launch(PLAIN_FILE, "nearest_of_all", channels, table_colors(channels), TABLE_GROUP, own)
        return table

    return palette.cached("plain", make)


def tiles_of_rows(session: Session, count: int, width: int, columns: int, max_rows: int) -> tuple[int, int]:
    """Tiles of pixels in rows, and rows of one.

    Parameters
    ----------
    session : Session
    count, width : int
        Pixels, and those of a row.
    columns, max_rows : int
        Of a tile.
    """
    rows = count // (columns * TILES_PER_UNIT * session.limits.compute_units)
    # A tile's pixels are numbered in 32 bits.
    rows = max(1, min(max_rows, rows, (1 << 32) // width - 1))
    height = -(-count // width)
    return -(-width // columns) * -(-height // rows), rows
