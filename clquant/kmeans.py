"""`KMeansPalette`: a palette by Lloyd's k-means."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params
from clquant.images import ImageLike, read_many, several
from clquant.kmeans_batch import MOST_COLORS as MOST_BATCHED
from clquant.kmeans_batch import batch_palettes, fits
from clquant.palette import spaces
from clquant.palette.boxes import box_centers
from clquant.palette.counting import ColorCounts, count_colors
from clquant.palette.engine import PaletteEngine
from clquant.palette.lloyd import Lloyd, LloydSets
from clquant.palette.palette import MOST_COLORS, Palette, checked_colors, checked_fixed, without
from clquant.palette.points import Points, Sketcher, points_of
from clquant.palette.seeding import MOST_SWAPPED, random_points
from clquant.palette.starting import sampled_start, sketch_levels
from clquant.palette.weights import checked_weights
from clquant.runtime import (
    CommandQueue,
    InvalidArgument,
    InvalidType,
    Progress,
    ProgressCallback,
    Scope,
    Session,
    open_session,
)

SEEDED = ("k-means++", "random")
INITS = (*SEEDED, "wu", "median-cut")


class KMeansPalette(PaletteEngine):
    """A palette by Lloyd's k-means, exact over all pixels.

    The distinct colours are counted on the device, so that a step costs the number of distinct colours and not of
    pixels, and is equal to a step over the pixels bit for bit. The default start is k-means++ on a sketch of the
    colours (means of the cells of a grid), improved there by swaps of badly placed centers; a few steps over
    all colours follow. Everything is integer arithmetic: the palette is the same on every device.

    Parameters
    ----------
    n_colors : int
        2 to 65536. Images with no more distinct colours get exactly those.
    init : str or array_like
        ``"k-means++"``; ``"random"``: distinct colours at random; ``"wu"`` and ``"median-cut"``: see
        `clquant.palette.boxes`; or an array of `n_colors` colours, (n, 3) or (n, 4) uint8, whose order the palette
        keeps.
    n_init : int
        How often to start, 1 to 1000; the result of the lowest inertia is taken. Only ``"k-means++"`` and
        ``"random"`` start more than once.
    max_iter : int
        Most steps of Lloyd's algorithm over all colours, from 1 up.
    tol : float
        0 to 0.5: steps end where the inertia falls by no more than this part of it; with 0 where nothing
        changes any more.
    swap_rounds : int
        0 to 1000: rounds of swaps after a k-means++ start (none below 3 and above 4096 colours).
    fixed_colors : Palette or array_like, optional
        (f, 3) or (f, 4) uint8, or texts such as ``"#ff8800"``, fewer than `n_colors`: colours that the palette has
        exactly, in this order, first (after the transparent entry where there is one). The others are fitted to
        go with them, from two starts: beside them, and with each in the place of the nearest of `n_colors` fitted
        without them. One of alpha 0 is the transparent entry, where it stands; one of any other alpha below 255 makes
        distances those of colours with alpha (docs/palettes.md).
    color_space : str
        ``"srgb"``, ``"linear"`` or ``"oklab"``: where distances are taken (see `clquant.palette.spaces`).
    random_state : int
        Seed, 0 to 2^64 - 1.
    queue : pyopencl.CommandQueue, optional
        Default: the device arrays' own, else the best device.

    Attributes
    ----------
    palette_ : Palette
        (n, 3), or (n, 4) where the images or the fixed colours have alpha below 255. With fully transparent pixels
        its first entry is (0, 0, 0, 0), and the other entries are fitted to the other pixels alone. Gray images have
        gray palettes.
    inertia_ : float
        Sum over the pixels of weight times squared distance to the nearest palette colour, in the units of the colour
        space.
    n_iter_ : int
        Steps of Lloyd's algorithm over all colours; 0 where the palette is exact.

    Notes
    -----
    Ties go to the lowest index; means are rounded half up to 1/8 of an 8-bit step, and to whole 8-bit colours
    at the end. A center that loses all its points takes half of a cluster of more than mean inertia.

    The steps are those of S. P. Lloyd, "Least squares quantization in PCM", 1982, and of the tutorial "K-Means
    with OpenCL"; the start is D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding", 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from clquant import KMeansPalette
    >>> image = np.array([[0, 0, 10, 200]], dtype=np.uint8)
    >>> KMeansPalette(2).fit(image).palette_.colors.tolist()
    [[3, 3, 3], [200, 200, 200]]
    """

    def __init__(
        self,
        n_colors: int = 256,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-4,
        swap_rounds: int = 24,
        fixed_colors: Any = None,
        color_space: str = "srgb",
        random_state: int = 0,
        queue: CommandQueue | None = None,
    ) -> None:
        self.n_colors = n_colors
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.swap_rounds = swap_rounds
        self.fixed_colors = fixed_colors
        self.color_space = color_space
        self.random_state = random_state
        self.queue = queue

    def fit(self, images: Any, sample_weight: Any = None, *, progress: ProgressCallback | None = None) -> KMeansPalette:
        """Learn a palette from one image, or one that several share.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
            Whatever `clquant.images.read` takes.
        sample_weight : array_like, gray picture or its path, or a list of them, optional
            (H, W) an image: what each pixel counts. Integers are taken as they are; floats become fixed-point numbers
            (see `clquant.palette.weights.fixed_point_weights`).
        progress : callable, optional
            Called with (done, total) steps; returning False stops the job.

        Returns
        -------
        KMeansPalette
            The engine itself.

        Raises
        ------
        InvalidType, InvalidArgument
            If an argument or a parameter is not allowed.
        FileError
            If a file cannot be read.
        StoppedError
            If `progress` returned False; what was learned before stands.
        """
        palette, inertia, steps = _Fit(self, several(images), sample_weight, progress).run()
        self.inertia_ = inertia()  # the last that can fail, so that nothing or all of it is new
        self.palette_, self.n_iter_ = palette, steps
        return self

    def _begin_fit(self, images: Any, sample_weight: Any, progress: ProgressCallback | None) -> Callable[[], None]:
        self.palette_, inertia, self.n_iter_ = _Fit(self, several(images), sample_weight, progress).run()

        @functools.cache
        def end() -> None:
            self.inertia_ = inertia()

        return end

    def fit_many(self, images: Sequence[ImageLike], *, progress: ProgressCallback | None = None) -> list[Palette]:
        """An independent palette for each image; `palette_` is left alone.

        Small images (without alpha, at most 2^14 pixels each) are fitted thousands at a time, a work-group each: by
        several starts of k-means++ and Lloyd steps over the means of the cells of a grid (see
        `clquant.kmeans_batch`), whatever `n_init`, `max_iter`, `tol` and `swap_rounds` say. The others, and all
        where `init` or `color_space` is not the default or `n_colors` is over 256, are fitted by `fit`.

        Parameters
        ----------
        images : list or tuple of images
        progress : callable, optional
            Called with (done, total) images; returning False stops the job.

        Returns
        -------
        list of Palette
            In the images' order; each depends on its image and the parameters alone. Images with no more
            distinct colours than `n_colors` have exactly those.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, StoppedError
            As `fit`.
        """
        images = several(images)
        if not isinstance(images, list | tuple):
            raise InvalidType(f"images is a {type(images).__name__}; allowed: a list or tuple of images")
        rules = _Rules(self)
        report = Progress(params.callback("progress", progress))
        pictures = read_many(images)
        session = open_session(self.queue)
        at_once = [i for i, p in enumerate(pictures) if rules.batched and fits(p)]
        own = [pictures[i] for i in at_once]
        found = batch_palettes(session, own, rules.n_colors, rules.seed, len(pictures), report)
        palettes = {i: Palette(colors) for i, colors in zip(at_once, found, strict=True)}
        for i, picture in enumerate(pictures):
            if i not in palettes:
                palettes[i] = copy.copy(self).fit(picture).palette_
                report.report(len(palettes), len(pictures))
        return [palettes[i] for i in range(len(pictures))]


class _Rules:
    """The parameters of an engine, checked."""

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
    def batched(self) -> bool:
        """Whether `clquant.kmeans_batch` can fit small pictures by these."""
        plain = isinstance(self.init, str) and self.init == INITS[0] and self.color_space == "srgb"
        return plain and len(self.fixed) == 0 and self.n_colors <= MOST_BATCHED


class _Fit(_Rules):
    """One call of `fit`: checked parameters, the pictures, and the steps in order."""

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
        sizes = [k]
        if pinned:
            sizes = [size for size in (k - pinned, k) if 0 < size < points.n] or [points.n]  # the last: none is free
        starts = self.n_init if isinstance(self.init, str) and self.init in SEEDED else 1
        unit = (points.scale * space.unit) ** 2 * self.weight_unit

        def inertia_of(colors: npt.NDArray[np.uint8]) -> Callable[[], int]:
            lloyd = sets.lloyd(k, pinned)
            lloyd.set_centers(space.coordinates(colors).astype(np.int64) * points.scale)
            return lloyd.inertia_later()

        found: list[tuple[npt.NDArray[np.uint8], int]] = []
        inertias: list[int] = []
        for start, size in itertools.product(range(starts), sizes):
            last.close()
            starter = self._started(last.enter_context(self.session.scope()), counts, sets, size, start)
            lloyd = sets.lloyd(k, pinned)
            if pinned:
                lloyd.set_centers(self._with_fixed(starter.get_centers(), points, k))
            steps = lloyd.run(self.max_iter, self.tol, self.progress, (start * self.max_iter, starts * self.max_iter))
            colors = space.colors((lloyd.get_centers() + points.scale // 2) // points.scale)
            colors[:pinned] = self.solid[:, : colors.shape[1]]
            found.append((colors, steps))
            if starts * len(sizes) > 1:
                inertias.append(inertia_of(colors)())
        self.progress.report(starts * self.max_iter, starts * self.max_iter)
        if not inertias:

            def measured() -> Callable[[], float]:
                inertia = inertia_of(colors)
                return lambda: inertia() / unit

            return _with_alpha(colors), measured, steps
        best = inertias.index(min(inertias))
        colors, steps = found[best]
        return _with_alpha(colors), lambda: lambda: inertias[best] / unit, steps

    def _with_fixed(self, centers: npt.NDArray[np.int64], points: Points, k: int) -> npt.NDArray[np.int64]:
        """k centers, the fixed colours first; each of them, in order, replaces the nearest center (ties: the first)."""
        fixed = points.space.coordinates(self.solid).astype(np.int64) * points.scale
        for color in fixed[: len(fixed) + len(centers) - k]:
            nearest = ((centers - color) ** 2).sum(axis=1).argmin()
            centers = np.delete(centers, nearest, axis=0)
        return np.concatenate([fixed, centers])

    def _started(self, scope: Scope, counts: ColorCounts, sets: LloydSets, k: int, start: int) -> Lloyd:
        """k centers of all colours, where they start; the scope owns what queued work needs."""
        points = sets.points
        seed = (self.seed + start) % 2**64
        if isinstance(self.init, str) and self.init == "k-means++":
            rounds = self.swap_rounds if 3 <= k <= MOST_SWAPPED else 0
            return sampled_start(self.session, scope, counts, sets, k, seed, rounds, self.tol)
        lloyd = sets.lloyd(k)
        if not isinstance(self.init, str):
            lloyd.set_centers(points.space.coordinates(self.init[:k]).astype(np.int64) * points.scale)
        elif self.init == "random":
            lloyd.pick_centers(random_points(points.n, k, seed))
        else:
            sketcher = Sketcher(self.session, scope, counts, points)
            levels = sketch_levels(sketcher, points, k)
            sketch = sketcher.sketch(scope, *levels[0]) if levels else points
            where, weights = sketch.to_host(self.session)
            lloyd.set_centers(box_centers(where, weights, k, self.init))
        return lloyd


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
