"""The mini-batch map and its refinement on a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.histogram.distinct import DistinctColors
from clquant.neuquant import schedule as tables
from clquant.neuquant.point_order import Points, order_points
from clquant.neuquant.refine import refine_form
from clquant.neuquant.sampling import LINEAR, POINT_BYTES, SPREAD, Pixels, Sampler, gray_axis
from clquant.neuquant.step import SLAB_WORDS, StepForm, StepForms
from clquant.neuquant.step_grid import Grid, Row
from clquant.runtime import Buffer, PreparedLaunch, Progress, Scope, Session

NODE_BITS = 12
FEW_COLORS_STEPS = 4


# One for each of the two networks, with all arguments set but those of the step.
Launches = tuple[PreparedLaunch, PreparedLaunch]


class Assignment(NamedTuple):
    """`neuquant_step` in a form, ready to read one network and to write the other."""

    form: StepForm
    launches: Launches


class Refinement(NamedTuple):
    """What a step of the refinement takes: the assignment, and `neuquant_refine`, ready to change a network."""

    step: Assignment
    refine: Launches


class Begun(NamedTuple):
    """What training begins with: room for samples, slabs for all steps, the map's step, and what refines on samples.

    Where all steps are one launch, the last two are missing.
    """

    samples: Points
    slabs: Buffer
    step: Assignment | None
    refinement: Refinement | None


def limited_weights(counts: npt.NDArray[np.uint32], limit: int) -> npt.NDArray[np.uint32]:
    """Counts, halved together (but never below 1) until they add up to at most `limit`."""
    shift = 0
    while int(np.maximum(counts >> shift, 1).sum(dtype=np.uint64)) > limit:
        shift += 1
    return np.asarray(np.maximum(counts >> shift, 1), np.uint32)


class BatchMap:
    """The mini-batch map and its refinement for one palette; its device memory belongs to a scope.

    Parameters
    ----------
    session : Session
    scope : Scope
    space : Space
    n_colors : int
    sample_factor : int
    metric : str
        ``"l2"`` or ``"l1"``.
    conscience : bool
    fixed : ndarray
        (f, 4) uint8: pixels of these colours are not sampled; where there are as many `pinned` nodes, these are they.
    pinned : int
        The first nodes, which `refine` leaves where they are.
    """

    def __init__(
        self,
        session: Session,
        scope: Scope,
        space: Space,
        n_colors: int,
        sample_factor: int,
        metric: str,
        conscience: bool,
        fixed: npt.NDArray[np.uint8],
        pinned: int = 0,
    ) -> None:
        self._session = session
        self._scope = scope
        self._space = space
        self._n_colors = n_colors
        self._city_block = metric == "l1"
        self._conscience = conscience
        self._pinned = pinned
        self._sampler = Sampler(session, scope, space, fixed)
        self._coordinate_bits = max(space.extent).bit_length()
        bits = {"SEARCH_SHIFT": search_shift(space), "COORDINATE_BITS": self._coordinate_bits}
        self._forms = StepForms(session, n_colors, {"DIMS": space.dims, **bits})
        self._grid: Grid | None = None
        if not conscience and Grid.admits(session, n_colors):
            self._grid = Grid(session, scope, space, n_colors, pinned, self._forms.constants)
        self._schedule = tables.schedule(n_colors, sample_factor)
        self._pulls = scope.copy_of(self._schedule.pulls)
        self._decay = scope.copy_of(tables.decay())
        first = np.zeros((n_colors, 4), np.int32)
        first[:, : space.dims] = gray_axis(space, n_colors, NODE_BITS)
        self._networks = [scope.copy_of(first), scope.empty(first.nbytes)]
        self._present = 0
        self._begun: Begun | None = None
        self._begun_steps = 0
        self._queued: DistinctColors | None = None

    def prepare(self, refine_steps: int, few: DistinctColors | None = None) -> Begun:
        """What `train` begins with, whatever the pixels are; made at the first call, and again for more steps.

        Parameters
        ----------
        refine_steps : int
            Steps of refinement that are to come.
        few : DistinctColors, optional
            Of the pixels, where that is known.
        """
        if self._begun is None or self._begun_steps < refine_steps:
            samples = self._map_points()
            slabs = self._scope.zeros(4 * SLAB_WORDS * self._n_colors * (len(self._schedule.steps) + refine_steps + 1))
            known_few = few is not None and few.colors is not None
            again = refine_steps > 0 and not known_few and samples.count == self._schedule.most
            self._begun = Begun(samples, slabs, None, None)
            if self._grid is None:
                self._begun = self._with_steps(self._begun, again)
            self._begun_steps = refine_steps
        return self._begun

    def _with_steps(self, begun: Begun, again: bool) -> Begun:
        """What steps of a launch each begin with; `again`: the refinement looks at samples."""
        samples, slabs = begun.samples, begun.slabs
        step = self._assignment(self._forms.map_step(self._city_block, self._conscience), samples, slabs)
        return Begun(samples, slabs, step, self._refinement(samples, slabs) if again else None)

    def train(
        self, pixels: Pixels, few: DistinctColors, start: int, refine_steps: int, progress: Progress
    ) -> npt.NDArray[np.int64]:
        """Train and refine, once; what was queued ahead is waited for.

        Parameters
        ----------
        pixels, few, start, refine_steps, progress
            As `queue` takes them, and took them where it was called before.

        Returns
        -------
        ndarray
            (n_colors, dims): the nodes rounded to whole coordinates.
        """
        if self._queued is None:
            self.queue(pixels, few, start, refine_steps, progress)
        return self._whole_nodes()

    def suits(self, few: DistinctColors) -> bool:
        """Whether pixels of such colours can be trained on, or are what was queued.

        Parameters
        ----------
        few : DistinctColors
        """
        return self._queued is None or (self._queued.colors is None and few.colors is None)

    def queue(self, pixels: Pixels, few: DistinctColors, start: int, refine_steps: int, progress: Progress) -> None:
        """Queue all steps of training and refining; `train` gives their result.

        Parameters
        ----------
        pixels : Pixels
        few : DistinctColors
            Of these pixels: where their colours are few, they are refined on, and in `FEW_COLORS_STEPS` times as many
            steps, which cost less all the same.
        start : int
            Shifts which pixels are sampled; 0 to 2^32 - 1.
        refine_steps : int
        progress : Progress
            Told of steps.
        """
        self._queued = few
        steps = self._schedule.steps
        refine_steps = refinement(few, refine_steps)
        begun = self.prepare(refine_steps, few)
        if self._grid is not None and begun.samples.count == self._schedule.most and not progress.wanted:
            self._queue_in_one(self._grid, begun, pixels, few, start, refine_steps)
            return
        if begun.step is None:
            begun = self._with_steps(begun, False)
        assert begun.step is not None
        done, all_steps = 0, len(steps) + refine_steps
        refined = self._refine_points(pixels, few, start, begun.samples) if refine_steps else begun.samples
        before = 1, 0, 0
        for t, (step, first) in enumerate(self._sampled_steps(pixels, begun.samples, start)):
            self._step(begun.step, first, step.batch, t, before)
            before = step.batch, step.offset, step.reach
            done = self._report(progress, done, all_steps)
        if refine_steps == 0:
            self._step(begun.step, 0, 0, len(steps), before)
        else:
            again = begun.refinement if refined.buffer is begun.samples.buffer else None
            kernels = again or self._refinement(refined, begun.slabs)
            self._refine_steps(kernels, refined.count, (len(steps), all_steps), before, progress)

    def _queue_in_one(
        self, grid: Grid, begun: Begun, pixels: Pixels, few: DistinctColors, start: int, refine_steps: int
    ) -> None:
        """As `queue`: all steps of the map in one launch, all of the refinement in another."""
        samples = begun.samples
        self._sampler.points(pixels, SPREAD, start, (0, samples.count), samples.buffer, 0)
        rows: list[Row] = []
        before = 1, 0, 0
        for t, step in enumerate(self._schedule.steps):
            rows.append((step.first, step.batch, t, *before, self._n_colors, 0))
            before = step.batch, step.offset, step.reach
        if refine_steps == 0:
            rows.append((0, 0, len(rows), *before, self._n_colors, 0))
        tables_of_all = begun.slabs, self._pulls, self._decay
        kind = {"CITY_BLOCK": int(self._city_block), "WEIGHTED": 0}
        one, other = self._networks
        grid.queue(False, kind, rows, (one, other), samples.buffer, self._decay, *tables_of_all)
        self._present = 1
        if refine_steps:
            refined = self._refine_points(pixels, few, start, samples)
            weights = self._decay if refined.weights is None else refined.weights
            kind = {"CITY_BLOCK": 0, "WEIGHTED": int(refined.weights is not None)}
            again: list[Row] = []
            for t in range(len(rows), len(rows) + refine_steps):
                again.append((0, refined.count, t, *before, self._n_colors, 0))
                before = refined.count, 0, 0
            grid.queue(True, kind, again, (other, one), refined.buffer, weights, *tables_of_all)
            self._present = 0

    def refine(
        self,
        nodes: npt.NDArray[np.int64],
        pixels: Pixels,
        few: DistinctColors,
        start: int,
        refine_steps: int,
        progress: Progress,
    ) -> npt.NDArray[np.int64]:
        """Refine alone.

        Parameters
        ----------
        nodes : ndarray
            (n_colors, dims) whole coordinates.
        pixels, few, start, refine_steps, progress
            As `train`; `refine_steps` at least 1.

        Returns
        -------
        ndarray
            (n_colors, dims): the nodes rounded to whole coordinates.
        """
        steps = refinement(few, refine_steps)
        first = np.zeros((self._n_colors, 4), np.int32)
        first[:, : self._space.dims] = nodes << NODE_BITS
        self._networks[self._present] = self._scope.copy_of(first)
        slabs = self._scope.zeros(4 * SLAB_WORDS * self._n_colors * (steps + 1))
        points = self._refine_points(pixels, few, start, None)
        self._refine_steps(self._refinement(points, slabs), points.count, (0, steps), (1, 0, 0), progress)
        return self._whole_nodes()

    def _refine_steps(
        self,
        kernels: Refinement,
        points: int,
        steps: tuple[int, int],
        before: tuple[int, int, int],
        progress: Progress,
    ) -> None:
        """Queue the steps from the first to before the second, on so many points; `before` as in `_step`."""
        for t in range(*steps):
            self._step(kernels.step, 0, points, t, before)
            refine = kernels.refine[self._present]
            refine.set(2, np.uint32(t), np.int32(t < steps[1] - 1))
            refine.queue()
            before = points, 0, 0
            self._report(progress, t, steps[1])

    def _whole_nodes(self) -> npt.NDArray[np.int64]:
        nodes = self._session.download(self._networks[self._present], (self._n_colors, 4), np.int32)
        return whole_nodes(nodes, self._space)

    def _report(self, progress: Progress, done: int, total: int) -> int:
        if progress.wanted and ((done + 1) % 8 == 0 or done + 1 == total):
            self._session.finish()
            progress.report(done + 1, total)
        return done + 1

    def _map_points(self) -> Points:
        """Room for the samples of all steps of the map and its refinement, or for as many as one allocation holds."""
        largest = max(step.batch for step in self._schedule.steps)
        count = min(self._schedule.most, max(self._session.limits.max_alloc // POINT_BYTES, largest))
        return Points(self._scope.empty(count * POINT_BYTES), count, None)

    def _sampled_steps(self, pixels: Pixels, points: Points, start: int) -> Iterator[tuple[tables.Step, int]]:
        """Each step of the map and where its samples begin in `points`, which is filled anew when they are used up."""
        low = high = 0
        for step in self._schedule.steps:
            if step.first + step.batch > high:
                low, high = step.first, min(step.first + points.count, self._schedule.most)
                self._sampler.points(pixels, SPREAD, start, (low, high - low), points.buffer, 0)
                cuts = [self._schedule.refined, *(other.first for other in self._schedule.steps)]
                self._order(Points(points.buffer, high - low, None), [cut - low for cut in cuts])
            yield step, step.first - low

    def _refine_points(self, pixels: Pixels, few: DistinctColors, start: int, trained: Points | None) -> Points:
        """What is refined on: the colours with their counts where they are few, else samples, at most every pixel.

        `trained` is what the map learns from, if all its samples are there at once: the first ones serve again.
        """
        if few.colors is not None and few.counts is not None:
            points = np.zeros((len(few.colors), 4), np.uint16)
            points[:, : self._space.dims] = self._space.coordinates(few.colors)
            weights = limited_weights(few.counts, 2 ** (32 - self._coordinate_bits) - 1)
            colors = Points(self._scope.copy_of(points), len(points), self._scope.copy_of(weights))
            self._order(colors)
            return colors
        count = min(self._schedule.refined, pixels.total)
        if count < pixels.total and trained is not None and trained.count == self._schedule.most:
            return Points(trained.buffer, count, None)
        buffer = self._scope.empty(count * POINT_BYTES)
        order = LINEAR if count == pixels.total else SPREAD
        self._sampler.points(pixels, order, start, (0, count), buffer, 0)
        refined = Points(buffer, count, None)
        self._order(refined)
        return refined

    def _order(self, points: Points, cuts: Sequence[int] = ()) -> None:
        order_points(self._session, points, self._n_colors, self._space.dims, cuts)

    def _assignment(self, form: StepForm, points: Points, slabs: Buffer) -> Assignment:
        weights = self._decay if points.weights is None else points.weights
        step, rest = np.zeros(8, np.uint32), (slabs, self._pulls, self._decay, weights, *form.memory)
        prepare = partial(self._session.prepare, self._scope, form.kernel, form.local, form.local, points.buffer, step)
        one, other = self._networks
        return Assignment(form, (prepare(one, other, *rest), prepare(other, one, *rest)))

    def _refinement(self, points: Points, slabs: Buffer) -> Refinement:
        step = self._assignment(self._forms.refine_step(points.weights is not None), points, slabs)
        form = refine_form(self._session, self._scope, self._n_colors, self._forms.constants)
        counts, extent = (self._n_colors, self._pinned), (*self._space.extent, 0)[:4]
        given = np.uint32(0), np.int32(0), np.array(counts, np.int32), np.array(extent, np.int32)
        rest = slabs, *given, *form.scratch
        prepare = partial(self._session.prepare, self._scope, form.kernel, form.local, form.local)
        one, other = self._networks
        return Refinement(step, (prepare(one, *rest), prepare(other, *rest)))

    def _step(self, step: Assignment, first: int, batch: int, slab: int, before: tuple[int, int, int]) -> None:
        """Queue `neuquant_step` for a batch; afterwards the network that was searched is the present one.

        `before` has the points of the batch before, where its pulls are, and how many: with none, no node changes.
        """
        launch = step.launches[self._present]
        launch.set(1, np.array([first, batch, slab, *before, self._n_colors, 0], np.uint32))
        launch.queue(max(min(-(-batch // step.form.at_once), step.form.most_groups), 1))
        self._present = 1 - self._present


def whole_nodes(nodes: npt.NDArray[np.int32], space: Space) -> npt.NDArray[np.int64]:
    """(..., dims) whole coordinates of (..., 4) nodes."""
    whole = (nodes.astype(np.int64) + (1 << (NODE_BITS - 1))) >> NODE_BITS
    return np.asarray(np.minimum(whole[..., : space.dims], np.array(space.extent)))


def refinement(few: DistinctColors, refine_steps: int) -> int:
    """Steps of the refinement: more over few colours, which cost less all the same."""
    return refine_steps if few.colors is None else refine_steps * FEW_COLORS_STEPS


def search_shift(space: Space) -> int:
    """Fraction bits of nodes in a search: as many as keep every squared distance below 2^24, so exact in fp32."""
    shift = 0
    # A node may lie up to one coordinate beyond the extent: the first network's last nodes above 255.
    reach = sum((e + 1) ** 2 for e in space.extent)
    while shift < 3 and reach << (2 * shift + 2) < 2**24:
        shift += 1
    assert reach << (2 * shift) < 2**24
    return shift
