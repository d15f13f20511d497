"""TIFF directories as they are stored: read without a library, bounded, and written anew with other contents."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from clquant.runtime import FileError

# struct's letters of integers, and bytes of all types that may be copied.
INTEGERS = {1: "B", 3: "H", 4: "I", 16: "Q"}
_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 16: 8}
_MOST_TAGS = 4096

SHORT, LONG, LONG8 = 3, 4, 16
WIDTH, HEIGHT, ICC_PROFILE = 256, 257, 34675
# Blank tiles and those left out take the most pixels for a byte; each tile has its place, of four bytes at least.
MAX_PIXELS_PER_BYTE = 1 << 17
_FREE_TILES, _BYTES_PER_TILE = 4000, 4


@dataclass(frozen=True)
class Field:
    """A tag's type and the bytes of its values, in the file's order."""

    kind: int
    data: bytes


@dataclass(frozen=True)
class Directory:
    """A TIFF's first directory."""

    order: str  # ``"<"`` or ``">"``
    is_big: bool  # whether the file is a BigTIFF
    fields: Mapping[int, Field]

    def integers(self, tag: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """A tag's values; `default` if it is not there or has none of integers."""
        field = self.fields.get(tag)
        if field is None or field.kind not in INTEGERS:
            return default
        letter = INTEGERS[field.kind]
        return struct.unpack(f"{self.order}{len(field.data) // struct.calcsize(letter)}{letter}", field.data)

    def integer(self, tag: int, default: int = 0) -> int:
        """A tag's first value."""
        return (self.integers(tag) or (default,))[0]


def entries(data: bytes | mmap.mmap) -> tuple[str, bool, list[tuple[int, int, int, int]]] | None:
    """Byte order, whether it is a BigTIFF, each tag's number, type, count and place; None if it is no whole TIFF."""
    try:
        order = {b"II": "<", b"MM": ">"}[bytes(data[:2])]
        is_big = {42: False, 43: True}[struct.unpack_from(order + "H", data, 2)[0]]
        number, place, entry = ("Q", "Q", 20) if is_big else ("H", "I", 12)
        at = struct.unpack_from(order + place, data, 8 if is_big else 4)[0]
        count = struct.unpack_from(order + number, data, at)[0]
        if count > _MOST_TAGS:
            return None
        at += struct.calcsize(number)
        begins = range(at, at + entry * count, entry)
        values_at = 4 + struct.calcsize(place)
        found = [(*struct.unpack_from(order + "HH" + place, data, begin), begin + values_at) for begin in begins]
    except (KeyError, struct.error, ValueError, OverflowError):
        return None
    return order, is_big, found


def directory_of(data: bytes | mmap.mmap) -> Directory | None:
    """The first directory of a file; None if it is no TIFF or is truncated."""
    found = entries(data)
    if found is None:
        return None
    order, is_big, tags = found
    place, inline, fields = *(("Q", 8) if is_big else ("I", 4)), {}
    try:
        for tag, kind, length, value in tags:
            nbytes = _BYTES.get(kind, 0) * length
            if nbytes > inline:
                value = struct.unpack_from(order + place, data, value)[0]
            if 0 < nbytes <= len(data) - value:
                fields[tag] = Field(kind, bytes(data[value : value + nbytes]))
    except struct.error:
        return None
    return Directory(order, is_big, fields)


def integer_field(order: str, kind: int, *values: int) -> Field:
    """A field of integers."""
    return Field(kind, struct.pack(f"{order}{len(values)}{INTEGERS[kind]}", *values))


def with_directory(content: bytes | bytearray, order: str, is_big: bool, fields: Mapping[int, Field]) -> bytes:
    """A TIFF of some content, whose first 16 bytes (8 if it is not big) make room for the head, and one directory."""
    number, place = ("Q", "Q") if is_big else ("H", "I")
    inline = struct.calcsize(place)
    parts, at = [b"\0" * (-len(content) % 8)], len(content) + -len(content) % 8
    places = {}
    for tag, field in fields.items():
        if len(field.data) > inline:
            places[tag] = struct.pack(order + place, at)
            padded = field.data + b"\0" * (-len(field.data) % 8)
            parts.append(padded)
            at += len(padded)
    head = b"II" if order == "<" else b"MM"
    if is_big:
        head += struct.pack(order + "HHHQ", 43, 8, 0, at)
    else:
        head += struct.pack(order + "HI", 42, at)
    parts.append(struct.pack(order + number, len(fields)))
    for tag in sorted(fields):
        field = fields[tag]
        count = len(field.data) // _BYTES[field.kind]
        value = places.get(tag, field.data.ljust(inline, b"\0"))
        parts.append(struct.pack(order + "HH" + place, tag, field.kind, count) + value)
    parts.append(b"\0" * inline)
    return b"".join([head, memoryview(content)[len(head) :], *parts])


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


def profile_of(path: str) -> bytes:
    """The ICC profile of a TIFF's first directory; no bytes without one."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        directory = directory_of(data)
        field = None if directory is None else directory.fields.get(ICC_PROFILE)
        return b"" if field is None else field.data


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
