"""The first directory of a TIFF, without a library: what decides how a file is read."""

from __future__ import annotations

import os
import struct

from clquant.runtime import FileError

WIDTH, HEIGHT = 256, 257
_MOST_TAGS = 4096
# Blank tiles and those left out take the most pixels for a byte; each tile has its place, of four bytes at least.
MAX_PIXELS_PER_BYTE = 1 << 17
_FREE_TILES, _BYTES_PER_TILE = 4000, 4
# Types whose values are read, if there is one: 8, 16, 32 and 64 bits.
_INTEGERS = {1: "B", 3: "H", 4: "I", 16: "Q"}


def first_directory(path: str) -> dict[int, int]:
    """The tags of a TIFF's first directory, with the values of those that are one integer, else 0."""
    try:
        with open(path, "rb") as file:
            head = file.read(16)
            order = {b"II": "<", b"MM": ">"}[head[:2]]
            version = struct.unpack(order + "H", head[2:4])[0]
            if version not in (42, 43):
                return {}
            place, count, entry = ("I", "H", 12) if version == 42 else ("Q", "Q", 20)
            file.seek(struct.unpack_from(order + place, head, 4 if version == 42 else 8)[0])
            found = struct.unpack(order + count, file.read(struct.calcsize(count)))[0]
            data = file.read(min(found, _MOST_TAGS) * entry)
    except (OSError, KeyError, struct.error, ValueError, OverflowError):
        return {}
    tags = {}
    for at in range(0, len(data) - entry + 1, entry):
        tag, kind, length = struct.unpack_from(order + "HH" + place, data, at)
        is_one = length == 1 and kind in _INTEGERS and struct.calcsize(_INTEGERS[kind]) <= struct.calcsize(place)
        value_at = at + 4 + struct.calcsize(place)
        tags[tag] = struct.unpack_from(order + _INTEGERS[kind], data, value_at)[0] if is_one else 0
    return tags


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
