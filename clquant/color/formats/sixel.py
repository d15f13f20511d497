"""Sixel: pictures inside a terminal's text.

DEC, "VT330/VT340 Programmer Reference Manual", volume 2, chapter 14: bands of six rows, one character of six pixels a
column and colour, colours in registers of 0 to 100 a channel.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.runtime import InvalidArgument

MOST_REGISTERS = 256
BAND_ROWS = 6
# Colours of less alpha are not drawn, so that the terminal's background shows.
DRAWN_ALPHA = 128

_BEGIN = b"\x1bP0;1;0q"  # parameter 2: pixels that are not drawn keep what they had
_END = b"\x1b\\"
# A run shorter than this is not longer when written out.
_SHORTEST_RUN = 4


def registers(palette: Palette) -> npt.NDArray[np.int64]:
    """(n, 3) int64, 0 to 100: the registers of a palette's colours, rounded half up."""
    return np.asarray((palette.colors[:, :3].astype(np.int64) * 200 + 255) // 510)


def shown_palette(palette: Palette) -> Palette:
    """The colours that a terminal shows for a palette: the registers' rounding; alpha below 128 becomes 0, else 255.

    Map pictures through this palette before `encode`, so that each pixel takes its nearest among what is really shown.

    Parameters
    ----------
    palette : Palette

    Returns
    -------
    Palette
        Of as many colours, in the same order.
    """
    shown = ((registers(palette) * 255 + 50) // 100).astype(np.uint8)
    if not palette.has_alpha:
        return Palette(shown)
    alpha = np.where(palette.colors[:, 3:] < DRAWN_ALPHA, 0, 255).astype(np.uint8)
    return Palette(np.concatenate([shown, alpha], axis=1))


def encode(indices: npt.NDArray[np.integer], palette: Palette) -> bytes:
    """A picture as sixel.

    Parameters
    ----------
    indices : ndarray
        (H, W) integers below the number of colours.
    palette : Palette
        At most 256 colours. Colours of alpha below 128 are not drawn.

    Returns
    -------
    bytes
        From the introducer (ESC P) to the terminator.

    Raises
    ------
    InvalidArgument
        If the palette has more colours.
    """
    if len(palette) > MOST_REGISTERS:
        raise InvalidArgument(f"sixel holds at most {MOST_REGISTERS} colours; this palette has {len(palette)}")
    height, width = indices.shape
    drawn = palette.rgba()[:, 3] >= DRAWN_ALPHA
    used = [int(color) for color in np.unique(indices) if drawn[color]]
    values = registers(palette)
    out = [_BEGIN, b'"1;1;%d;%d' % (width, height)]
    out += [b"#%d;2;%d;%d;%d" % (color, *values[color]) for color in used]
    for top in range(0, height, BAND_ROWS):
        band = indices[top : top + BAND_ROWS]
        lines = [b"#%d" % color + _line(band == color) for color in np.unique(band) if drawn[color]]
        out.append(b"$".join(lines) + b"-")
    out.append(_END)
    return b"".join(out)


def _line(where: npt.NDArray[np.bool_]) -> bytes:
    """One colour of one band, (up to 6, W): a character a column, runs shortened, blanks at the end left out."""
    weights = (1 << np.arange(len(where))).astype(np.uint8)
    sixels = (where * weights[:, None]).sum(axis=0, dtype=np.uint8) + np.uint8(63)
    drawn = np.flatnonzero(sixels != 63)
    sixels = sixels[: drawn[-1] + 1]
    starts = np.flatnonzero(np.concatenate([[True], sixels[1:] != sixels[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(sixels)]]))
    parts = []
    for character, length in zip(sixels[starts].tobytes(), lengths.tolist(), strict=True):
        letter = bytes([character])
        parts.append(letter * length if length < _SHORTEST_RUN else b"!%d%s" % (length, letter))
    return b"".join(parts)
