"""Dither masks: Bayer's matrices, and blue noise, which `python -m training.blue_noise` makes."""

from __future__ import annotations

import functools
import importlib.resources

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.int32]

ORDERED = {"blue-noise": ("blue-noise", 8), "bayer": ("bayer", 8), **{f"bayer{n}": ("bayer", n) for n in (2, 4, 8, 16)}}
"""The mask and size that each name of an ordered dither stands for."""
SEAMLESS = "blue-noise"
"""The ordered dither where none is named."""


@functools.cache
def bayer(order: int) -> Mask:
    """Bayer's mask of order n, (2^n, 2^n) int32, each of 0..4^n - 1 once.

    B. E. Bayer, "An optimum method for two-level rendition of continuous-tone pictures", ICC 1973.
    """
    mask = np.zeros((1, 1), np.int32)
    for _ in range(order):
        mask = np.block([[4 * mask, 4 * mask + 2], [4 * mask + 3, 4 * mask + 1]]).astype(np.int32)
    mask.flags.writeable = False
    return mask


@functools.cache
def shipped_mask() -> Mask:
    """The (64, 64) blue-noise mask that comes with the package (`training.blue_noise`)."""
    source = importlib.resources.files("clquant") / "dithering" / "blue_noise.npz"
    with source.open("rb") as file, np.load(file) as arrays:
        return np.asarray(arrays["mask"], np.int32)
