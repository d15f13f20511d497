"""One call of `KMeansPalette.fit`: its parameters, checked, and its steps in order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clquant import images, params
from clquant.color import spaces
from clquant.color.palette import MOST_COLORS, Palette, checked_colors, checked_fixed, without
from clquant.histogram.counting import ColorCounts, count_colors
from clquant.histogram.weights import checked_weights
from clquant.kmeans.box_cut import box_centers
from clquant.kmeans.lloyd import Lloyd, LloydSets
from clquant.kmeans.points import Points, Sketcher, points_of
from clquant.kmeans.seeding import MOST_SWAPPED, random_points
from clquant.kmeans.sketch_start import sampled_start, sketch_levels
from clquant.kmeans.small_images import MOST_COLORS as MOST_BATCHED
from clquant.runtime import (
    InvalidArgument,
    Progress,
    ProgressCallback,
    Scope,
    Session,
    open_session,
)

if TYPE_CHECKING:
    from clquant.kmeans import KMeansPalette

SEEDED = ("k-means++", "random")
INITS = (*SEEDED, "wu", "median-cut")

# What centers start from, the number of that start, and how many centers it has.
Try = tuple[str | npt.NDArray[np.uint8], int, int]

# Of few colours the rare ones decide how well all are shown, and k-means++ is not likely to draw those.
_FEW_COLORS, _FEW_A_CENTER, _MOST_FEW = 1024, 4, 4096


def are_few(n: int, k: int) -> bool:
    """Whether n colours are so few for k centers that Wu's boxes, some 0.1 ms a center, are tried as well."""
    return n <= min(max(_FEW_COLORS, _FEW_A_CENTER * k), _MOST_FEW)


class Rules:
    """The parameters of an engine, checked.

    Parameters
    ----------
    engine : KMeansPalette

    Raises
    ------
    InvalidArgument, InvalidType
        Naming the parameter that is not allowed.
    """

    def __init__(self, engine: KMeansPalette) -> None:
        self.n_colors = params.integer("n_colors", engine.n_colors, 2, MOST_COLORS)
        self.init = _checked_init(engine.init, self.n_colors)
        self.n_init = params.integer("n_init", engine.n_init, 1, 1000)
        self.max_iter = params.integer("max_iter", engine.max_iter, 1)
        self.tol = params.real("tol", engine.tol, 0.0, 0.5)
        self.swap_rounds = params.integer("swap_rounds", engine.swap_rounds, 0, 1000)
        self.fixed = checked_fixed(engine.fixed_colors, self.n_colors)
        self.solid = self.fixed[self.fixed[:, 3] > 0]
        self.color_space = params.choice("color_space", engine.color_space, spaces.NAMES)
        self.seed = params.seed(engine.random_state)

    @property
    def starts(self) -> int:
        """How often to start: some starts are always the same."""
        return self.n_init if isinstance(self.init, str) and self.init in SEEDED else 1

    @property
    def batched(self) -> bool:
        """Whether `clquant.kmeans.small_images` can fit small pictures by these."""
        plain = isinstance(self.init, str) and self.init == INITS[0] and self.color_space == "srgb"
        return plain and len(self.fixed) == 0 and self.n_colors <= MOST_BATCHED


