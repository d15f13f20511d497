"""Colours as values: text and arrays, below `Palette` and the formats of its files.

Text is CSS's (W3C, "CSS Color Module Level 4", hexadecimal notations and named colours).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.ImageColor

from clquant import params
from clquant.runtime import InvalidArgument

MOST_COLORS = 65536
WHITE = 255, 255, 255
ALLOWED = "'#rgb', '#rrggbb', '#rrggbbaa' or a CSS name such as 'rebeccapurple'"

_SHORT = re.compile(r"#([0-9a-fA-F]{3,4})\Z")
_HEX = re.compile(r"#?(?:0x)?([0-9a-fA-F]{6}|[0-9a-fA-F]{8})\Z")


def hex_color(text: str) -> tuple[int, ...] | None:
    """The values of ``rrggbb`` or ``rrggbbaa``, with or without ``#`` or ``0x`` in front; None for other text."""
    match = _HEX.match(text)
    return None if match is None else tuple(bytes.fromhex(match[1]))


def hex_texts(colors: npt.NDArray[np.uint8]) -> list[str]:
    """(n, 3) or (n, 4) colours as ``#rrggbb`` or ``#rrggbbaa``."""
    return ["#" + bytes(color).hex() for color in colors]


def with_equal_alpha(colors: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Colours of 3 or 4 values each: all of 4 where any has alpha, the others opaque then."""
    return [(*color, 255)[:4] for color in colors] if any(len(color) == 4 for color in colors) else colors


def as_rgba(colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(n, 4) uint8 of (n, 3) or (n, 4) colours: with alpha, 255 where they have none."""
    if colors.shape[1] == 4:
        return colors
    return np.concatenate([colors, np.full((len(colors), 1), 255, np.uint8)], axis=1)


def lay_over(pixels: npt.NDArray[Any], background: Sequence[int] = WHITE) -> npt.NDArray[Any]:
    """(..., 3) of (..., 4) pixels or colours of 8 or 16 bits, over an opaque colour of 8 bits; rounded half up."""
    most, wide = np.iinfo(pixels.dtype).max, np.uint16 if pixels.dtype == np.uint8 else np.uint32
    alpha = pixels[..., 3:].astype(wide)
    behind = np.array(background, wide) * wide(most // 255)
    laid = (pixels[..., :3] * alpha + behind * (wide(most) - alpha) + wide(most // 2)) // wide(most)
    return np.asarray(laid, pixels.dtype)


def opaque_color(argument: str, color: Any) -> tuple[int, ...]:
    """Red, green and blue of an opaque colour: CSS's text, or three numbers from 0 to 255."""
    values = css_color(color) if isinstance(color, str) else None
    if not isinstance(color, str) and isinstance(color, Sequence | np.ndarray) and len(color) == 3:
        values = tuple(params.integer(f"{argument}[{i}]", value, 0, 255) for i, value in enumerate(color))
    if values is None or values[3:] not in ((), (255,)):
        raise InvalidArgument(f"{argument} is {params.shown(color)}; allowed: an opaque colour, as 'white' or '#f80'")
    return values[:3]


def transparent_index(colors: npt.NDArray[np.uint8]) -> int | None:
    """Lowest index of a colour of alpha 0; None where there is none."""
    found = np.flatnonzero(colors[:, 3] == 0) if colors.shape[1] == 4 else np.zeros(0, np.int64)
    return int(found[0]) if len(found) else None


def as_array(values: npt.NDArray[Any], dtype: npt.DTypeLike | None, copy: bool | None) -> npt.NDArray[Any]:
    """Return an array as ``__array__`` does, by NumPy's rules for `dtype` and `copy`."""
    wanted = values.dtype if dtype is None else np.dtype(dtype)
    if copy is False and wanted != values.dtype:
        raise ValueError(f"an array of {wanted} needs a copy")
    return values.astype(wanted, copy=bool(copy))


def css_color(text: str) -> tuple[int, ...] | None:
    """Parse a CSS colour (``#rgb`` to ``#rrggbbaa``, a name) into 3 or 4 integers to 255; None for other text."""
    short = _SHORT.match(text)
    if short is not None:
        return tuple(17 * int(digit, 16) for digit in short[1])
    name = text.lower()
    if name == "transparent":
        return (0, 0, 0, 0)
    return tuple(PIL.ImageColor.getrgb(name)) if name in PIL.ImageColor.colormap else hex_color(text)


def css_colors(texts: Sequence[Any], argument: str) -> list[tuple[int, ...]]:
    """The values of colours as CSS writes them, all with alpha if one has it."""
    colors = []
    for number, text in enumerate(texts):
        color = css_color(text) if isinstance(text, str) else None
        if color is None:
            raise InvalidArgument(f"{argument}[{number}] is {params.shown(text)}; allowed: {ALLOWED}")
        colors.append(color)
    return with_equal_alpha(colors)
