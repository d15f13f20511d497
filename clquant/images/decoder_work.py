"""What picture files ask of their decoders beyond their pixels: refused before it is done, where bytes buy too much.

A file of a few bytes per unit can hold passes over all coefficients of a picture (JPEG's scans), comments between plain
numbers (PPM), strips of a row (TIFF) and frames. Decoders take each, at a cost that has nothing to do with the pixels.
The bounds here keep that cost below a second per megabyte of the file, and are far above what pictures need.
"""

from __future__ import annotations

import re
import struct
from typing import BinaryIO

import PIL.Image

# libtiff's own bound for JPEG inside TIFF. A pass over a picture takes up to 1.5 nanoseconds per pixel; encoders write
# ten passes, those that search for the smallest file some twenty.
MAX_SCANS = 100
# Pillow copies up to 16 KiB for each comment that stands among plain numbers.
FREE_COMMENTS, BYTES_PER_COMMENT = 1000, 32
# Pillow lists strips and tiles, and makes a decoder for each.
FREE_TILES, BYTES_PER_TILE = 4000, 8
# Time grows by the square of the frames in libwebp and in Pillow's reader of TIFF. The fewest bytes are those of a
# frame that changes nothing.
MAX_FRAMES = 1 << 14
BYTES_PER_FRAME = {"TIFF": 64}
BYTES_PER_OTHER_FRAME = 12

_SCAN = b"\xff\xda"
_START_OF_SCAN, _END_OF_IMAGE, _START_OF_IMAGE, _TEMPORARY = 0xDA, 0xD9, 0xD8, 0x01
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
_PLAIN_PPM = "ppm_plain"
_PART = 1 << 16


def _structs(order: str, place: str, number: str, tag: str) -> tuple[struct.Struct, struct.Struct, struct.Struct]:
    return struct.Struct(order + place), struct.Struct(order + number), struct.Struct(order + tag)


# By a TIFF's first bytes: where the place of its first page is written; how that is, the number of its tags, and each
# tag's own number with how many values it has.
_TIFF_HEADS = {
    b"II*\0": (4, *_structs("<", "I", "H", "H2xI4x")),
    b"MM\0*": (4, *_structs(">", "I", "H", "H2xI4x")),
    b"II+\0": (8, *_structs("<", "Q", "Q", "H2xQ8x")),
    b"MM\0+": (8, *_structs(">", "Q", "Q", "H2xQ8x")),
}
_TILE_OFFSETS = (273, 324)
_MOST_TAGS = 1 << 16


def check_head(file: BinaryIO, nbytes: int) -> None:
    """Refuse a TIFF of too many strips or tiles before Pillow lists those of its first page.

    Parameters
    ----------
    file : binary file
        At its beginning.
    nbytes : int
        Its length.

    Raises
    ------
    ValueError
    """
    head = file.read(16)
    if len(head) < 16 or head[:4] not in _TIFF_HEADS:
        return
    at, place, number, tag = _TIFF_HEADS[head[:4]]
    file.seek(*place.unpack_from(head, at))
    tags = int.from_bytes(file.read(number.size), "little" if number.format[0] == "<" else "big")
    content = file.read(tag.size * min(tags, _MOST_TAGS))
    for which, count in tag.iter_unpack(content[: len(content) // tag.size * tag.size]):
        if which in _TILE_OFFSETS:
            _check_tiles(count, nbytes)


def _check_tiles(count: int, nbytes: int) -> None:
    if count > FREE_TILES + nbytes // BYTES_PER_TILE:
        raise ValueError(f"it has {count} strips or tiles, more than its {nbytes} bytes are allowed")


def check_work(image: PIL.Image.Image, nbytes: int) -> None:
    """Refuse a picture that was opened, or a frame that was sought, whose decoding costs too much for its bytes.

    Parameters
    ----------
    image : PIL.Image.Image
        Whose pixels are not read yet.
    nbytes : int
        Of its file.

    Raises
    ------
    ValueError
    """
    tiles = getattr(image, "tile", None) or []
    _check_tiles(len(tiles), nbytes)
    file = getattr(image, "fp", None)
    if file is None:
        return
    plain = bool(tiles) and tiles[0][0] == _PLAIN_PPM
    if not plain and image.format not in ("JPEG", "MPO"):
        return
    now = file.tell()
    try:
        if plain and (comments := _count(file, b"#")) > FREE_COMMENTS + nbytes // BYTES_PER_COMMENT:
            raise ValueError(f"it has {comments} comments, more than its {nbytes} bytes are allowed")
        if image.format == "JPEG" and _count(file, _SCAN) > MAX_SCANS and _has_more_scans(file, 0, MAX_SCANS):
            raise ValueError(f"it has more than {MAX_SCANS} scans")
        if image.format == "MPO" and _has_more_scans(file, int(getattr(image, "offset", 0)), MAX_SCANS):
            raise ValueError(f"its frame {image.tell()} has more than {MAX_SCANS} scans")
    finally:
        file.seek(now)


def frame_count(image: PIL.Image.Image, nbytes: int) -> int:
    """How many frames a picture says it has; 1 of what is no animation.

    Parameters
    ----------
    image, nbytes
        As `check_work` takes them.

    Raises
    ------
    ValueError
        If it has more than `MAX_FRAMES`, or than its bytes can hold.
    """
    most = min(MAX_FRAMES, nbytes // BYTES_PER_FRAME.get(image.format or "", BYTES_PER_OTHER_FRAME) + 1)
    # Pillow counts those of TIFF by reading the head of each, and looks back at all before it.
    count = _sought_frames(image, most) if image.format == "TIFF" else int(getattr(image, "n_frames", 1))
    if count > most:
        raise ValueError(f"it has more than {most} frames, which is the most in its {nbytes} bytes")
    return count


def _sought_frames(image: PIL.Image.Image, most: int) -> int:
    """The frames of a file that has at most so many; `most` + 1 of others. Pillow miscounts if frames are left out."""
    now, count = image.tell(), 1
    try:
        while count <= most:
            image.seek(count)
            count += 1
    except EOFError:
        pass
    image.seek(now)
    return count


def _count(file: BinaryIO, what: bytes) -> int:
    """How often one or two bytes stand anywhere in a file, at least."""
    file.seek(0)
    found, last = 0, b""
    while part := file.read(_PART):
        found += part.count(what) + (last + part[:1] == what)
        last = part[-1:]
    return found


def _has_more_scans(file: BinaryIO, start: int, most: int) -> bool:
    """Whether a JPEG stream that begins at `start` has more passes than `most`."""

    def part_at(position: int) -> bytes:
        file.seek(position)
        return file.read(_PART)

    found, begin, at, part = 0, start, 0, part_at(start)
    while len(part) > 1:
        marker = _MARKER.search(part, at)
        if marker is None or marker.end() + 2 > len(part):
            begin += len(part) - 1 if marker is None else max(1, marker.start())
            part, at = part_at(begin), 0
            continue
        kind, at = part[marker.end() - 1], marker.end()
        if kind == _END_OF_IMAGE:
            return False
        if kind in (_START_OF_IMAGE, _TEMPORARY):
            continue
        found += kind == _START_OF_SCAN
        if found > most:
            return True
        at += max(2, int.from_bytes(part[at : at + 2], "big"))
        if at >= len(part):
            begin, at = begin + at, 0
            part = part_at(begin)
    return False
