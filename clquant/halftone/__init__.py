"""Halftoning by block-interlaced pinwheel error diffusion with trained tables."""

from clquant.halftone.halftoner import PinwheelHalftoner
from clquant.halftone.tables import WeightTables

__all__ = ["PinwheelHalftoner", "WeightTables"]
