"""Orders of a palette's colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color import spaces
from clquant.color.values import as_rgba
from clquant.runtime import InvalidArgument

HUE_SECTORS = 24
# Squared distance from gray, in units of 1/2048, below which a colour counts as gray.
GRAY_RADIUS_SQUARED = 40**2


Keys = tuple[npt.NDArray[Any], ...]  # as `numpy.lexsort` takes them, the last one first


def permutation(
    colors: npt.NDArray[np.uint8], order: str, counts: npt.NDArray[Any] | None = None
) -> npt.NDArray[np.int64]:
    """Indices that bring a palette into one of `ORDERS`; `counts` are the pixels of each colour, for popularity.

    Entries of alpha 0 come first, except for ``"fitted"``; ties keep their order.
    """
    keys = ORDERS[params.choice("order", order, ORDERS)]
    if keys is None:
        return np.arange(len(colors))
    rgba = as_rgba(colors)
    return np.lexsort((*keys(rgba, counts), rgba[:, 3] > 0))


def _by_luma(rgba: npt.NDArray[np.uint8], _: Any) -> Keys:
    return (rgba[:, :3].astype(np.int64) @ np.array([299, 587, 114]),)


def _by_hue(rgba: npt.NDArray[np.uint8], _: Any) -> Keys:
    lab = spaces.space("oklab", False).coordinates(rgba).astype(np.int64) - np.array(spaces.OKLAB_SHIFT)
    angle = np.arctan2(lab[:, 2], lab[:, 1])
    # OKLab's red stands at 29 degrees; half a sector before it the circle begins.
    sector = np.floor((angle / (2 * np.pi) - 29 / 360 + 0.5 / HUE_SECTORS) % 1 * HUE_SECTORS).astype(np.int64)
    gray = lab[:, 1] ** 2 + lab[:, 2] ** 2 < GRAY_RADIUS_SQUARED
    return lab[:, 0], np.where(gray, -1, sector)


def _by_popularity(_: npt.NDArray[np.uint8], counts: npt.NDArray[Any] | None) -> Keys:
    if counts is None:
        raise InvalidArgument("order 'popularity' needs the picture; use IndexedImage.sorted")
    return (-np.asarray(counts, np.int64),)


# The keys of each order by colours (n, 4) and pixels of each; None keeps the order.
ORDERS: dict[str, Callable[..., Keys] | None] = {
    "fitted": None,
    "luma": _by_luma,
    "hue": _by_hue,
    "popularity": _by_popularity,
}
