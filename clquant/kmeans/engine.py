"""`KMeansPalette`: a palette by Lloyd's k-means."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clquant import flow, params
from clquant.color.palette import Palette
from clquant.estimator import learned_by, weights_of
from clquant.histogram.counting import count_colors
from clquant.histogram.weights import checked_weights
from clquant.images import (
    ImageLike,
    Picture,
    device_arrays,
    materialize,
    memory_bytes,
    read_many,
)
from clquant.images.batches import listed, read_in_groups, session_of
from clquant.kmeans.fit import Fit, Fitted
from clquant.kmeans.params import KMeansParams
from clquant.palette.engine import PaletteEngine
from clquant.palette.target_quality import Trial, mean_shown_error
from clquant.runtime import CommandQueue, InvalidArgument, Progress, ProgressCallback, Scope, Session, open_session

# Modules for lazy pictures and `fit_many` are imported at their use: the command starts without them.
if TYPE_CHECKING:
    from clquant.histogram.color_histogram import ColorHistogram
    from clquant.histogram.counts import ColorCounts


class KMeansPalette(PaletteEngine):
    """A palette by Lloyd's k-means, exact over all pixels.

    The distinct colours are counted on the device, so that a step costs the number of distinct colours and not of
    pixels, and is equal to a step over the pixels bit for bit. The default start is k-means++ on a sketch of the
    colours (means of the cells of a grid), improved there by swaps of badly placed centers; a few steps over
    all colours follow. Everything is integer arithmetic: the palette is the same on every device.

    Parameters
    ----------
    n_colors : int
        1 to 65536; 1 is the mean, of images without fully transparent pixels. Images with no more distinct colours
        get exactly those.
    init : str or array_like
        ``"k-means++"``; ``"random"``: distinct colours at random; ``"wu"`` and ``"median-cut"``: see
        `clquant.kmeans.box_cut`; or an array of `n_colors` colours, (n, 3) or (n, 4) uint8, whose order the palette
        keeps. If none is the nearest of any pixel beside `fixed_colors`, the start is ``"k-means++"``. Pictures of
        few colours (docs/kmeans.md) start by ``"k-means++"`` and ``"wu"``, and the better end is taken.
    n_init : int
        How often to start, 1 to 1000; the result of the lowest inertia is taken. Only ``"k-means++"`` and
        ``"random"`` start more than once.
    max_iter : int
        Most steps of Lloyd's algorithm over all colours, from 1 up.
    tol : float
        0 to 0.5: steps end where the inertia falls by no more than this part of it; with 0 where nothing
        changes any more.
    swap_rounds : int
        0 to 1000: rounds of swaps after a k-means++ start (none above 4096 colours).
    fixed_colors : Palette or array_like, optional
        (f, 3) or (f, 4) uint8, or texts such as ``"#ff8800"``, fewer than `n_colors`: colours that the palette has
        exactly, in this order, first (after the transparent entry where there is one). The others are fitted to
        go with them, from two starts: beside them, and with each in the place of the nearest of `n_colors` fitted
        without them. One of alpha 0 is the transparent entry, where it stands; one of any other alpha below 255 makes
        distances those of colours with alpha (docs/palettes.md).
    color_space : str
        ``"srgb"``, ``"linear"`` or ``"oklab"``: where distances are taken (see `clquant.color.spaces`).
    color_format : str, optional
        ``"rgb565"``, ``"rgb555"``, ``"rgb444"``, ``"rgb333"`` or ``"rgb332"``: entries have only so many bits of red,
        green and blue, repeated to fill 8 (see `clquant.color.display`), and pixels are assigned to such entries while
        the palette is fitted. Alpha keeps 8 bits. Images whose colours, each channel at its nearest level, are no more
        than `n_colors` get exactly those; fixed colours must be such colours.
    random_state : int
        Seed, 0 to 2^64 - 1.
    queue : pyopencl.CommandQueue, optional
        Default: the device arrays' own, else the best device.

    Attributes
    ----------
    palette_ : Palette
        (n, 3), or (n, 4) where the images or the fixed colours have alpha below 255. With fully transparent pixels
        its first entry is (0, 0, 0, 0), and the other entries are fitted to the other pixels, without those of little
        alpha that the first entry is nearest to. Gray images have gray palettes, which are the best there are (see
        `clquant.kmeans.exact`).
    inertia_ : float
        Sum over the pixels of weight times squared distance to the nearest palette colour, in the units of the colour
        space.
    n_iter_ : int
        Steps of Lloyd's algorithm over all colours; 0 where the palette is exact, or the best there is.

    Notes
    -----
    Ties go to the lowest index; means are rounded half up to 1/8 of an 8-bit step, and to whole 8-bit colours
    at the end. A center that loses all its points takes half of a cluster of more than mean inertia. Of 16-bit pictures
    v counts as round(v / 257): entries have 8 bits.

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

    learns_from_counts = True

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
        color_format: str | None = None,
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
        self.color_format = color_format
        self.random_state = random_state
        self.queue = queue

    @flow.verb
    def fit(
        self,
        images: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        progress: ProgressCallback | None = None,
        memory: Any = None,
    ) -> KMeansPalette:
        """Learn a palette from one image, or one that several share.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
            Whatever `clquant.images.read` takes; lazy ones (zarr, h5py, `numpy.memmap`, a TIFF in tiles) are counted in
            parts, and Dask arrays by their workers, with the same result.
        y : None
            Ignored, as in scikit-learn's pipelines. (H, W) weights in its place are taken as `sample_weight`.
        sample_weight : array_like, device array, gray picture or its path, or a list of them, optional
            (H, W) an image: what each pixel counts. Booleans and integers, which may add up to 2^39, are taken as they
            are; floats become fixed-point numbers (see `clquant.histogram.weights.fixed_point_weights`).
        progress : callable, optional
            Called with (done, total) steps, of a lazy image first with rows; returning False stops the job.
        memory : int or str, optional
            Host memory for the rows of a lazy image, such as ``"1 GiB"``; default 512 MiB.

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
        weights, sources = weights_of(y, sample_weight), materialize(images)
        memory = memory_bytes(memory)
        given = sources if isinstance(sources, list | tuple) else [sources]
        if not any(flow.is_stored(source) for source in given):
            return self._keep(self._fitted(sources, weights, progress))
        if weights is not None:
            raise InvalidArgument("sample_weight is given with an image in a store; allowed: with images in memory")
        from clquant.histogram.color_histogram import ColorHistogram
        from clquant.images.dark_values import warned_once

        with warned_once():
            counted = ColorHistogram.of(sources, queue=self.queue, progress=progress, memory=memory, max_bits=8)
            return self.fit_histogram(counted, progress=progress)

    def _check(self) -> None:
        KMeansParams.of(vars(self))

    def _begin_fit(
        self, images: Any, sample_weight: Any, progress: ProgressCallback | None
    ) -> tuple[Palette, Callable[[], None]]:
        fitted = self._fitted(images, sample_weight, progress)
        left = [fitted]  # kept once, as that gives the device memory back, even if it fails

        def end() -> None:
            if left:
                self._keep(left.pop())

        return fitted.palette, end

    def _fitted(self, images: Any, sample_weight: Any, progress: ProgressCallback | None) -> Fitted:
        given, report = KMeansParams.of(vars(self)), Progress(params.callback("progress", progress))
        pictures = read_many(images)
        weights, unit = checked_weights(sample_weight, pictures, images)
        session = open_session(self.queue, device_arrays(pictures))
        with contextlib.ExitStack() as memory:
            counts = count_colors(session, memory.enter_context(session.scope()), pictures, weights)
            return Fit(given, session, report, unit).run(counts, memory)

    def _fit_counts(self, count: Callable[[Session, Scope], ColorCounts]) -> KMeansPalette:
        """`fit_histogram` of counts that a device has."""
        given, session = KMeansParams.of(vars(self)), open_session(self.queue)
        with contextlib.ExitStack() as memory:
            counts = count(session, memory.enter_context(session.scope()))
            return self._keep(Fit(given, session, Progress(None)).run(counts, memory))

    def _keep(self, fitted: Fitted) -> KMeansPalette:
        self.inertia_ = fitted.inertia()  # the last that can fail, so that nothing or all of it is new
        self.palette_, self.n_iter_ = fitted.palette, fitted.steps
        return self

    @contextlib.contextmanager
    def _trials(self, pictures: Sequence[Picture], weight: Any) -> Iterator[Trial]:
        """Fit like `fit`, with the colours counted once for several trials."""
        weights, unit = checked_weights(weight, pictures, list(pictures))
        session = open_session(self.queue, device_arrays(pictures))
        pixels = sum(picture.pixels for picture in pictures)
        with session.scope() as scope:
            counts = count_colors(session, scope, pictures, weights)

            def trial(count: int) -> tuple[dict[str, Any], float]:
                given = KMeansParams.of(vars(self.set_params(n_colors=count)))
                self._keep(Fit(given, session, Progress(None), unit).run(counts))
                learned = learned_by(self)
                # The inertia is the error already, of three channels a pixel.
                is_known = weights is None and self.color_space == "srgb" and not self.palette_.has_alpha
                return learned, self.inertia_ / (3 * pixels) if is_known else mean_shown_error(self, pictures)

            yield trial

    def fit_histogram(self, histogram: ColorHistogram, *, progress: ProgressCallback | None = None) -> KMeansPalette:
        """Learn a palette from counted colours: the one of `fit` on all the pixels that were counted.

        Parameters
        ----------
        histogram : ColorHistogram
            Of at least one pixel.
        progress : callable, optional
            Called with (done, total) steps; returning False stops the job.

        Returns
        -------
        KMeansPalette
            The engine itself.

        Raises
        ------
        InvalidType, InvalidArgument
            If an argument or a parameter is not allowed, or the histogram has no pixels or over 2^39.
        StoppedError
            If `progress` returned False; what was learned before stands.
        """
        from clquant.histogram.color_histogram import counts_of

        given, counts = KMeansParams.of(vars(self)), counts_of(histogram)
        report, session = Progress(params.callback("progress", progress)), open_session(self.queue)
        with contextlib.ExitStack() as memory:
            on_device = counts.upload(memory.enter_context(session.scope()))
            return self._keep(Fit(given, session, report).run(on_device, memory))

    @flow.verb
    def fit_many(self, images: Sequence[ImageLike], *, progress: ProgressCallback | None = None) -> list[Palette]:
        """An independent palette for each image; `palette_` is left alone.

        Small images (without alpha, at most 2^14 pixels each; device arrays as well, whose few pixels are gathered by
        way of the host) are fitted thousands at a time, a work-group each: by
        several starts of k-means++ and Lloyd steps over the means of the cells of a grid (see
        `clquant.kmeans.small_images`), whatever `n_init`, `max_iter`, `tol` and `swap_rounds` say. The others, and all
        where `init`, `color_space` or `color_format` is not the default or `n_colors` is over 256, are fitted by `fit`.

        Each file is read when its turn comes, so that of large pictures no more than one is in memory, and of small
        ones some thousands; what is wrong with one is found then, after those before it.

        Parameters
        ----------
        images : list, tuple or iterator of images
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
        from clquant.kmeans.small_images import batch_palettes, fits

        rules, report = KMeansParams.of(vars(self)), Progress(params.callback("progress", progress))
        sources = listed(images)
        session = session_of(self.queue, sources)
        found: dict[int, Palette] = {}

        def together(group: dict[int, Picture]) -> None:
            progress = report.part(len(found), len(sources))
            colors = batch_palettes(session, list(group.values()), rules.n_colors, rules.seed, progress)
            found.update(zip(group, map(Palette, colors), strict=True))

        def alone(index: int, picture: Picture) -> None:
            found[index] = copy.copy(self).fit(picture).palette_
            report.report(len(found), len(sources))

        def joins(picture: Picture) -> bool:
            return rules.batched and fits(picture)

        read_in_groups(sources, joins, together, alone)
        return [found[i] for i in range(len(sources))]
