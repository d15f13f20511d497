"""The points that the mini-batch map learns from and is refined on, sampled and ordered on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.histogram.distinct import DistinctColors
from clquant.neuquant import schedule as schedules
from clquant.neuquant.nodes import coordinate_bits
from clquant.neuquant.point_order import Points, order_points
from clquant.neuquant.sampling import LINEAR, POINT_BYTES, SPREAD, Pixels, Sampler
from clquant.runtime import Scope, Session


def limited_weights(counts: npt.NDArray[np.uint32], limit: int) -> npt.NDArray[np.uint32]:
    """Counts, halved together (but never below 1) until they add up to at most `limit`."""
    shift = 0
    while int(np.maximum(counts >> shift, 1).sum(dtype=np.uint64)) > limit:
        shift += 1
    return np.asarray(np.maximum(counts >> shift, 1), np.uint32)


class MapPoints:
    """Samples the pixels of one palette as points; those of the `fixed` colours are passed over."""

    def __init__(
        self,
        session: Session,
        scope: Scope,
        space: Space,
        n_colors: int,
        sample_factor: int,
        fixed: npt.NDArray[np.uint8],
    ) -> None:
        self._session = session
        self._scope = scope
        self._space = space
        self._n_colors = n_colors
        self._schedule = schedules.schedule(n_colors, sample_factor)
        self._sampler = Sampler(session, scope, space, fixed)

    def room(self) -> Points:
        """Room for the samples of all steps of the map and its refinement, or for as many as one allocation holds."""
        largest = max(step.batch for step in self._schedule.steps)
        count = min(self._schedule.most, max(self._session.limits.max_alloc // POINT_BYTES, largest))
        return Points(self._scope.empty(count * POINT_BYTES), count, None)

    def holds_all(self, points: Points) -> bool:
        """Whether there is room for all samples at once."""
        return points.count == self._schedule.most

    def of_steps(self, pixels: Pixels, points: Points, start: int) -> Iterator[tuple[schedules.Step, int]]:
        """Yield each step of the map and where its samples begin in `points`, which are refilled when used up."""
        low = high = 0
        for step in self._schedule.steps:
            if step.first + step.batch > high:
                low, high = step.first, min(step.first + points.count, self._schedule.most)
                self._sampler.points(pixels, SPREAD, start, (low, high - low), points.buffer, 0)
                cuts = [self._schedule.refined, *(other.first for other in self._schedule.steps)]
                self._order(Points(points.buffer, high - low, None), [cut - low for cut in cuts])
            yield step, step.first - low

    def of_refinement(self, pixels: Pixels, few: DistinctColors, start: int, trained: Points | None) -> Points:
        """Return few colours with their counts, else samples, at most every pixel; reuses `trained` if whole."""
        if few.colors is not None and few.counts is not None:
            points = np.zeros((len(few.colors), 4), np.uint16)
            points[:, : self._space.dims] = self._space.coordinates(few.colors)
            weights = limited_weights(few.counts, 2 ** (32 - coordinate_bits(self._space)) - 1)
            colors = Points(self._scope.copy_of(points), len(points), self._scope.copy_of(weights))
            self._order(colors)
            return colors
        count = min(self._schedule.refined, pixels.total)
        if count < pixels.total and trained is not None and self.holds_all(trained):
            return Points(trained.buffer, count, None)
        buffer = self._scope.empty(count * POINT_BYTES)
        order = LINEAR if count == pixels.total else SPREAD
        self._sampler.points(pixels, order, start, (0, count), buffer, 0)
        refined = Points(buffer, count, None)
        self._order(refined)
        return refined

    def _order(self, points: Points, cuts: Sequence[int] = ()) -> None:
        order_points(self._session, points, self._n_colors, self._space.dims, cuts)
