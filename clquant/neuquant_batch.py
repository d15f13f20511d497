"""The mini-batch map and its refinement on a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clquant import neuquant_tables as tables
from clquant.neuquant_maps import LINEAR, POINT_BYTES, SPREAD, Pixels, Sampler, gray_axis
from clquant.palette.distinct import FewColors
from clquant.palette.spaces import Space
from clquant.runtime import Buffer, Kernel, LocalMemory, PreparedLaunch, Progress, Scope, Session, Variant, admitted

NODE_BITS = 12
FEW_COLORS_STEPS = 4
# Words a colour of a slab (cl/neuquant_map.h), and of the part that the map's own steps need.
SLAB_WORDS = 14
STEP_WORDS = 6
# Of the portable step, in the map and in the refinement: work-items that share a point, points that a work-item has at
# once, most groups a compute unit. The best of those measured on an NVIDIA H200; they change no bit.
MAP_SHAPE = (8, 2, 2)
REFINE_SHAPE = (2, 2, 2)
# Bytes a colour of each of the refinement's scratch arrays.
REFINE_SCRATCH = (16, 8, 8, 4, 4, 8, 4, 4)

STEP_VARIANTS = (
    Variant("lanes", "neuquant_step_lanes.cl", lambda limits: limits.is_cpu and limits.local_memory >= 1 << 17),
    Variant("portable", "neuquant_step.cl"),
)


@dataclass(frozen=True)
class Points:
    """Points that a map learns from.

    Attributes
    ----------
    buffer : pyopencl.Buffer
        (count, 4) uint16 coordinates; the first is 65535 where a point is passed over.
    count : int
    weights : pyopencl.Buffer or None
        (count,) uint32, how often each counts.
    """

    buffer: Buffer
    count: int
    weights: Buffer | None


@dataclass(frozen=True)
class StepForm:
    """`neuquant_step` as a device takes it.

    Attributes
    ----------
    kernel : Kernel
    local : int
        Work-group size.
    at_once : int
        Points that a group searches for at once.
    most_groups : int
    """

    kernel: Kernel
    local: int
    at_once: int
    most_groups: int


class PreparedSteps(NamedTuple):
    """`neuquant_step` with its arguments set but for the span and the reach: the next launch, and the one after it."""

    form: StepForm
    launches: list[PreparedLaunch]


@dataclass(frozen=True)
class RefineForm:
    """`neuquant_refine` as a device takes it: the kernel, its work-group size, its scratch arguments."""

    kernel: Kernel
    local: int
    scratch: tuple[Any, ...]


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
        self._sample_factor = sample_factor
        self._city_block = int(metric == "l1")
        self._conscience = int(conscience)
        self._pinned = pinned
        self._sampler = Sampler(session, scope, space, fixed)
        self._constants = {
            "COLORS": n_colors,
            "DIMS": space.dims,
            "SEARCH_SHIFT": search_shift(space),
            "COORDINATE_BITS": max(space.extent).bit_length(),
        }
        self._schedule = tables.schedule(n_colors, sample_factor)
        self._pulls = scope.copy_of(self._schedule.pulls)
        self._decay = scope.copy_of(tables.decay())
        first = np.zeros((n_colors, 4), np.int32)
        first[:, : space.dims] = gray_axis(space, n_colors, NODE_BITS)
        self._nodes = scope.copy_of(first)
        self._spare = scope.empty(first.nbytes)
        self._begun: tuple[Points, Buffer, PreparedSteps] | None = None
        self._begun_steps = 0
        self._queued: FewColors | None = None

    def prepare(self, refine_steps: int) -> tuple[Points, Buffer, PreparedSteps]:
        """What `train` begins with, whatever the pixels are; made at the first call, and again for more steps.

        Parameters
        ----------
        refine_steps : int
            Steps of refinement that are to come.

        Returns
        -------
        tuple
            Room for samples, slabs for these steps and the map's, and the map's step.
        """
        if self._begun is None or self._begun_steps < refine_steps:
            samples = self._map_points()
            slabs = self._scope.zeros(4 * SLAB_WORDS * self._n_colors * (len(self._schedule.steps) + refine_steps + 1))
            self._begun = samples, slabs, self._prepared(self._step_form(False, False), samples, slabs)
            self._begun_steps = refine_steps
        return self._begun

    def train(
        self, pixels: Pixels, few: FewColors, start: int, refine_steps: int, progress: Progress
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

    def suits(self, few: FewColors) -> bool:
        """Whether pixels of such colours can be trained on, or are what was queued.

        Parameters
        ----------
        few : FewColors
        """
        return self._queued is None or (self._queued.colors is None and few.colors is None)

    def queue(self, pixels: Pixels, few: FewColors, start: int, refine_steps: int, progress: Progress) -> None:
        """Queue all steps of training and refining; `train` gives their result.

        Parameters
        ----------
        pixels : Pixels
        few : FewColors
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
        trained, slabs, steps_of_map = self.prepare(refine_steps)
        done, all_steps = 0, len(steps) + refine_steps
        refined = self._refine_points(pixels, few, start) if refine_steps else trained
        reach, last_batch = np.array([0, 0], np.int32), 1
        for t, (step, first) in enumerate(self._sampled_steps(pixels, trained, start)):
            self._step(steps_of_map, np.array([first, step.batch, t, last_batch], np.uint32), reach)
            reach, last_batch = np.array([step.offset, step.reach], np.int32), step.batch
            done = self._report(progress, done, all_steps)
        if refine_steps == 0:
            self._step(steps_of_map, np.array([0, 0, len(steps), last_batch], np.uint32), reach)
        else:
            self._refine_steps(refined, slabs, (len(steps), all_steps), (reach, last_batch), progress)

    def refine(
        self,
        nodes: npt.NDArray[np.int64],
        pixels: Pixels,
        few: FewColors,
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
        self._nodes = self._scope.copy_of(first)
        slabs = self._scope.zeros(4 * SLAB_WORDS * self._n_colors * (steps + 1))
        points = self._refine_points(pixels, few, start)
        self._refine_steps(points, slabs, (0, steps), (np.array([0, 0], np.int32), 1), progress)
        return self._whole_nodes()

    def _refine_steps(
        self,
        points: Points,
        slabs: Buffer,
        steps: tuple[int, int],
        last: tuple[npt.NDArray[np.int32], int],
        progress: Progress,
    ) -> None:
        """Queue the steps from the first to before the second; `last` is the reach and the batch of the step before."""
        prepared = self._prepared(self._step_form(True, points.weights is not None), points, slabs)
        refine_form = self._refine_form()
        reach, last_batch = last
        for t in range(*steps):
            self._step(prepared, np.array([0, points.count, t, last_batch], np.uint32), reach)
            self._refine(refine_form, slabs, t, moves=t < steps[1] - 1)
            reach = np.array([0, 0], np.int32)
            self._report(progress, t, steps[1])

    def _whole_nodes(self) -> npt.NDArray[np.int64]:
        nodes = self._session.download(self._nodes, (self._n_colors, 4), np.int32).astype(np.int64)
        whole = (nodes + (1 << (NODE_BITS - 1))) >> NODE_BITS
        return np.asarray(np.minimum(whole[:, : self._space.dims], np.array(self._space.extent)))

    def _report(self, progress: Progress, done: int, total: int) -> int:
        if progress.wanted and ((done + 1) % 8 == 0 or done + 1 == total):
            self._session.finish()
            progress.report(done + 1, total)
        return done + 1

    def _map_points(self) -> Points:
        """Room for the samples of all steps of the map, or for as many as one allocation holds."""
        largest = max(step.batch for step in self._schedule.steps)
        count = min(self._schedule.samples, max(self._session.limits.max_alloc // POINT_BYTES, largest))
        return Points(self._scope.empty(count * POINT_BYTES), count, None)

    def _sampled_steps(self, pixels: Pixels, points: Points, start: int) -> Iterator[tuple[tables.Step, int]]:
        """Each step of the map and where its samples begin in `points`, which is filled anew when they are used up."""
        low = high = 0
        for step in self._schedule.steps:
            if step.first + step.batch > high:
                low, high = step.first, min(step.first + points.count, self._schedule.samples)
                self._sampler.points(pixels, SPREAD, start, (low, high - low), points.buffer, 0)
            yield step, step.first - low

    def _refine_points(self, pixels: Pixels, few: FewColors, start: int) -> Points:
        """What is refined on: the colours with their counts where they are few, else samples, at most every pixel."""
        if few.colors is not None and few.counts is not None:
            points = np.zeros((len(few.colors), 4), np.uint16)
            points[:, : self._space.dims] = self._space.coordinates(few.colors)
            weights = limited_weights(few.counts, 2 ** (32 - self._constants["COORDINATE_BITS"]) - 1)
            return Points(self._scope.copy_of(points), len(points), self._scope.copy_of(weights))
        count = min(tables.refine_samples(self._n_colors, self._sample_factor), pixels.total)
        buffer = self._scope.empty(count * POINT_BYTES)
        order = LINEAR if count == pixels.total else SPREAD
        self._sampler.points(pixels, order, start, (0, count), buffer, 0)
        return Points(buffer, count, None)

    def _prepared(self, form: StepForm, points: Points, slabs: Buffer) -> PreparedSteps:
        """`neuquant_step` from `_nodes` to `_spare`, and back."""
        weights = self._decay if points.weights is None else points.weights
        span, reach = np.zeros(4, np.uint32), np.zeros(2, np.int32)
        pairs = (self._nodes, self._spare), (self._spare, self._nodes)
        launches = [
            self._session.prepare(
                *(self._scope, form.kernel, form.local, form.local, points.buffer, span, *pair),
                *(slabs, self._pulls, reach, self._decay, weights),
            )
            for pair in pairs
        ]
        return PreparedSteps(form, launches)

    def _step(self, prepared: PreparedSteps, span: npt.NDArray[np.uint32], reach: npt.NDArray[np.int32]) -> None:
        """Queue the next `neuquant_step`; afterwards `_nodes` is the network that was searched."""
        launch = prepared.launches[0]
        prepared.launches.reverse()
        launch.set(1, span)
        launch.set(6, reach)
        launch.queue(max(min(-(-int(span[1]) // prepared.form.at_once), prepared.form.most_groups), 1))
        self._nodes, self._spare = self._spare, self._nodes

    def _step_form(self, refining: bool, weighted: bool) -> StepForm:
        """The form of `neuquant_step` that this device takes."""
        session = self._session
        units = session.limits.compute_units
        options = {
            "CITY_BLOCK": 0 if refining else self._city_block,
            "CONSCIENCE": 0 if refining else self._conscience,
            "SQUARES": int(refining),
            "WEIGHTED": int(weighted),
            **self._constants,
        }
        variant = session.choose(STEP_VARIANTS)
        if variant.name == "lanes" and not options["CITY_BLOCK"] and not options["CONSCIENCE"]:
            program = session.program(variant.file, STAGED=1, **options)
            return StepForm(program.kernel("neuquant_step"), 1, 16, units)
        most_lanes, tile, groups_a_unit = REFINE_SHAPE if refining else MAP_SHAPE

        def build(local: int) -> Kernel:
            free = session.limits.local_memory - 8 * local * tile * (1 + options["CONSCIENCE"])
            plan = self._memory_plan(free, options)
            shape = {"LOCAL": local, "LANES": min(most_lanes, local), "TILE": tile}
            return session.program(STEP_VARIANTS[-1].file, **shape, **plan, **options).kernel("neuquant_step")

        kernel, local = admitted(session, session.tuned("neuquant.group"), build)
        return StepForm(kernel, local, local // min(most_lanes, local) * tile, units * groups_a_unit)

    def _memory_plan(self, free: int, options: dict[str, int]) -> dict[str, int]:
        """What the portable step keeps in local memory: the fastest plan that fits `free` bytes, or the smallest."""
        plans = [{"PACKED": 0, "STAGED": 1, "TOTALS": 1}, {"PACKED": 0, "STAGED": 1, "TOTALS": 0}]
        for plan in plans:
            words = SLAB_WORDS if plan["TOTALS"] and options["SQUARES"] else STEP_WORDS
            if (16 + 4 * options["CONSCIENCE"] + 4 * words) * (self._n_colors + MAP_SHAPE[0]) <= free:
                return plan
        return {"PACKED": 1, "STAGED": 0, "TOTALS": 0}

    def _refine_form(self) -> RefineForm:
        """The kernel of the refinement and its scratch memory."""
        session = self._session
        in_local = sum(REFINE_SCRATCH) * self._n_colors + 64 <= session.limits.local_memory

        def build(local: int) -> Kernel:
            constants = {"STAGED": int(in_local), "LOCAL": local, "PINNED": self._pinned, **self._constants}
            return session.program("neuquant_refine.cl", **constants).kernel("neuquant_refine")

        kernel, local = admitted(session, session.tuned("neuquant.group"), build)
        make = LocalMemory if in_local else self._scope.empty
        return RefineForm(kernel, local, tuple(make(size * self._n_colors) for size in REFINE_SCRATCH))

    def _refine(self, form: RefineForm, slabs: Buffer, at: int, moves: bool) -> None:
        """Queue `neuquant_refine`."""
        extent = np.array((*self._space.extent, 0)[:4], np.int32)
        args = (self._nodes, slabs, np.uint32(at), np.int32(moves), extent, *form.scratch)
        self._session.launch(form.kernel, form.local, form.local, *args)


def refinement(few: FewColors, refine_steps: int) -> int:
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
