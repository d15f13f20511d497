"""How well a palette shows a picture: the exact mean squared error, in any of the colour spaces."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant import images, params
from clquant.color import spaces
from clquant.color.palette import as_palette
from clquant.images import ImageLike
from clquant.images.collections import is_lazy, verbs_of
from clquant.mapping import pipeline
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import METRICS
from clquant.mapping.pipeline import Band
from clquant.runtime import Buffer, CommandQueue

FILE = "mapping/error.cl"
ITEMS, GROUP = 4096, 64
CHANNELS = 3


def mean_squared_error(
    image: ImageLike,
    palette: Any,
    *,
    color_space: str = "srgb",
    metric: str = "l2",
    error_space: str | None = None,
    queue: CommandQueue | None = None,
) -> float:
    """Mean squared error a channel of an image whose pixels take their nearest palette colours.

    Parameters
    ----------
    color_space, metric : str
        Where and how colours are compared, as `clquant.palette.engine.predict` takes them.
    error_space : str, optional
        Where the error is taken; default `color_space`.

    Returns
    -------
    float
        Sum of squared distances, divided by pixels and by 3. In squared 8-bit steps for ``"srgb"``; for
        ``"linear"`` and ``"oklab"`` with the range from black to white as 1. With alpha the mean over a black
        and a white background. The sum is an integer, so the result is the same on every device.
    """
    how: dict[str, Any] = {"color_space": color_space, "metric": metric, "error_space": error_space, "queue": queue}
    return summed_error(image, palette, "image", **how).mean


@dataclass(frozen=True)
class SummedError:
    """The sum of the squared errors of some pixels' channels; `unit` is what an error of 1 counts in it."""

    total: int
    unit: float
    pixels: int

    @property
    def mean(self) -> float:
        """Per channel."""
        return self.total / (self.unit * CHANNELS * self.pixels)


def summed_error(
    image: ImageLike,
    palette: Any,
    argument: str,
    *,
    color_space: str,
    metric: str,
    error_space: str | None,
    queue: CommandQueue | None,
) -> SummedError:
    """As `mean_squared_error`, before its division; of a Dask array the sum of its chunks'."""
    chosen = as_palette(palette)
    params.choice("color_space", color_space, spaces.NAMES)
    params.choice("metric", metric, METRICS)
    measured = color_space if error_space is None else params.choice("error_space", error_space, spaces.NAMES)
    if is_lazy(image):
        how = {"color_space": color_space, "metric": metric, "error_space": measured}
        found: SummedError = verbs_of(image).palette_error(image, chosen, argument, how)  # type: ignore[union-attr]
        return found
    picture = images.read(image, argument=argument, max_bits=16)
    space = spaces.space(measured, chosen.has_alpha or picture.channels == 4, picture.bits)
    total = 0

    def write(band: Band, out: Buffer) -> None:
        nonlocal total
        pipeline.map_nearest(band, out)
        with contextlib.ExitStack() as held:
            measured_in = band.palette
            if measured_in.space != space:
                measured_in = held.enter_context(open_palette(band.session, chosen, space, picture.pixels))
            sums = band.scope.empty(8 * ITEMS)
            batch = band.batch(out)
            own = {"pixels": batch.pixels, "indices": batch.out, "n": np.uint64(batch.count), "sums": sums}
            measured_in.launch(FILE, "sum_errors", band.channels, ITEMS, GROUP, own, fine=False)
            total += int(band.session.download(sums, ITEMS, np.uint64).sum(dtype=np.uint64))

    pipeline.indices(picture, chosen, color_space, queue, None, write, metric)
    return SummedError(total, space.unit * space.unit, picture.pixels)
