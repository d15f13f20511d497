"""Arguments of a tree's verbs, checked: coordinates of pixels, what an outline is drawn on and in."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant import images, params
from clquant.quadtree.geometry import MAX_CHANNELS, Integers
from clquant.quadtree.render import Paint
from clquant.runtime import InvalidArgument, InvalidType

MANY = (np.ndarray, list, tuple)
"""Types of several coordinates."""


def pixel_places(x: Any, y: Any, width: int, height: int) -> tuple[Integers, Integers]:
    """Return coordinates as two integer arrays, checked to be of one shape and inside the picture."""
    columns, rows = (params.array(name, values, "integers", "iu") for name, values in (("x", x), ("y", y)))
    for name, values, limit in (("x", columns, width), ("y", rows, height)):
        if values.size and (values.min() < 0 or values.max() >= limit):
            raise InvalidArgument(f"{name} goes from {values.min()} to {values.max()}; allowed: 0 to {limit - 1}")
    if columns.shape != rows.shape:
        raise InvalidArgument(f"x and y have the shapes {columns.shape} and {rows.shape}; allowed: one shape")
    return columns, rows


def outline_paint(image: Any, color: Any, height: int, width: int) -> Paint:
    """Check the arguments of an outline; `image` None paints the leaves' means under the borders."""
    base = None
    if image is not None:
        base = images.read(image, max_channels=MAX_CHANNELS).array
        if base is None:
            raise InvalidType(f"image is {params.shown(image)}; allowed: a picture on the host")
        if base.shape[:2] != (height, width):
            raise InvalidArgument(f"image has the shape {base.shape}; allowed: {height} x {width} pixels")
    if not isinstance(color, tuple | list) or len(color) != 3:
        raise InvalidArgument(f"color is {params.shown(color)}; allowed: three integers from 0 to 255")
    ink = [params.integer(f"color[{i}]", value, 0, 255) for i, value in enumerate(color)]
    return Paint(tuple(ink), base)
