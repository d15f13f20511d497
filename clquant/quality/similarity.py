"""Structural similarity."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, params
from clquant.executors import is_remote
from clquant.images import Picture
from clquant.quality import definitions
from clquant.quality.definitions import WINDOW, gaussian
from clquant.quality.pair import Comparison, Samples, compared
from clquant.runtime import CommandQueue, InvalidArgument, Scope, Session, Total

# Peaks that devices take: below, the rounding of 8-bit means would show; above, constants would not fit 64 bits.
MIN_PEAK, MAX_PEAK = 128.0, 4096.0
UNIT = 1000 * 2**13  # of a mean of lumas, per gray level
BYTES_PER_MEAN = 16
BAND_BYTES = 1 << 28  # of means that are in memory at once
CPU_BAND_BYTES = 1 << 21  # the same on CPUs, so that caches hold them


def ssim(
    original: Samples,
    result: Samples,
    peak: float = 255.0,
    *,
    queue: CommandQueue | None = None,
    memory: Any = None,
) -> float:
    """Mean structural similarity of the pictures' luma.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array, shape (H, W) or (H, W, C)
        At least 11 x 11 pixels; colour is reduced to Rec. 601 luma first, alpha is not looked at. 8-bit levels are
        compared on the device if `peak` is 128 to 4096, all else in float64 on the host. Of Dask arrays of 8-bit levels
        the result is a lazy number.
    peak : float
        The largest sample there can be, 1e-9 to 1e30.
    queue : pyopencl.CommandQueue, optional
    memory : int or str, optional
        As `mse`.

    Returns
    -------
    float
        Between -1 and 1; 1 for equal pictures. The device computes in integers: the result is the same on every device,
        and within 5e-6 (255 / peak)^2 of that in exact arithmetic; the differences measured are below 1e-8.

    Raises
    ------
    InvalidType, InvalidArgument, FileError
        As `mse`, or if a side is under 11 pixels.

    Notes
    -----
    Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image quality assessment: from error visibility to
    structural similarity", IEEE Transactions on Image Processing 13 (2004): a Gaussian window of 11 x 11 pixels
    with sigma 1.5, K1 = 0.01, K2 = 0.03, windows inside the picture only.
    """
    peak = params.real("peak", peak, 1e-9, 1e30)
    job = Dissimilarity(peak) if MIN_PEAK <= peak <= MAX_PEAK else None
    if job is None and (is_remote(original) or is_remote(result)):
        raise InvalidArgument(f"peak is {peak} for Dask arrays; allowed: {MIN_PEAK} to {MAX_PEAK}")
    on_host = partial(definitions.similarity, peak=peak)
    return compared(job, on_host, original, result, queue, memory, least=WINDOW)


@dataclass(frozen=True)
class Dissimilarity(Comparison):
    """The sum over all windows of 1 less the SSIM, in 1/2^31, and the mean SSIM."""

    peak: float  # `MIN_PEAK` to `MAX_PEAK`

    halo = WINDOW // 2

    def figure(self, total: int, shape: tuple[int, ...]) -> float:
        """The mean SSIM of all windows."""
        return 1.0 - total / (2**31 * math.prod(side - WINDOW + 1 for side in shape[:2]))

    @contextlib.contextmanager
    def open(self, session: Session, scope: Scope, picture: Picture) -> Iterator[flow.Steps]:
        """Make room for the sums, which the host adds in the end."""
        by_rows, width, halo = int(session.limits.is_cpu), picture.width, WINDOW - 1
        program = session.program("quality/similarity.cl", CHANNELS=picture.channels, TAPS=WINDOW, BY_ROWS=by_rows)
        names = "similarity_quantities", "similarity_columns", "similarity_rows"
        kernels = [program.kernel(name) for name in names]
        group = [session.work_group_size(kernel, 64) for kernel in kernels]
        constants = [np.uint64(round((k * self.peak * UNIT) ** 2)) for k in (0.01, 0.03)]
        weights, total = scope.upload(half_window()), Total(session, scope)

        def step(session: Session, scope: Scope, portion: flow.Portion) -> None:
            count = portion.last - portion.first - halo
            if count <= 0 or width <= halo:
                return
            n, all_n = width * count, width * (count + halo)
            quantities, means = (scope.empty(BYTES_PER_MEAN * size) for size in (all_n, n))
            width_and_count = np.uint32(width), np.uint32(count)
            pixels = {"first": portion.pixels, "second": portion.others[0]}
            session.launch(kernels[0], all_n, group[0], **pixels, n=np.uint32(all_n), made=quantities)
            session.launch(kernels[1], n, group[1], quantities, *width_and_count, weights, means)
            total.launch(kernels[2], (width - halo) * count, means, *width_and_count, weights, *constants)

        row_bytes = BYTES_PER_MEAN * width
        most = max((CPU_BAND_BYTES if by_rows else BAND_BYTES) // row_bytes, 1) + halo
        yield flow.Steps(step, reach=self.halo, row_bytes=row_bytes, most_rows=most, value=total.value)


@functools.cache
def half_window() -> npt.NDArray[np.uint32]:
    """(6,) uint32: weights of the Gaussian window from its edge to its middle; all 11 sum to 2^32."""
    weights = np.rint(gaussian(1.5, WINDOW // 2)[: WINDOW // 2 + 1] * 2**32).astype(np.int64)
    weights[-1] = 2**32 - 2 * int(weights[:-1].sum())
    return weights.astype(np.uint32)
