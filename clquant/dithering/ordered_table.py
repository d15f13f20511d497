"""Ordered dithering by a table of all colours' answers: two entries and a level of the mask each.

Each pixel then takes one read instead of two searches. `cl/mapping/full_table.h` says how a table lies in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant.dithering.threshold_maps import MaskOnDevice
from clquant.mapping import full_table
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.pixel_batch import PixelBatch
from clquant.runtime import Buffer

FILE = "dithering/ordered_table.cl"
ANSWER_BYTES = 4
"""Of an answer, which palettes of more than 256 colours have no table of."""
ANSWERS_COST = 2
"""What the table costs beside that of nearest entries, on an NVIDIA H200."""
COLUMNS, MAX_ROWS = 128, 128
"""COLUMNS of the kernel's file: pixels that a tile is wide; most rows of one. Answers take four times the cache of
nearest entries, so that tiles are squares."""
GROUP = 512


class TableOrdered:
    """Dithers by a table.

    Parameters
    ----------
    palette : PaletteOnDevice
        Of at most 256 colours.
    """

    def __init__(self, palette: PaletteOnDevice) -> None:
        self._palette = palette

    @staticmethod
    def suits(palette: PaletteOnDevice, channels: int) -> bool:
        """Whether so many pixels are expected that a table is worthwhile, and there is one for the palette.

        Parameters
        ----------
        palette : PaletteOnDevice
        channels : int
            Of the pixels: 1, 3 or 4.
        """
        fits = palette.index_bytes == 1
        return fits and full_table.is_worthwhile(palette, channels, ANSWER_BYTES, ANSWERS_COST)

    def dither(self, batch: PixelBatch, width: int, first_row: int, mask: MaskOnDevice) -> None:
        """Queue the dithering of rows of pixels.

        Parameters
        ----------
        batch : PixelBatch
        width, first_row : int
            Pixels of a row; the first one's place in the picture.
        mask : MaskOnDevice
        """
        palette, session, channels = self._palette, self._palette.session, batch.channels
        constants: Any = {"ALIGNED": full_table.aligned(width, batch) * int(mask.side % 4 == 0)}
        if session.limits.is_nvidia:
            constants["GROUP"] = 1 << (min(GROUP, session.limits.work_group).bit_length() - 1)
        answers = self._answers(channels, mask, constants)
        tiles, rows = full_table.tiles_of_rows(session, batch.count, width, COLUMNS, MAX_ROWS)
        kernel = session.program(FILE, **palette.constants(channels), **constants).kernel("dither_ordered")
        group = constants.get("GROUP") or session.work_group_size(kernel, GROUP)
        given = {**palette.arguments(searches=channels == 4), **batch.arguments}
        own = {"answers": answers, "rows": np.uint32(rows), **mask.arguments(palette, width, first_row)}
        session.launch(kernel, tiles * group, group, **given, **own)

    def _answers(self, channels: int, mask: MaskOnDevice, constants: dict[str, int]) -> Buffer:
        """The table, made by the program that has these constants."""
        palette, colors = self._palette, full_table.table_colors(channels)

        def make() -> Buffer:
            answers = palette.scope.empty(ANSWER_BYTES * colors)
            shared = mask.arguments(palette, 0, 0)
            own = {
                "nearest": full_table.nearest_table(palette, channels),
                "answers": answers,
                "quads": np.uint32(colors // 4),
                "values": np.int32(mask.side**2),
                **{name: shared[name] for name in ("extent", "strength")},
            }
            full_table.over_colors(palette, FILE, "dither_colors", channels, own, **constants)
            return answers

        return palette.cached(("answers", channels, mask.side, mask.strength), make)
