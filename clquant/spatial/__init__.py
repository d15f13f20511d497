"""Palettes fitted together with the dithering that shows them."""

from clquant.spatial.engine import SpatialPalette

__all__ = ["SpatialPalette"]
