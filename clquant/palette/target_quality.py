"""The fewest colours with which an engine's palette shows pictures well enough."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clquant import images, params
from clquant.color.palette import MOST_COLORS, checked_fixed
from clquant.estimator import learned_by
from clquant.mapping.error import SummedError, summed_error
from clquant.runtime import InvalidArgument, PictureError, Progress, ProgressCallback

if TYPE_CHECKING:
    from clquant.palette.engine import PaletteEngine

# How many colours are tried first, and how the error of photographs falls with their number until two tries tell.
_FIRST, _POWER = 16, 0.75
# With fewer colours than the fewest that bisection finds, errors up to this part above the limit are looked at, and so
# many of them: errors do not always fall with the number of colours.
_NEAR, _MOST_NEAR = 1.02, 3

# From a number of colours to what an engine learns with it, by attributes' names, and the mean squared error in sRGB.
Trial = Callable[[int], tuple[dict[str, Any], float]]


class FewestColors:
    """Fits of one engine with differing numbers of colours, to a mean squared error of 8-bit sRGB values."""

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
        self.sources = images.materialize(sources)
        self.weight = weight if isinstance(self.sources, list | tuple) else [weight] if weight is not None else None
        self.limit = limit
        self.progress = Progress(params.callback("progress", progress))
        self.found: dict[int, tuple[dict[str, Any], float]] = {}

    def run(self) -> dict[str, Any]:
        """Return the attributes that the engine learned with the fewest colours, by name."""
        with self._trials() as trial:
            count = fewest_colors(lambda n: self._error(trial, n), self.limit, self.most, self.least)
        if count is None:
            error = self.found[self.most][1]
            raise PictureError(
                f"n_colors is {self.most}, which gives a mean squared error of {error:.4g} ({_decibels(error)}); "
                f"the target of {self.limit:.4g} ({_decibels(self.limit)}) needs more colours"
            )
        return self.found[count][0]

    @contextlib.contextmanager
    def _trials(self) -> Iterator[Trial]:
        read = images.read_many(self.sources)
        with images.all_sent(read, self.engine.queue) as (_, sent), self.engine._trials(sent, self.weight) as trial:
            yield trial

    def _error(self, trial: Trial, count: int) -> float:
        self.found[count] = trial(count)
        self.progress.report(len(self.found), max(len(self.found), 2 * self.most.bit_length()))
        return self.found[count][1]


def fit_quality(
    engine: PaletteEngine,
    images: Any,
    target_psnr: float | None = None,
    max_mse: float | None = None,
    sample_weight: Any = None,
    progress: ProgressCallback | None = None,
    search: type[FewestColors] = FewestColors,
) -> PaletteEngine:
    """Fit like `PaletteEngine.fit_quality`."""
    found = search(engine, images, allowed_error(target_psnr, max_mse), sample_weight, progress).run()
    vars(engine).update(found)
    return engine


@contextlib.contextmanager
def fitted_anew(engine: PaletteEngine, pictures: Sequence[Any], weight: Any) -> Iterator[Trial]:
    """Trials that refit any engine each time; its parameters and learned attributes change."""
    yield trial_of(engine, functools.partial(engine.fit, pictures, sample_weight=weight), pictures)


def trial_of(engine: PaletteEngine, fit: Callable[[], Any], pictures: Sequence[Any]) -> Trial:
    """Return the trial that fits an engine with a number of colours and measures the error on pictures."""

    def trial(count: int) -> tuple[dict[str, Any], float]:
        engine.set_params(n_colors=count)
        fit()
        return learned_by(engine), mean_shown_error(engine, pictures)

    return trial


def shown_error(engine: PaletteEngine, image: Any, argument: str = "images") -> SummedError:
    """The squared error in sRGB of a picture that is mapped as the engine maps it; engines are fitted."""
    return summed_error(
        image,
        engine.palette_,
        argument,
        color_space=engine.color_space,
        metric=engine.metric,
        error_space="srgb",
        queue=engine.queue,
    )


def mean_shown_error(engine: PaletteEngine, pictures: Sequence[Any]) -> float:
    """The mean squared error in sRGB of pictures together."""
    errors = [shown_error(engine, picture) for picture in pictures]
    return math.fsum(e.mean * e.pixels for e in errors) / sum(e.pixels for e in errors)


def fewest_colors(error: Callable[[int], float], limit: float, most: int, least: int = 2) -> int | None:
    """Return the fewest colours, `least` to `most`, whose error is at most `limit`; None if no number reaches it."""
    # By the power law of the errors found so far, else by bisection: errors are taken to fall with the number of
    # colours, but for the numbers next below the one that is found.
    errors: dict[int, float] = {}
    failed, reached = least - 1, most + 1
    count, halved = min(max(_FIRST, least), most), True
    while reached - failed > 1:
        before = reached - failed
        errors[count] = error(count)
        if errors[count] <= limit:
            reached = count
        elif count == most:
            return None
        else:
            failed = count
        guess = _guess(errors, limit, failed, reached) if halved else None
        halved = guess is None or 2 * (reached - failed) <= before
        middle = (failed + reached) // 2 if reached <= most else 2 * failed
        count = min(max(middle if guess is None else guess, failed + 1), min(reached - 1, most))
    for fewer in range(reached - 2, max(reached - 2 - _MOST_NEAR, least - 1), -1):
        errors[fewer] = error(fewer) if fewer not in errors else errors[fewer]
        if errors[fewer] > _NEAR * limit:
            break
        reached = fewer if errors[fewer] <= limit else reached
    return reached


def _guess(errors: dict[int, float], limit: float, failed: int, reached: int) -> int | None:
    """Guess the colours that reach the limit by a power law through the nearest errors; None if these do not tell."""
    known = [n for n in (failed, reached) if n in errors]
    if any(errors[n] <= 0 for n in known) or limit <= 0:
        return None
    power = _POWER
    if len(known) == 2:
        power = math.log(errors[failed] / errors[reached]) / math.log(reached / failed)
        if power <= 0:
            return None
    guess: float = known[0] * (errors[known[0]] / limit) ** (1 / power)
    return math.ceil(min(guess, MOST_COLORS))


def allowed_error(target_psnr: float | None, max_mse: float | None) -> float:
    """The mean squared error that a quality target stands for; `target_psnr` in dB, 0 to 100, of 8-bit values."""
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
