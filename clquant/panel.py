"""Pictures for e-paper panels: measured palettes, tone and gamut compression, packed frames."""

from clquant.targets.panel import PANELS, Panel, fitted, pack_codes, pack_planes, panel

__all__ = ["PANELS", "Panel", "fitted", "pack_codes", "pack_planes", "panel"]
