"""`SpatialPalette`: a palette fitted together with the dithering that shows it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from clquant import params
from clquant.color.palette import Palette
from clquant.estimator import weights_of
from clquant.images import ImageLike, materialize, read
from clquant.images.batches import listed
from clquant.palette.engine import PaletteEngine
from clquant.runtime import CommandQueue, Progress, ProgressCallback
from clquant.spatial.fit import SpatialFit


class SpatialPalette(PaletteEngine):
    """A palette for dithered pictures: its colours are those that mix best, as the eye sees them, to the picture's.

    Rounds of two steps: a search chooses every pixel's entry (see `clquant.SearchDither`); then all colours move to
    where they show the picture best while each pixel keeps its entry. The start is k-means on a sample. Such a palette
    reaches farther out than one of k-means, whose colours are means: hues that few pixels have come back, and pictures
    that are not dithered look worse in it. All in whole numbers: the same on every device.

    Parameters
    ----------
    n_colors : int
        2 to 256. Images with no more distinct colours get exactly those.
    rounds : int
        1 to 64. More lower the visible error further, with stronger colours and more grain.
    sharpness : float
        0 to 16: as `SearchDither` takes it, for the searches while the palette is fitted.
    fixed_colors : Palette or array_like, optional
        (f, 3) or (f, 4) uint8, or texts such as ``"#ff8800"``, fewer than `n_colors`: colours that the palette has
        exactly, in this order, first (after the transparent entry where there is one); the others go with them.
    color_space : str
        ``"srgb"``, ``"linear"`` or ``"oklab"``: where errors are summed (see `SearchDither.dither`).
    random_state : int
        Seed, 0 to 2^64 - 1.
    queue : pyopencl.CommandQueue, optional
        Default: the device arrays' own, else the best device.

    Attributes
    ----------
    palette_ : Palette
        (n, 3), or (n, 4) where the images or the fixed colours have alpha below 255. With fully transparent pixels its
        first entry is (0, 0, 0, 0), unless a fixed colour has alpha 0. Gray images have gray palettes.

    Notes
    -----
    Of images of more than 2^20 pixels in all, 256 tiles of 64x64 are learned from, drawn by position.

    J. Puzicha, M. Held, J. Ketterer, J. M. Buhmann, D. W. Fellner, "On spatial quantization of color images", IEEE
    Trans. Image Processing 9, 2000; here the assignment is a search, and the start a palette of k-means instead of
    annealing.

    Examples
    --------
    >>> import numpy as np
    >>> from clquant import SpatialPalette
    >>> image = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    >>> SpatialPalette(2).fit_transform(image).shape
    (8, 8, 3)
    """

    default_dither = "search"

    def __init__(
        self,
        n_colors: int = 16,
        *,
        rounds: int = 4,
        sharpness: float = 1.0,
        fixed_colors: Any = None,
        color_space: str = "srgb",
        random_state: int = 0,
        queue: CommandQueue | None = None,
    ) -> None:
        self.n_colors = n_colors
        self.rounds = rounds
        self.sharpness = sharpness
        self.fixed_colors = fixed_colors
        self.color_space = color_space
        self.random_state = random_state
        self.queue = queue

    def fit(
        self, images: Any, y: Any = None, sample_weight: Any = None, *, progress: ProgressCallback | None = None
    ) -> SpatialPalette:
        """Learn a palette from one image, or one that several share.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
            Whatever `clquant.images.read` takes.
        y : None
            Ignored, as in scikit-learn's pipelines. (H, W) weights in its place are taken as `sample_weight`.
        sample_weight : array_like, device array, gray picture or its path, or a list of them, optional
            (H, W) an image: what each pixel counts, as `KMeansPalette.fit` takes it. Pixels are seen together with
            their neighbours, so weights say how often tiles of 32x32 pixels around pixels are learned from; those of
            weight 0 do not count. Equal weights are as good as none.
        progress : callable, optional
            Called with (done, total) rounds; returning False stops the job.

        Returns
        -------
        SpatialPalette
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
        self.palette_ = SpatialFit(vars(self), materialize(images), weights_of(y, sample_weight), progress).run()
        return self

    def fit_many(self, images: Sequence[ImageLike], *, progress: ProgressCallback | None = None) -> list[Palette]:
        """An independent palette for each image; `palette_` is left alone.

        Each file is read when its turn comes, so that no more than one is in memory; what is wrong with one is found
        then, after those before it.

        Parameters
        ----------
        images : list, tuple or iterator of images
        progress : callable, optional
            Called with (done, total) images; returning False stops the job.

        Returns
        -------
        list of Palette
            Each equal to what `fit` on that image alone gives.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, StoppedError
            As `fit`.
        """
        sources, report = listed(images), Progress(params.callback("progress", progress))
        found = []
        for number, source in enumerate(sources):
            report.report(number, len(sources))
            found.append(copy.copy(self).fit(read(source, argument=f"images[{number}]")).palette_)
        report.report(len(sources), len(sources))
        return found
