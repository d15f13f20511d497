"""The steps of tile palettes on the device; the kernels' bounds are in `cl/targets/tilesets/steps.cl`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space, scale_of
from clquant.images import Picture
from clquant.runtime import Buffer, Kernel, Scope, Session

GROUP = 64
_ENTRY_BYTES, _POINT_BYTES = 2, 16

Int = npt.NDArray[np.int64]


class TileSteps:
    """The kernels for one size of tiles and palettes."""

    def __init__(self, session: Session, space: Space, side: tuple[int, int], n_colors: int, first: int) -> None:
        self.session = session
        self.space = space
        self.side = side
        self.n_colors = n_colors
        self.scale = scale_of(space)
        self._first = first

    @property
    def size(self) -> int:
        """Pixels of a tile."""
        return self.side[0] * self.side[1]

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of tiles of a picture; those at its edges may be cut off."""
        return -(-height // self.side[0]), -(-width // self.side[1])

    @functools.cached_property
    def _tables(self) -> npt.NDArray[np.int32]:
        return self.space.tables()

    def _kernel(self, name: str, channels: int = 3, index: str = "uchar") -> Kernel:
        constants: dict[str, int | str] = {
            **self.space.constants(),
            "CHANNELS": channels,
            "SIDE_Y": self.side[0],
            "SIDE_X": self.side[1],
            "SIZE": self.size,
            "K": self.n_colors,
            "FIRST": self._first,
            "INDEX": index,
        }
        return self.session.program("targets/tilesets/steps.cl", **constants).kernel(name)

    def points(self, scope: Scope, pictures: Sequence[Picture], tiles: Sequence[npt.NDArray[np.uint32]]) -> Buffer:
        """Points of some tiles of pictures, in turn."""
        out = scope.empty(_POINT_BYTES * self.size * sum(map(len, tiles)))
        begin = 0
        for picture, chosen in zip(pictures, tiles, strict=True):
            if len(chosen):
                self.gather(scope, picture, (0, picture.height), chosen, out, begin)
            begin += len(chosen)
        return out

    def gather(
        self,
        scope: Scope,
        picture: Picture,
        rows: tuple[int, int],
        tiles: npt.NDArray[np.uint32],
        out: Buffer,
        begin: int = 0,
    ) -> None:
        """Queue the points of some tiles of some of a picture's rows, which begin at a tile's."""
        session, (row0, row1) = self.session, rows
        kernel = self._kernel("gather_tiles", picture.channels)
        _, across = self.grid(row1 - row0, picture.width)
        session.launch(
            *(kernel, len(tiles) * self.size, session.work_group_size(kernel, GROUP)),
            pixels=picture.upload(session, scope, row0, row1),
            width=np.uint32(picture.width),
            height=np.uint32(row1 - row0),
            across=np.uint32(across),
            tiles=scope.copy_of(tiles),
            count=np.uint32(len(tiles)),
            tables=scope.copy_of(self._tables),
            scale=np.int32(self.scale),
            begin=np.uint32(begin),
            points=out,
        )

    def centers(self, scope: Scope, places: Int) -> Buffer:
        """Centers on the device."""
        padded = np.zeros((*places.shape[:2], 4), np.int32)
        padded[..., :3] = places
        return scope.copy_of(padded)

    def costs(self, scope: Scope, points: Buffer, count: int, centers: Buffer, palettes: int) -> Buffer:
        """Queue what each of `count` tiles costs in each palette: (count, palettes) uint32."""
        costs = scope.empty(4 * count * palettes)
        kernel = self._kernel("tile_costs")
        group = self.session.work_group_size(kernel, GROUP)
        numbers = np.uint32(count), centers, np.uint32(palettes)
        self.session.launch(kernel, (count, palettes), (group, 1), points, *numbers, costs)
        return costs

    def chosen(self, scope: Scope, costs: Buffer, count: int, palettes: int) -> Buffer:
        """Queue the choice of each tile's palette: (count,) uint16."""
        chosen = scope.empty(2 * count)
        kernel = self._kernel("choose_palettes")
        group = self.session.work_group_size(kernel, GROUP)
        self.session.launch(kernel, count, group, costs, np.uint32(count), np.uint32(palettes), chosen)
        return chosen

    def entries(self, scope: Scope, points: Buffer, count: int, centers: Buffer, chosen: Buffer) -> Buffer:
        """Queue the choice of each pixel's entry: (count, size) uint16, counted through all palettes."""
        entries = scope.empty(_ENTRY_BYTES * count * self.size)
        kernel = self._kernel("choose_entries")
        group = self.session.work_group_size(kernel, GROUP)
        given = points, np.uint32(count), centers, chosen
        self.session.launch(kernel, count * self.size, group, *given, entries)
        return entries

    def place(self, entries: Buffer, shape: tuple[int, int], index: str, out: Buffer, begin: int = 0) -> None:
        """Queue the entries of all tiles of some rows as a picture has them."""
        (height, width), kernel = shape, self._kernel("place_entries", index=index)
        _, across = self.grid(height, width)
        group = self.session.work_group_size(kernel, GROUP)
        numbers = np.uint32(width), np.uint32(height), np.uint32(across)
        self.session.launch(kernel, (width, height), (group, 1), entries, *numbers, out, np.uint64(begin))
