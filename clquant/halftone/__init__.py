"""Halftoning by block-interlaced pinwheel error diffusion with trained tables; the classic serial scan beside it."""

from clquant.halftone.floyd_steinberg import floyd_steinberg
from clquant.halftone.halftoner import PinwheelHalftoner
from clquant.halftone.tables import WeightTables

__all__ = ["PinwheelHalftoner", "WeightTables", "floyd_steinberg"]
