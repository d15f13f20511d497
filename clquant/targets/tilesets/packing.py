"""Tiles whose colours fit a few palettes as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import Session
from clquant.targets.tilesets.params import TileParams

Colors = npt.NDArray[np.uint8]

OPAQUE_ALPHA = 128  # pixels of lower alpha are transparent
_PLACES = np.array([1 << 16, 1 << 8, 1])
_PIXELS_AT_ONCE = 1 << 14  # whose colours are looked at before it is asked whether these are too many


def packed_sets(sets: Sequence[frozenset[int]], bins: int, room: int) -> list[frozenset[int]] | None:
    """Colours of a few palettes such that each of many sets lies in one of them, if a greedy search finds some."""
    # Sets that are parts of others go with those. The others come by falling size, then by their colours; each joins
    # the palette with which it has the most colours in common among those with room (ties: the fullest, then the
    # first), or begins a new one.
    ordered = sorted(set(sets), key=lambda colors: (-len(colors), sorted(colors)))
    largest: list[frozenset[int]] = []
    for colors in ordered:
        if len(colors) > room:
            return None
        if not any(colors <= other for other in largest):
            largest.append(colors)
    packed: list[frozenset[int]] = []
    for colors in largest:
        fitting = [number for number, palette in enumerate(packed) if len(palette | colors) <= room]
        best = max(fitting, key=lambda n: (len(packed[n] & colors), len(packed[n]), -n), default=None)
        if best is not None and (packed[best] & colors or len(packed) == bins):
            packed[best] |= colors
        elif len(packed) < bins:
            packed.append(colors)
        elif best is None:
            return None
    return packed


def kept_colors(session: Session, pictures: list[Picture], given: TileParams, reserved: bool) -> Colors | None:
    """Palettes that have all colours of every tile, if some are found."""
    sets: list[frozenset[int]] = []
    most, counts = given.n_palettes * given.n_colors, np.zeros(1 << 24, np.uint32) if given.learns_shared else None
    every: set[int] = set()
    for picture in pictures:
        pixels = picture.on_host(session)
        rgb = np.repeat(pixels, 3, axis=2) if picture.channels == 1 else pixels[..., :3]
        rgb = np.ascontiguousarray(rgb).reshape(-1, 3)
        shown = rgb if given.display is None else given.display.nearest(rgb)
        packed = (shown.astype(np.int64) @ _PLACES).reshape(picture.height, picture.width)
        is_opaque = pixels[..., 3] >= OPAQUE_ALPHA if picture.channels == 4 else np.ones(packed.shape, bool)
        opaque = packed[is_opaque]
        for begin in range(0, len(opaque), _PIXELS_AT_ONCE):
            every.update(np.unique(opaque[begin : begin + _PIXELS_AT_ONCE]).tolist())
            if len(every) > most:
                return None
        if counts is not None:
            counts += np.bincount(opaque, minlength=1 << 24).astype(np.uint32)
        rows, columns = given.side
        for y in range(0, picture.height, rows):
            for x in range(0, picture.width, columns):
                tile = packed[y : y + rows, x : x + columns][is_opaque[y : y + rows, x : x + columns]]
                sets.append(frozenset(np.unique(tile).tolist()))
    return _as_palettes(sets, given, reserved, None if counts is None else int(counts.argmax()))


def _as_palettes(sets: list[frozenset[int]], given: TileParams, reserved: bool, popular: int | None) -> Colors | None:
    shared: list[int] = []
    if reserved:
        shared = [0]
    elif given.shared is not None:
        shared = [int(given.shared.astype(np.int64) @ _PLACES)]
    elif popular is not None:
        shared = [popular]
    if not reserved:
        sets = [colors - set(shared) for colors in sets]
    found = packed_sets(sets, given.n_palettes, given.n_colors - len(shared))
    if found is None:
        return None
    found += [frozenset()] * (given.n_palettes - len(found))
    rows = [[*shared, *sorted(colors)] for colors in found]
    full = np.array([row + [row[-1] if row else 0] * (given.n_colors - len(row)) for row in rows], np.int64)
    return np.stack([full >> 16, full >> 8 & 255, full & 255], axis=-1).astype(np.uint8)
