"""Palettes on the device: new ones, or that of an earlier job for the same palette.

A CPU takes as long to list a palette's candidates as to map a hundred thousand pixels, and a GPU's host as long to send
a palette's small tables as to do all the rest for a small picture; and pictures that come one after another often share
a palette.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

from clquant import runtime
from clquant.color.palette import Palette
from clquant.color.spaces import Space
from clquant.mapping.candidates import is_finer
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.search import VARIANTS

MAX_BYTES = 1 << 23
"""Most bytes of the lists and tables of a palette that is kept on any device."""
MEMORY_PER_PALETTE = 256
"""On a device with much memory one part in so many may hold a kept palette: tables of all colours take 16 to 96 MB."""


def open_palette(
    session: runtime.Session, palette: Palette, space: Space, expected_pixels: int, metric: str = "l2"
) -> AbstractContextManager[PaletteOnDevice]:
    """A palette whose device memory lasts as long as the block."""

    def make(scope: runtime.Scope) -> PaletteOnDevice:
        return PaletteOnDevice.of(session, scope, palette, space, expected_pixels, metric)

    key = _key(session, palette, space, expected_pixels, metric)
    most = max(MAX_BYTES, session.limits.global_memory // MEMORY_PER_PALETTE)
    return runtime.cached_job(session, key, make, lambda made: made.made_bytes <= most)


def _key(
    session: runtime.Session, palette: Palette, space: Space, expected_pixels: int, metric: str
) -> tuple[Hashable, ...]:
    """Collect all that a palette's lists and forms depend on."""
    searches = expected_pixels * len(palette)
    form = session.choose(VARIANTS).name
    how = (metric, searches >= session.tuned("mapping.grid_pays"), is_finer(space, searches, session.limits))
    return ("palette", palette.colors.shape, palette.colors.tobytes(), space, how, form, session.tuned("mapping.group"))
