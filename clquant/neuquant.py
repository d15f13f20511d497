"""`NeuQuantCL`: a palette by Dekker's self-organizing map."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import neuquant_tables as tables
from clquant import params
from clquant.images import ImageLike, Picture, device_arrays, read_many, several
from clquant.neuquant_batch import BatchMap, refinement
from clquant.neuquant_drawing import drawn_pixels, likely_many
from clquant.neuquant_maps import Pixels, train_sequential
from clquant.palette import spaces
from clquant.palette.distinct import MOST, FewColors, few_colors
from clquant.palette.engine import METRICS, PaletteEngine
from clquant.palette.palette import Palette, checked_fixed, without
from clquant.palette.spaces import Space
from clquant.palette.weights import checked_weights, resampled
from clquant.runtime import (
    CommandQueue,
    DeviceMemoryError,
    InvalidArgument,
    Progress,
    ProgressCallback,
    Scope,
    Session,
    open_session,
    philox4x32,
    seed_key,
)

MODES = ("parallel", "sequential")
FEWEST_COLORS, MOST_COLORS = 2, 1024
MOST_REFINE_STEPS = 64
MANY_COLORS = FewColors(None, None, transparent=False, partial=False)
# Pictures of so many pixels reach a device with memory of its own so late that the map is prepared meanwhile.
PREPARED_PIXELS = 1 << 20


class NeuQuantCL(PaletteEngine):
    """NeuQuant: the nodes of a one-dimensional self-organizing map, trained on pixels, become the palette.

    ``mode="sequential"`` is Dekker's integer program bit for bit: one pixel after the other moves the network, with
    his conscience (frequencies and biases that let every node win), walk, radii and rounding. The constants that
    depend on the size of the network follow it: radius n_colors / 8, frequencies 65536 / n_colors, first nodes
    256 i / n_colors.

    ``mode="parallel"`` is a mini-batch map of 64 dependent steps that keeps thousands of work-items busy. A step
    finds the winners of a batch of samples against the network as it stood, and then moves every node as the closed
    form of that many sequential moves would: the pulls L(d) = -ln(1 - a(d)) of its neighbours' wins add up to E, and
    the node goes 1 - exp(-E) of the way to the weighted mean of the points won. Batches grow from 4 to 64 samples a
    node, alpha falls from 1 to 0.2, the radius from n_colors / 4 to the winner alone after 60 % of the steps.
    Refinement follows: Lloyd steps over up to 512 samples a node (every pixel of a small picture), in which nodes of
    little use move to where the squared error is. Everything is integer arithmetic. On photographs the palettes are
    better than the sequential map's by 0.8 dB on average; docs/neuquant.md has the figures.

    Parameters
    ----------
    n_colors : int
        2 to 1024.
    mode : str
        ``"parallel"`` or ``"sequential"``.
    sample_factor : int
        1 to 30: train on a so-manieth part of the samples.
    metric : str
        How the parallel map finds a winner, and how `predict` and its kin find the nearest colour: ``"l2"``, squared
        Euclidean distance, or ``"l1"``, the sum of absolute differences, as the sequential map always learns.
    conscience : bool
        Whether the parallel map has a conscience: a node's distance is less 1024 (1 / n_colors - its share of the
        last batch's wins). Needs ``metric="l1"``; the sequential map always has one. It evens out how often colours
        are used and costs PSNR.
    refine_steps : int
        0 to 64 steps of refinement after the parallel map; the last moves no nodes.
    keep_exact : bool
        A picture with at most `n_colors` distinct colours gets exactly these, sorted, instead of a trained map.
    fixed_colors : Palette or array_like, optional
        (f, 3) or (f, 4) uint8, or texts such as ``"#ff8800"``, fewer than `n_colors`: colours that the palette has
        exactly, in this order, first. The map has f nodes less, and pixels of these very colours do not
        teach it. In the refinement the fixed colours win samples as nodes do, and stay; the sequential map is Dekker's
        of the other pixels. One of alpha 0 is the transparent entry, where it stands; one of any other alpha below 255
        makes distances those of colours with alpha.
    color_space : str
        ``"srgb"``, ``"linear"`` or ``"oklab"``: where colours are compared, learned and mapped.
    queue : pyopencl.CommandQueue, optional
    random_state : int
        0 to 2^64 - 1: shifts which pixels the parallel map samples.

    Attributes
    ----------
    palette_ : Palette
        `n_colors` colours, the fixed ones and then the others in network order, neighbours similar; fewer where the
        picture has fewer and `keep_exact` is set. If some alpha is 0 and no fixed colour's is, the last entry is
        (0, 0, 0, 0), and the map has one node less.

    Notes
    -----
    Ties go to the lowest index. The palette depends on pixels and parameters alone, never on the device. Pixels of
    alpha 0 are passed over; colours are compared with alpha where some alpha is between 0 and 255. Where Dekker's
    program would leave its buffer or divide by zero: the walk is taken modulo the number of pixels, a cycle has at
    least one sample, and there is at least one sample.

    Sources: A. H. Dekker, "Kohonen neural networks for optimal colour quantization", Network: Computation in Neural
    Systems 5 (1994); D. Bottisti, L. Mendez, D. Dechev, "CuNeuQuant" for the mapping of the problem to a GPU.
    """

    def __init__(
        self,
        n_colors: int = 256,
        *,
        mode: str = "parallel",
        sample_factor: int = 1,
        metric: str = "l2",
        conscience: bool = False,
        refine_steps: int = 4,
        keep_exact: bool = True,
        fixed_colors: Any = None,
        color_space: str = "srgb",
        queue: CommandQueue | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_colors = n_colors
        self.mode = mode
        self.sample_factor = sample_factor
        self.metric = metric
        self.conscience = conscience
        self.refine_steps = refine_steps
        self.keep_exact = keep_exact
        self.fixed_colors = fixed_colors
        self.color_space = color_space
        self.queue = queue
        self.random_state = random_state

    def fit(
        self,
        images: ImageLike | Sequence[ImageLike],
        sample_weight: Any = None,
        *,
        progress: ProgressCallback | None = None,
    ) -> NeuQuantCL:
        """Learn one palette from an image, or a shared one from several.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
            Whatever `clquant.images.read` takes; several are trained on as one picture, end to end.
        sample_weight : array_like, gray picture or its path, or a list of them, optional
            (H, W) an image: what each pixel counts. The map learns from as many pixels as there are, in which each
            stands as often as it counts (`clquant.palette.weights.resampled`), so pixels that count next to
            nothing may be passed over.
        progress : callable, optional
            Called with (done, total) steps or cycles; returning False stops the job.

        Returns
        -------
        NeuQuantCL
            The engine itself.

        Raises
        ------
        InvalidArgument, InvalidType
            If an argument or an image is not allowed.
        StoppedError
            If `progress` returned False; `palette_` stays as it was.
        """
        images = several(images)
        pictures = read_many(images)
        weights = checked_weights(sample_weight, pictures, images)[0]
        clear = False
        if weights is not None:
            picture, clear = resampled(pictures, weights, self.queue)
            pictures = [picture]
        self.palette_ = self._learn([pictures], progress, clear)[0]
        return self

    def fit_many(self, images: Sequence[ImageLike], *, progress: ProgressCallback | None = None) -> list[Palette]:
        """An independent palette for each image, trained side by side; `palette_` is left alone.

        In sequential mode every picture's network is a work-group, so that many small pictures fill a device.

        Parameters
        ----------
        images : list of images
        progress : callable, optional
            As in `fit`.

        Returns
        -------
        list of Palette
            Each equal to what `fit` on that image alone gives.

        Raises
        ------
        InvalidArgument, InvalidType, StoppedError
            As `fit`.
        """
        images = several(images)
        if not isinstance(images, list | tuple):
            raise InvalidArgument("images is one image; allowed: a list of images")
        return self._learn([[picture] for picture in read_many(images)], progress)

    def _learn(
        self, jobs: list[list[Picture]], progress: ProgressCallback | None, clear: bool = False
    ) -> list[Palette]:
        """The palette of each job, a job being pictures that share one; with `clear` it has an entry of alpha 0."""
        fixed = self._check()
        report = Progress(params.callback("progress", progress))
        arrays = device_arrays([picture for job in jobs for picture in job])
        session = open_session(self.queue, arrays)
        palettes: list[Palette] = []
        room = session.limits.global_memory // 4
        while len(palettes) < len(jobs):
            count, nbytes = 0, 0
            for job in jobs[len(palettes) :]:
                nbytes += sum(picture.pixels * (picture.channels + 1) for picture in job)
                if count and nbytes > room:
                    break
                count += 1
            palettes += self._learn_at_once(session, jobs[len(palettes) :][:count], fixed, clear, report)
        return palettes

    def _learn_at_once(
        self,
        session: Session,
        jobs: list[list[Picture]],
        fixed: npt.NDArray[np.uint8],
        clear: bool,
        progress: Progress,
    ) -> list[Palette]:
        palettes: dict[int, Palette] = {}
        trained: dict[tuple[int, bool], list[tuple[int, Pixels, FewColors]]] = {}
        reserved: set[int] = set()
        has_clear = bool((fixed[:, 3] == 0).any())
        alone = self.mode == "parallel" and len(jobs) == 1 and not session.limits.unified_memory
        likely: dict[tuple[int, bool], BatchMap] = {}
        with session.scope() as scope:
            for index, job in enumerate(jobs):
                prepare = partial(self._prepare_likely, session, scope, fixed, likely, progress) if alone else None
                pixels, few = self._looked_at(session, scope, job, prepare)
                transparent = (few.transparent or clear) and not has_clear
                n_colors = self.n_colors - transparent - len(fixed)
                others = None if few.colors is None or not self.keep_exact else without(few.colors, fixed)
                if others is not None and len(others) <= n_colors:
                    palettes[index] = _palette(fixed, others, few.partial, transparent)
                    continue
                if n_colors == 0:
                    palettes[index] = _palette(fixed, fixed[:0], few.partial, transparent)
                    continue
                if transparent:
                    reserved.add(index)
                key = n_colors, few.partial or _blended(fixed)
                trained.setdefault(key, []).append((index, pixels, few))
            for key, group in trained.items():
                space = spaces.space(self.color_space, key[1])
                given = [(pixels, few) for _, pixels, few in group]
                nodes = self._train(session, given, space, key[0], _solid(fixed), progress, likely.get(key))
                for (index, _, _), points in zip(group, nodes, strict=True):
                    learned = Palette(space.colors(points)).rgba()
                    palettes[index] = _palette(fixed, learned, key[1], index in reserved)
        return [palettes[index] for index in range(len(jobs))]

    def _looked_at(
        self,
        session: Session,
        scope: Scope,
        job: list[Picture],
        prepare: Callable[[Pixels | None], None] | None,
    ) -> tuple[Pixels, FewColors]:
        """The pixels of a job as its map takes them, and what is to be known of their colours.

        `prepare` is called while a large picture is drawn from or on its way.
        """
        most, ahead = self.n_colors, None
        if self.mode == "parallel":
            most, samples = MOST, tables.schedule(self.n_colors, self.sample_factor).most
            drawn = drawn_pixels(session, scope, job, self._start(), samples, prepare and partial(prepare, None))
            if drawn is not None:
                return drawn, MANY_COLORS
        pixels = Pixels.of(session, scope, job)
        if prepare is not None and pixels.total >= PREPARED_PIXELS:
            ahead = partial(prepare, pixels if likely_many(session, job, self._start()) else None)
        with session.scope() as inner:
            return pixels, few_colors(session, inner, pixels.triples(), most, ahead)

    def _start(self) -> int:
        """Where the parallel map begins to sample, in 1/2^32 of all pixels."""
        return int(philox4x32(np.zeros(4, np.uint32), seed_key(self.random_state))[0]) if self.random_state else 0

    def _prepare_likely(
        self,
        session: Session,
        scope: Scope,
        fixed: npt.NDArray[np.uint8],
        likely: dict[tuple[int, bool], BatchMap],
        progress: Progress,
        pixels: Pixels | None,
    ) -> None:
        """Add the map of opaque pixels of many colours, ready to train, by its size and whether it has alpha.

        With pixels that seem to be such, its training is queued as well, unless somebody wants to be told of its steps.
        """
        n_colors, blended = self.n_colors - len(fixed), _blended(fixed)
        if not n_colors or likely:
            return
        solid = _solid(fixed)
        # A picture of few colours needs no map, and must not fail for want of memory for one.
        with contextlib.suppress(DeviceMemoryError):
            made = self._map(session, scope, spaces.space(self.color_space, blended), n_colors, solid)
            steps = self._steps_of_map(solid)
            made.prepare(steps)
            if pixels is not None and not progress.wanted:
                made.queue(pixels, MANY_COLORS, self._start(), steps, progress)
            likely[n_colors, blended] = made

    def _train(
        self,
        session: Session,
        group: list[tuple[Pixels, FewColors]],
        space: Space,
        n_colors: int,
        fixed: npt.NDArray[np.uint8],
        progress: Progress,
        ready: BatchMap | None = None,
    ) -> Sequence[npt.NDArray[np.int64]]:
        if self.mode == "sequential":
            return list(
                train_sequential(
                    session, [pixels for pixels, _ in group], space, n_colors, self.sample_factor, fixed, progress
                )
            )
        start = self._start()
        results = []
        for done, (pixels, few) in enumerate(group):
            steps = progress if len(group) == 1 else Progress(None)
            with session.scope() as scope:
                trainer = ready if ready and ready.suits(few) else self._map(session, scope, space, n_colors, fixed)
                results.append(self._train_map(session, scope, trainer, pixels, few, space, fixed, start, steps))
            if len(group) > 1:
                progress.report(done + 1, len(group))
        return results

    def _train_map(
        self,
        session: Session,
        scope: Scope,
        trainer: BatchMap,
        pixels: Pixels,
        few: FewColors,
        space: Space,
        fixed: npt.NDArray[np.uint8],
        start: int,
        progress: Progress,
    ) -> npt.NDArray[np.int64]:
        """The nodes of one mini-batch map: trained without the fixed colours, refined with them."""
        if self._steps_of_map(fixed) == self.refine_steps:
            return trainer.train(pixels, few, start, self.refine_steps, progress)
        total = tables.STEPS + refinement(few, self.refine_steps)
        nodes = trainer.train(pixels, few, start, 0, progress.part(0, total))
        joined = np.concatenate([space.coordinates(fixed), nodes])
        refiner = self._map(session, scope, space, len(joined), fixed, pinned=len(fixed))
        refined = refiner.refine(joined, pixels, few, start, self.refine_steps, progress.part(tables.STEPS, total))
        return refined[len(fixed) :]

    def _steps_of_map(self, fixed: npt.NDArray[np.uint8]) -> int:
        """How many steps of refinement the trained map does itself: with fixed colours, one that has them does all."""
        return 0 if len(fixed) else self.refine_steps

    def _map(
        self,
        session: Session,
        scope: Scope,
        space: Space,
        n_colors: int,
        fixed: npt.NDArray[np.uint8],
        pinned: int = 0,
    ) -> BatchMap:
        rules = self.sample_factor, self.metric, self.conscience, fixed
        return BatchMap(session, scope, space, n_colors, *rules, pinned=pinned)

    def _check(self) -> npt.NDArray[np.uint8]:
        """The fixed colours, (f, 4)."""
        params.integer("n_colors", self.n_colors, FEWEST_COLORS, MOST_COLORS)
        params.choice("mode", self.mode, MODES)
        params.integer("sample_factor", self.sample_factor, 1, 30)
        params.choice("metric", self.metric, METRICS)
        params.boolean("conscience", self.conscience)
        params.integer("refine_steps", self.refine_steps, 0, MOST_REFINE_STEPS)
        params.boolean("keep_exact", self.keep_exact)
        params.choice("color_space", self.color_space, spaces.NAMES)
        params.seed(self.random_state)
        if self.conscience and self.metric != "l1":
            raise InvalidArgument(f"conscience is True with metric {self.metric!r}; allowed: metric 'l1'")
        return checked_fixed(self.fixed_colors, self.n_colors)


def _solid(fixed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Those that the map works with."""
    return fixed[fixed[:, 3] > 0]


def _blended(fixed: npt.NDArray[np.uint8]) -> bool:
    """Whether some are neither opaque nor transparent."""
    return bool(((fixed[:, 3] > 0) & (fixed[:, 3] < 255)).any())


def _palette(fixed: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8], partial: bool, transparent: bool) -> Palette:
    """The palette of (n, 4) colours: with alpha only where it says something."""
    colors = np.concatenate([fixed, others])
    if len(colors) == 0:
        return Palette(np.zeros((1, 4), np.uint8))
    palette = Palette(colors if partial or (fixed[:, 3] < 255).any() else colors[:, :3])
    return palette.with_transparent() if transparent else palette
