"""The fewest colours with which an engine's palette shows pictures well enough."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clquant import images, params
from clquant.color.palette import MOST_COLORS, checked_fixed
from clquant.images import Picture
from clquant.mapping.error import mean_squared_error
from clquant.runtime import InvalidArgument, Progress, ProgressCallback

if TYPE_CHECKING:
    from clquant.palette.engine import PaletteEngine


class FewestColors:
    """Fits of one engine with differing numbers of colours.

    Parameters
    ----------
    engine : PaletteEngine
        It is left as it is.
    sources, weight, progress
        As the engine's `fit` takes them.
    limit : float
        The largest mean squared error, of 8-bit sRGB values.

    Raises
    ------
    InvalidArgument, InvalidType, FileError
        If a parameter, an image or a callback is not allowed, or `init` is an array.
    """

    def __init__(
        self, engine: PaletteEngine, sources: Any, limit: float, weight: Any, progress: ProgressCallback | None
    ) -> None:
        self.engine = copy.copy(engine)
        given = engine.get_params()
        self.most = params.integer("n_colors", given["n_colors"], 2, MOST_COLORS)
        start = given.get("init", "")
        if not isinstance(start, str):
            raise InvalidArgument(
                f"init is {params.shown(start)}; allowed in fit_quality, which tries differing n_colors: a name"
            )
        self.least = max(len(checked_fixed(given.get("fixed_colors"), self.most)) + 1, 2)
        sources = images.several(sources)
        self.pictures = images.read_many(sources)
        self.weight = weight if isinstance(sources, list | tuple) else [weight] if weight is not None else None
        self.limit = limit
        self.progress = Progress(params.callback("progress", progress))
        self.found: dict[int, tuple[dict[str, Any], float]] = {}

    def run(self) -> dict[str, Any]:
        """What the engine learned with the fewest colours, by the attributes' names.

        Raises
        ------
        InvalidArgument
            If not even `n_colors` reach the limit.
        """
        count = fewest_colors(self._reaches, self.most, self.least)
        if count is None:
            error = self.found[self.most][1]
            raise InvalidArgument(
                f"n_colors is {self.most}, which gives a mean squared error of {error:.4g} ({_decibels(error)}); "
                f"the target of {self.limit:.4g} ({_decibels(self.limit)}) needs more colours"
            )
        return self.found[count][0]

    def _reaches(self, count: int) -> bool:
        self.engine.set_params(n_colors=count)
        self.engine.fit(self.pictures, sample_weight=self.weight)
        learned = {name: value for name, value in vars(self.engine).items() if name.endswith("_")}
        errors = [self._error(picture) for picture in self.pictures]
        pixels = [picture.pixels for picture in self.pictures]
        error = math.fsum(e * n for e, n in zip(errors, pixels, strict=True)) / sum(pixels)
        self.found[count] = learned, error
        self.progress.report(len(self.found), max(len(self.found), 2 * self.most.bit_length()))
        return error <= self.limit

    def _error(self, picture: Picture) -> float:
        """In sRGB, of a picture that is mapped as the engine maps it."""
        engine = self.engine
        how = {"color_space": engine.color_space, "metric": engine.metric}
        return mean_squared_error(picture, engine.palette_, **how, error_space="srgb", queue=engine.queue)


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


def _decibels(error: float) -> str:
    return f"{10 * math.log10(255**2 / error):.2f} dB" if error else "no loss"
