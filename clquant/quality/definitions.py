"""The measures in float64 on the host, for samples of any kind; a device has some of 8-bit levels within a bound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel

Numbers = npt.NDArray[np.generic]
Float = npt.NDArray[np.float64]
Bands = Iterable[tuple[Numbers, Numbers]]  # rows of both pictures, from top to bottom

LUMA = (299, 587, 114)  # Rec. 601, thousandths
WINDOW = 11
_BLOCK = 1 << 16  # samples that are converted to float64 at a time: a cache holds them
# Windows of a thread's band in `similarity`, few enough for caches, and the band's least rows: two bands share ten.
_SSIM_SAMPLES, _SSIM_ROWS = 1 << 14, 16


def mean_squared_error(bands: Bands) -> float:
    """Mean squared difference over all samples."""
    total, samples = 0.0, 0
    for a, b in bands:
        rows = max(1, _BLOCK // max(1, a[0].size))
        for start in range(0, a.shape[0], rows):
            difference = np.subtract(a[start : start + rows], b[start : start + rows], dtype=np.float64)
            total += float(np.square(difference, out=difference).sum())  # `np.vdot` begins threads, which takes longer
        samples += a.size
    return total / samples


def similarity(bands: Bands, peak: float) -> float:
    """Mean SSIM of the lumas (see `clquant.quality.ssim`), from bands that share ten rows."""
    sums, windows = list[float](), 0
    for first, second in bands:
        height, width = first.shape[0] - WINDOW + 1, first.shape[1]
        rows = max(_SSIM_SAMPLES // width, _SSIM_ROWS)
        parts = [slice(row, min(row + rows, height) + WINDOW - 1) for row in range(0, height, rows)]
        sums += parallel.in_threads(partial(_similarity_sum, first, second, parts, peak), len(parts))
        windows += height * (width - WINDOW + 1)
    return math.fsum(sums) / windows


def _similarity_sum(first: Numbers, second: Numbers, parts: list[slice], peak: float, number: int) -> float:
    """Sum of the SSIM of all windows in one of several parts."""
    a, b, window = luma(first[parts[number]]), luma(second[parts[number]]), gaussian(1.5, WINDOW // 2)
    mean_a, mean_b, square_a, square_b, product = blurred(np.stack([a, b, a * a, b * b, a * b]), window)
    var_a, var_b = square_a - mean_a * mean_a, square_b - mean_b * mean_b
    covariance = product - mean_a * mean_b
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    top = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    return float(np.sum(top / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))))


def rounded(figure: float) -> float:
    """A figure rounded to ten digits, which processors agree on."""
    return float(f"{figure:.10g}")


def luma(picture: Numbers) -> Float:
    """Rec. 601 luma; of fewer than three channels the first."""
    values = picture.astype(np.float64)
    if values.ndim == 2:
        return values
    if values.shape[2] < 3:
        return np.ascontiguousarray(values[..., 0])
    return np.asarray(values[..., :3] @ (np.array(LUMA) / 1000))


def gaussian(sigma: float, radius: int) -> Float:
    """(2 radius + 1,) weights of a Gaussian window; their sum is 1."""
    window = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return np.asarray(window / window.sum())


def blurred(pictures: Float, window: Float) -> Float:
    """Weighted means over all square windows inside each of several pictures (N, H, W)."""
    for axis in (1, 2):
        pieces = np.lib.stride_tricks.sliding_window_view(pictures, len(window), axis)
        pictures = window[0] * pieces[..., 0]
        for weight, piece in zip(window[1:], np.moveaxis(pieces, -1, 0)[1:], strict=True):
            pictures += weight * piece
    return pictures
