"""Small palettes on CPUs: every entry compared, pixels side by side in the lanes of a vector.

`cl/mapping/small_palette.h` says how. That takes no candidate lists, no memory of answers, and the same time for every
picture.
"""

from __future__ import annotations

import numpy as np

from clquant.flow import Portion
from clquant.mapping.nearest import items_of
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.runtime import Buffer, Scope, Session

FILE = "mapping/small_palette.cl"
MAX_COLORS = 32
"""FEW of `cl/mapping/small_palette.h`: the bits of a score below it are an index."""


class SmallPalette:
    """A palette of at most `MAX_COLORS` colours of plain RGB."""

    def __init__(self, palette: PaletteOnDevice) -> None:
        self._palette = palette
        self._count = len(palette.palette)
        self._colors = np.zeros((MAX_COLORS, 3), np.int32)
        self._colors[: self._count] = palette.palette.rgba()[:, :3]
        entries = np.empty((MAX_COLORS, 4), np.float32)
        entries[:, :3] = -2 * MAX_COLORS * self._colors
        entries[:, 3] = MAX_COLORS * np.sum(self._colors**2, axis=1) + np.arange(MAX_COLORS)
        entries[self._count :, 3] = 2**30  # two entries are compared at once, and these are never the nearest
        self._entries: Buffer = palette.scope.copy_of(entries)

    @staticmethod
    def suits(palette: PaletteOnDevice, _channels: int) -> bool:
        """Whether the palette is small, and compared in plain RGB."""
        return len(palette.palette) <= MAX_COLORS and palette.points_are_colors

    def map(self, session: Session, scope: Scope, portion: Portion) -> None:  # noqa: ARG002
        """Queue the mapping of pixels to their nearest entries."""
        kernel = session.program(FILE, CHANNELS=portion.picture.channels).kernel("map_pixels")
        given = {"entries": self._entries, "colors": np.uint32(self._count), **portion.arguments}
        session.launch(kernel, items_of(session, portion.count), 1, **given)
