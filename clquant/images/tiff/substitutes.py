"""Pictures that Pillow refuses, or reads wrongly or from 8 bits, as TIFF files that it reads whole.

These are TIFF of 32-bit floats; of 16 bits with a plane for each channel, with gray and alpha, with premultiplied
alpha, with 0 for white, with gray of 12 bits; of any bits big-endian BigTIFF, and a plane of gray beside one of alpha;
PPM of more than 8 bits, and PAM. Pillow decodes gray exactly, so the planes of a TIFF, or the values of all its
channels side by side, are given to it as gray pictures.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.images.dark_values import SCALING
from clquant.images.tiff.directories import (
    LONG,
    LONG8,
    SHORT,
    Directory,
    Field,
    directory_of,
    integer_field,
    with_directory,
)

# uint8 or uint16.
Values = npt.NDArray[Any]

# Tags of TIFF.
_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER = 256, 257, 258, 259, 262, 266
_OFFSETS, _ROWS, _LENGTHS, _CHANNELS, _PLANAR, _PREDICTOR = 273, 278, 279, 277, 284, 317
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_LENGTHS, _EXTRA, _FORMAT = 322, 323, 324, 325, 338, 339
# Tags that a substitute keeps: orientation, resolution with its unit, profile.
_KEPT = (274, 282, 283, 296, 34675)
_WHITE_IS_0, _BLACK_IS_0, _RGB = 0, 1, 2
# Numbers of channels with the photometric interpretations that are read here.
_LAYOUTS = {(1, 0), (2, 0), (1, 1), (2, 1), (3, 2), (4, 2)}
_SEPARATE, _PREMULTIPLIED, _UNSIGNED, _FLOAT, _FLOAT_DIFFERENCES = 2, 1, 1, 3, 3
# Without loss, and the same whatever values mean: none, LZW, deflate (two numbers), PackBits, LZMA, Zstandard; and how
# many bytes each can make of one.
_COMPRESSIONS = {1: 1, 5: 4096, 8: 1100, 32946: 1100, 32773: 64, 34925: 1 << 14, 50000: 1 << 14}
_HEAD_BYTES = 16
_NETPBM = (b"P3", b"P6", b"P7")
_PAM_NAMES = (b"WIDTH", b"HEIGHT", b"DEPTH", b"MAXVAL")
_MAX_HEADER, _MAX_DIGITS = 1 << 12, 9
_TOKEN = re.compile(rb"(?:\s|#[^\n]*\n)*([^\s#]+)")
_PAM_LINE = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*([A-Z]+)(?:[ \t]+([^\n]*?))?[ \t]*\n")


def substitute(source: str | bytes, most_pixels: int, most_per_byte: int) -> bytes | None:
    """Rewrite a file as a TIFF of the same values; None if Pillow reads it as it is, or if it is damaged."""
    with contextlib.ExitStack() as stack:
        data = _content(source, stack)
        found = _header(data)
        if found is None or not 0 < found.width * found.height <= min(most_pixels, most_per_byte * len(data)):
            return None
        directory = found.directory
        if directory is None:
            return _tiff_of(_netpbm_values(bytes(data), found), {})
        kept = {tag: _little_endian(directory, tag) for tag in _KEPT if tag in directory.fields}
        return _tiff_of(_tiff_values(bytes(data), directory), kept)


@dataclass(frozen=True)
class _Header:
    """A file's size and channels; of a PPM or PAM its largest value, where values begin, and whether they are text."""

    width: int
    height: int
    channels: int
    largest: int = 0
    begin: int = 0
    is_text: bool = False
    directory: Directory | None = None


def _header(data: bytes | mmap.mmap) -> _Header | None:
    """Read the header of a file that needs a substitute; None for others."""
    kind = bytes(data[:2])
    if kind in (b"II", b"MM"):
        directory = directory_of(data)
        if directory is None or not _is_special(directory):
            return None
        width, height, channels = (directory.integer(tag, 1) for tag in (_WIDTH, _HEIGHT, _CHANNELS))
        bits = width * height * channels * directory.integer(_BITS)
        if bits > 8 * len(data) * _COMPRESSIONS[directory.integer(_COMPRESSION, 1)]:
            raise ValueError(f"it claims {width} x {height} pixels, more than its {len(data)} bytes can hold")
        return _Header(width, height, channels, directory=directory)
    if kind not in _NETPBM:
        return None
    return _pam_header(data) if kind == b"P7" else _ppm_header(data)


