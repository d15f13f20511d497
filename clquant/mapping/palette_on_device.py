"""A palette on the device: its points in a colour space, and what kernels that search it are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette, TransparencyError
from clquant.color.spaces import Space
from clquant.mapping.candidates import CandidateLister, fine_shift, is_finer
from clquant.mapping.candidates_lanes import LaneGrid, int4, layers_of
from clquant.runtime import Buffer, Scope, Session

METRICS = ("l2", "l1")
"""How colours are compared: by squared distance, or by the sum of absolute differences."""
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class PaletteOnDevice:
    """A palette in one colour space; its device memory belongs to a scope."""

    session: Session
    scope: Scope
    palette: Palette
    space: Space  # with alpha where pixels or palette have it; of 16-bit values for pixels of 16 bits
    expected_pixels: int  # how many pixels will come in all; decides whether a candidate grid or a table is worthwhile
    metric: str
    points: Buffer  # (k, 4) int32: the palette's coordinates in the space
    _made: dict[object, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, session: Session, scope: Scope, palette: Palette, space: Space, expected_pixels: int, metric: str = "l2"
    ) -> PaletteOnDevice:
        """Send a palette; arguments as the attributes of their names."""
        points = scope.copy_of(points_of(palette.rgba(), space))
        return cls(session, scope, palette, space, expected_pixels, metric, points)

    @property
    def index_bytes(self) -> int:
        """Bytes of a palette index."""
        return self.palette.index_dtype.itemsize

    @property
    def is_squared(self) -> bool:
        """Whether the nearest entry is the one of the least squared distance."""
        return self.metric == "l2"

    @property
    def points_are_colors(self) -> bool:
        """Whether the nearest entry is the one of the least squared distance of plain RGB."""
        return self.space.name == "srgb" and not self.space.alpha and self.is_squared and self.space.bits == 8

    @property
    def grid_is_worthwhile(self) -> bool:
        """Whether so many pixels are expected that a candidate grid is made first."""
        searches = self.expected_pixels * len(self.palette)
        return searches >= self.session.tuned("mapping.grid_pays") and self.is_squared

    @property
    def made_bytes(self) -> int:
        """Bytes of the candidate lists and tables that were made so far."""
        return sum(
            made.size if isinstance(made, Buffer) else getattr(made, "nbytes", 0) for made in self._made.values()
        )

    def cached(self, key: object, make: Callable[[], Made]) -> Made:
        """Return what `make` gave when this key was first asked for; it belongs to the scope."""
        if key not in self._made:
            self._made[key] = make()
        found: Made = self._made[key]
        return found

    def constants(self, channels: int) -> dict[str, int | str]:
        """Compile-time constants of `cl/mapping/nearest.h` for pixels of 1, 3 or 4 channels."""
        return {
            "CHANNELS": channels,
            "INDEX": "uchar" if self.index_bytes == 1 else "ushort",
            "EXACT_TIES": int(not self.space.is_injective),
            "CITY_BLOCK": int(not self.is_squared),
            **self.space.constants(),
        }

    def arguments(self, fine: bool = True, searches: bool = True) -> dict[str, Any]:
        """Arguments by name for `PALETTE_PARAMETERS` of `cl/mapping/nearest.h`.

        `fine`: with a candidate grid if that is worthwhile, else one cell. Without `searches`, for kernels that read
        the points alone, these stand for all other buffers, so that a picture waits for fewer copies.
        """
        if not searches:
            buffers = ("tables", "points", "colors", "starts", "list", "missing")
            numbers = {"grid": int4((1, 1, 1, 1)), "shift": np.int32(0), "transparent": self._transparent}
            return {**dict.fromkeys(buffers, self.points), **numbers}
        if fine and self.grid_is_worthwhile:
            comparisons = self.expected_pixels * len(self.palette)
            shift = fine_shift(self.space, is_finer(self.space, comparisons, self.session.limits))
            cells = self.cached("fine", lambda: self._lister().fine(shift))
        else:
            cells = self.cached("whole", lambda: self._lister().whole())
        return {
            "tables": self._tables,
            "points": self.points,
            "colors": self.colors,
            "starts": cells.starts,
            "list": cells.entries,
            "grid": int4(cells.cells),
            "shift": np.int32(cells.shift),
            "transparent": self._transparent,
            "missing": self._missing,
        }

    @property
    def colors(self) -> Buffer:
        """(k, 4) int32: the palette's values, of the space's bits."""

        def send() -> Buffer:
            return self.scope.copy_of(self.space.values(self.palette.rgba()).astype(np.int32))

        return self.cached("colors", send)

    def lane_arguments(self) -> dict[str, Any]:
        """Return the arguments for `LANE_PARAMETERS` of `cl/mapping/candidates_lanes.h`, by name."""
        given = self.session, self.scope, self.palette, self.space
        grid = self.cached("lanes", lambda: LaneGrid(*given, whole=not self.grid_is_worthwhile))
        own = {"tables": self._tables, "transparent": self._transparent, "missing": self._missing}
        return {**own, **grid.arguments()}

    def _lister(self) -> CandidateLister:
        space, layers = self.space, layers_of(self.palette, self.space)
        return CandidateLister(self.session, self.scope, space.extent, space.bits, self.points, layers)

    @property
    def _tables(self) -> Buffer:
        return self.cached("tables", lambda: self.scope.copy_of(self.space.tables()))

    @property
    def _missing(self) -> Buffer:
        """Buffer in which kernels note that a transparent entry is wanting."""
        return self.cached("missing", lambda: self.scope.zeros(4))

    @property
    def _transparent(self) -> np.int32:
        index = self.palette.transparent_index
        value: np.int32 = np.int32(-1 if index is None else index)
        return value

    def launch(
        self,
        file: str,
        kernel_name: str,
        channels: int,
        items: int | tuple[int, int],
        group: int,
        own: Mapping[str, Any],
        fine: bool = True,
        searches: bool = True,
        **constants: int,
    ) -> None:
        """Queue a kernel that takes `PALETTE_PARAMETERS` of `cl/mapping/nearest.h`, and arguments of its own."""
        kernel = self.session.program(file, **self.constants(channels), **constants).kernel(kernel_name)
        local = self.session.work_group_size(kernel, group)
        sizes: Any = (local, 1) if isinstance(items, tuple) else local
        self.session.launch(kernel, items, sizes, **self.arguments(fine, searches), **own)

    def check_transparency(self) -> None:
        """Wait, and refuse what was mapped if pixels of alpha 0 met a palette without an entry of alpha 0."""
        if self.palette.transparent_index is None and self.session.download(self._missing, 1, np.int32)[0]:
            raise TransparencyError


def points_of(rgba: npt.NDArray[np.uint8], space: Space) -> npt.NDArray[np.int32]:
    """(n, 4) coordinates, 0 on axes that the space has not."""
    points = np.zeros((len(rgba), 4), np.int32)
    points[:, : space.dims] = space.coordinates(rgba)
    return points
