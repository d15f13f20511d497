"""The sizes of a subtree on a device: its levels, its tiles, and the kernels' arguments for both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clquant import runtime
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.geometry import cells

STOP = np.uint32(1 << 31)  # of a node that stops a split
MAX_TILE_LEVEL = 6  # tiles of 64 pixels per side; forms other than the portable one are for these


@dataclass(frozen=True)
class Region:
    """Pixels on the device from which one subtree is built."""

    pixels: runtime.Buffer
    origin: int  # byte of the first pixel
    pitch: int  # bytes from one row to the next
    height: int  # pixels inside the picture
    width: int  # likewise
    left: int  # the subtree's corner in the picture
    top: int  # likewise
    level: int  # of the subtree's root, which may be wider than the pixels inside


@dataclass
class Plan:
    """A region's levels, counted from the pixels, and the constants and arguments that its kernels share."""

    session: runtime.Session
    region: Region
    channels: int
    criterion: Criterion
    bands: int = field(init=False)  # values that are summed for each pixel
    tile: int = field(init=False)  # level of the tiles that a work-group reduces
    last: int = field(init=False)  # the highest level that is stored: the root's, or the tiles' if that is higher
    cells: dict[int, int] = field(init=False)  # nodes by level, from 1 to `last`

    def __post_init__(self) -> None:
        region = self.region
        self.bands = self.criterion.bands(self.channels)
        self.tile = tile_level(self.session.limits, self.bands)
        self.last = max(region.level, self.tile)
        self.cells = {level: cells(region.height, region.width, level) for level in range(1, self.last + 1)}

    @property
    def top(self) -> int:
        """The root's level."""
        return self.region.level

    def cells_from(self, first: int, last: int) -> int:
        """Nodes of the levels ``first..last - 1`` together: where `last` begins behind `first`."""
        return sum(self.cells[level] for level in range(first, last))

    def constants(self, **more: int | str) -> dict[str, int | str]:
        """Compile-time constants of `cl/quadtree/quadtree.h` and `pixels.h`, and others."""
        aligned = self.region.origin % 4 == 0 and self.region.pitch % 4 == 0
        constants = self.criterion.constants(self.channels)
        return {**constants, "TILE_LEVEL": self.tile, "ALIGNED": int(aligned), **more}

    def kernel(self, file: str, name: str, wanted: int, **more: int | str) -> tuple[runtime.Kernel, int]:
        """A kernel that is built for its work-group size, and that size: up to `wanted`, as the device admits."""
        constants = self.constants(**more)

        def build(group: int) -> runtime.Kernel:
            return self.session.program(file, **constants, GROUP=group).kernel(name)

        return self.session.kernel_for_group(wanted, build)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that the kernels of tiles and leaves share, by name."""
        region, criterion = self.region, self.criterion
        sizes = {
            "pitch": region.pitch,
            "width": region.width,
            "height": region.height,
            "left": region.left,
            "top": region.top,
            "floor_level": criterion.floor_level,
            "top_level": self.top,
            "last_level": self.last,
        }
        numbers = {name: np.uint32(size) for name, size in sizes.items()}
        origin, bound = np.uint64(region.origin), np.uint64(criterion.bound)
        return {"pixels": region.pixels, "origin": origin, "bound": bound, **numbers}


def tile_level(limits: runtime.Limits, bands: int) -> int:
    """Side of the tiles that one work-group reduces, as a level: the greatest whose local memory the device has."""
    for level in (MAX_TILE_LEVEL, 5):
        nodes = 4 ** (level - 3)
        if (nodes * 4 // 3 + 1) * (10 * bands + 4) <= limits.local_memory:
            return level
    return 4


def tiles_at_once(limits: runtime.Limits, tiles: int, most: int) -> int:
    """Number of tiles per work-item of a form for CPUs, up to `most`: fewer if few work-items would be left."""
    return max(min(tiles // (16 * limits.compute_units), most), 1)
