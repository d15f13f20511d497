"""One fit of NeuQuant: from pictures to points, the map that learns from them, and the palette's entries."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from clquant.color import spaces
from clquant.color.palette import Palette, without
from clquant.color.spaces import Space
from clquant.histogram.distinct import MAX_DISTINCT, DistinctColors, distinct_colors
from clquant.images import ImageLike, Picture
from clquant.images.batches import read_in_groups
from clquant.neuquant import schedule as schedules
from clquant.neuquant.minibatch import MiniBatchSOM, refinement_steps, starts_of
from clquant.neuquant.params import NeuQuantParams
from clquant.neuquant.sampling import POINT_BYTES, SPREAD, WALK, Pixels, Sampler, walk_step
from clquant.neuquant.sequential import train_sequential
from clquant.neuquant.stored_sampling import streamed_pixels
from clquant.neuquant.stored_walk import walked_pixels
from clquant.palette.host_clusters import SAMPLE
from clquant.palette.opaque_entries import settle_opaque
from clquant.runtime import DeviceMemoryError, Progress, Scope, Session

# From this many pixels on, a device with memory of its own waits for the picture; the map is prepared meanwhile.
PREPARED_PIXELS = 1 << 20

Job = list[Picture]
# The maps that are made before a picture's colours are known, by their size and whether they have alpha.
Likely = dict[tuple[int, bool], MiniBatchSOM]


@dataclass(frozen=True)
class NeuQuantFit:
    """One call that learns."""

    session: Session
    params: NeuQuantParams
    progress: Progress

    def shared(self, job: Job, clear: bool) -> Palette:
        """Return the palette that pictures share; with `clear` it has an entry of alpha 0 in any case."""
        return self._at_once([job], clear)[0]

    def each(self, sources: Sequence[ImageLike]) -> list[Palette]:
        """The palettes of images, which are read when their turn comes."""
        found: dict[int, Palette] = {}
        total = len(sources)
        quiet = dataclasses.replace(self, progress=Progress(None))

        def together(group: dict[int, Picture]) -> None:
            found.update(zip(group, self._in_parts([[picture] for picture in group.values()]), strict=True))

        def alone(index: int, picture: Picture) -> None:
            if total == 1:
                found[index] = self.shared([picture], False)
            else:
                found[index] = quiet.shared([picture], False)
                self.progress.report(len(found), total)

        read_in_groups(sources, lambda _: not self.params.parallel, together, alone)
        return [found[i] for i in range(total)]

    def _in_parts(self, jobs: list[Job]) -> list[Palette]:
        """The palette of each job, as many at once as the device has room for."""
        palettes: list[Palette] = []
        room = self.session.limits.global_memory // 4
        while len(palettes) < len(jobs):
            count, nbytes = 0, 0
            for job in jobs[len(palettes) :]:
                nbytes += sum(picture.pixels * (picture.channels + 1) for picture in job)
                if count and nbytes > room:
                    break
                count += 1
            palettes += self._at_once(jobs[len(palettes) :][:count], clear=False)
        return palettes

    def _at_once(self, jobs: list[Job], clear: bool) -> list[Palette]:
        """The palette of each job, a job being pictures that share one; with `clear` it has an entry of alpha 0."""
        params, fixed = self.params, self.params.fixed
        palettes: dict[int, Palette] = {}
        trained: dict[tuple[int, bool], list[tuple[int, Pixels, DistinctColors]]] = {}
        reserved: set[int] = set()
        has_clear = bool((fixed[:, 3] == 0).any())
        alone = params.parallel and len(jobs) == 1 and not self.session.limits.unified_memory
        likely: Likely = {}
        with self.session.scope() as scope:
            for index, job in enumerate(jobs):
                pixels, few = self._inspect_colors(scope, job, partial(self._prepare, scope, likely) if alone else None)
                transparent = (few.transparent or clear) and not has_clear
                n_colors = params.n_colors - transparent - len(fixed)
                others = None if few.colors is None or not params.keep_exact else without(few.colors, fixed)
                if others is not None and len(others) <= n_colors:
                    palettes[index] = _palette(fixed, others, few.partial, transparent)
                    continue
                if n_colors == 0:
                    palettes[index] = _palette(fixed, fixed[:0], few.partial, transparent)
                    continue
                if transparent:
                    reserved.add(index)
                key = n_colors, few.partial or params.blended
                trained.setdefault(key, []).append((index, pixels, few))
            for key, group in trained.items():
                space = spaces.space(params.color_space, key[1])
                given = [(pixels, few) for _, pixels, few in group]
                nodes = self._train(given, space, key[0], likely.get(key))
                for (index, pixels, few), points in zip(group, nodes, strict=True):
                    learned = self._settle(scope, Palette(space.colors(points)).rgba(), pixels, few, space)
                    palettes[index] = _palette(fixed, learned, key[1], index in reserved)
        return [palettes[index] for index in range(len(jobs))]

    def _inspect_colors(
        self, scope: Scope, job: Job, prepare: Callable[[], None] | None
    ) -> tuple[Pixels, DistinctColors]:
        """Return a job's pixels and distinct colours; `prepare` is called while a large picture is on its way."""
        session, params = self.session, self.params
        most = params.n_colors
        is_stored = any(picture.store is not None for picture in job)
        if params.parallel:
            most, samples = MAX_DISTINCT, schedules.schedule(params.n_colors, params.sample_factor).most
            if is_stored:
                return streamed_pixels(session, scope, job, params.start, samples)
        elif is_stored:
            return walked_pixels(session, scope, job, params.sample_factor, most)
        pixels = Pixels.of(session, scope, job)
        ahead = prepare if pixels.total >= PREPARED_PIXELS else None
        with session.scope() as inner:
            return pixels, distinct_colors(session, inner, pixels.triples(), most, ahead)

    def _prepare(self, scope: Scope, likely: Likely) -> None:
        """Add the map of opaque pixels of many colours, ready to train."""
        params = self.params
        key = params.n_colors - len(params.fixed), params.blended
        # A picture of few colours needs no map, and must not fail for want of memory for one.
        with contextlib.suppress(DeviceMemoryError):
            made = self._map(scope, spaces.space(params.color_space, key[1]), key[0])
            made.prepare(params.steps_with_map)
            likely[key] = made

    def _train(
        self, group: list[tuple[Pixels, DistinctColors]], space: Space, n_colors: int, ready: MiniBatchSOM | None
    ) -> Sequence[npt.NDArray[np.int64]]:
        session, params = self.session, self.params
        if not params.parallel:
            pictures = [pixels for pixels, _ in group]
            given = n_colors, params.sample_factor, params.solid, self.progress
            return list(train_sequential(session, pictures, space, *given))
        results = []
        for done, (pixels, few) in enumerate(group):
            steps = self.progress if len(group) == 1 else Progress(None)
            with session.scope() as scope:
                trainer = ready or self._map(scope, space, n_colors)
                results.append(self._train_map(scope, trainer, pixels, few, space, steps))
            if len(group) > 1:
                self.progress.report(done + 1, len(group))
        return results

    def _settle(
        self, scope: Scope, colors: npt.NDArray[np.uint8], pixels: Pixels, few: DistinctColors, space: Space
    ) -> npt.NDArray[np.uint8]:
        """Colours with opaque ones for opaque pixels."""
        solid = self.params.solid
        if not space.alpha:
            return colors
        if few.colors is not None and few.counts is not None:
            points, weights = space.coordinates(few.colors), few.counts.astype(np.int64)
        else:
            sampler = Sampler(self.session, scope, space, solid[:0])
            order, start = (SPREAD, self.params.start) if self.params.parallel else (WALK, walk_step(pixels.total))
            count = min(SAMPLE, max(pixels.total // self.params.sample_factor, 1))
            if self.params.parallel:
                count = min(count, schedules.schedule(self.params.n_colors, self.params.sample_factor).most)
            buffer, first = scope.zeros(count * POINT_BYTES), 0
            while first < count:  # pictures in stores have some samples at a time
                source, end = pixels.walked(first)
                sampler.points(source, order, start, (first, min(end, count) - first), buffer, first)
                first = end
            points = self.session.download(buffer, (count, 4), np.uint16).astype(np.int64)
            points = points[points[:, 0] < 65535]  # of alpha above 0
            weights = np.ones(len(points), np.int64)
        joined = np.concatenate([solid, colors])
        return settle_opaque(joined, len(solid), points, weights, space)[len(solid) :]

    def _train_map(
        self, scope: Scope, trainer: MiniBatchSOM, pixels: Pixels, few: DistinctColors, space: Space, progress: Progress
    ) -> npt.NDArray[np.int64]:
        """The nodes of one mini-batch map: trained without the fixed colours, refined with them."""
        params = self.params
        start, refine_steps, fixed = params.start, params.refine_steps, params.solid
        if params.steps_with_map == refine_steps:
            return trainer.train(pixels, few, start, refine_steps, progress)
        total = schedules.STEPS + refinement_steps(few, refine_steps) * starts_of(few, trainer.n_colors)
        nodes = trainer.train(pixels, few, start, 0, progress.part(0, total))
        joined = np.concatenate([space.coordinates(fixed), nodes])
        refiner = self._map(scope, space, len(joined), pinned=len(fixed))
        refined = refiner.refine(joined, pixels, few, start, refine_steps, progress.part(schedules.STEPS, total))
        return refined[len(fixed) :]

    def _map(self, scope: Scope, space: Space, n_colors: int, pinned: int = 0) -> MiniBatchSOM:
        params = self.params
        given = params.sample_factor, params.metric, params.conscience, params.solid
        return MiniBatchSOM(self.session, scope, space, n_colors, *given, pinned=pinned)


def _palette(fixed: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8], partial: bool, transparent: bool) -> Palette:
    """The palette of (n, 4) colours: with alpha only where it says something."""
    colors = np.concatenate([fixed, others])
    if len(colors) == 0:
        return Palette(np.zeros((1, 4), np.uint8))
    palette = Palette(colors if partial or (fixed[:, 3] < 255).any() else colors[:, :3])
    return palette.with_transparent() if transparent else palette
