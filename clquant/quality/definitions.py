"""The measures in float64 on the host, for samples of any kind; a device has some of 8-bit levels within a bound."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel
from clquant.runtime import InvalidArgument

Numbers = npt.NDArray[np.generic]
Float = npt.NDArray[np.float64]

LUMA = (299, 587, 114)  # Rec. 601, thousandths
WINDOW = 11
_BLOCK = 1 << 22  # samples; bounds the float64 copies of large pictures
_SPECTRUM_SAMPLES = 1 << 16  # of a thread's rows or columns
# Windows of a thread's band in `similarity`, few enough for caches, and the band's least rows: two bands share ten.
_SSIM_SAMPLES, _SSIM_ROWS = 1 << 14, 16


def picture_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of samples (H, W) or (H, W, C)."""
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
    window = gaussian(1.5, WINDOW // 2)
    mean_a, mean_b, square_a, square_b, product = blurred(np.stack([a, b, a * a, b * b, a * b]), window)
    var_a, var_b = square_a - mean_a * mean_a, square_b - mean_b * mean_b
    covariance = product - mean_a * mean_b
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    top = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    return float(np.sum(top / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))))


def visible_energy(height: int, width: int, rows: Iterable[tuple[Numbers, Numbers]], falloff: float) -> float:
    """Mean square of the difference of two lumas behind a low-pass ``exp(-falloff * f)``, f in cycles per pixel.

    By Parseval's theorem, from the spectra of all rows, of 8 bytes per pixel; `rows` come from top to bottom.
    """
    columns = width // 2 + 1
    spectra, row, step = np.empty((height, columns), np.complex128), 0, max(1, _SPECTRUM_SAMPLES // width)

    def of_band(number: int) -> None:
        first, second = (one[number * step : (number + 1) * step] for one in pair)
        begin = row + number * step
        spectra[begin : begin + len(first)] = np.fft.rfft(luma(np.subtract(second, first, dtype=np.float64)), axis=1)

    for pair in rows:
        parallel.in_threads(of_band, -(-len(pair[0]) // step))
        row += len(pair[0])
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    twins = np.where((across == 0) | (across == 0.5), 1.0, 2.0)  # of the columns that are not there
    block = max(1, _SPECTRUM_SAMPLES // height)

    def of_columns(number: int) -> float:
        some = slice(number * block, min((number + 1) * block, columns))
        seen = np.fft.fft(spectra[:, some], axis=0)
        gain = np.exp(-2 * falloff * np.sqrt(down * down + across[some] ** 2))
        return float(np.sum((seen.real**2 + seen.imag**2) * gain * twins[some]))

    return math.fsum(parallel.in_threads(of_columns, -(-columns // block))) / (height * width) ** 2


def rounded(figure: float) -> float:
    """A figure rounded to ten digits, which processors agree on."""
    return float(f"{figure:.10g}")


def luma(picture: Numbers) -> Float:
    """Rec. 601 luma; of fewer than three channels the first."""
    picture_shape(picture.shape)
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
