"""`NeuQuantCL`: a palette by Dekker's self-organizing map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clquant import flow, params
from clquant.color.palette import Palette
from clquant.estimator import weights_of
from clquant.histogram.color_histogram import ColorHistogram, counts_of
from clquant.histogram.weights import checked_weights, resampled, spread_out
from clquant.images import (
    ImageLike,
    Picture,
    device_arrays,
    materialize,
    memory_bytes,
)
from clquant.images.batches import listed, session_of
from clquant.neuquant.fit import NeuQuantFit
from clquant.neuquant.params import NeuQuantParams
from clquant.palette.engine import PaletteEngine
from clquant.runtime import CommandQueue, Progress, ProgressCallback, open_session

# Copies of a picture that is walked through in memory: its pixels, those on the device, and points.
_COPIES = 3


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
    Refinement follows: Lloyd steps over up to 512 samples per node (every pixel of a small picture), in which nodes of
    little use move to where the squared error is; up to 8 nodes are refined from five networks if the picture has at
    most 16384 colours, and the best result is taken. Everything is integer arithmetic. On photographs the palettes are
    better than the sequential map's by 0.8 dB on average; docs/neuquant.md has the figures.

    Parameters
    ----------
    n_colors : int
        2 to 1024.
    mode : str
        ``"parallel"`` or ``"sequential"``.
    sample_factor : int
        1 to 30: train on every n-th sample.
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
        `n_colors` colours, the fixed ones and then the others in network order, neighbours similar; fewer if the
        picture has fewer and `keep_exact` is set. If some alpha is 0 and no fixed colour's is, the last entry is
        (0, 0, 0, 0), and the map has one node less.

    Notes
    -----
    Ties go to the lowest index. The palette depends on pixels and parameters alone, never on the device. Pixels of
    alpha 0 are passed over; colours are compared with alpha if some alpha is between 0 and 255. If Dekker's
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

    @flow.verb
    def fit(
        self,
        images: ImageLike | Sequence[ImageLike],
        y: Any = None,
        sample_weight: Any = None,
        *,
        progress: ProgressCallback | None = None,
        memory: Any = None,
    ) -> NeuQuantCL:
        """Learn one palette from an image, or a shared one from several.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
            Whatever `clquant.images.read` takes; several are trained on as one picture, end to end. Lazy ones (zarr,
            h5py, `numpy.memmap`, a TIFF in tiles) are read in parts, with the same result: once; in sequential mode
            once for as many samples as half of `memory` holds on host and device. With weights they are read whole.
            Dask arrays are counted by their workers, and learned from as `fit_histogram` does.
        y : None
            Ignored, as in scikit-learn's pipelines. (H, W) weights in its place are taken as `sample_weight`.
        sample_weight : array_like, device array, gray picture or its path, or a list of them, optional
            (H, W) per image: what each pixel counts. The map learns from as many pixels as there are, in which each
            stands as often as it counts (`clquant.histogram.weights.resampled`), so pixels that count next to
            nothing may be passed over.
        progress : callable, optional
            Called with (done, total) steps or cycles; returning False stops the job.
        memory : int or str, optional
            Host memory for the rows of a lazy image, such as ``"1 GiB"``; default 512 MiB. In parallel mode samples
            come on top: 3 MB for 256 colours.

        Returns
        -------
        NeuQuantCL
            The engine itself.

        Raises
        ------
        InvalidArgument, InvalidType
            If an argument or an image is not allowed.
        FileError
            If a file cannot be read.
        StoppedError
            If `progress` returned False; `palette_` stays as it was.
        """
        images = materialize(images)
        given, report = NeuQuantParams.of(vars(self)), Progress(params.callback("progress", progress))
        weights = weights_of(y, sample_weight)
        pictures = self._read(images, memory_bytes(memory), given.parallel, whole=weights is not None)
        weights = checked_weights(weights, pictures, images)[0]
        clear = False
        if weights is not None:
            picture, clear = resampled(pictures, weights, self.queue)
            pictures = [picture]
        session = open_session(self.queue, device_arrays(pictures))
        self.palette_ = NeuQuantFit(session, given, report).shared(pictures, clear)
        return self

    def fit_histogram(self, histogram: ColorHistogram, *, progress: ProgressCallback | None = None) -> NeuQuantCL:
        """Learn a palette from counted colours, by their pixels in the histogram's order.

        Counts do not say where pixels are, so the map samples other ones than in `fit`: those of a picture of one row,
        which has the histogram's pixels in the order of `ColorHistogram.to_arrays`. If there are more than 2^24 pixels,
        counts are divided by the least power of two that makes them as few, and rounded up. So how pictures were cut
        before they were counted does not matter.

        Parameters
        ----------
        histogram : ColorHistogram
            Of at least one pixel.
        progress : callable, optional
            As `fit`.

        Returns
        -------
        NeuQuantCL
            The engine itself.

        Raises
        ------
        InvalidArgument, InvalidType, StoppedError
            As `fit`.
        """
        given, report = NeuQuantParams.of(vars(self)), Progress(params.callback("progress", progress))
        picture = spread_out(counts_of(histogram))
        self.palette_ = NeuQuantFit(open_session(self.queue), given, report).shared([picture], False)
        return self

    @flow.verb
    def fit_many(self, images: Sequence[ImageLike], *, progress: ProgressCallback | None = None) -> list[Palette]:
        """An independent palette for each image; `palette_` is left alone.

        In sequential mode images are trained side by side, in parallel mode one after another. Each file is read when
        its turn comes, so that no more than one picture is in memory (in sequential mode, those that are trained side
        by side). An error in one is found then, after the images before it.

        Parameters
        ----------
        images : list, tuple or iterator of images
        progress : callable, optional
            Called with (done, total): images, cycles of those side by side in sequential mode, steps of a single image;
            returning False stops the job.

        Returns
        -------
        list of Palette
            Each equal to what `fit` on that image alone gives.

        Raises
        ------
        InvalidArgument, InvalidType, StoppedError
            As `fit`.
        """
        given, report = NeuQuantParams.of(vars(self)), Progress(params.callback("progress", progress))
        sources = listed(images)
        return NeuQuantFit(session_of(self.queue, sources), given, report).each(sources)

    def _check(self) -> None:
        NeuQuantParams.of(vars(self))

    def _read(self, images: Any, memory: int, parallel: bool, whole: bool) -> list[Picture]:
        """The pictures to learn from; unless they are read whole, lazy ones stay where they are."""
        rows = memory if parallel else max(memory // 2, 1 << 20)  # the other half is for samples of the walk
        pictures = flow.open_pictures(images, memory=rows)
        nbytes = sum(picture.pixels * picture.pixel_bytes for picture in pictures)
        fit = not parallel and _COPIES * nbytes <= memory
        return [picture.in_memory() for picture in pictures] if whole or fit else pictures