def _content(source: str | bytes, stack: contextlib.ExitStack) -> bytes | mmap.mmap:
    """A file's bytes, of which only those that are asked for are read."""
    if isinstance(source, bytes):
        return source
    file = stack.enter_context(open(source, "rb"))  # noqa: SIM115
    if os.fstat(file.fileno()).st_size < _HEAD_BYTES:
        return file.read(_HEAD_BYTES)
    return stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _is_special(directory: Directory) -> bool:
    """Whether a TIFF needs a substitute."""
    bits, extra = directory.integers(_BITS), directory.integer(_EXTRA)
    channels, photometric = directory.integer(_CHANNELS, 1), directory.integer(_PHOTOMETRIC)
    if (
        len(bits) not in (1, channels)
        or directory.integer(_COMPRESSION, 1) not in _COMPRESSIONS
        or (channels, photometric) not in _LAYOUTS
    ):
        return False
    predictor, is_split = directory.integer(_PREDICTOR, 1), directory.integer(_PLANAR) == _SEPARATE
    if directory.integer(_FORMAT, _UNSIGNED) == _FLOAT:
        # Differences of floats are of all channels of a row together.
        return set(bits) == {32} and (
            predictor == 1 or (predictor == _FLOAT_DIFFERENCES and (channels == 1 or is_split))
        )
    if directory.integer(_FORMAT, _UNSIGNED) != _UNSIGNED or predictor not in (1, 2):
        return False
    if set(bits) == {12}:
        return channels == 1 and directory.order == "<" and not directory.is_big
    if set(bits) in ({8}, {16}) and ((channels == 2 and is_split) or (directory.is_big and directory.order == ">")):
        return True
    premultiplied = channels == 4 and extra == _PREMULTIPLIED
    return set(bits) == {16} and (
        (channels > 1 and is_split) or channels == 2 or premultiplied or photometric == _WHITE_IS_0
    )


