"""`predict`, `transform` and `quantize` with any palette: in memory, in parts, on collections of Dask, into files."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from clquant import params
from clquant.color import spaces
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette, as_palette
from clquant.dithering.registry import Ditherer, find_dither
from clquant.images import ImageLike, read_parts, refuse_rows
from clquant.images.collections import verbs_of
from clquant.images.file_sinks import About
from clquant.images.result_files import writing
from clquant.mapping import lookup, pipeline
from clquant.mapping.palette_on_device import METRICS
from clquant.runtime import CommandQueue, Progress, ProgressCallback, reports_memory


def _checked(
    palette: Any, color_space: str, metric: str, dither: Any, progress: ProgressCallback | None
) -> tuple[Palette, Ditherer | None]:
    """The palette, and what chooses its entries where that is not their nearness; all arguments are allowed."""
    params.choice("color_space", color_space, spaces.NAMES)
    params.choice("metric", metric, METRICS)
    params.callback("progress", progress)
    return as_palette(palette), find_dither(dither)


def _settings(palette: Palette, color_space: str, metric: str, dither: Any) -> dict[str, Any]:
    """What decides a result beside the picture, as values that JSON has."""
    owner = getattr(dither, "__self__", dither)
    if not isinstance(owner, str | bool | None):
        parameters = sorted(getattr(owner, "__dict__", {}).items())
        owner = [getattr(owner, "__qualname__", type(owner).__qualname__), repr(parameters)]
    import hashlib  # loads OpenSSL, which no other job wants

    digest = hashlib.sha256(palette.rgba().tobytes()).hexdigest()
    return {"palette": digest, "color_space": color_space, "metric": metric, "dither": owner}


def _stored(collection: Any, lazy: Any, out: Any, about: About, progress: ProgressCallback | None) -> Any:
    """A lazy result, or what it was written to."""
    if out is None:
        return lazy
    with writing(out, about) as sink:
        return collection.store(lazy, sink, Progress(progress))


@reports_memory
def predict(
    image: ImageLike,
    palette: Palette | npt.ArrayLike,
    *,
    color_space: str = "srgb",
    metric: str = "l2",
    dither: Any = None,
    queue: CommandQueue | None = None,
    progress: ProgressCallback | None = None,
    out: Any = None,
    memory: Any = None,
    resume: bool = False,
) -> Any:
    """Palette indices of an image's pixels.

    Parameters
    ----------
    image : image
        Whatever `clquant.images.read` takes.
    palette : Palette or array_like
    color_space : str
        ``"srgb"``, ``"linear"`` or ``"oklab"``: where colours are compared (see `clquant.color.spaces`).
    metric : str
        ``"l2"``: the nearest colour has the least squared distance; ``"l1"``: the least sum of absolute differences.
        A way to dither has its own.
    dither : None, bool, str or object
        None or False maps each pixel to its nearest colour; ties go to the entry nearer in plain 8-bit values, then to
        the lowest index. A name or an object chooses a way to dither.
    queue : pyopencl.CommandQueue, optional
    progress : callable, optional
        Called with (done, total) parts of the image; returning False stops the job.
    out : object or path-like, optional
        Gets the result instead of a new array, of an image that is not on the device: with ``shape`` and
        ``__setitem__`` of rows (NumPy, zarr, h5py), of the result's shape and of a dtype that holds it. Or the path
        of a file, ``.zarr`` or ``.tif`` in tiles with the palette, which is there when the job is done.
    memory : int or str, optional
        Host memory that a lazy image (zarr, h5py, `numpy.memmap`, a TIFF in tiles; see `clquant.images.lazy`) may
        take, such as ``"1 GiB"``; default 512 MiB.
    resume : bool
        With a ``.zarr`` path as `out`: keep what a job that is stopped has done, and go on with what an earlier one of
        the same image and arguments has kept.

    Returns
    -------
    ndarray or pyopencl.array.Array
        (H, W) uint8 up to 256 colours, else uint16; on the device for a device array. Pixels of alpha 0 have
        the palette's first entry of alpha 0. The same on every device.

    Raises
    ------
    InvalidArgument
        If the image has pixels of alpha 0 and the palette no such entry, or an argument is not allowed.
    StoppedError
        If `progress` returned False.
    """
    checked, ditherer = _checked(palette, color_space, metric, dither, progress)
    refuse_rows(image)
    collection = verbs_of(image)
    params.boolean("resume", resume)
    settings = {} if out is None else _settings(checked, color_space, metric, dither)
    about = About(None, checked.colors, image, resume, settings)
    if collection is not None:
        lazy = collection.predict(image, checked, dither=dither, color_space=color_space, metric=metric)
        return _stored(collection, lazy, out, about, progress)
    with writing(out, about) as sink:
        image = read_parts(image, out=sink, memory=memory, max_bits=16)
        if ditherer is not None:
            return ditherer(image, checked, color_space=color_space, queue=queue, progress=progress)
        return pipeline.indices(image, checked, color_space, queue, progress, metric=metric)


@reports_memory
def transform(
    image: ImageLike,
    palette: Palette | npt.ArrayLike,
    *,
    color_space: str = "srgb",
    metric: str = "l2",
    dither: Any = None,
    queue: CommandQueue | None = None,
    progress: ProgressCallback | None = None,
    out: Any = None,
    memory: Any = None,
    resume: bool = False,
) -> Any:
    """An image in a palette's colours; arguments and errors as in `predict`.

    Returns
    -------
    ndarray or pyopencl.array.Array
        (H, W, 3) uint8, or (H, W, 4) where the palette has alpha; on the device for a device array.
    """
    checked, ditherer = _checked(palette, color_space, metric, dither, progress)
    refuse_rows(image)
    collection = verbs_of(image)
    settings = {} if out is None else {"verb": "transform", **_settings(checked, color_space, metric, dither)}
    if collection is not None:
        lazy = collection.transform(image, checked, dither=dither, color_space=color_space, metric=metric)
        return _stored(collection, lazy, out, About(None, None, image, resume, settings), progress)
    params.boolean("resume", resume)
    about = About(None if ditherer is None else checked.colors, None, image, resume, settings)
    with writing(out, about) as sink:
        image = read_parts(image, out=sink, memory=memory, max_bits=16)
        if ditherer is None:
            return pipeline.colors(image, checked, color_space, queue, progress, metric=metric)
        chosen = ditherer(image, checked, color_space=color_space, queue=queue, progress=progress)
        return chosen if out is not None else lookup.applied(chosen, checked, queue)


@reports_memory
def quantize(
    image: ImageLike,
    palette: Palette | npt.ArrayLike,
    *,
    color_space: str = "srgb",
    metric: str = "l2",
    dither: Any = None,
    queue: CommandQueue | None = None,
    progress: ProgressCallback | None = None,
) -> IndexedImage:
    """An image as indices and palette; arguments and errors as in `predict`.

    Returns
    -------
    IndexedImage
        Its indices are on the device for a device array.
    """
    checked = as_palette(palette)
    indices = predict(
        image, checked, color_space=color_space, metric=metric, dither=dither, queue=queue, progress=progress
    )
    collection = verbs_of(indices)
    if collection is not None:
        indices = collection.here(indices, Progress(progress))
    return IndexedImage.of_own(indices, checked)
