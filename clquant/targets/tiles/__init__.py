"""Tile pyramids of maps in one palette: folders z/x/y, MBTiles and PMTiles."""

from clquant.targets.tiles.quantize import PyramidReport, histogram, quantize

__all__ = ["PyramidReport", "histogram", "quantize"]
