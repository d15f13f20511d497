"""Orders of a palette's colours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color import spaces
from clquant.color.values import as_rgba
from clquant.runtime import InvalidArgument

ORDERS = ("fitted", "luma", "hue", "popularity")
HUE_SECTORS = 24
# Squared distance from gray, in units of 1/2048, below which a colour counts as gray.
GRAY_RADIUS_SQUARED = 40**2


def permutation(
    colors: npt.NDArray[np.uint8], order: str, counts: npt.NDArray[Any] | None = None
) -> npt.NDArray[np.int64]:
    """Indices that bring a palette into one of `ORDERS`; `counts` are the pixels of each colour, for popularity.

    Entries of alpha 0 come first, except for ``"fitted"``; ties keep their order.
    """
    params.choice("order", order, ORDERS)
    if order == "fitted":
        return np.arange(len(colors))
    rgba = as_rgba(colors)
    luma = rgba[:, :3].astype(np.int64) @ np.array([299, 587, 114])
    opaque = rgba[:, 3] > 0
    if order == "luma":
        return np.lexsort((luma, opaque))
    if order == "popularity":
        if counts is None:
            raise InvalidArgument("order 'popularity' needs the picture; use IndexedImage.sorted")
        return np.lexsort((-np.asarray(counts, np.int64), opaque))
    lab = spaces.space("oklab", False).coordinates(rgba).astype(np.int64) - np.array(spaces.OKLAB_SHIFT)
    angle = np.arctan2(lab[:, 2], lab[:, 1])
    # OKLab's red stands at 29 degrees; half a sector before it the circle begins.
    sector = np.floor((angle / (2 * np.pi) - 29 / 360 + 0.5 / HUE_SECTORS) % 1 * HUE_SECTORS).astype(np.int64)
    gray = lab[:, 1] ** 2 + lab[:, 2] ** 2 < GRAY_RADIUS_SQUARED
    return np.lexsort((lab[:, 0], np.where(gray, -1, sector), opaque))
