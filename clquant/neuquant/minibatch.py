"""The mini-batch self-organizing map and its refinement on a device."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.histogram.distinct import DistinctColors
from clquant.neuquant import schedule as schedules
from clquant.neuquant.map_points import MapPoints
from clquant.neuquant.nodes import NODE_BITS, as_vectors, gray_axis, map_constants, other_starts, whole_nodes
from clquant.neuquant.point_order import Points
from clquant.neuquant.refine import refine_form, scatter
from clquant.neuquant.sampling import Pixels
from clquant.neuquant.step import SLAB_WORDS, StepForm, StepForms
from clquant.runtime import Buffer, PreparedLaunch, Progress, Scope, Session

FEW_COLORS_STEPS = 4
# If at most MAX_NODES_OF_STARTS nodes are learned, they are refined from STARTS networks: a chain of so few nodes gains
# nothing by its order, and single steps cannot leave a poor place.
STARTS, MAX_NODES_OF_STARTS = 5, 8

# One for each of the two networks, with all arguments set but those of the step.
Launches = tuple[PreparedLaunch, PreparedLaunch]
# The batch before: its points, the first of its pulls, their number. Without pulls no node changes.
Before = tuple[int, int, int]
NO_BATCH: Before = (1, 0, 0)


class Assignment(NamedTuple):
    """`neuquant_step` in a form, ready to read one network and to write the other."""

    form: StepForm
    launches: Launches


class Refinement(NamedTuple):
    """A step of the refinement: the assignment, and `neuquant_refine`, ready to change a network."""

    step: Assignment
    refine: Launches


class Prepared(NamedTuple):
    """Buffers and launches of a training: room for samples, slabs for all steps, the map's step, the refinement."""

    samples: Points
    slabs: Buffer
    step: Assignment
    refinement: Refinement | None


def refinement_steps(few: DistinctColors, refine_steps: int) -> int:
    """Steps of the refinement from one start: more over few colours, which cost less all the same."""
    return refine_steps if few.colors is None else refine_steps * FEW_COLORS_STEPS


def starts_of(few: DistinctColors, learned: int) -> int:
    """Number of networks that are refined, of which the best one is taken."""
    return STARTS if few.colors is not None and learned <= MAX_NODES_OF_STARTS else 1


