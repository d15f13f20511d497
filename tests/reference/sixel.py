"""A sixel decoder, one character at a time, from DEC's manual."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt


def decode(data: bytes) -> npt.NDArray[np.uint8]:
    """(H, W, 4) uint8: the picture; pixels that are not drawn are (0, 0, 0, 0)."""
    match = re.fullmatch(rb'\x1bP[0-9;]*q"(\d+);(\d+);(\d+);(\d+)(.*)\x1b\\', data, re.DOTALL)
    assert match is not None
    width, height = int(match[3]), int(match[4])
    image = np.zeros((-(-height // 6) * 6, width, 4), np.uint8)
    colors: dict[int, tuple[int, ...]] = {}
    color, x, y, repeat = 0, 0, 0, 1
    for token in re.finditer(rb"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)|[?-~]|\$|-", match[5]):
        text = token[0]
        if token[1] is not None:
            assert all(int(token[i]) <= 100 for i in (2, 3, 4))
            colors[int(token[1])] = tuple((int(token[i]) * 255 + 50) // 100 for i in (2, 3, 4))
        elif token[5] is not None:
            color = int(token[5])
        elif token[6] is not None:
            repeat = int(token[6])
        elif text == b"$":
            x = 0
        elif text == b"-":
            x, y = 0, y + 6
        else:
            bits = text[0] - 63
            for row in range(6):
                if bits >> row & 1:
                    image[y + row, x : x + repeat] = (*colors[color], 255)
            x, repeat = x + repeat, 1
            assert x <= width
    assert not image[height:].any()
    return image[:height]


def encode(indices: npt.NDArray[np.integer], rgba: npt.NDArray[np.uint8]) -> bytes:
    """A picture as sixel, one band, colour and run after the other; alpha below 128 is not drawn."""
    height, width = indices.shape
    out = b'\x1bP0;1;0q"1;1;%d;%d' % (width, height)
    drawn = [color for color in range(len(rgba)) if rgba[color, 3] >= 128]
    for color in drawn:
        if (indices == color).any():
            values = [(int(value) * 200 + 255) // 510 for value in rgba[color, :3]]
            out += b"#%d;2;%d;%d;%d" % (color, *values)
    for top in range(0, height, 6):
        band = indices[top : top + 6]
        lines = []
        for color in drawn:
            columns = (band == color).T
            text = bytes(63 + sum(1 << row for row in range(len(column)) if column[row]) for column in columns)
            if columns.any():
                lines.append(b"#%d" % color + re.sub(rb"(.)\1{3,}", _repeated, text.rstrip(b"?"), flags=re.DOTALL))
        out += b"$".join(lines) + b"-"
    return out + b"\x1b\\"


def _repeated(match: re.Match[bytes]) -> bytes:
    return b"!%d%s" % (len(match[0]), match[1])
