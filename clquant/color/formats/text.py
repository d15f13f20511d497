"""Palette files in text: GIMP's gpl, JASC's pal, hex, Paint.NET's txt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from clquant.color.values import MOST_COLORS, as_rgba, hex_color, hex_texts, with_equal_alpha
from clquant.runtime import FormatError

Colors = npt.NDArray[np.uint8]  # (n, 3) or (n, 4)

_LINE_END = re.compile(r"\r\n|\r|\n")


def _lines(data: bytes, what: str) -> list[str]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    if "\0" in text:
        raise FormatError(f"{what}: there are zero bytes in what should be text")
    return [line.strip() for line in _LINE_END.split(text)]  # str.splitlines would also split within a name


def _values(words: Sequence[str], what: str, number: int) -> tuple[int, ...]:
    """Whole numbers from 0 to 255, in ASCII digits."""
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 3 and int(word) <= 255):
            raise FormatError(f"{what}, line {number}: {word[:20]!r} is no number from 0 to 255")
    return tuple(int(word) for word in words)


def _palette(colors: list[tuple[int, ...]], what: str) -> Colors:
    """Colours of 3 or 4 values; with alpha if any has it."""
    if not 1 <= len(colors) <= MOST_COLORS:
        raise FormatError(f"{what}: {len(colors)} colours; allowed: 1 to {MOST_COLORS}")
    return np.array(with_equal_alpha(colors), np.uint8)


def read_gpl(data: bytes) -> Colors:
    """GIMP's palette: ``R G B name`` a line below a head; with ``Channels: RGBA`` (Aseprite) ``R G B A name``."""
    lines = _lines(data, "gpl")
    if not lines or lines[0] != "GIMP Palette":
        raise FormatError("gpl: the first line is not 'GIMP Palette'")
    colors, channels = [], 3
    for number, line in enumerate(lines[1:], 2):
        if line.replace(" ", "").lower() == "channels:rgba":
            channels = 4
        elif line and not line.startswith(("#", "Name:", "Columns:")):
            words = line.split(maxsplit=channels)
            if len(words) < channels:
                raise FormatError(f"gpl, line {number}: fewer than {channels} numbers")
            colors.append(_values(words[:channels], "gpl", number))
            if len(colors) > MOST_COLORS:
                break
    return _palette(colors, "gpl")


def write_gpl(colors: Colors) -> bytes:
    """GIMP's palette; with alpha in Aseprite's extension."""
    head = ["GIMP Palette", *(["Channels: RGBA"] if colors.shape[1] == 4 else []), "Name: clquant", "Columns: 16", "#"]
    names = hex_texts(colors)
    rows = (" ".join(f"{v:3d}" for v in color) + f"\t{name}" for color, name in zip(colors, names, strict=True))
    return _text([*head, *rows])


def read_jasc(data: bytes) -> Colors:
    """Paint Shop Pro's palette: a head, the number of colours, ``R G B`` or ``R G B A`` a line.

    The number is passed over, since programs write wrong ones.
    """
    lines = _lines(data, "pal")
    if len(lines) < 3 or lines[0] != "JASC-PAL" or lines[1] != "0100":
        raise FormatError("pal: the first lines are not 'JASC-PAL' and '0100'")
    if not (lines[2].isascii() and lines[2].isdigit() and len(lines[2]) <= 5):
        raise FormatError(f"pal: {lines[2][:20]!r} is no number of colours")
    rows = [(number, line.split()) for number, line in enumerate(lines[3:], 4) if line]
    for number, words in rows:
        if len(words) not in (3, 4):
            raise FormatError(f"pal, line {number}: {len(words)} numbers; allowed: 3 or 4")
    return _palette([_values(words, "pal", number) for number, words in rows], "pal")


def write_jasc(colors: Colors) -> bytes:
    """Paint Shop Pro's palette; alpha as a fourth number."""
    rows = [" ".join(map(str, color)) for color in colors.tolist()]
    return _text(["JASC-PAL", "0100", str(len(colors)), *rows], end="\r\n")


def read_hex(data: bytes, what: str = "hex", digits: str = "rrggbb or rrggbbaa") -> Colors:
    """``rrggbb`` or ``rrggbbaa`` a line; ``#`` in front, blank lines and lines from ``;`` on are allowed."""
    colors = []
    for number, line in enumerate(_lines(data, what), 1):
        if line and not line.startswith(";"):
            color = hex_color(line)
            if color is None:
                raise FormatError(f"{what}, line {number}: {line[:20]!r} is not {digits}")
            # Paint.NET's alpha comes first.
            colors.append((*color[1:], color[0]) if what == "txt" and len(color) == 4 else color)
            if len(colors) > MOST_COLORS:
                break
    return _palette(colors, what)


def read_paint_net(data: bytes) -> Colors:
    """Paint.NET's palette: ``aarrggbb``, or ``rrggbb``, a line, and comments from ``;`` on."""
    colors = read_hex(data, "txt", "aarrggbb or rrggbb")
    return colors[:, :3] if (colors[:, 3:] == 255).all() else colors


def write_paint_net(colors: Colors) -> bytes:
    """``aarrggbb`` a line."""
    texts = hex_texts(as_rgba(colors)[:, [3, 0, 1, 2]])
    return _text([";paint.net Palette File", *(color.removeprefix("#").upper() for color in texts)])


def write_hex(colors: Colors) -> bytes:
    """``rrggbb`` a line, or ``rrggbbaa`` where the palette has alpha."""
    return _text(color.removeprefix("#") for color in hex_texts(colors))


def _text(lines: Iterable[str], end: str = "\n") -> bytes:
    return "".join(line + end for line in lines).encode("ascii")
