"""The measures in float64 on the host, for samples of any kind; a device has some of 8-bit levels within a bound."""

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
_SPECTRUM_SAMPLES = 1 << 18  # of a thread's rows or columns
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
    mean_a, mean_b, square_a, square_b, product = _blur(np.stack([a, b, a * a, b * b, a * b]))
    var_a, var_b = square_a - mean_a * mean_a, square_b - mean_b * mean_b
    covariance = product - mean_a * mean_b
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    top = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    return float(np.sum(top / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))))


class RowSpectrum:
    """Spectra of the rows of two pictures' difference in luma, added from top to bottom: 8 bytes per pixel."""

    def __init__(self, height: int, width: int) -> None:
        self._height, self._width, self._rows = height, width, 0
        self._spectra = np.empty((height, width // 2 + 1), np.complex128)

    def add(self, first: Numbers, second: Numbers) -> None:
        """Add the next rows of both pictures."""
        begin, step = self._rows, max(1, _SPECTRUM_SAMPLES // self._width)

        def of_band(number: int) -> None:
            band = slice(number * step, min((number + 1) * step, len(first)))
            difference = luma(second[band]) - luma(first[band])
            self._spectra[begin + band.start : begin + band.stop] = np.fft.rfft(difference, axis=1)

        parallel.in_threads(of_band, -(-len(first) // step))
        self._rows += len(first)

    def visible_energy(self, falloff: float) -> float:
        """Mean square behind a low-pass ``exp(-falloff * f)``, f in cycles per pixel, by Parseval's theorem."""
        columns, step = self._spectra.shape[1], max(1, _SPECTRUM_SAMPLES // self._height)
        twins = np.full(columns, 2.0)
        twins[0] = 1.0
        if self._width % 2 == 0:
            twins[-1] = 1.0
        down = np.fft.fftfreq(self._height)[:, None]

        def of_columns(number: int) -> float:
            block = slice(number * step, min((number + 1) * step, columns))
            seen = np.fft.fft(self._spectra[:, block], axis=0)
            gain = np.exp(-2 * falloff * np.hypot(down, np.arange(block.start, block.stop) / self._width))
            return float(np.sum((seen.real**2 + seen.imag**2) * gain * twins[block]))

        energy = math.fsum(parallel.in_threads(of_columns, -(-columns // step)))
        return energy / (self._height * self._width) ** 2


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


def _blur(pictures: Float) -> Float:
    """Means over the windows of `similarity`, for each of several pictures (N, H, W); sides shrink by 10."""
    window = gaussian(1.5, WINDOW // 2)
    for axis in (1, 2):
        pieces = np.lib.stride_tricks.sliding_window_view(pictures, WINDOW, axis)
        pictures = window[0] * pieces[..., 0]
        for weight, piece in zip(window[1:], np.moveaxis(pieces, -1, 0)[1:], strict=True):
            pictures += weight * piece
    return pictures
