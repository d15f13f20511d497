"""TIFF directories as they are stored: read without a library, and written anew with other contents."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass

# struct's letters of integers, and bytes of all types that may be copied.
_INTEGERS = {1: "B", 3: "H", 4: "I", 16: "Q"}
_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 16: 8}
_MOST_TAGS = 4096

SHORT, LONG, LONG8 = 3, 4, 16


@dataclass(frozen=True)
class Field:
    """A tag's type and the bytes of its values, in the file's order."""

    kind: int
    data: bytes


@dataclass(frozen=True)
class Directory:
    """A TIFF's first directory.

    Attributes
    ----------
    order : str
        ``"<"`` or ``">"``.
    is_big : bool
        Whether the file is a BigTIFF.
    fields : mapping of int to Field
    """

    order: str
    is_big: bool
    fields: Mapping[int, Field]

    def integers(self, tag: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """A tag's values; `default` if it is not there or has none of integers."""
        field = self.fields.get(tag)
        if field is None or field.kind not in _INTEGERS:
            return default
        letter = _INTEGERS[field.kind]
        return struct.unpack(f"{self.order}{len(field.data) // struct.calcsize(letter)}{letter}", field.data)

    def integer(self, tag: int, default: int = 0) -> int:
        """A tag's first value."""
        return (self.integers(tag) or (default,))[0]


def directory_of(data: bytes | mmap.mmap) -> Directory | None:
    """The first directory of a file; None of what is no TIFF, or is cut off."""
    try:
        order = {b"II": "<", b"MM": ">"}[bytes(data[:2])]
        version = struct.unpack_from(order + "H", data, 2)[0]
        if version not in (42, 43):
            return None
        is_big = version == 43
        number, place, entry = ("Q", "Q", 20) if is_big else ("H", "I", 12)
        at = struct.unpack_from(order + place, data, 8 if is_big else 4)[0]
        count = struct.unpack_from(order + number, data, at)[0]
        if count > _MOST_TAGS:
            return None
        fields = {}
        at += struct.calcsize(number)
        inline = struct.calcsize(place)
        for begin in range(at, at + entry * count, entry):
            tag, kind, length = struct.unpack_from(order + "HH" + place, data, begin)
            nbytes = _BYTES.get(kind, 0) * length
            value = begin + 4 + inline
            if nbytes > inline:
                value = struct.unpack_from(order + place, data, value)[0]
            if 0 < nbytes <= len(data) - value:
                fields[tag] = Field(kind, bytes(data[value : value + nbytes]))
    except (KeyError, struct.error, ValueError, OverflowError):
        return None
    return Directory(order, is_big, fields)


def integer_field(order: str, kind: int, *values: int) -> Field:
    """A field of integers."""
    return Field(kind, struct.pack(f"{order}{len(values)}{_INTEGERS[kind]}", *values))


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
