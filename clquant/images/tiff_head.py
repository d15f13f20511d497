"""The first directory of a TIFF, without a library, and the bounds of what it may claim."""

from __future__ import annotations

import mmap
import os
import struct

from clquant.images.tiff_layout import INTEGERS, entries
from clquant.runtime import FileError

WIDTH, HEIGHT = 256, 257
# Blank tiles and those left out take the most pixels for a byte; each tile has its place, of four bytes at least.
MAX_PIXELS_PER_BYTE = 1 << 17
_FREE_TILES, _BYTES_PER_TILE = 4000, 4


def first_directory(path: str) -> dict[int, int]:
    """The tags of a TIFF's first directory, with the values of those that are one integer, else 0."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            order, is_big, found = entries(data) or ("", False, [])
            tags = {}
            for tag, kind, count, at in found:
                is_one = count == 1 and kind in INTEGERS and struct.calcsize(INTEGERS[kind]) <= (8 if is_big else 4)
                tags[tag] = struct.unpack_from(order + INTEGERS[kind], data, at)[0] if is_one else 0
            return tags
    except (OSError, ValueError, struct.error):  # an empty file has no memory to map
        return {}


def check_claim(path: str, sides: tuple[int, int], tile: tuple[int, int]) -> None:
    """Refuse a TIFF that is to be read in parts and claims more than its bytes can hold."""
    (height, width), (down, across), nbytes = sides, tile, os.path.getsize(path)
    if min(height, width, down, across) < 1:
        raise FileError(f"cannot read {path!r}: it claims {width} x {height} pixels in tiles of {across} x {down}")
    tiles = -(-width // across) * -(-height // down)
    over = tiles > _FREE_TILES + nbytes // _BYTES_PER_TILE
    if over or max(width * height, across * down) > MAX_PIXELS_PER_BYTE * nbytes:
        claim = f"{width} x {height} pixels in tiles of {across} x {down}"
        raise FileError(f"cannot read {path!r}: it claims {claim}, more than its {nbytes} bytes can hold")
