"""The steps of tile palettes on the device; the kernels' bounds are in `cl/targets/tilesets/steps.cl`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow
from clquant.color.spaces import Space, scale_of
from clquant.images import Picture
from clquant.mapping.lookup import INDEX_TYPES
from clquant.runtime import Buffer, Scope, Session

GROUP = 64
_ENTRY_BYTES, _COST_BYTES, _POINT_BYTES = 2, 4, 16

Int = npt.NDArray[np.int64]
Colors = npt.NDArray[np.uint8]


class TileSteps:
    """The kernels for one size of tiles and palettes."""

    def __init__(self, session: Session, space: Space, side: tuple[int, int], n_colors: int, first: int) -> None:
        self.session = session
        self.space = space
        self.side = side
        self.n_colors = n_colors
        self.scale = scale_of(space)
        self._first = first
        self._tables = space.tables()

    @property
    def size(self) -> int:
        """Pixels of a tile."""
        return self.side[0] * self.side[1]

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of tiles of a picture; those at its edges may be cut off."""
        return -(-height // self.side[0]), -(-width // self.side[1])

    def _launch(
        self, name: str, size: int | tuple[int, int], *given: Any, channels: int = 3, index: str = "uchar", **named: Any
    ) -> None:
        """Queue a kernel of `cl/targets/tilesets/steps.cl`."""
        sides = {"SIDE_Y": self.side[0], "SIDE_X": self.side[1], "SIZE": self.size}
        constants = {**self.space.constants(), **sides, "CHANNELS": channels, "K": self.n_colors, "FIRST": self._first}
        kernel = self.session.program("targets/tilesets/steps.cl", **constants, INDEX=index).kernel(name)
        group = self.session.work_group_size(kernel, GROUP)
        self.session.launch(kernel, size, group if isinstance(size, int) else (group, 1), *given, **named)

    def points(self, scope: Scope, pictures: Sequence[Picture], tiles: Sequence[npt.NDArray[np.uint32]]) -> Buffer:
        """Points of some tiles of pictures, in turn."""
        session, out = self.session, scope.empty(_POINT_BYTES * self.size * sum(map(len, tiles)))
        begin = 0
        for picture, chosen in zip(pictures, tiles, strict=True):
            if len(chosen):
                shape = picture.height, picture.width, picture.channels
                self.gather(scope, picture.upload(session, scope), shape, chosen, out, begin)
            begin += len(chosen)
        return out

    def gather(
        self,
        scope: Scope,
        pixels: Buffer,
        shape: tuple[int, int, int],
        tiles: npt.NDArray[np.uint32],
        out: Buffer,
        begin: int = 0,
    ) -> None:
        """Queue the points of some tiles of pixels (H, W, C)."""
        height, width, channels = shape
        across, count = self.grid(height, width)[1], len(tiles)
        sizes = {"width": width, "height": height, "across": across, "count": count, "begin": begin}
        given: dict[str, Any] = {"pixels": pixels, "tiles": scope.copy_of(tiles), "points": out}
        given["tables"] = scope.copy_of(self._tables)
        given |= {name: np.uint32(size) for name, size in sizes.items()}
        self._launch("gather_tiles", count * self.size, channels=channels, **given, scale=np.int32(self.scale))

    def centers(self, scope: Scope, places: Int) -> Buffer:
        """Centers on the device."""
        padded = np.zeros((*places.shape[:2], 4), np.int32)
        padded[..., :3] = places
        return scope.copy_of(padded)

    def costs(self, scope: Scope, points: Buffer, count: int, centers: Buffer, palettes: int) -> Buffer:
        """Queue the cost of each of `count` tiles in each palette: (count, palettes) uint32."""
        costs = scope.empty(_COST_BYTES * count * palettes)
        self._launch("tile_costs", (count, palettes), points, np.uint32(count), centers, np.uint32(palettes), costs)
        return costs

    def chosen(self, scope: Scope, costs: Buffer, count: int, palettes: int) -> Buffer:
        """Queue the choice of each tile's palette: (count,) uint16."""
        chosen = scope.empty(2 * count)
        self._launch("choose_palettes", count, costs, np.uint32(count), np.uint32(palettes), chosen)
        return chosen

    def entries(self, scope: Scope, points: Buffer, count: int, centers: Buffer, chosen: Buffer) -> Buffer:
        """Queue the choice of each pixel's entry: (count, size) uint16, counted through all palettes."""
        entries = scope.empty(_ENTRY_BYTES * count * self.size)
        self._launch("choose_entries", count * self.size, points, np.uint32(count), centers, chosen, entries)
        return entries

    def place(self, entries: Buffer, shape: tuple[int, int], index: str, out: Buffer) -> None:
        """Queue the entries of all tiles of some rows as a picture has them."""
        height, width = shape
        numbers = np.uint32(width), np.uint32(height), np.uint32(self.grid(height, width)[1])
        self._launch("place_entries", (width, height), entries, *numbers, out, index=index)


@dataclass(frozen=True)
class Mapped(flow.Map):
    """Indices (H, W) of the nearest entries of each tile's palette, counted through all palettes."""

    palettes: Colors  # (P, K, 3)
    space: Space
    side: tuple[int, int]
    first: int  # entry that opaque pixels may take
    dtype: np.dtype[Any]

    max_bits = 8

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Indices (H, W)."""
        return (picture.height, picture.width), self.dtype

    @contextlib.contextmanager
    def open(self, session: Session, scope: Scope, picture: Picture) -> Iterator[flow.Steps]:
        """Bring the palettes to the device."""
        count, colors = self.palettes.shape[:2]
        steps = TileSteps(session, self.space, self.side, colors, self.first)
        places = self.space.coordinates(self.palettes.reshape(-1, 3)).astype(np.int64)
        centers = steps.centers(scope, places.reshape(self.palettes.shape) * steps.scale)

        def step(session: Session, scope: Scope, portion: flow.Portion) -> None:  # noqa: ARG001
            height, width = portion.row1 - portion.row0, picture.width
            tiles = np.arange(np.prod(steps.grid(height, width)), dtype=np.uint32)
            points = scope.empty(_POINT_BYTES * steps.size * len(tiles))
            steps.gather(scope, portion.pixels, (height, width, picture.channels), tiles, points)
            chosen = steps.chosen(scope, steps.costs(scope, points, len(tiles), centers, count), len(tiles), count)
            entries = steps.entries(scope, points, len(tiles), centers, chosen)
            steps.place(entries, (height, width), INDEX_TYPES[self.dtype.itemsize], portion.out)

        across = steps.grid(picture.height, picture.width)[1]
        tile_row_bytes = across * max(_POINT_BYTES * steps.size, _COST_BYTES * count)
        # A picture's tiles are chosen together: five kernels a band cost more than overlapping its upload gains.
        yield flow.Steps(step, self.side[0], row_bytes=-(-tile_row_bytes // self.side[0]), least_rows=picture.height)
