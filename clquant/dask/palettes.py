"""Palettes of collections: colours are counted where the pictures are, and learned from where the counts are."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from clquant import flow, one_call, params
from clquant.dask.reductions import reduce
from clquant.estimator import learned_by, weights_of
from clquant.histogram.color_histogram import ColorHistogram
from clquant.histogram.device_counts import added
from clquant.histogram.reduction import Colors, Counts, addable, histogram_from
from clquant.palette import target_quality
from clquant.palette.target_quality import FewestColors, Trial, trial_of
from clquant.runtime import DeviceMemoryError, InvalidArgument, Progress, ProgressCallback


class Learned(Colors):
    """A reduction to the attributes that an engine learns from the colours of pictures; the engine is unchanged."""

    max_bits = 8

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def conclude(self, states: Sequence[Counts]) -> dict[str, Any]:
        """Learn from counts, on the device if the engine reads them there."""
        own, fresh = addable(states) if self.engine.learns_from_counts else None, copy.copy(self.engine)
        if own is not None:
            with contextlib.suppress(DeviceMemoryError):
                return learned_by(fresh._fit_counts(partial(added, parts=own)))
        return learned_by(fresh.fit_histogram(histogram_from(states)))

    def value(self, images: Sequence[Any], state_of: Callable[[Any], Any]) -> dict[str, Any]:
        """Learn from pixels in one process if that gives the same as learning from counts."""
        if not self.engine.learns_from_counts:
            return self.conclude([self.gather(images, state_of)])
        return learned_by(copy.copy(self.engine).fit(list(images)))


def fit(
    engine: Any,
    images: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    progress: ProgressCallback | None = None,
    memory: Any = None,  # noqa: ARG001
) -> Any:
    """Fit an engine like its `fit`, by the workers that have the pictures."""
    if weights_of(y, sample_weight) is not None:
        raise InvalidArgument("sample_weight is given with a Dask array; allowed: with images in memory")
    engine._check()
    params.callback("progress", progress)
    vars(engine).update(flow.reduce(Learned(engine), images, queue=engine.queue, progress=progress, argument="images"))
    return engine


class FewestOfCollections(FewestColors):
    """`FewestColors` of Dask arrays, whose colours are counted once."""

    @contextlib.contextmanager
    def _trials(self) -> Iterator[Trial]:
        given = list(self.sources) if isinstance(self.sources, list | tuple) else [self.sources]
        if self.weight is not None:
            raise InvalidArgument("sample_weight is given with a Dask array; allowed: with images in memory")
        if any(getattr(one, "dtype", None) == np.uint16 for one in given):
            raise InvalidArgument("images has a Dask array of uint16; allowed in fit_quality: 8 bits")
        refit = partial(self.engine.fit, given)
        if hasattr(self.engine, "fit_histogram"):
            counts = flow.reduce(Colors(), given, queue=None, argument="images")
            refit = partial(self.engine.fit_histogram, counts)
        yield trial_of(self.engine, refit, given)


def fit_quality(engine: Any, images: Any, **given: Any) -> Any:
    """Fit an engine like its `fit_quality`, with colours that are counted once."""
    return target_quality.fit_quality(engine, images, **given, search=FewestOfCollections)


def dominant_colors(image: Any, count: int = 5, **given: Any) -> list[one_call.DominantColor]:
    """Find the colours like `clquant.dominant_colors`; workers count the pixels of each."""
    learner = one_call.learner_of_few(count, **given)
    counts: Any = np.bincount(learner.fit_predict(image).ravel(), minlength=len(learner.palette_))
    return one_call.by_frequency(learner, counts.compute())


def histogram(images: Any) -> ColorHistogram:
    """The colour histogram of a Dask array, or of several pictures that workers read.

    Parameters
    ----------
    images : dask.array.Array, Files, or list or tuple of these, of paths or of lazy pictures
        Paths must name the same files on every worker.

    Returns
    -------
    ColorHistogram
        The same bits as of one process, whatever the workers, the chunks and their order.

    Raises
    ------
    InvalidArgument
        If there are none, or an array is no picture.
    FileError
        If a worker cannot read one.
    """
    found: ColorHistogram = reduce(Colors(), images, None, Progress(None))
    return found
