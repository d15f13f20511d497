"""Errors as the eye sees them, computed on the host: behind a model of it, and of single pixels that stand out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clquant import params
from clquant.color.formats import parallel
from clquant.quality.definitions import Bands, Numbers, luma, rounded
from clquant.quality.pair import Samples, as_pair
from clquant.runtime import CommandQueue

CONTRAST = 0.525 * math.log(11.0) + 3.91  # cycles per degree at which the eye's gain is 1/e, at 11 cd/m^2
SPECTRUM_SAMPLES = 1 << 16  # of a thread's rows or columns


def visual_error(
    original: Samples,
    result: Samples,
    dpi: float = 300.0,
    inches: float = 9.5,
    *,
    queue: CommandQueue | None = None,
    memory: Any = None,
) -> float:
    """Mean squared error after both pictures pass a model of the eye, for halftones and dithers.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array, shape (H, W) or (H, W, C)
        Colour is reduced to Rec. 601 luma first. Lazy pictures of 8-bit levels are read in parts. Computed on the host,
        which holds a spectrum of 8 bytes per pixel.
    dpi, inches : float
        Pixels per inch, and the distance it is seen from.
    queue : pyopencl.CommandQueue, optional
        Of pictures on a device.
    memory : int or str, optional
        As `mse`.

    Returns
    -------
    float
        Squared gray levels; lower is better. In double precision, rounded to ten digits.

    Raises
    ------
    InvalidType, InvalidArgument, FileError
        As `mse`.

    Notes
    -----
    The low-pass form of R. Nasanen, "Visibility of halftone dot textures", IEEE Transactions on Systems, Man and
    Cybernetics 14 (1984), with luminance 11 cd/m^2 and unit gain at frequency 0; the picture's opposite edges meet.
    """
    per_degree = params.real("dpi", dpi, 1, 1e6) * params.real("inches", inches, 0.01, 1e6) * np.pi / 180.0
    pair = as_pair(original, result, memory, least=1)
    return rounded(_visible_energy(pair.shape, pair.bands(queue), float(per_degree / CONTRAST)))


def _visible_energy(shape: tuple[int, ...], bands: Bands, falloff: float) -> float:
    """Mean square of the difference of two lumas behind a low-pass ``exp(-falloff * f)``, f in cycles per pixel.

    By Parseval's theorem, from the spectra of all rows, of 8 bytes per pixel.
    """
    height, width = shape[:2]
    columns = width // 2 + 1
    spectra, row, step = np.empty((height, columns), np.complex128), 0, max(1, SPECTRUM_SAMPLES // width)

    def of_band(number: int) -> None:
        first, second = (one[number * step : (number + 1) * step] for one in pair)
        begin = row + number * step
        spectra[begin : begin + len(first)] = np.fft.rfft(luma(np.subtract(second, first, dtype=np.float64)), axis=1)

    for pair in bands:
        parallel.in_threads(of_band, -(-len(pair[0]) // step))
        row += len(pair[0])
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    twins = np.where((across == 0) | (across == 0.5), 1.0, 2.0)  # rfft leaves out the mirrored columns
    block = max(1, SPECTRUM_SAMPLES // height)

    def of_columns(number: int) -> float:
        some = slice(number * block, min((number + 1) * block, columns))
        seen = np.fft.fft(spectra[:, some], axis=0)
        gain = np.exp(-2 * falloff * np.sqrt(down * down + across[some] ** 2))
        return float(np.sum((seen.real**2 + seen.imag**2) * gain * twins[some]))

    return math.fsum(parallel.in_threads(of_columns, -(-columns // block))) / (height * width) ** 2


def speck_error(
    original: Samples,
    result: Samples,
    bound: float = 60.0,
    *,
    queue: CommandQueue | None = None,
    memory: Any = None,
) -> float:
    """Pixels of a thousand that are off by more than a bound in a channel, for dithers whose single pixels stand out.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array, shape (H, W) or (H, W, C)
        As `visual_error` takes them. Computed on the host.
    bound : float
        In units of the samples, from 0. The default suits 8-bit levels.
    queue : pyopencl.CommandQueue, optional
        Of pictures on a device.
    memory : int or str, optional
        As `mse`.

    Returns
    -------
    float
        0 to 1000; lower is better. A ratio of whole numbers, the same on every machine.

    Raises
    ------
    InvalidType, InvalidArgument, FileError
        As `mse`, or if `bound` is no number or negative.

    Notes
    -----
    The percentage of bad pixels of D. Scharstein, R. Szeliski, "A taxonomy and evaluation of dense two-frame stereo
    correspondence algorithms", International Journal of Computer Vision 47 (2002), of levels in place of disparities
    and in thousandths.
    """
    bound = params.real("bound", bound, 0, 1e300)
    pair = as_pair(original, result, memory, least=1)
    return 1000 * sum(_far(first, second, bound) for first, second in pair.bands(queue)) / pair.first.pixels


def _far(first: Numbers, second: Numbers, bound: float) -> int:
    """Pixels that are off by more than `bound` in a channel."""
    kind = np.int16 if first.dtype == second.dtype == np.uint8 else np.float64
    off = np.abs(np.subtract(second, first, dtype=kind)).reshape(*first.shape[:2], -1)
    return int(np.count_nonzero((off > bound).any(axis=2)))
