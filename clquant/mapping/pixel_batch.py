"""What a mapping or a dithering is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant.runtime import Buffer, Session

MIN_PIXELS_PER_ITEM = 1 << 12
"""Pixels that a CPU's work-item has at least, where those of one run share what they find."""


@dataclass(frozen=True)
class PixelBatch:
    """Pixels, and where the entries chosen for them go."""

    pixels: Buffer  # (count, channels) uint8 or uint16
    channels: int  # 1, 3 or 4
    count: int
    out: Buffer  # (count) of the palette's index dtype
    # pixels of a row, where neighbours below each other are similar too; changes no nearest entry
    width: int | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Pixels, out and count as kernels take them, by name."""
        return {"pixels": self.pixels, "out": self.out, "n": np.uint64(self.count)}

    def runs(self, session: Session) -> int:
        """Work-items that share the pixels on CPUs, at least one."""
        items = session.tuned("mapping.groups_a_unit") * session.limits.compute_units
        return max(1, min(items, self.count // MIN_PIXELS_PER_ITEM))
