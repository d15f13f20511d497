"""Structural similarity: the integers of the kernels, one operation after the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]


def _luma(picture: Picture) -> npt.NDArray[np.int64]:
    values = picture.astype(np.int64)
    if values.ndim == 2 or values.shape[2] < 3:
        return 1000 * values.reshape(*values.shape[:2], -1)[..., 0]
    return values[..., :3] @ np.array([299, 587, 114])


def _windows(values: npt.NDArray[np.int64], half: npt.NDArray[np.uint32], axis: int) -> npt.NDArray[np.int64]:
    """Weighted means of values below 2^31 with weights that sum to 2^32, rounded."""
    weights = np.concatenate([half, half[-2::-1]]).astype(np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(values.astype(np.uint64), len(weights), axis)
    return (((windows * weights).sum(axis=-1, dtype=np.uint64) + np.uint64(1 << 31)) >> np.uint64(32)).astype(np.int64)


def _ratio(n: int, d: int) -> int:
    shift = 64 - d.bit_length()
    return (n << shift) // (((d << shift >> 31) + 1) >> 1)


def ssim(first: Picture, second: Picture, half: npt.NDArray[np.uint32], peak: float = 255.0) -> float:
    """Mean SSIM; `half` holds the window's weights from its edge to its middle."""
    x, y = _luma(first), _luma(second)
    a, b = x - 127500, y - 127500
    quantities = (x << 13, y << 13, (a * a + b * b + 8) >> 4, ((a - b) ** 2 + 16) >> 5)
    means = [_windows(_windows(values, half, 0), half, 1).ravel().tolist() for values in quantities]
    c1, c2 = (round((k * peak * 8192000) ** 2) for k in (0.01, 0.03))
    total = 0
    for mean_x, mean_y, squares, apart in zip(*means, strict=True):
        variances = max((squares << 30) - (mean_x - (127500 << 13)) ** 2 - (mean_y - (127500 << 13)) ** 2, 0)
        difference = max((apart << 31) - (mean_x - mean_y) ** 2, 0)
        light = _ratio((mean_x - mean_y) ** 2, mean_x**2 + mean_y**2 + c1)
        structure = _ratio(min(difference // 2, variances + c2), variances + c2)
        total += (light >> 1) + structure - (light * (structure >> 1) >> 31)
    return 1.0 - total / (2**31 * len(means[0]))


def speck_error(first, second, bound):
    """Thousandths of pixels with a channel that is off by more than `bound`."""
    off = np.abs(first.astype(float) - second).reshape(*first.shape[:2], -1)
    return 1000 * sum(bool(max(pixel) > bound) for row in off for pixel in row) / off[..., 0].size
