"""Palettes of collections: colours are counted where the pictures are, and learned from where the counts are."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from clquant import flow, params
from clquant.estimator import learned_by, weights_of
from clquant.histogram.device_counts import added
from clquant.histogram.reduction import Colors, Counts, addable, histogram_from
from clquant.palette.target_quality import FewestColors, Trial, fit_quality, trial_of
from clquant.runtime import DeviceMemoryError, InvalidArgument, ProgressCallback


class Learned(Colors):
    """A reduction to the attributes that an engine learns from the colours of pictures; the engine is unchanged."""

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


def fit_collections(
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
        fit = partial(self.engine.fit, given)
        if hasattr(self.engine, "fit_histogram"):
            counts = flow.reduce(Colors(), given, queue=None, argument="images")
            fit = partial(self.engine.fit_histogram, counts)
        yield trial_of(self.engine, fit, given)


fit_quality_of_collections = partial(fit_quality, search=FewestOfCollections)