def _tiff_values(data: bytes, directory: Directory) -> Values:
    """The values of all channels, (H, W, C), the largest white."""
    channels = directory.integer(_CHANNELS, 1)
    values: Values
    if directory.integers(_BITS) == (12,):
        deep = _gray(data, directory, 0, 1).astype(np.uint32)
        values = ((deep * 65535 + 2047) // 4095).astype(np.uint16)[..., None]
    elif channels > 1 and directory.integer(_PLANAR) == _SEPARATE:
        values = np.dstack([_gray(data, directory, plane, 1) for plane in range(channels)])
    else:
        values = _gray(data, directory, 0, channels).reshape(directory.integer(_HEIGHT), -1, channels)
        if directory.integer(_PREDICTOR, 1) == 2 and channels > 1:
            values = _added_up(values, directory.integer(_TILE_WIDTH) or values.shape[1])
    if directory.integer(_FORMAT) == _FLOAT:
        values = _bytes_of(values)
    elif directory.integer(_BITS) == 8:
        values = values.astype(np.uint8)
    if directory.integer(_PHOTOMETRIC) == _WHITE_IS_0:
        values = values.copy()
        values[..., 0] = np.iinfo(values.dtype).max - values[..., 0]
    if channels in (2, 4) and directory.integer(_EXTRA) == _PREMULTIPLIED:
        values = _divided_by_alpha(values)
    return values


def _bytes_of(values: Values) -> npt.NDArray[np.uint8]:
    """Floats of 0 to 1 as `clquant.images` takes them."""
    if not bool(((values >= 0) & (values <= 1)).all()):
        ends = f"from {float(values.min()):g} to {float(values.max()):g}"
        raise ValueError(f"it has floats outside 0..1, {ends}; allowed: 0..1; {SCALING}")
    rounded: npt.NDArray[np.uint8] = np.floor(values.astype(np.float64) * 255 + 0.5).astype(np.uint8)
    return rounded


def _gray(data: bytes, directory: Directory, plane: int, channels: int) -> Values:
    """(H, W * channels): a plane, or the values of all channels side by side, as Pillow decodes gray.

    If there are several channels, differences between pixels are left as they are.
    """
    order = directory.order
    fields = {tag: directory.fields[tag] for tag in (_COMPRESSION, _FILL_ORDER, _ROWS) if tag in directory.fields}
    is_tiled = _TILE_WIDTH in directory.fields
    size = [(_WIDTH, channels), (_HEIGHT, 1)] + ([(_TILE_WIDTH, channels), (_TILE_HEIGHT, 1)] if is_tiled else [])
    for tag, times in size:
        fields[tag] = integer_field(order, LONG, directory.integer(tag) * times)
    bits = directory.integer(_BITS)
    sample = directory.integer(_FORMAT, _UNSIGNED)
    for tag, value in ((_FORMAT, sample), (_BITS, bits), (_CHANNELS, 1), (_PLANAR, 1), (_PHOTOMETRIC, _BLACK_IS_0)):
        fields[tag] = integer_field(order, SHORT, value)
    if channels == 1 and _PREDICTOR in directory.fields:
        fields[_PREDICTOR] = directory.fields[_PREDICTOR]
    is_big = directory.is_big and order == "<"
    for tag in (_TILE_OFFSETS, _TILE_LENGTHS) if is_tiled else (_OFFSETS, _LENGTHS):
        places = directory.integers(tag)
        if directory.integer(_PLANAR) == _SEPARATE:
            count = len(places) // directory.integer(_CHANNELS, 1)
            places = places[plane * count : (plane + 1) * count]
        if places:
            fields[tag] = integer_field(order, LONG8 if is_big else LONG, *places)
    view = with_directory(data, order, is_big, fields)
    with PIL.Image.open(io.BytesIO(view), formats=["TIFF"]) as image:
        codec, layout = image.tile[0][0], image.tile[0][3]
        found: Values = np.asarray(image)
    if sample != _FLOAT:
        return found.astype(np.uint16)
    # libtiff has turned the bytes of floats already when Pillow turns them.
    return found.byteswap() if codec == "libtiff" and layout[0] == "F;32BF" else found


def _added_up(differences: Values, width: int) -> Values:
    """Values from their differences to the pixel before, in tiles of a width."""
    values = np.empty_like(differences)
    for first in range(0, differences.shape[1], width):
        part = differences[:, first : first + width]
        np.cumsum(part, axis=1, dtype=np.uint16, out=values[:, first : first + width])
    return values


def _divided_by_alpha(values: Values) -> Values:
    """Undo the premultiplication of colours by alpha; those of alpha 0 become black."""
    alpha = values[..., -1:].astype(np.uint64)
    white = np.iinfo(values.dtype).max
    colors = (values[..., :-1] * np.uint64(white) + alpha // 2) // np.maximum(alpha, 1)
    plain = np.where(alpha > 0, np.minimum(colors, white), 0)
    return np.concatenate([plain, alpha], axis=2).astype(values.dtype)


def _little_endian(directory: Directory, tag: int) -> Field:
    """A field in the order of a substitute."""
    field = directory.fields[tag]
    size = {3: 2, 4: 4, 5: 4, 16: 8}.get(field.kind, 1)
    if directory.order == "<" or size == 1:
        return field
    return Field(field.kind, np.frombuffer(field.data, f">u{size}").astype(f"<u{size}").tobytes())


def _tiff_of(values: Values, kept: dict[int, Field]) -> bytes:
    """A BigTIFF without compression, (H, W, 1 to 4); gray with alpha becomes RGB with alpha."""
    if values.shape[2] == 2:
        values = values[..., [0, 0, 0, 1]]
    height, width, channels = values.shape
    content = b"\0" * _HEAD_BYTES + values.astype(values.dtype.newbyteorder("<")).tobytes()
    fields = dict(kept)
    for tag, numbers in (
        (_WIDTH, (width,)),
        (_HEIGHT, (height,)),
        (_ROWS, (height,)),
        (_OFFSETS, (_HEAD_BYTES,)),
        (_LENGTHS, (values.nbytes,)),
    ):
        fields[tag] = integer_field("<", LONG8, *numbers)
    for tag, numbers in (
        (_BITS, (8 * values.dtype.itemsize,) * channels),
        (_COMPRESSION, (1,)),
        (_PHOTOMETRIC, (_BLACK_IS_0 if channels == 1 else _RGB,)),
        (_CHANNELS, (channels,)),
        *(((_EXTRA, (2,)),) if channels == 4 else ()),
    ):
        fields[tag] = integer_field("<", SHORT, *numbers)
    return with_directory(content, "<", True, fields)


def _ppm_header(data: bytes | mmap.mmap) -> _Header | None:
    """Read the header of a colour picture of more than 8 bits a value; None of others."""
    head, numbers, at = bytes(data[:_MAX_HEADER]), [], 2
    for _ in range(3):
        token = _TOKEN.match(head, at)
        if token is None or not token[1].isdigit() or len(token[1]) > _MAX_DIGITS:
            return None
        numbers.append(int(token[1]))
        at = token.end()
    width, height, largest = numbers
    return _Header(width, height, 3, largest, at + 1, head[:2] == b"P3") if 255 < largest < 65536 else None


def _pam_header(data: bytes | mmap.mmap) -> _Header | None:
    head, at = bytes(data[:_MAX_HEADER]), 3
    found: dict[bytes, int] = {}
    while line := _PAM_LINE.match(head, at):
        at = line.end()
        if line[1] == b"ENDHDR":
            width, height, channels, largest = (found.get(name, 0) for name in _PAM_NAMES)
            is_read = 0 < largest < 65536 and 1 <= channels <= 4
            return _Header(width, height, channels, largest, at) if is_read else None
        if line[2] is not None and line[2].isdigit() and len(line[2]) <= _MAX_DIGITS:
            found[line[1]] = int(line[2])
    return None


def _netpbm_values(data: bytes, header: _Header) -> Values:
    """(H, W, C), of 16 bits if the largest value is above 255; scaled to the whole range."""
    shape = header.height, header.width, header.channels
    count = header.height * header.width * header.channels
    size = 2 if header.largest > 255 else 1
    if size * count > len(data):
        raise ValueError("its pixels are cut off")
    values: npt.NDArray[Any]
    if header.is_text:
        words = re.sub(rb"#[^\n]*", b"", data[header.begin - 1 :]).split(None, count)[:count]
        values = np.array(words).astype(np.uint32)
    else:
        values = np.frombuffer(data[header.begin : header.begin + size * count], f">u{size}")
    if len(values) < count:
        raise ValueError("its pixels are cut off")
    white = (1 << 8 * size) - 1
    if header.largest < white:
        scaled = np.minimum(values, header.largest).astype(np.uint32) * np.uint32(white)
        values = (scaled + np.uint32(header.largest // 2)) // np.uint32(header.largest)
    return values.astype(np.uint16 if size == 2 else np.uint8).reshape(shape)
