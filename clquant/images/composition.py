"""Frames of animated GIF and PNG files, composed by the rules of their formats.

Each frame's rectangle becomes a still file, which Pillow decodes; what stands is transparent at first. Of WebP libwebp
composes the frames.

Source: GIF89a (CompuServe, 1990), section 23; PNG (ISO/IEC 15948, third edition), sections 11.3.6 and 12.5.2.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.images.guards.decoder_work import hidden_pictures
from clquant.images.picture_files import opened

Pixels = npt.NDArray[Any]  # uint8 or uint16
Values = npt.NDArray[np.int64]
# Converts an opened still file's pixels to (H, W) or (H, W, 3 or 4).
Convert = Callable[[PIL.Image.Image, str], Pixels]

_KEEP, _CLEAR, _RESTORE = range(3)
_HEADER_BYTES = 13
_TABLE_FLAG, _TRANSPARENT_FLAG, _INTERLACED_FLAG = 0x80, 0x01, 0x40
_IMAGE, _EXTENSION, _TRAILER = b"\x2c", b"\x21", b"\x3b"
_CONTROL, _PLAIN_TEXT = 0xF9, 0x01
# The fourth method is the third of an old description of the format, which browsers follow.
_GIF_DISPOSALS = {2: _CLEAR, 3: _RESTORE, 4: _RESTORE}
_PNG_DISPOSALS = {1: _CLEAR, 2: _RESTORE}
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Where pixels begin in chunks, and the chunks that say what pixels mean.
_DATA_STARTS = {b"IDAT": 0, b"fdAT": 4}
_COLOR_CHUNKS = {b"PLTE", b"tRNS", b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"cICP", b"sBIT"}
_TAKEN_CHUNKS = {b"iCCP": "icc_profile", b"gAMA": "gamma", b"cHRM": "chromaticity"}  # and their names in `info`
_KEPT_CHUNKS = {b"IHDR", b"fcTL", b"IEND", *_DATA_STARTS, *_COLOR_CHUNKS}


@dataclass(frozen=True)
class _Part:
    """One frame as the file has it: a rectangle that is drawn on what stands."""

    data: bytes  # a still file of the rectangle alone
    x: int
    y: int
    columns: int
    rows: int
    seconds: Fraction
    disposal: int = _KEEP  # of the rectangle before the next frame is drawn
    is_over: bool = True  # drawn over what stands by its alpha, or in its place
    colors: npt.NDArray[np.uint8] | None = None  # (256, 4), of a GIF's indices


def is_composed(image: PIL.Image.Image, count: int) -> bool:
    """Whether the frames of an opened file of `count` pictures are composed here."""
    return (image.format in ("GIF", "PNG") and count > 1) or begins_in_part(image)


def begins_in_part(image: PIL.Image.Image) -> bool:
    """Whether an opened file, whose pixels are not read yet, is a GIF whose first frame leaves out some of its screen.

    Pillow fills that with a colour.
    """
    tiles: Any = getattr(image, "tile", None)
    return image.format == "GIF" and image.tell() == 0 and bool(tiles) and tuple(tiles[0][1]) != (0, 0, *image.size)


def compose(
    image: PIL.Image.Image, count: int, most: int, argument: str, convert: Convert
) -> Iterator[tuple[Pixels, Fraction]]:
    """Yield each frame of an opened file of `count` pictures, and its seconds, 0 where it has none.

    Frames are (H, W, 4) where a pixel is transparent, else (H, W, 3), or (H, W) as long as all were gray. Their
    rectangles may have `most` pixels together.
    """
    file: Any = getattr(image, "fp", None)
    place = file.tell()
    file.seek(0)
    parts = _read_gif(file, count) if image.format == "GIF" else _read_png(file, count, set(image.info))
    try:
        for _ in range(hidden_pictures(image)):
            next(parts)
        yield from _draw(_limited(parts, most), (image.height, image.width), argument, convert)
    finally:
        file.seek(place)


def _limited(parts: Iterable[_Part], most: int) -> Iterator[_Part]:
    for part in parts:
        most -= part.rows * part.columns
        if most < 0:
            raise ValueError("its frames have more pixels together than its bytes are allowed")
        yield part


def _draw(
    parts: Iterable[_Part], shape: tuple[int, int], argument: str, convert: Convert
) -> Iterator[tuple[Pixels, Fraction]]:
    screen: _Screen | None = None
    is_gray = True
    for part in parts:
        new = _pixels(part, argument, convert)
        screen = screen or _Screen(shape, new.dtype)
        is_gray = is_gray and new.ndim == 2
        height, width = max(shape[0] - part.y, 0), max(shape[1] - part.x, 0)
        place = slice(part.y, part.y + min(part.rows, height)), slice(part.x, part.x + min(part.columns, width))
        stood = screen.pixels[place].copy() if part.disposal == _RESTORE else 0
        screen.draw(place, np.atleast_3d(new)[:height, :width], part.is_over)
        yield screen.seen(is_gray), part.seconds
        if part.disposal != _KEEP:
            screen.pixels[place] = stood


class _Screen:
    """What stands, (H, W, 4), transparent at first."""

    def __init__(self, shape: tuple[int, int], dtype: npt.DTypeLike) -> None:
        self.pixels = np.zeros((*shape, 4), dtype)
        self._opaque = int(np.iinfo(self.pixels.dtype).max)

    def seen(self, is_gray: bool) -> Pixels:
        """Copy the pixels, with alpha if one has it."""
        is_opaque = self.pixels[:, :, 3].min() == self._opaque
        if is_gray or not is_opaque:
            pixels: Pixels = (self.pixels[:, :, 0] if is_opaque else self.pixels).copy()
            return pixels
        colors: Pixels = np.empty((*self.pixels.shape[:2], 3), self.pixels.dtype)
        for channel in range(3):
            colors[:, :, channel] = self.pixels[:, :, channel]
        return colors

    def draw(self, place: tuple[slice, slice], new: Pixels, is_over: bool) -> None:
        """Draw a rectangle of 1, 3 or 4 channels in place of what stands there, or over it by its alpha."""
        stands = self.pixels[place]
        if new.shape[2] < 4:
            stands[:, :, :3], stands[:, :, 3] = new, self._opaque
            return
        if not is_over:
            stands[...] = new
            return
        alpha = new[:, :, 3]
        is_opaque = alpha == self._opaque
        is_soft = (alpha > 0) & ~is_opaque
        if is_soft.any():
            stands[is_soft] = self._blended(new[is_soft].astype(np.int64), stands[is_soft].astype(np.int64))
        whole = f"u{4 * new.itemsize}"  # a pixel as one number, which NumPy copies faster
        items = stands.view(whole)
        items[...] = np.where(is_opaque[:, :, None], new.view(whole), items)

    def _blended(self, above: Values, below: Values) -> Values:
        """Colours over others by their alpha, neither multiplied by it, and the alpha of both; to the nearest."""
        own, rest = above[:, 3:] * self._opaque, below[:, 3:] * (self._opaque - above[:, 3:])
        total = own + rest
        colors = (above[:, :3] * own + below[:, :3] * rest + total // 2) // total
        return np.concatenate([colors, (total + self._opaque // 2) // self._opaque], axis=1)


def _pixels(part: _Part, argument: str, convert: Convert) -> Pixels:
    """Decode a frame's rectangle: (h, w), or (h, w, 3 or 4)."""
    if part.colors is not None and not part.rows * part.columns:
        return np.zeros((part.rows, part.columns, 3), np.uint8)
    with opened(part.data, argument) as (image, _):
        if part.colors is None:
            return convert(image, argument)
        return part.colors.view(np.uint32)[:, 0].take(np.asarray(image))[:, :, None].view(np.uint8)


