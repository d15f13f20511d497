"""One call of `KMeansPalette.fit`, its steps in order."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.color import spaces
from clquant.color.display import DisplayFormat
from clquant.color.palette import Palette, without
from clquant.color.spaces import Space
from clquant.color.values import as_rgba
from clquant.histogram.counts import ColorCounts
from clquant.kmeans.exact import GRAYS, MAX_MERGE_COLORS, are_gray, gray_levels, merged_pair
from clquant.kmeans.lloyd import Lloyd, LloydSets
from clquant.kmeans.params import KMeansParams
from clquant.kmeans.points import Points
from clquant.kmeans.seeding import INITS, start_centers
from clquant.palette.host_clusters import sample_of
from clquant.palette.opaque_entries import settle_opaque
from clquant.runtime import InvalidArgument, Progress, Scope, Session

# A start: its name or its colours, its number, and how many centers it has.
Try = tuple[str | npt.NDArray[np.uint8], int, int]
# The colours at which steps end, and the steps.
End = tuple[npt.NDArray[np.uint8], int]
# Queues the measurement of an inertia; the returned callable waits for the device.
Measure = Callable[[], Callable[[], float]]

# In pictures of few colours, rare ones decide how well all are shown, and k-means++ is not likely to draw those.
_FEW_COLORS, _FEW_PER_CENTER, _MOST_FEW = 1024, 4, 4096


def are_few(n: int, k: int) -> bool:
    """Whether n colours are few enough for k centers to try Wu's boxes as well."""
    return n <= min(max(_FEW_COLORS, _FEW_PER_CENTER * k), _MOST_FEW)


@dataclass(frozen=True)
class Fitted:
    """The result of a `Fit`."""

    palette: Palette
    inertia: Callable[[], float]  # to be called once: until then it may hold device memory
    steps: int