class Fit(Rules):
    """One call of `fit`: checked parameters, the pictures, and the steps in order.

    Parameters
    ----------
    engine : KMeansPalette
    sources, sample_weight, progress
        As `KMeansPalette.fit` takes them.

    Raises
    ------
    InvalidArgument, InvalidType, FileError
        As `KMeansPalette.fit`.
    """

    def __init__(
        self, engine: KMeansPalette, sources: Any, sample_weight: Any, progress: ProgressCallback | None
    ) -> None:
        super().__init__(engine)
        self.progress = Progress(params.callback("progress", progress))
        self.pictures = images.read_many(sources)
        self.weights, self.weight_unit = checked_weights(sample_weight, self.pictures, sources)
        self.session: Session = open_session(engine.queue, images.device_arrays(self.pictures))

    def run(self) -> tuple[Palette, Callable[[], float], int]:
        """The palette, what measures its inertia, and the steps it took; device memory is held until it is measured."""
        with contextlib.ExitStack() as held:
            scope = held.enter_context(self.session.scope())
            counts = count_colors(self.session, scope, self.pictures, self.weights)
            clear = len(self.fixed) - len(self.solid)
            reserved = int(counts.clear and clear == 0)
            k = self.n_colors - reserved - clear
            exact = self._exact(counts, k)
            measured: Callable[[], Callable[[], float]]
            if exact is not None:
                colors, measured, steps = exact, lambda: lambda: 0.0, 0
            else:
                start = held.enter_context(contextlib.ExitStack())
                colors, measured, steps = self._cluster(scope, start, counts, k)
            transparent = np.zeros((reserved, 4), np.uint8)
            found = np.concatenate([transparent, self.fixed, colors[len(self.solid) :]])
            palette = Palette(found if counts.partial or (found[:, 3] < 255).any() else found[:, :3])
            rest = held.pop_all()

        def measure() -> float:
            with rest:
                inertia = measured()
            return inertia()

        return palette, measure, steps

    def _exact(self, counts: ColorCounts, k: int) -> npt.NDArray[np.uint8] | None:
        """The fixed colours but transparent ones, then all others, (n, 4), where that makes k at most."""
        if counts.n_colors > k:
            return None
        colors = counts.to_host(self.session)[0]
        rest = without(colors, self.solid)
        return np.concatenate([self.solid, rest]) if len(self.solid) + len(rest) <= k else None

    def _cluster(
        self, scope: Scope, last: contextlib.ExitStack, counts: ColorCounts, k: int
    ) -> tuple[npt.NDArray[np.uint8], Callable[[], Callable[[], float]], int]:
        """k colours for more distinct ones: the best of all starts, the first of equals.

        Parameters
        ----------
        scope : Scope
        last : ExitStack
            Holds the memory that the last start needed: releasing it takes longer than what is left to do.
        counts : ColorCounts
        k : int

        Returns
        -------
        colors : ndarray
            (k, 4) uint8.
        measured : callable
            Queues the measurement of their inertia, and gives what waits for it.
        steps : int
            Of that start.
        """
        space = spaces.space(self.color_space, counts.partial or bool((self.solid[:, 3] < 255).any()))
        points = points_of(self.session, scope, counts, space)
        pinned = len(self.solid)
        sets = LloydSets(self.session, scope, points)
        tries = self._tries(k, points.n)
        total = (max(start for _, start, _ in tries) + 1) * self.max_iter
        unit = (points.scale * space.unit) ** 2 * self.weight_unit

        def inertia_of(colors: npt.NDArray[np.uint8]) -> Callable[[], int]:
            lloyd = sets.lloyd(k, pinned)
            lloyd.set_centers(space.coordinates(colors).astype(np.int64) * points.scale)
            return lloyd.inertia_later()

        found: list[tuple[npt.NDArray[np.uint8], int]] = []
        inertias: list[int] = []
        for one in tries:
            if found and not isinstance(self.init, str) and one[0] is not self.init:
                break  # what was given to start from did
            last.close()
            end = self._end(last.enter_context(self.session.scope()), counts, sets, k, one, total)
            if end is None:
                continue
            found.append(end)
            if len(tries) > 1:
                inertias.append(inertia_of(end[0])())
        self.progress.report(total, total)
        best = inertias.index(min(inertias)) if inertias else 0
        colors, steps = found[best]

        def measured() -> Callable[[], float]:
            if inertias:
                return lambda: inertias[best] / unit
            inertia = inertia_of(colors)
            return lambda: inertia() / unit

        return _with_alpha(colors), measured, steps

    def _end(
        self, scope: Scope, counts: ColorCounts, sets: LloydSets, k: int, one: Try, total: int
    ) -> tuple[npt.NDArray[np.uint8], int] | None:
        """The k colours that one start ends at, and the steps to them; None where no center could move."""
        (init, start, size), points, pinned = one, sets.points, len(self.solid)
        starter = self._started(scope, counts, sets, size, start, init)
        lloyd = sets.lloyd(k, pinned)
        if pinned:
            lloyd.set_centers(self._with_fixed(starter.get_centers(), points, k))
            if not isinstance(init, str) and not _can_move(lloyd):
                return None
        steps = lloyd.run(self.max_iter, self.tol, self.progress, (start * self.max_iter, total))
        colors = points.space.colors((lloyd.get_centers() + points.scale // 2) // points.scale)
        colors[:pinned] = self.solid[:, : colors.shape[1]]
        return colors, steps

    def _tries(self, k: int, n: int) -> list[Try]:
        """All that k colours of n distinct ones start from, in order."""
        sizes = [k]
        if len(self.solid):
            sizes = [size for size in (k - len(self.solid), k) if 0 < size < n] or [n]  # the last: none is free
        tries = [(self.init, start, size) for start in range(self.starts) for size in sizes]
        if isinstance(self.init, str) and self.init == INITS[0] and are_few(n, k):
            tries += [("wu", self.starts, size) for size in sizes]
        if len(self.solid) and not isinstance(self.init, str):
            tries.append((INITS[0], 0, sizes[-1]))
        return tries

    def _with_fixed(self, centers: npt.NDArray[np.int64], points: Points, k: int) -> npt.NDArray[np.int64]:
        """k centers, the fixed colours first; each of them, in order, replaces the nearest center (ties: the first)."""
        fixed = points.space.coordinates(self.solid).astype(np.int64) * points.scale
        for color in fixed[: len(fixed) + len(centers) - k]:
            nearest = ((centers - color) ** 2).sum(axis=1).argmin()
            centers = np.delete(centers, nearest, axis=0)
        return np.concatenate([fixed, centers])

    def _started(
        self, scope: Scope, counts: ColorCounts, sets: LloydSets, k: int, start: int, init: str | npt.NDArray[np.uint8]
    ) -> Lloyd:
        """k centers of all colours, where they start; the scope owns what queued work needs."""
        points = sets.points
        seed = (self.seed + start) % 2**64
        if isinstance(init, str) and init == "k-means++":
            rounds = self.swap_rounds if 2 <= k <= MOST_SWAPPED else 0
            return sampled_start(self.session, scope, counts, sets, k, seed, rounds, self.tol)
        lloyd = sets.lloyd(k)
        if not isinstance(init, str):
            lloyd.set_centers(points.space.coordinates(init[:k]).astype(np.int64) * points.scale)
        elif init == "random":
            lloyd.pick_centers(random_points(points.n, k, seed))
        else:
            sketcher = Sketcher(self.session, scope, counts, points)
            levels = sketch_levels(sketcher, points, k)
            sketch = sketcher.sketch(scope, *levels[0]) if levels else points
            where, weights = sketch.to_host(self.session)
            lloyd.set_centers(box_centers(where, weights, k, init))
        return lloyd


def _can_move(lloyd: Lloyd) -> bool:
    """Whether a center that is not pinned has points; if none has, the others have none to take points from."""
    lloyd.inertia()
    return lloyd.k == lloyd.pinned or bool(lloyd.get_totals()[0, lloyd.pinned :].any())


def _with_alpha(colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    if colors.shape[1] == 4:
        return colors
    return np.concatenate([colors, np.full((len(colors), 1), 255, np.uint8)], axis=1)


def _checked_init(init: Any, n_colors: int) -> str | npt.NDArray[np.uint8]:
    if isinstance(init, str):
        if init in INITS:
            return init
        names = ", ".join(map(repr, INITS))
        raise InvalidArgument(f"init is {params.shown(init)}; allowed: {names}, or n_colors colours to start from")
    colors = checked_colors(init, "init")
    if len(colors) != n_colors:
        raise InvalidArgument(f"init has {len(colors)} colours; allowed: n_colors = {n_colors}")
    return _with_alpha(colors)
