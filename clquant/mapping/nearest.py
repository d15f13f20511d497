"""Nearest-colour mapping: the exact palette index of every pixel, by comparison with its cell's candidates.

For more than a few pixels a candidate grid is built first (`cl/mapping/candidates.cl`): per cell of the colour space
the entries that can be nearest to some point of it. It is exact, and on photographs leaves a handful of comparisons per
pixel whatever the number of colours. CPUs search eight candidates at once, and each colour of a run of pixels once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clquant.flow import Portion
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.runtime import Scope, Session

PIXEL_FILE = "mapping/nearest.cl"
LANE_FILE = "mapping/nearest_lanes.cl"
MEMO_BITS = 5
"""Of `launch_lanes`: from a larger memo answers load more slowly than they are found."""
MEMO_ENTRY_BYTES = 8
MIN_PIXELS_PER_ITEM = 1 << 12
"""Pixels that a CPU's work-item has at least, where those of one run share what they find."""


class PixelSearch:
    """A work-item per pixel, which searches the pixel's cell: the portable form."""

    def __init__(self, palette: PaletteOnDevice) -> None:
        self._palette = palette

    def map(self, session: Session, scope: Scope, portion: Portion) -> None:  # noqa: ARG002
        """Queue the mapping of pixels to their nearest entries."""
        own, group = portion.arguments, session.tuned("mapping.group")
        self._palette.launch(PIXEL_FILE, "map_pixels", portion.picture.channels, portion.count, group, own)


class LaneSearch(PixelSearch):
    """Candidates in the lanes of a vector, and each colour of a run of pixels once: the form for CPUs."""

    def map(self, session: Session, scope: Scope, portion: Portion) -> None:  # noqa: ARG002
        """Map a portion's pixels to their nearest entries; see `PixelSearch.map`."""
        launch_lanes(self._palette, scope, LANE_FILE, "map_pixels", portion, MEMO_BITS, MEMO_ENTRY_BYTES, {})


def launch_lanes(
    palette: PaletteOnDevice,
    scope: Scope,
    file: str,
    kernel_name: str,
    portion: Portion,
    memo_bits: int,
    entry_bytes: int,
    constants: Mapping[str, int],
    **own: Any,
) -> None:
    """Queue a kernel of `LANE_PARAMETERS` of `cl/mapping/candidates_lanes.h`.

    A work-item remembers at most 2^(3 memo_bits) colours' answers in `entry_bytes` bytes each.
    """
    session = palette.session
    kernel = session.program(file, **palette.constants(portion.picture.channels), **constants).kernel(kernel_name)
    most = session.limits.max_alloc // entry_bytes
    items = items_of(session, portion.count)
    useful = min(most, 2 * portion.count // items)
    bits = next(b for b in range(memo_bits, 0, -1) if b == 1 or 1 << 3 * b <= useful)
    items = max(1, min(items, most >> 3 * bits))
    memo = scope.empty((entry_bytes << 3 * bits) * items)
    given = {**palette.lane_arguments(), **portion.arguments, "memo": memo, "memo_bits": np.int32(bits)}
    session.launch(kernel, items, 1, **given, **own)


def items_of(session: Session, count: int) -> int:
    """Return how many work-items of a CPU share so many pixels, at least one."""
    items = session.tuned("mapping.groups_a_unit") * session.limits.compute_units
    return max(1, min(items, count // MIN_PIXELS_PER_ITEM))
