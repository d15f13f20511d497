"""Mean squared error and the peak signal-to-noise ratio."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from clquant import flow, params
from clquant.images import Picture
from clquant.quality import definitions
from clquant.quality.pair import Comparison, Samples, compared
from clquant.runtime import CommandQueue, Scope, Session, Total

SAMPLES_PER_ITEM = 1 << 9  # at least, so that small pictures have few sums
MAX_BAND = 1 << 30  # bytes: fewer vectors per work-item than llvmpipe's loops have turns


def mse(original: Samples, result: Samples, *, queue: CommandQueue | None = None, memory: Any = None) -> float:
    """Mean squared error over all samples.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array
        Pictures of one shape. 8-bit levels are compared on the device, other numbers in float64 on the host. PIL images
        of palettes (P) and bits (1) count as what they show, here and in the other measures. Of Dask arrays of 8-bit
        levels the result is a lazy number, here and of `psnr`. Lazy pictures of 8-bit levels (zarr, h5py,
        `numpy.memmap`, paths of zarrs and of TIFFs in tiles; see `clquant.images.storage`) are read in parts, in `psnr`
        and `ssim` too.
    queue : pyopencl.CommandQueue, optional
    memory : int or str, optional
        Host memory for parts of lazy pictures (see `clquant.images.storage`), such as ``"1 GiB"``; default 512 MiB.

    Returns
    -------
    float
        In squared units of the samples; 0 for equal pictures. Of 8-bit levels the sum is an exact integer, so that the
        result is the same on every device.

    Raises
    ------
    InvalidType, InvalidArgument, FileError
        If one is no array of numbers or cannot be read, if the shapes differ, or if there is nothing to compare.
    """
    return compared(SquaredError(), definitions.mean_squared_error, original, result, queue, memory)


def psnr(
    original: Samples,
    result: Samples,
    peak: float = 255.0,
    *,
    queue: CommandQueue | None = None,
    memory: Any = None,
) -> float:
    """Peak signal-to-noise ratio in decibels.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array
        As `mse` takes them.
    peak : float
        The largest sample there can be, 1e-9 to 1e30.
    queue : pyopencl.CommandQueue, optional
    memory : int or str, optional
        As `mse`.

    Returns
    -------
    float
        10 log10(peak^2 / MSE); infinity for equal pictures.

    Raises
    ------
    InvalidArgument, InvalidType
        As `mse`, or if `peak` is not positive.
    """
    figure = partial(decibels, peak=params.real("peak", peak, 1e-9, 1e30))
    return compared(
        SquaredError(figure),
        lambda bands: figure(definitions.mean_squared_error(bands)),
        original,
        result,
        queue,
        memory,
    )


def decibels(error: float, peak: float) -> float:
    """The PSNR of a mean squared error."""
    return float("inf") if error == 0 else float(10 * np.log10(peak * peak / error))


@dataclass(frozen=True)
class SquaredError(Comparison):
    """The sum of squared differences over all samples, and a figure of their mean."""

    of_mean: Callable[[float], float] = float

    def figure(self, total: int, shape: tuple[int, ...]) -> float:
        """A figure of the mean."""
        return self.of_mean(total / math.prod(shape))

    @contextlib.contextmanager
    def open(self, session: Session, scope: Scope, picture: Picture) -> Iterator[flow.Steps]:
        """Make room for the sums, which the host adds in the end."""
        row_bytes, total = picture.width * picture.channels, Total(session, scope)
        kernel = session.program("quality/squared_error.cl").kernel("squared_error")

        def step(session: Session, scope: Scope, portion: flow.Portion) -> None:  # noqa: ARG001
            n = portion.count * picture.channels
            pixels = {"first": portion.pixels, "second": portion.others[0]}
            total.launch(kernel, -(-n // SAMPLES_PER_ITEM), **pixels, n=np.uint64(n))

        yield flow.Steps(step, most_rows=max(MAX_BAND // row_bytes, 1), value=total.value)
