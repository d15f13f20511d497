"""Reject picture files whose metadata unpack to far more than their bytes, before a decoder does so.

A kilobyte of a PNG's text unpacks to a megabyte, and the values of any number of tags, in a TIFF or in EXIF data, may
be the same bytes, which readers copy for each. Newer releases of Pillow bound the tags themselves.
"""

from __future__ import annotations

import contextlib
import io
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from clquant.images.guards.jpeg_segments import START_OF_SCAN, segments

# Pillow lists strips and tiles, and makes a decoder for each.
FREE_TILES, BYTES_PER_TILE = 4000, 8
# Memory that tags and unpacked texts may take: these bytes, and so many per byte of the file.
FREE_BYTES, BYTES_PER_BYTE = 8 << 20, 16
MOST_PAGES = 1 << 14
MOST_MARKS = 16  # by chance four bytes are one in 2 billion


def _structs(order: str, place: str, number: str, tag: str) -> tuple[struct.Struct, ...]:
    return tuple(struct.Struct(order + layout) for layout in (place, number, tag))


# By a TIFF's first bytes: where the place of its first page is written; how places are, the number of a page's tags,
# and each tag's own number with the type and the number of its values.
_TIFF_HEADS: dict[bytes, tuple[int, tuple[struct.Struct, ...]]] = {
    b"II*\0": (4, _structs("<", "I", "H", "HHI4x")),
    b"MM\0*": (4, _structs(">", "I", "H", "HHI4x")),
    b"II+\0": (8, _structs("<", "Q", "Q", "HHQ8x")),
    b"MM\0+": (8, _structs(">", "Q", "Q", "HHQ8x")),
}
_TILE_OFFSETS = (273, 324)
_VALUE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_MOST_TAGS = 1 << 16

_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_UNPACKED = 1 << 20  # Pillow's own bound for one text
_MOST_DEFLATED = 1032  # bytes that deflate makes of one
# The head before the packed bytes: a name; in international texts also two flags, a language, a translated name.
_PACKED = {
    b"zTXt": re.compile(rb"[^\0]*\0."),
    b"iCCP": re.compile(rb"[^\0]*\0."),
    b"iTXt": re.compile(rb"[^\0]*\0[^\0]\0[^\0]*\0[^\0]*\0"),
}
_BYTES_PER_LETTER = {b"iTXt": 4}  # as Python keeps a text with any rare letter in it
_Chunk = tuple[bytes, int, int]  # its kind, the place of its content, and how much that is
_ICONS = b"\0\0\1\0", b"\0\0\2\0"
_PART = 1 << 20

_APPLICATIONS = 0xE1, 0xE2
_EXIF, _PICTURES = b"Exif\0\0", b"MPF\0"
_HEX_EXIF = "Raw profile type exif"


def check_head(file: BinaryIO, nbytes: int) -> None:
    """Refuse, before Pillow opens it, a TIFF of too many strips, and a file whose metadata take too much."""
    head = file.read(16)
    if head[:4] in _TIFF_HEADS:
        _check_tags(file, 0, nbytes, 1)
    elif head[:8] == _PNG:
        _check_texts(file, nbytes, _packed)
    elif head[:4] in _ICONS:
        _check_texts(file, nbytes, _packed_anywhere)
    elif head[:2] == b"\xff\xd8":
        for tags in _tags_of_jpeg(file):
            _check_tags(io.BytesIO(tags), 0, nbytes, 1)
    elif head[4:12] in (b"ftypavif", b"ftypavis", b"ftypmif1"):
        for number, start in enumerate(_tiff_marks(file)):
            if number == MOST_MARKS:
                raise ValueError(f"it has the mark of EXIF data more than {MOST_MARKS} times")
            _check_tags(file, start, nbytes, 1)


def check_pages(file: BinaryIO, nbytes: int) -> None:
    """Refuse a TIFF whose pages together have too many bytes of values, or more strips than is allowed."""
    _check_tags(file, 0, nbytes, MOST_PAGES)


def check_exif(info: dict[Any, Any], nbytes: int) -> None:
    """Refuse EXIF data, as an opened picture's `info` holds them, whose tags take too much."""
    exif, text = info.get("exif"), info.get(_HEX_EXIF)
    if isinstance(text, str):
        with contextlib.suppress(ValueError):
            exif = bytes.fromhex("".join(text.split("\n")[3:]))
    if isinstance(exif, bytes):
        _check_tags(io.BytesIO(exif.removeprefix(_EXIF)), 0, nbytes, 1)


def check_tiles(count: int, nbytes: int) -> None:
    """Refuse more strips or tiles than a file of so many bytes may have."""
    if count > FREE_TILES + nbytes // BYTES_PER_TILE:
        raise ValueError(f"it has {count} strips or tiles, more than its {nbytes} bytes are allowed")


