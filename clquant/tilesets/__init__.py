"""Palettes per tile, as consoles have them."""

from clquant.tilesets.engine import TilePalettes

__all__ = ["TilePalettes"]
