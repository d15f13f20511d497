"""Structural similarity."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, params
from clquant.flow.executors import on_collections
from clquant.images import Picture
from clquant.quality import definitions
from clquant.quality.definitions import WINDOW, gaussian
from clquant.quality.pair import Samples, as_pair
from clquant.runtime import CommandQueue, InvalidArgument, Scope, Session, Total

# Peaks that devices take: below, the rounding of 8-bit means would show; above, constants would not fit 64 bits.
MIN_PEAK, MAX_PEAK = 128.0, 4096.0
UNIT = 1000 * 2**13  # of a mean of lumas, per gray level
BYTES_PER_MEAN = 16
BAND_BYTES = 1 << 28  # of means that are in memory at once
CPU_BAND_BYTES = 1 << 21  # the same on CPUs, so that caches hold them


def _lazy_ssim(executor: Any, original: Any, result: Any, peak: float = 255.0, **_: Any) -> Any:
    if not MIN_PEAK <= params.real("peak", peak, 1e-9) <= MAX_PEAK:
        raise InvalidArgument(f"peak is {peak} for Dask arrays; allowed: {MIN_PEAK} to {MAX_PEAK}")
    last = partial(mean_similarity, windows=_windows(definitions.picture_shape(np.shape(original))))
    return executor.figure(Dissimilarity(peak), last, original, result)


@on_collections(_lazy_ssim)
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
        Host memory for parts of lazy pictures; default 512 MiB.

    Returns
    -------
    float
        Between -1 and 1; 1 for equal pictures. The device computes in integers: the result is the same on every device,
        and within 5e-6 (255 / peak)^2 of that in exact arithmetic; the differences measured are below 1e-8.

    Raises
    ------
    InvalidType
        If one is no array of numbers.
    InvalidArgument
        If the shapes differ, or a side is under 11 pixels.

    Notes
    -----
    Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image quality assessment: from error visibility to
    structural similarity", IEEE Transactions on Image Processing 13 (2004): a Gaussian window of 11 x 11 pixels
    with sigma 1.5, K1 = 0.01, K2 = 0.03, windows inside the picture only.
    """
    peak = params.real("peak", peak, 1e-9, 1e30)
    pair = as_pair(original, result, memory)
    windows = _windows(definitions.picture_shape(pair.shape))
    if pair.levels and MIN_PEAK <= peak <= MAX_PEAK:
        return mean_similarity(pair.reduced(Dissimilarity(peak), queue), windows)
    return definitions.similarity(*pair.on_host(queue), peak)


def _windows(shape: tuple[int, int]) -> int:
    """Windows inside a picture."""
    if min(shape) < WINDOW:
        raise InvalidArgument(f"ssim needs pictures of at least {WINDOW} x {WINDOW} pixels, got {shape}")
    return (shape[0] - WINDOW + 1) * (shape[1] - WINDOW + 1)


def mean_similarity(total: int, windows: int) -> float:
    """The mean SSIM of so many windows from their `dissimilarity`."""
    return 1.0 - total / (2**31 * windows)


@dataclass(frozen=True)
class Dissimilarity(flow.Reduce):
    """The sum over all windows of 1 less the SSIM, in 1/2^31, of pictures of 8-bit levels."""

    peak: float  # `MIN_PEAK` to `MAX_PEAK`

    halo = WINDOW // 2

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
        most = max(band_bytes(session) // row_bytes, 1) + halo
        yield flow.Steps(step, reach=self.halo, row_bytes=row_bytes, most_rows=most, value=total.value)


def band_bytes(session: Session) -> int:
    """Bytes of means that are worked on at a time."""
    return CPU_BAND_BYTES if session.limits.is_cpu else BAND_BYTES


@functools.cache
def half_window() -> npt.NDArray[np.uint32]:
    """(6,) uint32: weights of the Gaussian window from its edge to its middle; all 11 sum to 2^32."""
    weights = np.rint(gaussian(1.5, WINDOW // 2)[: WINDOW // 2 + 1] * 2**32).astype(np.int64)
    weights[-1] = 2**32 - 2 * int(weights[:-1].sum())
    return weights.astype(np.uint32)
