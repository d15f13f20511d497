"""The segments of a JPEG stream, found without a decoder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

START_OF_SCAN = 0xDA

_END_OF_IMAGE, _START_OF_IMAGE, _TEMPORARY = 0xD9, 0xD8, 0x01
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
_PART = 1 << 16


def segments(file: BinaryIO, start: int) -> Iterator[tuple[int, int, int]]:
    """Segments up to the end of the image, as decoders find them: what lies between segments is passed over."""

    def part_at(position: int) -> bytes:
        file.seek(position)
        return file.read(_PART)

    begin, at, part = start, 0, part_at(start)
    while len(part) > 1:
        marker = _MARKER.search(part, at)
        if marker is None or marker.end() + 2 > len(part):
            begin += len(part) - 1 if marker is None else max(1, marker.start())
            part, at = part_at(begin), 0
            continue
        kind, at = part[marker.end() - 1], marker.end()
        if kind == _END_OF_IMAGE:
            return
        if kind in (_START_OF_IMAGE, _TEMPORARY):
            continue
        length = max(2, int.from_bytes(part[at : at + 2], "big"))
        yield kind, begin + at + 2, length - 2
        at += length
        if at >= len(part):
            begin, at = begin + at, 0
            part = part_at(begin)
