"""How well a palette shows a picture: the exact mean squared error, in any of the colour spaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from clquant import images, params
from clquant.images import ImageLike
from clquant.palette import bands, spaces
from clquant.palette.bands import Band
from clquant.palette.palette import as_palette
from clquant.runtime import Buffer, CommandQueue, InvalidArgument

ITEMS, GROUP = 4096, 64
CHANNELS = 3


def mean_squared_error(
    image: ImageLike, palette: Any, *, color_space: str = "srgb", queue: CommandQueue | None = None
) -> float:
    """Mean squared error a channel of an image whose pixels take their nearest palette colours.

    Parameters
    ----------
    image : image
    palette : Palette or array_like
    color_space : str
        Where colours are compared and the error is taken.
    queue : pyopencl.CommandQueue, optional

    Returns
    -------
    float
        Sum of squared distances, divided by pixels and by 3. In squared 8-bit steps for ``"srgb"``; for
        ``"linear"`` and ``"oklab"`` with the range from black to white as 1. With alpha the mean over a black
        and a white background. The sum is an integer, so the result is the same on every device.
    """
    chosen = as_palette(palette)
    params.choice("color_space", color_space, spaces.NAMES)
    picture = images.read(image)
    total = 0

    def write(band: Band, out: Buffer) -> None:
        nonlocal total
        bands.map_nearest(band, out)
        sums = band.scope.empty(8 * ITEMS)
        given = (*band.task(out).arguments, sums)
        band.mapper.launch_any("palette_error.cl", "sum_errors", band.channels, GROUP, *given, items=ITEMS, fine=False)
        total += int(band.session.download(sums, ITEMS, np.uint64).sum(dtype=np.uint64))

    bands.indices(picture, chosen, color_space, queue, None, write)
    unit = spaces.space(color_space, chosen.has_alpha or picture.channels == 4).unit
    return total / (unit * unit * CHANNELS * picture.pixels)


def fewest_colors(reaches: Callable[[int], bool], most: int, least: int = 2) -> int | None:
    """The fewest colours that reach a target, by doubling and bisection.

    Parameters
    ----------
    reaches : callable
        Whether a number of colours does; taken to hold for all greater numbers where it holds for one.
    most : int
        At least `least`.
    least : int
        At least 2.

    Returns
    -------
    int or None
        From `least` to `most`; None where not even `most` does.
    """
    failed, count = least - 1, least
    while not reaches(min(count, most)):
        if count >= most:
            return None
        failed, count = count, 2 * count
    reached = min(count, most)
    while reached - failed > 1:
        middle = (failed + reached) // 2
        if reaches(middle):
            reached = middle
        else:
            failed = middle
    return reached


def allowed_error(target_psnr: float | None, max_mse: float | None) -> float:
    """The mean squared error that a quality target stands for.

    Parameters
    ----------
    target_psnr : float or None
        In dB, 0 to 100, of 8-bit values.
    max_mse : float or None
        The error itself.

    Returns
    -------
    float

    Raises
    ------
    InvalidArgument, InvalidType
        If not exactly one of the two is given, or it is out of range.
    """
    if (target_psnr is None) == (max_mse is None):
        raise InvalidArgument(
            f"target_psnr is {params.shown(target_psnr)} and max_mse is {params.shown(max_mse)}; "
            "allowed: exactly one of them"
        )
    if max_mse is not None:
        return params.real("max_mse", max_mse, 0)
    return 255**2 / math.pow(10, params.real("target_psnr", target_psnr, 0, 100) / 10)
