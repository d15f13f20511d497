"""The share of pixels that are far off, which means over a picture do not show."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant import params
from clquant.quality.definitions import Numbers, picture_shape
from clquant.quality.pair import Samples, as_pair
from clquant.runtime import CommandQueue


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
        As `mse` takes them. Lazy pictures of 8-bit levels are read in parts. Computed on the host.
    bound : float
        In units of the samples, from 0. The default suits 8-bit levels.
    queue : pyopencl.CommandQueue, optional
        Of pictures on a device.
    memory : int or str, optional
        Host memory for parts of lazy pictures (see `clquant.images.lazy`), such as ``"1 GiB"``; default 512 MiB.

    Returns
    -------
    float
        0 to 1000; lower is better. A ratio of whole numbers, the same on every machine.

    Raises
    ------
    InvalidType
        If one is no array of numbers, or `bound` is no number.
    InvalidArgument
        If the shapes differ, or `bound` is negative.
    FileError
        If a picture cannot be read.

    Notes
    -----
    The percentage of bad pixels of D. Scharstein, R. Szeliski, "A taxonomy and evaluation of dense two-frame stereo
    correspondence algorithms", International Journal of Computer Vision 47 (2002), of levels in place of disparities
    and in thousandths.
    """
    bound = params.real("bound", bound, 0, 1e300)
    pair = as_pair(original, result, memory)
    height, width = picture_shape(pair.shape)
    return 1000 * sum(_far(first, second, bound) for first, second in pair.bands(queue)) / (height * width)


def _far(first: Numbers, second: Numbers, bound: float) -> int:
    """Pixels that are off by more than `bound` in a channel."""
    kind = np.int16 if first.dtype == second.dtype == np.uint8 else np.float64
    off = np.abs(np.subtract(second, first, dtype=kind)).reshape(*first.shape[:2], -1)
    return int(np.count_nonzero((off > bound).any(axis=2)))
