"""Colour differences as the eye sees them, in double precision: for judging, not for fitting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Picture = npt.NDArray[np.uint8]

_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_WHITE = _TO_XYZ.sum(axis=1)
_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def _light(picture: Picture) -> Float:
    codes = np.arange(256) / 255
    table = np.where(codes <= 0.04045, codes / 12.92, ((codes + 0.055) / 1.055) ** 2.4)
    return np.asarray(table[picture.reshape(-1, 3)])


def _lab(picture: Picture) -> Float:
    """CIE L*a*b* under D65."""
    ratio = _light(picture) @ _TO_XYZ.T / _WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def mean_oklab(first: Picture, second: Picture) -> float:
    """Mean Euclidean distance in OKLab, times 100."""
    a, b = (np.cbrt(_light(p) @ _TO_LMS.T) @ _TO_OKLAB.T for p in (first, second))
    return float(100 * np.sqrt(((a - b) ** 2).sum(axis=1)).mean())


def mean_ciede2000(first: Picture, second: Picture) -> float:
    """Mean CIEDE2000 difference.

    G. Sharma, W. Wu, E. N. Dalal, "The CIEDE2000 color-difference formula", Color Research and Application 30 (2005).
    """
    return float(ciede2000(_lab(first), _lab(second)).mean())


def ciede2000(lab1: Float, lab2: Float) -> Float:
    """(n,) differences of (n, 3) L*a*b* colours, with all weights 1."""
    chroma = (np.hypot(lab1[:, 1], lab1[:, 2]) + np.hypot(lab2[:, 1], lab2[:, 2])) / 2
    g = 0.5 * (1 - np.sqrt(chroma**7 / (chroma**7 + 25.0**7)))
    (l1, c1, h1), (l2, c2, h2) = (_polar(lab, g) for lab in (lab1, lab2))
    dl, dc = l2 - l1, c2 - c1
    turn = (h2 - h1 + 180) % 360 - 180
    turn = np.where((np.abs(h2 - h1) == 180) & (h2 > h1), 180, turn)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(np.where(c1 * c2 == 0, 0, turn) / 2))
    l_mean, c_mean = (l1 + l2) / 2, (c1 + c2) / 2
    apart = np.abs(h1 - h2) > 180
    h_mean = np.where(apart, (h1 + h2 + np.where(h1 + h2 < 360, 360, -360)) / 2, (h1 + h2) / 2)
    h_mean = np.where(c1 * c2 == 0, h1 + h2, h_mean)
    t = (
        1
        - 0.17 * np.cos(np.radians(h_mean - 30))
        + 0.24 * np.cos(np.radians(2 * h_mean))
        + 0.32 * np.cos(np.radians(3 * h_mean + 6))
        - 0.20 * np.cos(np.radians(4 * h_mean - 63))
    )
    sl = 1 + 0.015 * (l_mean - 50) ** 2 / np.sqrt(20 + (l_mean - 50) ** 2)
    sc, sh = 1 + 0.045 * c_mean, 1 + 0.015 * c_mean * t
    rotation = 2 * np.sqrt(c_mean**7 / (c_mean**7 + 25.0**7))
    rt = -np.sin(np.radians(60 * np.exp(-(((h_mean - 275) / 25) ** 2)))) * rotation
    lightness, c, h = dl / sl, dc / sc, dh / sh
    return np.asarray(np.sqrt(np.maximum(lightness**2 + c * c + h * h + rt * c * h, 0)))


def _polar(lab: Float, g: Float) -> tuple[Float, Float, Float]:
    a = (1 + g) * lab[:, 1]
    return lab[:, 0], np.hypot(a, lab[:, 2]), np.degrees(np.arctan2(lab[:, 2], a)) % 360
