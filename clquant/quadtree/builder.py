"""QuadtreeBuilder: from a picture to its tree."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from clquant import flow, images, params, runtime
from clquant.estimator import Estimator
from clquant.images.dark_values import callers_level
from clquant.quadtree import criteria
from clquant.quadtree.assembly import TreeJob, decompose
from clquant.quadtree.deep import deep_leaves
from clquant.quadtree.geometry import MAX_CHANNELS, MAX_SIDE, root_level
from clquant.quadtree.picture_statistics import OwnPixels, PictureStatistics
from clquant.quadtree.tree import Quadtree
from clquant.runtime import InvalidArgument

METHODS = ("bottom-up", "top-down")
# Greatest value of what looks like a mask or a class map.
MOST_CLASS = 15


class QuadtreeBuilder(Estimator):
    """Decomposes pictures into quadtrees of uniform squares.

    After Masina and Stedile, "Parallelizing Quadtree Image Decomposition with mixed approaches", with exact integer
    statistics and without padding: pixels outside the picture count for nothing, and a region wholly outside does not
    exist. The root is the least square of a power of two that covers the picture.

    Parameters
    ----------
    threshold : float
        From 0 to 255 gray levels of 8 bits, rounded to the nearest multiple of 1/65536 (a tie to the even one).
    criterion : str
        When a region is uniform, and so a leaf. With s the standard deviation (of the population):

        - ``"deviation"``: s of every channel is at most `threshold` (the paper's program);
        - ``"any"``: s of at least one channel is;
        - ``"weighted"``: sum of w s^2 over the channels is at most threshold^2 times the sum of the `weights` w;
        - ``"luma"``: s of the luma (19595 R + 38470 G + 7471 B + 32768) >> 16 is; gray pictures are their own luma;
        - ``"range"``: greatest minus least value of every channel is at most `threshold`.

        Each is decided in integers, so every device gives the same tree.
    weights : list or array of int, optional
        With ``"weighted"``: one from 0 to 255 for each channel, not all 0.
    min_size : int
        Regions of this side are not split: a power of two, in pixels.
    max_depth : int, optional
        Regions so many splits below the root are not split.
    method : str
        ``"bottom-up"`` (Algorithm 2): `Quadtree.levels` has the statistics of all nodes. ``"top-down"`` (Algorithm 1):
        the same tree with the statistics of its own nodes, as regions within leaves are no part of it. Both are
        computed from the pixels up, in the same time: no device was faster from the root down on any photograph.
    queue : pyopencl.CommandQueue, optional
        Default: a device image's own queue, else the best device found.
    random_state : int
        Taken as by every engine; nothing here is random.
    """

    stream_method = "build"

    def __init__(
        self,
        threshold: float = 13.0,
        *,
        criterion: str = "deviation",
        weights: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None,
        min_size: int = 1,
        max_depth: int | None = None,
        method: str = "bottom-up",
        queue: runtime.CommandQueue | None = None,
        random_state: int = 0,
    ) -> None:
        self.threshold = threshold
        self.criterion = criterion
        self.weights = weights
        self.min_size = min_size
        self.max_depth = max_depth
        self.method = method
        self.queue = queue
        self.random_state = random_state

    def _job(self, picture: images.Picture) -> TreeJob:
        """The job of a picture by the builder's parameters, which are checked."""
        if max(picture.height, picture.width) > MAX_SIDE:
            raise InvalidArgument(
                f"image has {picture.height} x {picture.width} pixels; allowed: up to {MAX_SIDE} per side"
            )
        shape = (picture.height, picture.width, picture.channels)
        criterion = criteria.check(self.threshold, self.criterion, self.weights, self.min_size, self.max_depth, shape)
        params.seed(self.random_state)
        params.choice("method", self.method, METHODS)
        return TreeJob(picture, criterion, levels=False)

    def _decomposed(
        self, job: TreeJob, progress: runtime.ProgressCallback | None
    ) -> npt.NDArray[np.void] | runtime.Array:
        """The picture's leaves; on the device for a device array."""
        report, session = runtime.Progress(params.callback("progress", progress)), self._session(job)
        if job.picture.bits == 16:
            found = deep_leaves(session, job.picture, job.criterion, report)
        else:
            found = decompose(session, job, report).leaves
        if found.shape == (1,):
            warn_of_classes(session, job, found if isinstance(found, np.ndarray) else found.get())
        return found

    def _session(self, job: TreeJob) -> runtime.Session:
        return runtime.open_session(self.queue, images.device_arrays([job.picture]))

    def build(
        self, image: images.ImageLike, *, progress: runtime.ProgressCallback | None = None, memory: Any = None
    ) -> Quadtree:
        """The tree of a picture, with statistics.

        Parameters
        ----------
        image : path, PIL image, array (H, W) or (H, W, C) with C up to 16, or device array
            At most 65535 pixels per side. A picture that the device has no room for is cut into subtrees. With uint16
            values, unless the image is lazy, what is uniform is decided from 16 bits; means are rounded to 8 bits, and
            the tree has the statistics that a loaded one has.
        progress : callable, optional
            Called as ``progress(done, total)`` after each subtree; returning False stops the job.
        memory : int or str, optional
            With it a lazy image (see `clquant.images.storage`) is read in parts and not kept; host memory for these,
            such as ``"1 GiB"``. The tree then has the same leaves, and statistics as a loaded one (`Quadtree.exact`).

        Returns
        -------
        Quadtree
            On the host, whatever the input.

        Raises
        ------
        InvalidType, InvalidArgument, FileError
            If the image or a parameter is refused.
        DeviceMemoryError
            If the device has no room for the smallest subtree.
        StoppedError
            If `progress` returned False.
        """
        bits = _bits_of(image)
        picture = (
            images.read(image, max_channels=MAX_CHANNELS, max_bits=bits)
            if memory is None
            else flow.open_picture(image, memory=memory, max_channels=MAX_CHANNELS, max_bits=bits)
        )
        job = self._job(picture)
        shape = (picture.height, picture.width, picture.channels)
        is_exact = picture.bits == 8 and picture.store is None
        session = self._session(job)
        own = OwnPixels(picture, session) if is_exact else None
        found = self._decomposed(job, progress)
        leaves = found if isinstance(found, np.ndarray) else found.get()
        if own is None:
            return Quadtree(shape, picture.gray, job.criterion, leaves)
        statistics = PictureStatistics(own.array(), job, self.method == METHODS[0], leaves, session.queue)
        return Quadtree(shape, picture.gray, job.criterion, leaves, statistics)

    @overload
    def leaves(
        self, image: runtime.Array, *, progress: runtime.ProgressCallback | None = None, memory: Any = None
    ) -> runtime.Array: ...
    @overload
    def leaves(
        self, image: images.HostImage, *, progress: runtime.ProgressCallback | None = None, memory: Any = None
    ) -> npt.NDArray[np.void]: ...
    @flow.verb
    def leaves(
        self, image: images.ImageLike, *, progress: runtime.ProgressCallback | None = None, memory: Any = None
    ) -> npt.NDArray[np.void] | runtime.Array:
        """The leaves alone: what ``build(image).leaves()`` gives, without the statistics of the levels.

        Parameters
        ----------
        image, progress
            As for `build`; of a Dask array the leaves are a lazy one of unknown length.
        memory : int or str, optional
            Host memory for the parts of a lazy image, which is read in such always; default 512 MiB.

        Returns
        -------
        structured ndarray, or pyopencl.array.Array of the same dtype for a device image
            See `Quadtree.leaves`.

        Raises
        ------
        InvalidType, InvalidArgument, FileError, DeviceMemoryError, StoppedError
            As `build`.
        """
        picture = flow.open_picture(image, memory=memory, max_channels=MAX_CHANNELS, max_bits=_bits_of(image))
        return self._decomposed(self._job(picture), progress)


def warn_of_classes(session: runtime.Session, job: TreeJob, leaf: npt.NDArray[np.void]) -> None:
    """Warn if a whole picture became a single leaf, and has values like a mask's or a class map's."""
    picture = job.picture
    by_size = job.criterion.floor_level >= root_level(picture.height, picture.width)
    if by_size or not job.criterion.steps or leaf["mean"].max() > MOST_CLASS:
        return
    parts = (part.on_host(session) for part in flow.PictureSource(picture).parts_in_memory())
    ends = [(int(part.min()), int(part.max())) for part in parts]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    # Of 16 bits, values above 1 have been warned of already.
    if low < high <= (MOST_CLASS if picture.bits == 8 else 1):
        warnings.warn(
            f"the picture is a single leaf, as its values, {low} to {high}, differ by less than the threshold of "
            f"{job.criterion.threshold:g} gray levels; a threshold of 0 splits wherever they differ, as do a mask's "
            "values times 255",
            stacklevel=callers_level(),
        )


def _bits_of(image: Any) -> int:
    """Bits per value that a tree is built from: 8 of lazy pictures, else up to 16."""
    return 8 if flow.is_stored(image) else 16
