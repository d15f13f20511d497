"""A decoder of animated GIFs to the letter of the GIF89a specification; it raises on what that does not allow."""

from __future__ import annotations

import dataclasses
import struct

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass
class Shown:
    """A frame: what stands when it was drawn, (H, W, 4) uint8, for how long, what then, and the (x, y, w, h) drawn.

    `own_table` tells whether it has colours of its own.
    """

    picture: npt.NDArray[np.uint8]
    left: npt.NDArray[np.uint8]
    milliseconds: int
    rectangle: tuple[int, int, int, int]
    own_table: bool


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        part = self.data[self.at : self.at + count]
        assert len(part) == count, "the file ends in the middle of a block"
        self.at += count
        return part

    def unpack(self, form: str) -> tuple[int, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def blocks(self) -> bytes:
        joined = b""
        while size := self.take(1)[0]:
            joined += self.take(size)
        return joined

    def table(self, flags: int) -> npt.NDArray[np.uint8] | None:
        if not flags & 0x80:
            return None
        return np.frombuffer(self.take(3 * (2 << (flags & 7))), np.uint8).reshape(-1, 3)


def decoded(data: bytes) -> tuple[list[Shown], int | None]:
    """Every frame as a viewer shows it, and the count in Netscape's loop block (0: for ever) or None."""
    reader = _Reader(data)
    assert reader.take(6) == b"GIF89a"
    width, height, flags, _, _ = reader.unpack("HHBBB")
    common = reader.table(flags)
    canvas = np.zeros((height, width, 4), np.uint8)
    shown: list[Shown] = []
    loops = None
    disposal, delay, transparent = 0, 0, None
    while (kind := reader.take(1)) != b";":
        if kind == b"!":
            label = reader.take(1)[0]
            content = reader.blocks()
            if label == 0xF9:
                flags, delay, entry = struct.unpack("<BHB", content)
                disposal, transparent = flags >> 2 & 7, entry if flags & 1 else None
            elif label == 0xFF and content.startswith(b"NETSCAPE2.0"):
                loops = int.from_bytes(content[12:14], "little")
            continue
        assert kind == b",", f"a block of kind {kind!r}"
        x, y, columns, rows, flags = reader.unpack("HHHHB")
        assert columns > 0
        assert rows > 0
        assert x + columns <= width
        assert y + rows <= height
        assert not flags & 0x40, "interlaced"
        own = reader.table(flags)
        colors = common if own is None else own
        indices = np.array(_unpacked(reader.take(1)[0], reader.blocks(), rows * columns)).reshape(rows, columns)
        part = canvas[y : y + rows, x : x + columns]
        seen = np.ones(indices.shape, bool) if transparent is None else indices != transparent
        part[seen, :3] = colors[indices[seen]]
        part[seen, 3] = 255
        picture = canvas.copy()
        assert disposal in (0, 1, 2)
        if disposal == 2:
            part[...] = 0
        shown.append(Shown(picture, canvas.copy(), 10 * delay, (x, y, columns, rows), own is not None))
        disposal, delay, transparent = 0, 0, None
    assert reader.at == len(data), "bytes after the trailer"
    return shown, loops


def _unpacked(least: int, data: bytes, count: int) -> list[int]:
    """LZW: `count` indices of at least `least` bits."""
    clear, end = 1 << least, (1 << least) + 1
    bits = int.from_bytes(data, "little")
    at, size = 0, least + 1
    table: list[bytes] = []
    before: bytes | None = None
    indices = bytearray()
    while True:
        code = bits >> at & ((1 << size) - 1)
        at += size
        assert at <= 8 * len(data), "the pixels end without an end code"
        if code == end:
            break
        if code == clear:
            table, size, before = [bytes([i]) for i in range(clear)] + [b"", b""], least + 1, None
            continue
        assert table, "the pixels begin without a clear code"
        if before is None:
            entry = table[code]
        else:
            assert code <= len(table)
            entry = table[code] if code < len(table) else before + before[:1]
            if len(table) < 4096:
                table.append(before + entry[:1])
            size = max(size, min(len(table).bit_length(), 12))
        indices += entry
        before = entry
    assert len(indices) == count
    return list(indices)
