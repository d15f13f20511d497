"""Atlases to learn palettes from: all pixels of pictures, or tiles of large ones, side by side in one picture.

Parts lie on shelves with transparent gaps between them, so that no part's errors reach another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant import images
from clquant.images import Picture
from clquant.palette.host_clusters import stretches
from clquant.runtime import Buffer, Scope, Session, bound, philox4x32, seed_key

Weights = npt.NDArray[np.unsignedinteger]

TILE = 64
# With weights, tiles have this side, and there are as many as hold the pixels to learn from, at least FEWEST_WEIGHTED.
WEIGHTED_TILE, FEWEST_WEIGHTED = 32, 64
# Between parts: no kernel reaches farther.
GAP = 8
# Shelves have at least this length, where the parts do not fill one.
SHELF = 2048
GROUP = 64
_DRAW_TILE = 0x7469_6C65


@dataclass(frozen=True)
class Patch:
    """A rectangle of a picture."""

    picture: Picture
    row: int
    column: int
    rows: int
    columns: int
    mask: npt.NDArray[np.bool_] | None = None  # (H, W): which of the picture's pixels count

    @property
    def pixels(self) -> npt.NDArray[np.uint8] | None:
        """(rows, columns, 4) uint8 of a picture on the host: alpha 0 for pixels that do not count."""
        if self.picture.array is None:
            return None
        cut = slice(self.row, self.row + self.rows), slice(self.column, self.column + self.columns)
        source = self.picture.array[cut]
        out = np.empty((*source.shape[:2], 4), np.uint8)
        out[..., :3] = source[..., :3]
        out[..., 3] = source[..., 3] if source.shape[2] == 4 else 255
        if self.mask is not None:
            out[..., 3][~self.mask[cut]] = 0
        return out


def uneven(weights: list[Weights] | None) -> list[Weights] | None:
    """Weights (H, W) of each picture; None if all are equal, which is the same."""
    if weights is None or all((one == weights[0].flat[0]).all() for one in weights):
        return None
    return weights


def parts_of(pictures: Sequence[Picture], seed: int) -> list[Patch]:
    """Return whole pictures up to `atlas.pixels` pixels together, else tiles drawn by position."""
    pixels = np.cumsum([picture.pixels for picture in pictures])
    total = int(pixels[-1])
    if total <= bound("atlas.pixels"):
        return [Patch(picture, 0, 0, picture.height, picture.width) for picture in pictures]
    words = _words(bound("atlas.pixels") // (TILE * TILE), seed)
    found = []
    for at, word in zip(stretches(total, words[:, 0]), words[:, 1], strict=True):
        number = int(np.searchsorted(pixels, at, side="right"))
        picture = pictures[number]
        row = (int(at) - (int(pixels[number]) - picture.pixels)) // picture.width
        rows, columns = min(TILE, picture.height), min(TILE, picture.width)
        column = int(word) * (picture.width - columns + 1) >> 32
        found.append(Patch(picture, min(max(row - rows // 2, 0), picture.height - rows), column, rows, columns))
    return found


def weighted_parts(session: Session, pictures: Sequence[Picture], seed: int, weights: Sequence[Weights]) -> list[Patch]:
    """Draw tiles, equal ones included, with middles in proportion to (H, W) integer weights."""
    pixels = min(sum(picture.pixels for picture in pictures), bound("atlas.pixels"))
    count = max(pixels // (WEIGHTED_TILE * WEIGHTED_TILE), FEWEST_WEIGHTED)
    mask = [weight > 0 for weight in weights]
    on_host = [images.read(p.on_host(session)) if p.on_device else p for p in pictures]
    sums = [np.cumsum(weight, dtype=np.uint64) for weight in weights]
    ends = np.cumsum([int(one[-1]) for one in sums])
    found = []
    for at in stretches(int(ends[-1]), _words(count, seed)[:, 0]):
        number = int(np.searchsorted(ends, at, side="right"))
        before = int(ends[number]) - int(sums[number][-1])
        place = int(np.searchsorted(sums[number], np.uint64(int(at) - before), side="right"))
        picture = on_host[number]
        row, column = divmod(place, picture.width)
        rows, columns = min(WEIGHTED_TILE, picture.height), min(WEIGHTED_TILE, picture.width)
        top = min(max(row - rows // 2, 0), picture.height - rows)
        left = min(max(column - columns // 2, 0), picture.width - columns)
        found.append(Patch(picture, top, left, rows, columns, mask[number]))
    return found


def _words(count: int, seed: int) -> npt.NDArray[np.uint32]:
    counters = np.zeros((count, 4), np.uint32)
    counters[:, 0], counters[:, 3] = np.arange(count), _DRAW_TILE
    return philox4x32(counters, seed_key(seed))


@dataclass(frozen=True)
class Atlas:
    """Parts side by side, on the device."""

    pixels: Buffer  # (rows, columns, channels) uint8
    rows: int
    columns: int
    channels: int


def atlas_of(session: Session, scope: Scope, parts: Sequence[Patch]) -> Atlas:
    """Put parts side by side in `scope`'s memory; a single whole picture is its own atlas."""
    first = parts[0].picture
    if len(parts) == 1 and parts[0].mask is None and parts[0].rows == first.height and parts[0].columns == first.width:
        return Atlas(first.upload(session, scope), first.height, first.width, first.channels)
    places, rows, columns = _shelves(parts)
    host = np.zeros((rows, columns, 4), np.uint8)
    for part, (row, column) in zip(parts, places, strict=True):
        drawn = part.pixels
        if drawn is not None:
            host[row : row + part.rows, column : column + part.columns] = drawn
    pixels = scope.copy_of(host)
    for part, (row, column) in zip(parts, places, strict=True):
        if part.picture.on_device:
            _place(session, scope, part, pixels, (row, column, columns))
    return Atlas(pixels, rows, columns, 4)


def _shelves(parts: Sequence[Patch]) -> tuple[list[tuple[int, int]], int, int]:
    """Place parts by falling height: the first pixel of each, and the rows and columns of all."""
    length = max(SHELF, max(part.columns for part in parts) + GAP)
    places: dict[int, tuple[int, int]] = {}
    top = column = height = 0
    for i in sorted(range(len(parts)), key=lambda i: -parts[i].rows):
        if column + parts[i].columns > length:
            top, column, height = top + height + GAP, 0, 0
        places[i] = top, column
        column += parts[i].columns + GAP
        height = max(height, parts[i].rows)
    columns = max(places[i][1] + part.columns for i, part in enumerate(parts))
    return [places[i] for i in range(len(parts))], top + height, columns


def _place(session: Session, scope: Scope, part: Patch, atlas: Buffer, where: tuple[int, int, int]) -> None:
    """Queue the copying of a device picture's part."""
    kernel = session.program("spatial/atlas.cl", CHANNELS=part.picture.channels).kernel("place")
    rows = part.picture.upload(session, scope, part.row, part.row + part.rows)
    row, column, width = where
    numbers = {"atlas_row": row, "atlas_column": column, "atlas_width": width, "width": part.picture.width}
    numbers |= {"column": part.column, "columns": part.columns, "rows": part.rows}
    given = {name: np.uint32(number) for name, number in numbers.items()}
    group = session.work_group_size(kernel, GROUP)
    session.launch(kernel, (part.columns, part.rows), (group, 1), pixels=rows, atlas=atlas, **given)
