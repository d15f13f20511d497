"""Palettes per tile, as consoles have them."""

from clquant.targets.tilesets.engine import TilePalettes

__all__ = ["TilePalettes"]