def _check_taken(taken: int, nbytes: int, what: str) -> None:
    if taken > FREE_BYTES + BYTES_PER_BYTE * nbytes:
        raise ValueError(f"its {what} take more memory than its {nbytes} bytes are allowed")


def _check_tags(file: BinaryIO, start: int, nbytes: int, most_pages: int) -> None:
    """Check the strips and the bytes of values of a TIFF's pages, that begins anywhere in a file."""
    file.seek(start)
    head = file.read(16)
    if len(head) < 16 or head[:4] not in _TIFF_HEADS:
        return
    at, (place, number, tag) = _TIFF_HEADS[head[:4]]
    taken, pages, (page,) = 0, 0, place.unpack_from(head, at)
    while page and pages < most_pages:
        file.seek(start + min(page, nbytes))
        tags = int.from_bytes(file.read(number.size), "little" if number.format[0] == "<" else "big")
        content = file.read(tag.size * min(tags, _MOST_TAGS))
        taken += len(content)
        for which, kind, count in tag.iter_unpack(content[: len(content) // tag.size * tag.size]):
            if which in _TILE_OFFSETS:
                check_tiles(count, nbytes)
            taken += min(count * _VALUE_BYTES.get(kind, 0), nbytes)
        _check_taken(taken, nbytes, "tags")
        following = file.read(place.size)
        page = place.unpack(following)[0] if len(following) == place.size else 0
        pages += 1


def _check_texts(file: BinaryIO, nbytes: int, packed: Callable[[BinaryIO], Iterator[_Chunk]]) -> None:
    """Check what packed texts and profiles unpack to: by their bytes first, by unpacking where that is much."""
    most = sum(
        _BYTES_PER_LETTER.get(kind, 1) * min(_MOST_UNPACKED, size * _MOST_DEFLATED) for kind, _, size in packed(file)
    )
    if most <= FREE_BYTES + BYTES_PER_BYTE * nbytes:
        return
    taken = 0
    for kind, at, size in packed(file):
        file.seek(at)
        content = file.read(min(size, _MOST_UNPACKED))
        name = _PACKED[kind].match(content)
        try:
            unpacked = len(zlib.decompressobj().decompress(content[name.end() if name else 0 :], _MOST_UNPACKED))
        except zlib.error:
            unpacked = len(content)
        taken += _BYTES_PER_LETTER.get(kind, 1) * unpacked
        _check_taken(taken, nbytes, "packed texts")


def _packed(file: BinaryIO) -> Iterator[_Chunk]:
    """Each chunk of a PNG that may be packed text."""
    return (chunk for chunk in png_chunks(file) if chunk[0] in _PACKED)


def png_chunks(file: BinaryIO) -> Iterator[_Chunk]:
    """Each chunk of a PNG."""
    at, kind = len(_PNG), b""
    while kind != b"IEND":
        file.seek(at)
        head = file.read(8)
        if len(head) < 8:
            return
        size, kind = int.from_bytes(head[:4], "big"), head[4:]
        yield kind, at + 8, size
        at += 12 + size


def _packed_anywhere(file: BinaryIO) -> Iterator[_Chunk]:
    """Each place of a file that may be such a chunk: an icon file's pictures may be PNGs, and overlap."""
    kinds = re.compile(b"(?s)(....)(" + b"|".join(_PACKED) + b")")
    for at, part in _parts(file, 7):
        for found in kinds.finditer(part):
            yield found[2], at + found.end(), int.from_bytes(found[1], "big")


def _tags_of_jpeg(file: BinaryIO) -> Iterator[bytes]:
    """Yield the parts of a JPEG in the form of a TIFF: EXIF data, of any number of segments, and lists of pictures."""
    exif = bytearray()
    for kind, at, size in segments(file, 0):
        if kind == START_OF_SCAN:
            break
        if kind not in _APPLICATIONS:
            continue
        file.seek(at)
        content = file.read(size)
        if content.startswith(_EXIF):
            exif += content[len(_EXIF) :]
        elif content.startswith(_PICTURES):
            yield content[len(_PICTURES) :]
    yield bytes(exif)


def _tiff_marks(file: BinaryIO) -> Iterator[int]:
    """Yield the places of a file that may begin EXIF data."""
    marks = re.compile(b"|".join(map(re.escape, _TIFF_HEADS)))
    for at, part in _parts(file, 3):
        yield from (at + found.start() for found in marks.finditer(part))


def _parts(file: BinaryIO, overlap: int) -> Iterator[tuple[int, bytes]]:
    """A file in parts, each of which begins with the last bytes of the one before: (place, bytes)."""
    at = 0
    while True:
        file.seek(at)
        part = file.read(_PART)
        yield at, part
        if len(part) < _PART:
            return
        at += _PART - overlap
