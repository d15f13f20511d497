"""What stands after each frame of an animation, pixel by pixel in fractions, by the rules of GIF89a, APNG and WebP.

GIF89a (CompuServe, 1990), section 23, with a transparent screen as browsers have it; PNG, third edition, sections
11.3.6 and 12.5.2; WebP Container Specification, "Animation". WebP has the disposals `NONE` and `CLEAR` alone.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np

NONE, CLEAR, RESTORE = "none", "clear", "restore"
HALF = Fraction(1, 2)


@dataclasses.dataclass
class Drawing:
    """One frame: RGBA pixels (h, w, 4) at (x, y)."""

    pixels: np.ndarray
    x: int
    y: int
    disposal: str = NONE
    over: bool = True


def over(above, below):
    """Colours of `above` over `below` by their alpha, none multiplied by it."""
    a, b = Fraction(int(above[3]), 255), Fraction(int(below[3]), 255)
    alpha = a + b * (1 - a)
    if not alpha:
        return below
    colors = [(int(p) * a + int(q) * b * (1 - a)) / alpha for p, q in zip(above[:3], below[:3], strict=True)]
    return [int(value + HALF) for value in (*colors, 255 * alpha)]


def shown(drawings, height, width):
    """Every frame as it is seen, (H, W, 4) uint8."""
    screen = np.zeros((height, width, 4), np.uint8)
    seen = []
    for each in drawings:
        before, rows, columns = screen.copy(), *each.pixels.shape[:2]
        inside = [(j, i) for j in range(rows) for i in range(columns) if each.y + j < height and each.x + i < width]
        for j, i in inside:
            place, pixel = (each.y + j, each.x + i), each.pixels[j, i]
            screen[place] = over(pixel, screen[place]) if each.over else pixel
        seen.append(screen.copy())
        for j, i in inside:
            place = each.y + j, each.x + i
            if each.disposal == CLEAR:
                screen[place] = 0
            elif each.disposal == RESTORE:
                screen[place] = before[place]
    return seen
