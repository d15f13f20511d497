"""The measures in float64 on the host, for samples of any kind; of 8-bit levels the device has them within a bound."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel
from clquant.runtime import InvalidArgument

Numbers = npt.NDArray[np.generic]
Float = npt.NDArray[np.float64]

LUMA = (299, 587, 114)  # Rec. 601, thousandths
WINDOW = 11
_BLOCK = 1 << 22  # samples; bounds the float64 copies of large pictures
# Windows of a thread's band in `similarity`, few enough for caches, and the band's least rows: two bands share ten.
_SSIM_SAMPLES, _SSIM_ROWS = 1 << 14, 16


def picture_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of samples (H, W) or (H, W, C).

    Raises
    ------
    InvalidArgument
        If there is another number of axes.
    """
    if len(shape) not in (2, 3):
        raise InvalidArgument(f"a picture is (H, W) or (H, W, C), got shape {shape}")
    return shape[0], shape[1]


def mean_squared_error(a: Numbers, b: Numbers) -> float:
    """Mean squared difference over all samples."""
    rows = max(1, _BLOCK // max(1, a[0].size))
    total = 0.0
    for start in range(0, a.shape[0], rows):
        difference = a[start : start + rows].astype(np.float64) - b[start : start + rows].astype(np.float64)
        total += float(np.vdot(difference, difference))
    return total / a.size


def similarity(first: Numbers, second: Numbers, peak: float) -> float:
    """Mean SSIM of the lumas (see `clquant.quality.ssim`)."""
    height, width = picture_shape(first.shape)
    rows, windows = max(_SSIM_SAMPLES // width, _SSIM_ROWS), height - WINDOW + 1

    def of_band(number: int) -> float:
        begin = number * rows
        band = slice(begin, min(begin + rows, windows) + WINDOW - 1)
        return _similarity_sum(luma(first[band]), luma(second[band]), peak)

    return math.fsum(parallel.in_threads(of_band, -(-windows // rows))) / (windows * (width - WINDOW + 1))


def _similarity_sum(a: Float, b: Float, peak: float) -> float:
    """The sum of the SSIM of all windows."""
    mean_a, mean_b, square_a, square_b, product = _blur(np.stack([a, b, a * a, b * b, a * b]))
    var_a, var_b = square_a - mean_a * mean_a, square_b - mean_b * mean_b
    covariance = product - mean_a * mean_b
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    top = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    return float(np.sum(top / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))))


def visual_error(first: Numbers, second: Numbers, falloff: float) -> float:
    """Mean squared difference of the lumas behind a low-pass ``exp(-falloff * f)``, f in cycles per pixel."""
    difference = luma(second) - luma(first)
    fy = np.fft.fftfreq(difference.shape[0])[:, None]
    fx = np.fft.rfftfreq(difference.shape[1])[None, :]
    seen = np.fft.irfft2(np.fft.rfft2(difference) * np.exp(-falloff * np.hypot(fy, fx)), s=difference.shape)
    return float(np.mean(seen**2))


def luma(picture: Numbers) -> Float:
    """Rec. 601 luma; of fewer than three channels the first."""
    picture_shape(picture.shape)
    values = picture.astype(np.float64)
    if values.ndim == 2:
        return values
    if values.shape[2] < 3:
        return np.ascontiguousarray(values[..., 0])
    made: Float = values[..., :3] @ (np.array(LUMA) / 1000)
    return made


def gaussian(sigma: float, radius: int) -> Float:
    """(2 radius + 1,) weights of a Gaussian window; their sum is 1."""
    window = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    made: Float = window / window.sum()
    return made


def _blur(pictures: Float) -> Float:
    """Means over the windows of `similarity`, for each of several pictures (N, H, W); sides shrink by 10."""
    window = gaussian(1.5, WINDOW // 2)
    for axis in (1, 2):
        pieces = np.lib.stride_tricks.sliding_window_view(pictures, WINDOW, axis)
        pictures = window[0] * pieces[..., 0]
        for weight, piece in zip(window[1:], np.moveaxis(pieces, -1, 0)[1:], strict=True):
            pictures += weight * piece
    return pictures
