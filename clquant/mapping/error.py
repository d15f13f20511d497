"""How well a palette shows a picture: the exact mean squared error, in any of the colour spaces."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clquant import flow, images, params
from clquant.color import spaces
from clquant.color.palette import as_palette
from clquant.color.spaces import Space
from clquant.flow import Portion
from clquant.images import ImageLike
from clquant.images.collections import is_lazy, verbs_of
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import METRICS, PaletteOnDevice
from clquant.mapping.pipeline import Nearest
from clquant.runtime import CommandQueue, Progress, Scope, Session, open_session

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
    job = _Measured(chosen, color_space, metric, space=space)
    session = open_session(queue, images.device_arrays([picture]))
    flow.in_bands(session, picture, job, Progress(None))
    return SummedError(sum(job.sums), space.unit * space.unit, picture.pixels)


@dataclass(frozen=True)
class _Measured(Nearest):
    """The nearest entries, whose squared errors in a space are summed on the way."""

    space: Space = field(kw_only=True)
    sums: list[int] = field(default_factory=list)

    def chosen(self, palette: PaletteOnDevice, session: Session, scope: Scope, portion: Portion) -> None:
        """Queue the choice of a portion's entries, and add up their errors."""
        super().chosen(palette, session, scope, portion)
        with contextlib.ExitStack() as held:
            if palette.space != self.space:
                pixels = portion.picture.pixels
                palette = held.enter_context(open_palette(session, self.palette, self.space, pixels))
            sums = scope.empty(8 * ITEMS)
            own = {"pixels": portion.pixels, "indices": portion.out, "n": np.uint64(portion.count), "sums": sums}
            palette.launch(FILE, "sum_errors", portion.picture.channels, ITEMS, GROUP, own, fine=False)
            self.sums.append(int(session.download(sums, ITEMS, np.uint64).sum(dtype=np.uint64)))
