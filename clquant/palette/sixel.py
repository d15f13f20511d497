"""The colours that terminals show for a palette; the encoder is `clquant.color.formats.sixel`."""

from __future__ import annotations

from clquant.color.formats import sixel
from clquant.color.palette import Palette


def shown_palette(palette: Palette) -> Palette:
    """The colours that a terminal shows for a palette: sixel's rounding; alpha below 128 becomes 0, else 255.

    Map pictures through this palette before `IndexedImage.to_sixel`, so that each pixel takes its nearest among what
    is really shown.

    Returns
    -------
    Palette
        Of as many colours, in the same order.
    """
    return Palette(sixel.shown_colors(palette.colors))
