"""Structural similarity."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images.collections import verbs_of
from clquant.quality import definitions
from clquant.quality.definitions import WINDOW, gaussian
from clquant.quality.pair import Pair, Samples, as_pair, bands, pieces
from clquant.runtime import CommandQueue, InvalidArgument, Session, Total

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
        The largest sample there can be.
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
    peak = params.real("peak", peak, 1e-9)
    for verbs in filter(None, map(verbs_of, (original, result))):
        return verbs.ssim(original, result, peak)  # type: ignore[no-any-return]
    pair = as_pair(original, result, memory)
    shape = definitions.picture_shape(pair.shape if isinstance(pair, Pair) else pair[0].shape)
    if min(shape) < WINDOW:
        raise InvalidArgument(f"ssim needs pictures of at least {WINDOW} x {WINDOW} pixels, got {shape}")
    if isinstance(pair, Pair) and MIN_PEAK <= peak <= MAX_PEAK:
        windows = (shape[0] - WINDOW + 1) * (shape[1] - WINDOW + 1)
        return mean_similarity(sum(dissimilarity(piece, peak, queue) for piece in pieces(pair, WINDOW - 1)), windows)
    a, b = pair.on_host(queue) if isinstance(pair, Pair) else pair
    return definitions.similarity(a, b, peak)


def mean_similarity(total: int, windows: int) -> float:
    """The mean SSIM of so many windows from their `dissimilarity`."""
    return 1.0 - total / (2**31 * windows)


def dissimilarity(pair: Pair, peak: float, queue: CommandQueue | None) -> int:
    """The sum over all windows of 1 less the SSIM, in 1/2^31, as the device computes each.

    Parameters
    ----------
    pair : Pair
        Of at least 11 x 11 pixels.
    peak : float
        `MIN_PEAK` to `MAX_PEAK`.
    """
    session = pair.open(queue)
    by_rows = int(session.limits.is_cpu)
    program = session.program("quality/similarity.cl", CHANNELS=pair.channels, TAPS=WINDOW, BY_ROWS=by_rows)
    kernels = [program.kernel(f"similarity_{name}") for name in ("quantities", "columns", "rows")]
    width, halo = pair.width, WINDOW - 1
    constants = [np.uint64(round((k * peak * UNIT) ** 2)) for k in (0.01, 0.03)]
    with session.scope() as scope:
        weights = scope.upload(half_window())
        sent, total = pair.send(session, scope), Total(session, scope)
        for row0, row1 in bands(sent, session, BYTES_PER_MEAN * width, band_bytes(session), pair.height - halo, halo):
            first, second = sent.rows(session, scope, row0, row1 + halo)
            count = np.uint32(row1 - row0)
            with session.scope() as band:
                n = width * (row1 - row0)
                all_n = n + width * halo
                quantities, means = (band.empty(BYTES_PER_MEAN * size) for size in (all_n, n))
                width_and_count = np.uint32(width), count
                group = [session.work_group_size(kernel, 64) for kernel in kernels]
                pixels = {**first.named("first"), **second.named("second"), "n": np.uint32(all_n)}
                session.launch(kernels[0], all_n, group[0], **pixels, made=quantities)
                session.launch(kernels[1], n, group[1], quantities, *width_and_count, weights, means)
                given = (means, *width_and_count, weights, *constants)
                total.launch(kernels[2], (width - halo) * (row1 - row0), *given)
        return total.value()


def band_bytes(session: Session) -> int:
    """Bytes of means that are worked on at a time."""
    return CPU_BAND_BYTES if session.limits.is_cpu else BAND_BYTES


@functools.cache
def half_window() -> npt.NDArray[np.uint32]:
    """(6,) uint32: weights of the Gaussian window from its edge to its middle; all 11 sum to 2^32."""
    weights = np.rint(gaussian(1.5, WINDOW // 2)[: WINDOW // 2 + 1] * 2**32).astype(np.int64)
    weights[-1] = 2**32 - 2 * int(weights[:-1].sum())
    return weights.astype(np.uint32)
