"""Palettes of few colours on CPUs: every entry compared, pixels side by side in the lanes of a vector.

`cl/mapping/small_palette.h` says how. That takes no candidate lists, no memory of answers, and the same time for every
picture.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant.color.palette import Palette
from clquant.runtime import Buffer, Scope

# FEW of `cl/mapping/small_palette.h`: the bits of a score below it are an index.
FEW = 32
# Most numbers of an ordered dithering's mask, whose products `cl/dithering/ordered_small.cl` keeps in 32 bits.
MOST_THRESHOLDS = 4096


class FewColors:
    """A palette of at most `FEW` colours as kernels of `cl/mapping/small_palette.h` take it; device memory belongs to a
    scope.

    Parameters
    ----------
    scope : Scope
    palette : Palette
        1 to `FEW` colours; their alpha is not looked at.
    """

    def __init__(self, scope: Scope, palette: Palette) -> None:
        assert len(palette) <= FEW
        self._scope = scope
        self._count = len(palette)
        self._colors = np.zeros((FEW, 3), np.int32)
        self._colors[: self._count] = palette.rgba()[:, :3]
        entries = np.empty((FEW, 4), np.float32)
        entries[:, :3] = -2 * FEW * self._colors
        entries[:, 3] = FEW * np.sum(self._colors**2, axis=1) + np.arange(FEW)
        entries[self._count :, 3] = 2**30  # two entries are compared at once, and these are never the nearest
        self._entries: Buffer = scope.copy_of(entries)

    def arguments(self) -> tuple[Any, ...]:
        """What every kernel begins with: entries and their number."""
        return self._entries, np.uint32(self._count)

    def packed(self) -> Buffer:
        """(FEW) uint32: R | G << 8 | B << 16 of each entry."""
        return self._scope.copy_of((self._colors << np.array((0, 8, 16))).sum(axis=1).astype(np.uint32))