class Fit:
    """One call of `fit`; `weight_unit` units of the counts make a given weight of 1."""

    def __init__(self, params: KMeansParams, session: Session, progress: Progress, weight_unit: float = 1.0) -> None:
        self.params = params
        self.session = session
        self.progress = progress
        self.weight_unit = weight_unit
        self._pinned = params.solid

    def run(self, counts: ColorCounts, memory: contextlib.ExitStack | None = None) -> Fitted:
        """Return the palette of counted colours; `memory`, which holds them, is given back with the inertia's."""
        with contextlib.ExitStack() as held:
            if memory is not None:
                held.push(memory.pop_all())
            scope = held.enter_context(self.session.scope())
            fixed, solid = self.params.fixed, self.params.solid
            clear = len(fixed) - len(solid)
            reserved = int(counts.clear and clear == 0)
            k = self.params.n_colors - reserved - clear
            if k < 1 and not clear and counts.n_colors:
                text = "n_colors is 1, which the image's fully transparent pixels take; allowed: 2 or more for it"
                raise InvalidArgument(text)
            transparent = np.zeros((reserved, 4), np.uint8)
            if counts.partial and reserved + clear:  # pixels of little alpha are mapped to it
                self._pinned = np.concatenate([np.zeros((1, 4), np.uint8), solid])
            exact = self._exact(counts, k)
            if exact is not None:
                others, measure, steps = exact, _known(0.0), 0
                self.progress.report(1, 1)
            else:
                start = held.enter_context(contextlib.ExitStack())
                free = k - len(solid)
                colors, measure, steps = self._cluster(scope, start, counts, len(self._pinned) + free)
                others = colors[len(self._pinned) :]
            found = np.concatenate([transparent, fixed, others])
            palette = Palette(found if counts.partial or (found[:, 3] < 255).any() else found[:, :3])
            kept = held.pop_all()

        def inertia() -> float:
            with kept:  # given back as soon as the measurement is queued
                wait = measure()
            return wait()

        return Fitted(palette, inertia, steps)

    def _exact(self, counts: ColorCounts, k: int) -> npt.NDArray[np.uint8] | None:
        """All colours but the fixed ones, (n, 4), where that makes k at most with the fixed ones that are solid."""
        if counts.n_colors > k or self.params.display is not None:
            return None
        solid = self.params.solid
        rest = without(counts.to_host(self.session)[0], solid)
        return rest if len(solid) + len(rest) <= k else None

    def _cluster(
        self, scope: Scope, last: contextlib.ExitStack, counts: ColorCounts, k: int
    ) -> tuple[npt.NDArray[np.uint8], Measure, int]:
        """Return (k, 4) colours for more distinct ones, the pinned first: the best if known, else the best start's."""
        # `last` gets the memory of the last start: releasing it takes longer than what is left to do.
        pinned = self._pinned
        space = spaces.space(self.params.color_space, counts.partial or bool((pinned[:, 3] < 255).any()))
        sets = LloydSets(self.session, scope, counts, space)
        unit = (sets.points.scale * space.unit) ** 2 * self.weight_unit

        def measure(colors: npt.NDArray[np.uint8]) -> Callable[[], float]:
            inertia = sets.inertia_later(colors, len(pinned))
            return lambda: inertia() / unit

        best = self._best(counts, k, space)
        if best is not None:
            self.progress.report(1, 1)
            # None at all for a picture without a visible pixel.
            best = self._settle(as_rgba(best), counts, space)
            return best, functools.partial(measure, best) if len(best) else _known(0.0), 0
        found, inertias = self._ends(last, sets, k)
        if not inertias:
            colors, steps = found[0]
            return as_rgba(colors), functools.partial(measure, colors), steps
        lowest = inertias.index(min(inertias))  # the first of equals
        colors, steps = found[lowest]
        return as_rgba(colors), _known(inertias[lowest] / unit), steps

    def _best(self, counts: ColorCounts, k: int, space: Space) -> npt.NDArray[np.uint8] | None:
        """The k colours of the lowest inertia, where they are found directly (see `clquant.kmeans.exact`)."""
        if self.params.display is not None:
            return self._displayed(counts, k, self.params.display)
        if len(self._pinned) or not isinstance(self.params.init, str):
            return None
        merge = counts.n_colors == k + 1 and counts.n_colors <= MAX_MERGE_COLORS
        if not merge and (counts.partial or counts.n_colors > 256):
            return None
        colors, weights = counts.to_host(self.session)
        if are_gray(colors):
            return gray_levels(colors, weights, k, space)
        return merged_pair(colors, weights, space) if merge else None

    def _displayed(self, counts: ColorCounts, k: int, display: DisplayFormat) -> npt.NDArray[np.uint8] | None:
        """The pinned colours and what a display makes of all others, where that is k colours at most."""
        most = np.prod([np.bincount(display.places(GRAYS)[:, channel]).max() for channel in range(3)])
        if counts.n_colors > k * most << 8 * counts.partial:
            return None
        shown = display.nearest(counts.to_host(self.session)[0])
        packed = np.unique(np.ascontiguousarray(shown).view(np.uint32))
        rest = without(packed.view(np.uint8).reshape(-1, 4), self._pinned)
        return np.concatenate([self._pinned, rest]) if len(self._pinned) + len(rest) <= k else None

    def _ends(self, last: contextlib.ExitStack, sets: LloydSets, k: int) -> tuple[list[End], list[int]]:
        """The colours that all starts end at, with their steps; and their inertias, where there may be several."""
        tries = self._tries(k, sets.points.n)
        total = (max(start for _, start, _ in tries) + 1) * self.params.max_iter
        self.progress.report(0, total)
        found: list[End] = []
        inertias: list[int] = []
        for one in tries:
            if found and not isinstance(self.params.init, str) and one[0] is not self.params.init:
                break  # what was given to start from did
            last.close()
            end = self._end(last.enter_context(self.session.scope()), sets, k, one, total)
            if end is None:
                continue
            found.append(end)
            if len(tries) > 1:
                inertias.append(sets.inertia_later(end[0], len(self._pinned))())
        self.progress.report(total, total)
        return found, inertias

    def _end(self, scope: Scope, sets: LloydSets, k: int, one: Try, total: int) -> End | None:
        """The colours that one start ends at, and its steps; None if no center could move."""
        (init, start, size), points, pinned = one, sets.points, self._pinned
        seed, rounds = (self.params.seed + start) % 2**64, self.params.swap_rounds
        starter = start_centers(self.session, scope, sets, size, init, seed, rounds, self.params.tol)
        lloyd = sets.lloyd(k, len(pinned))
        if len(pinned):
            lloyd.set_centers(self._with_pinned(starter.get_centers(), points, k))
            if not isinstance(init, str) and not _can_move(lloyd):
                return None
        max_iter = self.params.max_iter
        steps = lloyd.run(max_iter, self.params.tol, self.progress, (start * max_iter, total))
        if self.params.display is not None:
            from clquant.kmeans.restricted import RestrictedLloyd

            restricted = RestrictedLloyd(lloyd, pinned, self.params.display, *sets.counts.to_host(self.session))
            colors = self._settle(restricted.run(max_iter), sets.counts, points.space)
            colors[len(pinned) :] = self.params.display.nearest(as_rgba(colors))[len(pinned) :, : colors.shape[1]]
            return colors, steps + restricted.steps
        colors = points.space.colors((lloyd.get_centers() + points.scale // 2) // points.scale)
        colors[: len(pinned)] = pinned[:, : colors.shape[1]]
        return self._settle(colors, sets.counts, points.space), steps

    def _settle(self, colors: npt.NDArray[np.uint8], counts: ColorCounts, space: Space) -> npt.NDArray[np.uint8]:
        """Colours with opaque ones for opaque pixels."""
        if not counts.partial:
            return colors
        found, times = counts.to_host(self.session)
        which, weights = sample_of(times, self.params.seed)
        return settle_opaque(colors, len(self._pinned), space.coordinates(found[which]), weights, space)

    def _tries(self, k: int, n: int) -> list[Try]:
        """All that k colours of n distinct ones start from, in order."""
        init, pinned, solid = self.params.init, len(self._pinned), len(self.params.solid)
        sizes = [k - pinned + solid]
        if solid:
            sizes = [size for size in (k - pinned, *sizes) if 0 < size < n] or [n]  # the last: none is free
        tries = [(init, start, size) for start in range(self.params.starts) for size in sizes]
        if isinstance(init, str) and init == INITS[0] and are_few(n, k - pinned + solid):
            tries += [("wu", self.params.starts, size) for size in sizes]
        if pinned and not isinstance(init, str):
            tries.append((INITS[0], 0, sizes[-1]))
        return tries

    def _with_pinned(self, centers: npt.NDArray[np.int64], points: Points, k: int) -> npt.NDArray[np.int64]:
        """k centers, the pinned ones first; solid ones, in order, replace the nearest centers (ties: the first)."""
        pinned = points.places(self._pinned)
        solid = pinned[len(pinned) - len(self.params.solid) :]
        for place in solid[: len(pinned) + len(centers) - k]:
            nearest = ((centers - place) ** 2).sum(axis=1).argmin()
            centers = np.delete(centers, nearest, axis=0)
        return np.concatenate([pinned, centers])


def _known(inertia: float) -> Measure:
    """An inertia that needs no measurement."""
    return lambda: lambda: inertia


def _can_move(lloyd: Lloyd) -> bool:
    """Whether a center that is not pinned has points; if none has, the others have none to take points from."""
    lloyd.inertia_later()
    return lloyd.k == lloyd.pinned or bool(lloyd.get_totals()[0, lloyd.pinned :].any())
