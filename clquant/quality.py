"""How far one picture is from another: mean squared error, PSNR, structural similarity, and what an eye would see."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import images, params
from clquant.runtime import Array, InvalidArgument

Samples = npt.ArrayLike | Array | PIL.Image.Image
_LUMA = np.array([0.299, 0.587, 0.114])


def mse(original: Samples, result: Samples) -> float:
    """Mean squared error over all samples.

    Parameters
    ----------
    original, result : array_like or pyopencl.array.Array
        Pictures of one shape; 8-bit levels, or any other unit. What is on a device comes to the host, and PIL images of
        palettes (P) and bits (1) count as what they show, here and in all other measures.

    Returns
    -------
    float
        In squared units of the samples; 0 for equal pictures.

    Raises
    ------
    InvalidArgument
        If the shapes differ or there is nothing to compare.
    """
    a, b = _pair(original, result)
    rows = max(1, (1 << 22) // max(1, a[0].size))  # bounds the float64 copies for large pictures
    total = 0.0
    for start in range(0, a.shape[0], rows):
        difference = a[start : start + rows].astype(np.float64) - b[start : start + rows].astype(np.float64)
        total += float(np.vdot(difference, difference))
    return total / a.size


def psnr(original: Samples, result: Samples, peak: float = 255.0) -> float:
    """Peak signal-to-noise ratio in decibels.

    Parameters
    ----------
    original, result : array_like
        Pictures of one shape.
    peak : float
        The largest sample there can be.

    Returns
    -------
    float
        10 log10(peak^2 / MSE); infinity for equal pictures.
    """
    peak = params.real("peak", peak, 1e-9)
    error = mse(original, result)
    return float("inf") if error == 0 else float(10 * np.log10(peak * peak / error))


def ssim(original: Samples, result: Samples, peak: float = 255.0) -> float:
    """Mean structural similarity of the pictures' luma.

    Parameters
    ----------
    original, result : array_like, shape (H, W) or (H, W, C)
        At least 11 x 11 pixels; colour is reduced to Rec. 601 luma first, alpha is not looked at.
    peak : float
        The largest sample there can be.

    Returns
    -------
    float
        Between -1 and 1; 1 for equal pictures.

    Raises
    ------
    InvalidArgument
        If the shapes differ, or a side is under 11 pixels.

    Notes
    -----
    Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image quality assessment: from error visibility to
    structural similarity", IEEE Transactions on Image Processing 13 (2004): a Gaussian window of 11 x 11 pixels
    with sigma 1.5, K1 = 0.01, K2 = 0.03, windows inside the picture only.
    """
    peak = params.real("peak", peak, 1e-9)
    a, b = (_luma(picture) for picture in _pair(original, result))
    if min(a.shape) < 11:
        raise InvalidArgument(f"ssim needs pictures of at least 11 x 11 pixels, got {a.shape}")
    mean_a, mean_b = _blur(a), _blur(b)
    var_a = _blur(a * a) - mean_a * mean_a
    var_b = _blur(b * b) - mean_b * mean_b
    covariance = _blur(a * b) - mean_a * mean_b
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    top = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    return float(np.mean(top / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))))


def visual_error(original: Samples, result: Samples, dpi: float = 300.0, inches: float = 9.5) -> float:
    """Mean squared error after both pictures pass a model of the eye, for halftones and dithers.

    Parameters
    ----------
    original, result : array_like, shape (H, W) or (H, W, C)
        Colour is reduced to Rec. 601 luma first.
    dpi, inches : float
        Pixels an inch, and the distance it is seen from.

    Returns
    -------
    float
        Squared gray levels; lower is better.

    Notes
    -----
    The low-pass form of R. Nasanen, "Visibility of halftone dot textures", IEEE Transactions on Systems, Man and
    Cybernetics 14 (1984), with luminance 11 cd/m^2 and unit gain at frequency 0.
    """
    a, b = (_luma(picture) for picture in _pair(original, result))
    per_degree = params.real("dpi", dpi, 1, 1e6) * params.real("inches", inches, 0.01, 1e6) * np.pi / 180.0
    fy = np.fft.fftfreq(a.shape[0])[:, None] * per_degree
    fx = np.fft.rfftfreq(a.shape[1])[None, :] * per_degree
    model = np.exp(-np.hypot(fy, fx) / (0.525 * np.log(11.0) + 3.91))
    seen = np.fft.irfft2(np.fft.rfft2(b - a) * model, s=a.shape)
    return float(np.mean(seen**2))


def _pair(original: Samples, result: Samples) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    a, b = (
        params.array(name, _pixels(given), "numbers", "buif")
        for name, given in (("original", original), ("result", result))
    )
    if a.shape != b.shape or a.size == 0 or a.ndim == 0:
        raise InvalidArgument(f"original and result must be non-empty and of one shape, got {a.shape} and {b.shape}")
    return a, b


def _pixels(given: Any) -> Any:
    """What a PIL image shows in a mode whose samples are no levels, as the engines read it; else what is given."""
    if not isinstance(given, PIL.Image.Image) or given.mode not in ("1", "P", "PA"):
        return given
    picture = images.read(given)
    assert picture.array is not None
    return picture.array[..., 0] if picture.gray else picture.array


def _luma(picture: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    values = picture.astype(np.float64)
    if values.ndim == 2:
        return values
    if values.ndim != 3:
        raise InvalidArgument(f"a picture is (H, W) or (H, W, C), got shape {values.shape}")
    if values.shape[2] < 3:
        return np.ascontiguousarray(values[..., 0])
    luma: npt.NDArray[np.float64] = values[..., :3] @ _LUMA
    return luma


def _blur(picture: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The Gaussian of `ssim`, sides shrink by 10."""
    window = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
    window /= window.sum()
    height, width = picture.shape
    rows = sum(window[i] * picture[i : height - 10 + i] for i in range(11))
    blurred: npt.NDArray[np.float64] = sum(window[i] * rows[:, i : width - 10 + i] for i in range(11))
    return blurred
