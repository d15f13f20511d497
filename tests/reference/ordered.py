"""Ordered dithering to a palette, written from the equations at the head of cl/palette_ordered.cl."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.color.spaces import Space
from tests.reference.palette_map import nearest, with_alpha

LIGHTNESS = {"srgb": (77, 150, 29, 64), "linear": (54, 183, 19, 64), "oklab": (256, 0, 0, 64)}


def dither(
    image: npt.NDArray[np.uint8] | npt.NDArray[np.uint16],
    palette: Palette,
    space: Space,
    mask: npt.NDArray[np.int32],
    strength: int,
) -> npt.NDArray[np.int64]:
    """(H, W) indices of an (H, W, C) image; `strength` from 0 to 256."""
    height, width, channels = image.shape
    pixels = image.reshape(-1, channels)
    colors = space.coordinates(palette.rgba()).astype(np.int64)
    point = space.coordinates(with_alpha(pixels)).astype(np.int64)
    first = nearest(pixels, palette, space)
    error = point - colors[first]
    second = first
    for reach in (2, 8, 32, 128):
        away = np.clip(point + reach * error, 0, np.array(space.extent))
        found = ((away[:, None] - colors[None]) ** 2).sum(axis=2).argmin(axis=1)
        second = np.where((second == first) & error.any(axis=1), found, second)

    step = colors[second] - colors[first]
    side = len(mask)
    rows, columns = np.divmod(np.arange(height * width), width)
    t = mask[rows % side, columns % side].astype(np.int64)
    darker = step @ np.array(LIGHTNESS[space.name][: space.dims]) < 0
    t = np.where(darker, side * side - 1 - t, t)
    share = (error * step).sum(axis=1) * strength * 2 * side * side
    threshold = (step**2).sum(axis=1) * 256 * (2 * t + 1)
    chosen = np.where(share > threshold, second, first)
    if channels == 4 and palette.transparent_index is not None:
        chosen[pixels[:, 3] == 0] = palette.transparent_index
    return chosen.reshape(height, width)