def _read_gif(file: BinaryIO, count: int) -> Iterator[_Part]:
    """Yield a GIF's frames; a control block is of the next frame alone."""
    header = _take(file, _HEADER_BYTES)
    shared = _gif_table(file, header[10])
    for _ in range(count):
        flags, delay, hole = 0, 0, 0
        while (kind := file.read(1)) != _IMAGE:
            if kind in (b"", _TRAILER):
                raise ValueError("it is truncated: frames are missing")
            label = _take(file, 1)[0] if kind == _EXTENSION else None
            content = _gif_blocks(file) if label is not None else b""
            if label == _CONTROL and len(content) > 4:
                flags, delay, hole = struct.unpack("<BHB", content[1:5])
            elif label == _PLAIN_TEXT:
                flags, delay, hole = 0, 0, 0
        x, y, columns, rows, layout = struct.unpack("<HHHHB", _take(file, 9))
        own = _gif_table(file, layout)
        table = shared if own is None else own
        colors = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, axis=1)  # grays, where a file has no table
        if table is not None:
            colors[:, :3] = 0
            colors[: len(table), :3] = table
        colors[:, 3] = 255
        has_hole = bool(flags & _TRANSPARENT_FLAG)
        if has_hole:
            colors[hole] = 0
        # Without a table Pillow gives the indices.
        data = b"GIF89a" + struct.pack("<HHBBB", columns, rows, 0, 0, 0) + _IMAGE
        data += struct.pack("<HHHHB", 0, 0, columns, rows, layout & _INTERLACED_FLAG)
        data += _take(file, 1) + _gif_blocks(file) + _TRAILER
        disposal = _GIF_DISPOSALS.get(flags >> 2 & 7, _KEEP)
        yield _Part(data, x, y, columns, rows, Fraction(delay, 100), disposal, has_hole, colors)


