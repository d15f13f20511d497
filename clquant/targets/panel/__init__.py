"""Pictures for e-paper panels: measured palettes, tone and gamut compression, packed frames."""

from clquant.targets.panel.fitting import fitted
from clquant.targets.panel.packing import pack_codes, pack_planes
from clquant.targets.panel.panel import Panel
from clquant.targets.panel.presets import PANELS, panel

__all__ = ["PANELS", "Panel", "fitted", "pack_codes", "pack_planes", "panel"]
