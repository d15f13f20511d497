"""`PaletteEngine`: what every engine that learns a palette can do with it."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clquant import flow, images
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.dithering.registry import for_learned
from clquant.estimator import Estimator, weights_of
from clquant.images import ImageLike
from clquant.mapping.pipeline import Nearest
from clquant.palette.target_quality import (
    Trial,
    fit_quality,
    fitted_anew,
    shown_error,
)
from clquant.palette.verbs import predict, quantize, transform
from clquant.runtime import CommandQueue, HostResult, InvalidArgument, Progress, ProgressCallback

DEFAULT = "default"
"""The `dither` that stands for an engine's `default_dither`."""

__all__ = ["PaletteEngine", "predict", "quantize", "transform"]


class PaletteEngine(Estimator, abc.ABC):
    """Base of the engines that learn a palette: a subclass gives `fit`, which sets `palette_`.

    Subclasses store ``color_space`` and ``queue`` in their constructor, and ``metric`` where it is not ``"l2"``.

    Attributes
    ----------
    palette_ : Palette
        What `fit` learned.
    """

    metric: str = "l2"
    learns_from_counts: bool = False  # what `fit` learns from pixels
    default_dither: Any = None
    color_space: str
    queue: CommandQueue | None
    palette_: Palette

    @abc.abstractmethod
    def fit(
        self, images: Any, y: Any = None, sample_weight: Any = None, *, progress: ProgressCallback | None = None
    ) -> Any:
        """Learn `palette_` from one image, or one that several share.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
        y : None
            Ignored, as in scikit-learn's pipelines. (H, W) weights in its place are taken as `sample_weight`.
        sample_weight : optional
            What each pixel counts, if the engine knows weights.
        progress : callable, optional
            Called with (done, total) steps; returning False stops the job.

        Returns
        -------
        The engine itself.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, StoppedError
            See the engine.
        """

    @flow.verb
    def fit_quality(
        self,
        images: Any,
        *,
        target_psnr: float | None = None,
        max_mse: float | None = None,
        sample_weight: Any = None,
        progress: ProgressCallback | None = None,
    ) -> Any:
        """`fit` with the fewest colours that reach a quality, `n_colors` at most.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
        target_psnr : float, optional
            Least PSNR in dB of all images together, 0 to 100, undithered: of 8-bit sRGB values, whatever the
            ``color_space`` and ``metric`` by which pixels take their colours.
        max_mse : float, optional
            Greatest mean squared error per channel, instead.
        sample_weight : optional
            As `fit`; it does not count in the quality.
        progress : callable, optional
            Called with (done, total) fits, of which `total` is the most there can be.

        Returns
        -------
        The engine itself; its `palette_` has the fewest colours found by doubling and bisection, and all else that it
        learned is of that fit.

        Raises
        ------
        InvalidArgument
            If not exactly one target is given, `n_colors` colours do not reach it, or ``init`` is an array of colours.
        """
        return fit_quality(self, images, target_psnr, max_mse, sample_weight, progress)

    def predict(
        self,
        image: ImageLike,
        dither: Any = DEFAULT,
        *,
        progress: ProgressCallback | None = None,
        out: Any = None,
        memory: Any = None,
        resume: bool = False,
    ) -> Any:
        """Indices into `palette_` of an image's pixels.

        Parameters
        ----------
        image : image
            Whatever `clquant.images.read` takes.
        dither : None, bool, str or object
            Default: the engine's own way: none, and of `SpatialPalette` ``"search"``. None or False maps each pixel to
            its nearest colour in the engine's ``color_space``; ties go to the entry nearer in plain 8-bit values, then
            to the lowest index. True is ``"leaky"``; that name, ``"blue-noise"``,
            ``"bayer"`` (or ``"bayer2"`` to ``"bayer16"``), ``"pinwheel"``, the names of `ErrorDiffusion`'s filters,
            or an object with a method `dither` (`OrderedDither`, `ErrorDiffusion`) choose a way to dither.
        progress : callable, optional
            Called with (rows done, rows), by `SearchDither` with passes; returning False stops the job.
        out : object or path-like, optional
            Gets the result instead of a new array, of an image that is not on the device: with ``shape`` and
            ``__setitem__`` of rows (NumPy, zarr, h5py), of the result's shape and of a dtype that holds it. Or the path
            of a file, ``.zarr`` or ``.tif`` in tiles with the palette, which is there when the job is done.
        memory : int or str, optional
            Host memory that a lazy image (zarr, h5py, `numpy.memmap`, a TIFF in tiles) may take, such as ``"1 GiB"``;
            default 512 MiB.
        resume : bool
            With a ``.zarr`` path as `out`: keep what a job that is stopped has done, and go on with what an earlier one
            of the same image and arguments has kept.

        Returns
        -------
        ndarray or pyopencl.array.Array
            (H, W) uint8 up to 256 colours, else uint16; on the device for a device array. Pixels of alpha 0 have the
            palette's first entry of alpha 0. The same on every device.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument
            If the image has pixels of alpha 0 and `palette_` no such entry, or an argument is not allowed.
        InvalidType, FileError
            If the image cannot be read.
        StoppedError
            If `progress` returned False.
        """
        return predict(image, **self._given(dither, progress), out=out, memory=memory, resume=resume)

    def transform(
        self,
        image: ImageLike,
        dither: Any = DEFAULT,
        *,
        progress: ProgressCallback | None = None,
        out: Any = None,
        memory: Any = None,
        resume: bool = False,
    ) -> Any:
        """The image in the colours of `palette_`.

        Parameters
        ----------
        image, dither, progress, out, memory, resume
            As `predict` takes them.

        Returns
        -------
        ndarray or pyopencl.array.Array
            (H, W, 3) uint8, or (H, W, 4) where the palette has alpha; on the device for a device array.

        Raises
        ------
        As `predict`.
        """
        return transform(image, **self._given(dither, progress), out=out, memory=memory, resume=resume)

    def quantize(
        self, image: ImageLike, dither: Any = DEFAULT, *, progress: ProgressCallback | None = None
    ) -> IndexedImage:
        """The image as indices and `palette_`.

        Parameters
        ----------
        image, dither, progress
            As `predict` takes them.

        Returns
        -------
        IndexedImage

        Raises
        ------
        As `predict`.
        """
        return quantize(image, **self._given(dither, progress))

    def fit_predict(
        self, image: ImageLike, y: Any = None, sample_weight: Any = None, *, progress: ProgressCallback | None = None
    ) -> Any:
        """`fit` on one image, then `predict` of it; the image is read, and copied to the device, once.

        Parameters
        ----------
        image : image
        y, sample_weight : optional
            As `fit`.
        progress : callable, optional
            As `fit`, then as `predict`.

        Returns
        -------
        As `predict`.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, StoppedError
            As `fit` and `predict`.
        """
        with images.sent(image, self.queue) as (session, source):
            if session is None or self.default_dither is not None:
                return self.fit(source, y, sample_weight, progress=progress).predict(source, progress=progress)
            shape = (source.height, source.width)
            room = None if source.on_device else HostResult(session, shape, np.uint8)
            palette, end_fit = self._begin_fit(source, weights_of(y, sample_weight), progress)
            try:
                job, report = Nearest(palette, self.color_space, self.metric), Progress(progress)
                return flow.in_bands(session, source, job, report, room, end_fit)
            finally:
                end_fit()

    def fit_transform(
        self, image: ImageLike, y: Any = None, sample_weight: Any = None, *, progress: ProgressCallback | None = None
    ) -> Any:
        """`fit` on one image, then `transform` of it; the image is read, and copied to the device, once.

        Parameters
        ----------
        image : image
        y, sample_weight : optional
            As `fit`.
        progress : callable, optional
            As `fit`, then as `transform`.

        Returns
        -------
        As `transform`.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, StoppedError
            As `fit` and `transform`.
        """
        with images.sent(image, self.queue) as (_, picture):
            self.fit(picture, y, sample_weight, progress=progress)
            return self.transform(picture, progress=progress)

    def score(self, images: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return how well `palette_` shows images, for scikit-learn's searches: higher is better.

        Parameters
        ----------
        images : image, or list or tuple of images
        y : None
            Ignored.

        Returns
        -------
        float
            Minus the mean squared error per channel, of 8-bit sRGB values, over all images' pixels, undithered.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType, FileError
            As `predict`.
        """
        self._check_fitted("palette_")
        given = images if isinstance(images, list | tuple) else [images]
        if not given:
            raise InvalidArgument("images is empty; allowed: at least one image")
        errors = [shown_error(self, one, f"images[{i}]") for i, one in enumerate(given)]
        total: float = sum(e.mean * e.pixels for e in errors)
        return -total / sum(e.pixels for e in errors)

    def _check(self) -> None:
        """Check the parameters before work goes to workers."""

    def _begin_fit(
        self, images: Any, sample_weight: Any, progress: ProgressCallback | None
    ) -> tuple[Palette, Callable[[], None]]:
        """Compute the palette; the first call of the returned callable finishes the fit."""
        self.fit(images, sample_weight=sample_weight, progress=progress)
        return self.palette_, lambda: None

    def _trials(self, pictures: Sequence[Any], weight: Any) -> contextlib.AbstractContextManager[Trial]:
        """Open the trials of `fit_quality`: fits of the same pictures with differing numbers of colours."""
        return fitted_anew(self, pictures, weight)

    def _given(self, dither: Any, progress: ProgressCallback | None) -> dict[str, Any]:
        self._check_fitted("palette_")
        return {
            "palette": self.palette_,
            "color_space": self.color_space,
            "metric": self.metric,
            "dither": for_learned(self.default_dither if isinstance(dither, str) and dither == DEFAULT else dither),
            "queue": self.queue,
            "progress": progress,
        }
