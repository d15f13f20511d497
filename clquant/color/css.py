"""Colours as text: those of CSS (W3C, "CSS Color Module Level 4", hexadecimal notations and named colours)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import PIL.ImageColor

from clquant import params
from clquant.color.values import hex_color, with_equal_alpha
from clquant.runtime import InvalidArgument

_SHORT = re.compile(r"#([0-9a-fA-F]{3,4})\Z")

ALLOWED = "'#rgb', '#rrggbb', '#rrggbbaa' or a CSS name such as 'rebeccapurple'"


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