def _gif_table(file: BinaryIO, flags: int) -> npt.NDArray[np.uint8] | None:
    """Read the colour table, (n, 3), that flags announce."""
    if not flags & _TABLE_FLAG:
        return None
    return np.frombuffer(_take(file, 3 * (2 << (flags & 7))), np.uint8).reshape(-1, 3)


def _gif_blocks(file: BinaryIO) -> bytes:
    """Read blocks, each after its length, up to the empty one."""
    found = [_take(file, 1)]
    while size := found[-1][-1]:
        found.append(_take(file, size + 1))
    return b"".join(found)


def _read_png(file: BinaryIO, count: int, info: set[Any]) -> Iterator[_Part]:
    """Yield an APNG's pictures; one that is no frame comes first, without a control chunk.

    What `info` lacks of colours is left out: a command that keeps a profile took it away.
    """
    head, control, colors = b"", b"", b""
    data: list[bytes] = []
    for kind, content in _read_chunks(file):
        if kind in (b"fcTL", b"IEND"):
            if data:
                yield _png_part(head, control, colors, b"".join(data))
                count -= 1
            control, data = content, []
        elif kind == b"IHDR":
            head = content
        elif kind in _DATA_STARTS:
            data.append(content[_DATA_STARTS[kind] :])
        elif _TAKEN_CHUNKS.get(kind) in {None, *info}:
            colors += _chunk(kind, content)
        if not count:
            return
    raise ValueError("it is truncated: frames are missing")


def _read_chunks(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield kinds and contents of a PNG's chunks that frames are made of."""
    nbytes = file.seek(0, 2)
    file.seek(len(_PNG_SIGNATURE))
    kind = b""
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", _take(file, 8))
        if kind in _KEPT_CHUNKS and length <= nbytes:
            yield kind, _take(file, length)
            length = 0
        file.seek(length + 4, 1)


def _png_part(head: bytes, control: bytes, colors: bytes, data: bytes) -> _Part:
    """Make one of a file's IHDR, fcTL, chunks of colour, and pixels."""
    columns, rows, x, y, over, under, disposal, blend = struct.unpack(
        ">IIIIHHBB", control[4:26] if control else head[:8] + bytes(14)
    )
    picture = struct.pack(">II", columns, rows) + head[8:]
    chunks = _chunk(b"IHDR", picture) + colors + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    seconds = Fraction(over, under or 100)
    return _Part(_PNG_SIGNATURE + chunks, x, y, columns, rows, seconds, _PNG_DISPOSALS.get(disposal, _KEEP), blend == 1)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _take(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise ValueError("it is truncated within a frame")
    return data
