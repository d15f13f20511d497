"""Distinct colours and their counts in Z-order: the reference for clquant.histogram.counting."""

from __future__ import annotations

import numpy as np


def z_order(colors: np.ndarray) -> np.ndarray:
    """Codes of (n, channels) uint8 colours: bits interleaved, highest first, first channel first."""
    codes = np.zeros(len(colors), np.int64)
    for bit in range(7, -1, -1):
        for channel in range(colors.shape[1]):
            codes = 2 * codes + ((colors[:, channel].astype(np.int64) >> bit) & 1)
    return codes


def count_colors(pictures: list[np.ndarray], weights: list[np.ndarray] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(n, 4) uint8 colours in Z-order and their (n,) weights; pixels of alpha 0 and of weight 0 do not count."""
    rgba, weight = [], []
    for i, picture in enumerate(pictures):
        channels = 1 if picture.ndim == 2 else picture.shape[2]
        flat = picture.reshape(-1, channels)
        full = np.full((len(flat), 4), 255, np.uint8)
        full[:, :3] = flat[:, :3]
        if channels == 4:
            full[:, 3] = flat[:, 3]
        rgba.append(full)
        weight.append(np.ones(len(flat), np.int64) if weights is None else weights[i].ravel().astype(np.int64))
    colors, mass = np.concatenate(rgba), np.concatenate(weight)
    kept = (colors[:, 3] > 0) & (mass > 0)
    colors, mass = colors[kept], mass[kept]
    partial = bool((colors[:, 3] < 255).any())
    codes = z_order(colors if partial else colors[:, :3])
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    counts = np.zeros(len(first), np.int64)
    np.add.at(counts, inverse, mass)
    return colors[first], counts