class MiniBatchSOM:
    """The mini-batch map and its refinement for one palette; its device memory belongs to a scope."""

    # Pixels of the `fixed` colours are not sampled; `refine` leaves the first `pinned` nodes, which are these colours.

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
        self.n_colors = n_colors
        self._city_block = metric == "l1"
        self._conscience = conscience
        self._pinned = space.coordinates(fixed[:pinned]).astype(np.int32)
        self._points = MapPoints(session, scope, space, n_colors, sample_factor, fixed)
        self._forms = StepForms(session, n_colors, map_constants(space))
        self._schedule = schedules.schedule(n_colors, sample_factor)
        decay = schedules.decay().view(np.int32)
        self._first_pull = len(decay)
        self._pulls = scope.copy_of(np.concatenate([decay, self._schedule.pulls]))
        self._begin_with(gray_axis(space, n_colors, NODE_BITS))
        self._prepared: Prepared | None = None
        self._prepared_steps = 0
        # The refinement's results from each start: a network, the slabs, and the index of the last step's slab.
        self._results: list[tuple[Buffer, Buffer, int]] = []

    def prepare(self, refine_steps: int, few: DistinctColors | None = None) -> Prepared:
        """Make what `train` begins with; at the first call, and again for more steps of refinement."""
        if self._prepared is None or self._prepared_steps < refine_steps:
            samples = self._points.room()
            slabs = self._new_slabs(len(self._schedule.steps) + refine_steps + 1)
            known_few = few is not None and few.colors is not None
            again = refine_steps > 0 and not known_few and self._points.holds_all(samples)
            step = self._assignment(self._forms.map_step(self._city_block, self._conscience), samples, slabs)
            self._prepared = Prepared(samples, slabs, step, self._refinement(samples, slabs) if again else None)
            self._prepared_steps = refine_steps
        return self._prepared

    def train(
        self, pixels: Pixels, few: DistinctColors, start: int, refine_steps: int, progress: Progress
    ) -> npt.NDArray[np.int64]:
        """Train and refine once; returns (n_colors, dims) nodes rounded to whole coordinates."""
        steps = self._schedule.steps
        refine_steps, starts = refinement_steps(few, refine_steps), starts_of(few, self.n_colors)
        prepared = self.prepare(refine_steps * starts, few)
        total = len(steps) + refine_steps * starts
        refined = self._points.of_refinement(pixels, few, start, prepared.samples) if refine_steps else prepared.samples
        before = NO_BATCH
        for t, (step, first) in enumerate(self._points.of_steps(pixels, prepared.samples, start)):
            self._step(prepared.step, first, step.batch, t, before)
            before = step.batch, self._first_pull + step.offset, step.reach
            self._report(progress, t + 1, total)
        if refine_steps == 0:
            self._step(prepared.step, 0, 0, len(steps), before)
        else:
            kernels = prepared.refinement if refined.buffer is prepared.samples.buffer else None
            self._refine(refined, prepared.slabs, (len(steps), refine_steps, starts), before, kernels, progress)
        return self._whole_nodes()

    def refine(
        self,
        nodes: npt.NDArray[np.int64],
        pixels: Pixels,
        few: DistinctColors,
        start: int,
        refine_steps: int,
        progress: Progress,
    ) -> npt.NDArray[np.int64]:
        """Refine (n_colors, dims) whole nodes without training; return them in the same form."""
        steps, starts = refinement_steps(few, refine_steps), starts_of(few, len(nodes) - len(self._pinned))
        self._begin_with(nodes << NODE_BITS)
        points = self._points.of_refinement(pixels, few, start, None)
        self._refine(points, self._new_slabs(steps * starts + 1), (0, steps, starts), NO_BATCH, None, progress)
        return self._whole_nodes()

    def _refine(
        self,
        points: Points,
        slabs: Buffer,
        steps: tuple[int, int, int],
        before: Before,
        kernels: Refinement | None,
        progress: Progress,
    ) -> None:
        """Queue a refinement: `steps` has the number of its first step, its steps from a start, its starts."""
        first, count, starts = steps
        total = first + count * starts
        for number in range(starts):
            if number > 0:
                self._begin_with(self._start(number))
                kernels, before = None, NO_BATCH
            kernels = kernels or self._refinement(points, slabs)
            for t in range(first, first + count):
                self._step(kernels.step, 0, points.count, t, before)
                refine = kernels.refine[self._present]
                refine.set(at=np.uint32(t), moves=np.int32(t < first + count - 1))
                refine.queue()
                before = points.count, 0, 0
                self._report(progress, t + 1, total)
            first += count
            self._results.append((self._networks[self._present], slabs, first - 1))

    def _begin_with(self, nodes: npt.NDArray[np.integer]) -> None:
        """Make (n_colors, dims) nodes of 12 fraction bits the present network."""
        first = as_vectors(nodes)
        self._networks = self._scope.copy_of(first), self._scope.empty(first.nbytes)
        self._present = 0

    def _start(self, number: int) -> npt.NDArray[np.int32]:
        """The network that the refinement begins with after so many others."""
        starts = other_starts(self._space, self.n_colors - len(self._pinned))
        return np.concatenate([self._pinned << NODE_BITS, starts[number - 1]])

    def _whole_nodes(self) -> npt.NDArray[np.int64]:
        """The best result's nodes: of the least squared error, the first of equals."""
        network, size = self._networks[self._present], (self.n_colors, 4)
        if len(self._results) == 1:
            network = self._results[0][0]
        elif self._results:
            words = SLAB_WORDS * self.n_colors
            slabs = [
                self._session.download(slabs, (words,), np.uint32, 4 * words * at) for _, slabs, at in self._results
            ]
            bits = self._forms.constants["COORDINATE_BITS"]
            errors = [scatter(slab.reshape(SLAB_WORDS, -1), self._pinned, bits) for slab in slabs]
            network = self._results[errors.index(min(errors))][0]
        return whole_nodes(self._session.download(network, size, np.int32), self._space)

    def _new_slabs(self, steps: int) -> Buffer:
        return self._scope.zeros(4 * SLAB_WORDS * self.n_colors * steps)

    def _report(self, progress: Progress, done: int, total: int) -> None:
        if progress.wanted and (done % 8 == 0 or done == total):
            self._session.finish()
            progress.report(done, total)

    def _assignment(self, form: StepForm, points: Points, slabs: Buffer) -> Assignment:
        weights = self._pulls if points.weights is None else points.weights
        prepare = partial(
            self._session.prepare,
            *(self._scope, form.kernel, form.local, form.local),
            points=points.buffer,
            step=np.zeros(8, np.uint32),
            slabs=slabs,
            pulls=self._pulls,
            weights=weights,
            **form.memory,
        )
        one, other = self._networks
        return Assignment(form, (prepare(nodes=one, nodes_out=other), prepare(nodes=other, nodes_out=one)))

    def _refinement(self, points: Points, slabs: Buffer) -> Refinement:
        step = self._assignment(self._forms.refine_step(points.weights is not None), points, slabs)
        kernel, local, scratch = refine_form(self._session, self._scope, self.n_colors, self._forms.constants)
        counts, extent = (self.n_colors, len(self._pinned)), (*self._space.extent, 0)[:4]
        prepare = partial(
            self._session.prepare,
            *(self._scope, kernel, local, local),
            slabs=slabs,
            at=np.uint32(0),
            moves=np.int32(0),
            counts=np.array(counts, np.int32),
            extent=np.array(extent, np.int32),
            **scratch,
        )
        one, other = self._networks
        return Refinement(step, (prepare(nodes=one), prepare(nodes=other)))

    def _step(self, step: Assignment, first: int, batch: int, slab: int, before: Before) -> None:
        """Queue `neuquant_step` for a batch; afterwards the network that was searched is the present one."""
        launch = step.launches[self._present]
        launch.set(step=np.array([first, batch, slab, *before, self.n_colors, 0], np.uint32))
        launch.queue(max(min(-(-batch // step.form.at_once), step.form.most_groups), 1))
        self._present = 1 - self._present
