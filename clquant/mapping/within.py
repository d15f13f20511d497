"""The entries of a palette that are near a colour in each of its channels, as bits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.color.spaces import Space


@lru_cache(maxsize=32)
def entries_within(palette: Palette, space: Space, most: int) -> npt.NDArray[np.uint32]:
    """`within` of `cl/mapping/within.h`, (axes, 256, words); any word where `most` is white."""
    if most == space.white:
        return np.zeros(1, np.uint32)
    values = space.values(palette.rgba()).astype(np.int64)
    axes = values[:, :3]
    if space.alpha:
        opacity = values[:, 3:]
        light = axes * opacity // space.white
        axes = np.concatenate([light, opacity, opacity - light], axis=1)
    step = (space.white + 1) // 256
    lowest = step * np.arange(256)[:, None]
    is_near = (axes.T[:, None] <= lowest + step - 1 + most) & (axes.T[:, None] >= lowest - most)
    bits = np.zeros((*is_near.shape[:2], -(-len(palette) // 32) * 32), bool)
    bits[..., : len(palette)] = is_near
    is_opaque = palette.rgba()[:, 3] == 255
    if space.alpha and is_opaque.any():
        bits[3, 255, : len(palette)] = is_opaque
    return np.packbits(bits, axis=2, bitorder="little").view("<u4")
