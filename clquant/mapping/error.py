"""The exact mean squared error of a palette on a picture, in any of the colour spaces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, params
from clquant.color import spaces
from clquant.color.palette import Palette, as_palette
from clquant.images import ImageLike, Picture, device_arrays
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import METRICS
from clquant.mapping.search import search_of
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
    """Mean squared error a channel of an image whose pixels take their nearest palette colours."""
    # Squared distances are those in `error_space`, or else `color_space`: squared 8-bit steps for "srgb", squared parts
    # of the range from black to white for the others; with alpha the mean over a black and a white background.
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
    """Return the sum that `mean_squared_error` divides; of a Dask array that of its chunks."""
    chosen = as_palette(palette)
    params.choice("color_space", color_space, spaces.NAMES)
    params.choice("metric", metric, METRICS)
    measured = color_space if error_space is None else params.choice("error_space", error_space, spaces.NAMES)
    job = _Error(chosen, color_space, metric, measured)
    found: SummedError = flow.reduce(job, image, queue=queue, argument=argument)
    return found


def error_of(picture: Picture, indices: npt.NDArray[Any], palette: Palette, queue: CommandQueue | None) -> float:
    """Return the mean squared error a channel, in sRGB, of a picture whose pixels take given entries (H, W)."""
    session = open_session(queue, device_arrays([picture]))
    table = Picture(picture.height, picture.width, 1, True, array=indices[..., None])
    error = flow.state_of(session, [picture, table], _Error(palette, "srgb", "l2", "srgb"), Progress(None))
    return float(error.mean)


@dataclass(frozen=True)
class _Error(flow.Reduce):
    """The sum of the squared errors, in a space, of pixels that take given entries, or their nearest in another."""

    palette: Palette
    color_space: str
    metric: str
    error_space: str

    def merge(self, states: Sequence[SummedError]) -> SummedError:
        """Add the sums."""
        return SummedError(sum(e.total for e in states), states[0].unit, sum(e.pixels for e in states))

    @contextlib.contextmanager
    def open(self, session: Session, scope: Scope, picture: Picture) -> Iterator[flow.Steps]:  # noqa: ARG002
        """Bring the palette to the device in both spaces."""
        alpha = self.palette.has_alpha or picture.channels == 4
        space, measured = (spaces.space(name, alpha, picture.bits) for name in (self.color_space, self.error_space))
        with open_palette(session, self.palette, space, picture.pixels, self.metric) as chosen_in, ExitStack() as held:
            measured_in = chosen_in
            if measured != space:
                measured_in = held.enter_context(open_palette(session, self.palette, measured, picture.pixels))

            def step(session: Session, scope: Scope, portion: flow.Portion) -> SummedError:
                sums = scope.empty(8 * ITEMS)
                if portion.others:
                    indices = portion.others[0]
                else:
                    indices = scope.empty(portion.count * self.palette.index_dtype.itemsize)
                    search_of(chosen_in, picture.channels).map(session, scope, replace(portion, out=indices))
                own = {"pixels": portion.pixels, "indices": indices, "n": np.uint64(portion.count), "sums": sums}
                measured_in.launch(FILE, "sum_errors", picture.channels, ITEMS, GROUP, own, fine=False)
                total = int(session.download(sums, ITEMS, np.uint64).sum(dtype=np.uint64))
                return SummedError(total, measured.unit * measured.unit, portion.count)

            yield flow.Steps(step, row_bytes=2 * picture.width)
            if picture.channels == 4:
                chosen_in.check_transparency()
