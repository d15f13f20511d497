"""Palette files in binary: Adobe's act and ase, Microsoft's RIFF pal."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from clquant.color.values import MOST_COLORS, hex_texts, transparent_index
from clquant.runtime import FormatError, InvalidArgument

Colors = npt.NDArray[np.uint8]  # (n, 3) or (n, 4)

ACT_COLORS = 256
ACT_BYTES = 3 * ACT_COLORS
RIFF_VERSION = 0x0300
ASE_COLOR, ASE_GROUP, ASE_GROUP_END = 0x0001, 0xC001, 0xC002
ASE_VALUES = {b"RGB ": 3, b"CMYK": 4, b"Gray": 1, b"LAB ": 3}


def _opaque(palette: Colors, what: str) -> None:
    if palette.shape[1] == 4 and palette[:, 3].min() < 255:
        raise InvalidArgument(f"{what} holds no alpha, and this palette has some; gpl, hex, pal and png hold it")


def read_act(data: bytes) -> Colors:
    """Adobe's colour table: 256 RGB triples; then, perhaps, how many count and which one is transparent."""
    if len(data) not in (ACT_BYTES, ACT_BYTES + 4):
        raise FormatError(f"act: {len(data)} bytes; allowed: {ACT_BYTES} or {ACT_BYTES + 4}")
    colors = np.frombuffer(data, np.uint8, ACT_BYTES).reshape(ACT_COLORS, 3)
    if len(data) == ACT_BYTES:
        return colors
    count, transparent = struct.unpack(">HH", data[ACT_BYTES:])
    if not 1 <= count <= ACT_COLORS:
        raise FormatError(f"act: {count} colours; allowed: 1 to {ACT_COLORS}")
    if transparent >= count:
        return colors[:count]
    alpha = np.full((count, 1), 255, np.uint8)
    alpha[transparent] = 0
    return np.concatenate([colors[:count], alpha], axis=1)


def write_act(palette: Colors) -> bytes:
    """Adobe's colour table; one entry of alpha 0 may be its transparent one."""
    if len(palette) > ACT_COLORS:
        raise InvalidArgument(f"act holds at most {ACT_COLORS} colours; this palette has {len(palette)}")
    transparent = transparent_index(palette)
    if (np.delete(palette[:, 3:], [] if transparent is None else transparent, axis=0) < 255).any():
        raise InvalidArgument("act holds alpha only as one transparent entry, and this palette has more")
    colors = np.zeros((ACT_COLORS, 3), np.uint8)
    colors[: len(palette)] = palette[:, :3]
    return colors.tobytes() + struct.pack(">HH", len(palette), 0xFFFF if transparent is None else transparent)


def read_riff(data: bytes) -> Colors:
    """Microsoft's palette: a RIFF file of form ``PAL `` with a LOGPALETTE in its ``data`` chunk."""
    if len(data) < 24 or data[:4] != b"RIFF" or data[8:12] != b"PAL ":
        raise FormatError("pal: no RIFF file of the form 'PAL '")
    at = 12
    while at + 8 <= len(data):
        kind, size = struct.unpack("<4sI", data[at : at + 8])
        if size > len(data) - at - 8:
            raise FormatError(f"pal: the chunk at byte {at} is longer than the file")
        if kind == b"data":
            return _log_palette(data[at + 8 : at + 8 + size])
        at += 8 + size + size % 2
    raise FormatError("pal: there is no 'data' chunk")


def _log_palette(chunk: bytes) -> Colors:
    if len(chunk) < 4:
        raise FormatError("pal: the 'data' chunk is too short")
    version, count = struct.unpack("<HH", chunk[:4])
    if version != RIFF_VERSION or count == 0 or len(chunk) < 4 + 4 * count:
        raise FormatError(f"pal: version {version:#x} with {count} colours in {len(chunk)} bytes")
    return np.frombuffer(chunk, np.uint8, 4 * count, 4).reshape(count, 4)[:, :3]


def write_riff(palette: Colors) -> bytes:
    """Microsoft's palette; it holds no alpha and at most 65535 colours."""
    _opaque(palette, "a Microsoft palette")
    if len(palette) >= MOST_COLORS:
        raise InvalidArgument(f"a Microsoft palette holds at most 65535 colours; this palette has {len(palette)}")
    entries = np.zeros((len(palette), 4), np.uint8)
    entries[:, :3] = palette[:, :3]
    body = struct.pack("<HH", RIFF_VERSION, len(palette)) + entries.tobytes()
    chunk = b"PAL data" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(chunk)) + chunk


def read_ase(data: bytes) -> Colors:
    """Adobe's swatch exchange: its colours in order, groups ignored; RGB, gray, and CMYK as (1 - C)(1 - K)."""
    if len(data) < 12 or data[:4] != b"ASEF":
        raise FormatError("ase: the file does not begin with 'ASEF' (Aseprite's files of that suffix are pictures)")
    (blocks,) = struct.unpack(">I", data[8:12])
    colors: list[tuple[int, int, int]] = []
    at = 12
    for _ in range(blocks):
        if at + 6 > len(data):
            raise FormatError(f"ase: {blocks} blocks are announced, and the file ends before")
        kind, size = struct.unpack(">HI", data[at : at + 6])
        at += 6
        if size > len(data) - at:
            raise FormatError(f"ase: the block at byte {at} is longer than the file")
        if kind == ASE_COLOR:
            colors.append(_ase_color(data[at : at + size]))
        elif kind not in (ASE_GROUP, ASE_GROUP_END):
            raise FormatError(f"ase: a block of the unknown kind {kind:#06x}")
        at += size
    if not 1 <= len(colors) <= MOST_COLORS:
        raise FormatError(f"ase: {len(colors)} colours; allowed: 1 to {MOST_COLORS}")
    return np.array(colors, np.uint8)


def _ase_color(block: bytes) -> tuple[int, int, int]:
    if len(block) < 2:
        raise FormatError("ase: a colour block is too short")
    (letters,) = struct.unpack(">H", block[:2])
    at = 2 + 2 * letters
    model = block[at : at + 4]
    if model not in ASE_VALUES:
        raise FormatError(f"ase: a colour in the unknown model {model!r}")
    if model == b"LAB ":
        raise FormatError("ase: a colour in LAB; allowed: RGB, CMYK, Gray")
    values = block[at + 4 : at + 4 + 4 * ASE_VALUES[model]]
    if len(values) < 4 * ASE_VALUES[model]:
        raise FormatError("ase: a colour block is too short")
    numbers = struct.unpack(f">{ASE_VALUES[model]}f", values)
    if not all(0 <= number <= 1 for number in numbers):
        raise FormatError("ase: a colour value is outside 0 to 1")
    if model == b"CMYK":
        numbers = tuple((1 - ink) * (1 - numbers[3]) for ink in numbers[:3])
    rgb = [int(255 * number + 0.5) for number in (numbers if len(numbers) == 3 else numbers * 3)]
    return rgb[0], rgb[1], rgb[2]


def write_ase(palette: Colors) -> bytes:
    """Adobe's swatch exchange, in RGB; it holds no alpha."""
    _opaque(palette, "ase")
    blocks = []
    for color, name in zip(palette.tolist(), hex_texts(palette), strict=True):
        letters = f"{name[:7]}\0".encode("utf-16-be")
        body = struct.pack(">H", len(letters) // 2) + letters + b"RGB "
        body += struct.pack(">3fH", *(value / 255 for value in color[:3]), 2)
        blocks.append(struct.pack(">HI", ASE_COLOR, len(body)) + body)
    return b"ASEF" + struct.pack(">HHI", 1, 0, len(blocks)) + b"".join(blocks)
