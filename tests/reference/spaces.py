"""Integer coordinates of 8-bit colours, from the definitions: IEC 61966-2-1 for light; B. Ottosson, "A perceptual color
space for image processing" (2020); ITU-R BT.601; and colours with alpha as docs/concepts say, over mid-gray."""

from __future__ import annotations

import functools
import math

import numpy as np

TO_LMS = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
# Rows of Y, Cb and Cr that add up to 1, 0 and 0 in 2^-16.
TO_LUMA_CHROMA = ((19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329))
# Mid-gray, and the extent of the axis of alpha.
MIDDLE = {"srgb": (255,) * 3, "linear": (1024,) * 3, "oklab": (1024, 480, 640), "ycbcr": (766,) * 3}
DEPTH = {"srgb": 442, "linear": 1773, "oklab": 1024, "ycbcr": 510}


def whole(value):
    """Rounded half up."""
    return math.floor(value + 0.5)


def light(code):
    value = code / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def cube_root(x):
    """Times 2^14, of x / 2^24: eighths of x are brought to 2^21 and more; linear between roots of 1/1024 steps."""
    if x == 0:
        return 0
    shift = 0
    while x < 1 << 21:
        x, shift = 8 * x, shift + 1
    low, high = (whole(((x >> 14) / 1024 + step / 1024) ** (1 / 3) * 2**20) for step in (0, 1))
    return whole((low + ((high - low) * (x & 16383) >> 14)) / 2 ** (6 + shift))


@functools.cache
def point(name, color):
    """Of an opaque colour."""
    if name == "srgb":
        return color
    if name == "linear":
        return tuple(whole(2047 * light(code)) for code in color)
    if name == "ycbcr":
        rows = [sum(w * code for w, code in zip(row, color, strict=True)) for row in TO_LUMA_CHROMA]
        return tuple(whole(4 * row / 2**16) + shift for row, shift in zip(rows, (256, 766, 766), strict=True))
    terms = [sum(whole(w * light(code) * 2**24) for w, code in zip(row, color, strict=True)) for row in TO_LMS]
    roots = [cube_root(min(term, 2**24)) for term in terms]
    rows = [sum(round(4096 * w) * root for w, root in zip(row, roots, strict=True)) for row in TO_LAB]
    return tuple(max(whole(row / 2**15) + shift, 0) for row, shift in zip(rows, (0, 480, 640), strict=True))


def coordinates(name, alpha, colors):
    """(n, 3 or 4) coordinates of (n, 3 or 4) colours; the fourth one, if alpha is an axis."""
    found = []
    for color in np.asarray(colors).tolist():
        place, own = point(name, tuple(color[:3])), color[3] if len(color) == 4 else 255
        if alpha:
            doubled = [2 * at if name == "srgb" else at for at in place]
            over = [whole((p * own + m * (255 - own)) / 255) for p, m in zip(doubled, MIDDLE[name], strict=True)]
            place = (*over, whole(own * DEPTH[name] / 255))
        found.append(place)
    return np.array(found)
