"""Nearest palette entry of every pixel, the plain way: all distances, then the least by the stated order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


def with_alpha(pixels: Pixels) -> Pixels:
    """(n, C) to (n, 4): gray is repeated, missing alpha is the largest value."""
    if pixels.shape[1] == 1:
        pixels = np.repeat(pixels, 3, axis=1)
    if pixels.shape[1] == 3:
        pixels = np.concatenate([pixels, np.full_like(pixels[:, :1], np.iinfo(pixels.dtype).max)], axis=1)
    return pixels


def nearest(pixels: Pixels, palette: Any, space: Any) -> npt.NDArray[np.int64]:
    """(n,) indices: least distance in the space, then least distance of the plain values, then lowest index.

    Pixels of alpha 0 take the first entry of alpha 0; opaque ones take opaque entries, if there are any.
    """
    colors = palette.rgba()
    full = with_alpha(pixels)
    there = space.coordinates(full)[:, None].astype(np.int64) - space.coordinates(colors)[None]
    plain = full[:, None].astype(np.int64) - space.values(colors)[None]
    barred = np.outer(full[:, 3] == np.iinfo(full.dtype).max, colors[:, 3] < 255) & (colors[:, 3] == 255).any()
    there[barred] = 1 << 24
    distances, plain_distances = (there**2).sum(axis=2), (plain**2).sum(axis=2)
    among = distances == distances.min(axis=1, keepdims=True)
    indices = np.where(among, plain_distances, np.iinfo(np.int64).max).argmin(axis=1)
    if palette.transparent_index is not None:
        indices[full[:, 3] == 0] = palette.transparent_index
    return indices
