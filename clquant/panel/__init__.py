"""Pictures for e-paper panels: measured palettes, tone and gamut compression, packed frames."""

from clquant.panel.fitting import fitted
from clquant.panel.packing import pack_codes, pack_planes
from clquant.panel.panel import Panel
from clquant.panel.presets import PANELS, panel

__all__ = ["PANELS", "Panel", "fitted", "pack_codes", "pack_planes", "panel"]
