"""The eye's kernel: how much the errors of two pixels are seen together, by their distance.

The contrast sensitivity of R. Nasanen, "Visibility of halftone dot textures", 1984, falls as exp(-k f) with the
frequency f, so that the autocorrelation of what the eye makes of a point is (1 + r^2 / 4 a^2)^(-3/2) with a = k / 2 pi.
A cosine takes it smoothly to 0 at the kernel's end: a kernel that is cut off is not positive semidefinite, and a search
then finds patterns that lower its sum but are seen.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from clquant.runtime import InvalidArgument

# fp32 holds whole numbers exactly below this.
EXACT = 1 << 24
# log2 of the largest weight there may be.
MOST_SHIFT = 10


def kernel_width(dpi: float, inches: float) -> float:
    """a in pixels, of the luminance 11 cd/m^2 that `clquant.quality.visual_error` takes too."""
    per_degree = dpi * inches * math.pi / 180
    return per_degree / (0.525 * math.log(11) + 3.91) / (2 * math.pi)


@functools.lru_cache(maxsize=32)
def eye_kernel(reach: int, width: float, sharpness: float, most_error: int) -> npt.NDArray[np.int32]:
    """Weights of the errors around a pixel, (2 reach + 1, 2 reach + 1) int32.

    The middle one is a power of two. All times `most_error`, a channel's largest, add up to less than 2^24, so that
    sums are exact in fp32.
    """
    offsets = np.arange(-reach, reach + 1)
    squared = offsets[:, None] ** 2 + offsets[None, :] ** 2
    shares = np.array([[_share(int(s), reach, width) for s in row] for row in squared])
    shares[reach, reach] += sharpness
    shares /= 1 + sharpness
    for shift in range(MOST_SHIFT, 3, -1):
        weights = np.floor(shares * (1 << shift) + 0.5).astype(np.int32)
        if int(weights.sum()) * most_error < EXACT:
            weights.flags.writeable = False
            return weights
    raise InvalidArgument(f"a kernel of {width:.3g} pixels is too wide for exact sums; allowed: a smaller distance")


def _share(squared: int, reach: int, width: float) -> float:
    distance = math.sqrt(squared)
    if distance >= reach + 1:
        return 0.0
    falling = 1 + squared / (4 * width * width)
    return math.cos(math.pi * distance / (2 * (reach + 1))) / (falling * math.sqrt(falling))
