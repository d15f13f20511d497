"""Options that take colours written out, or a palette file."""

from __future__ import annotations

import os

from clquant.color.css import ALLOWED, css_color
from clquant.color.palette import Palette
from clquant.runtime import InvalidArgument


def given_palette(option: str, text: str) -> Palette:
    """The palette that an option names: colours with commas between them, unless there is a file of that name."""
    if os.path.exists(text):
        return Palette.read(text)
    parts = [part.strip() for part in text.split(",")]
    if all(css_color(part) is not None for part in parts):
        return Palette(parts)
    raise InvalidArgument(f"{option} is {text!r}, neither a file nor colours; allowed: a palette file, or {ALLOWED}")
