"""`predict`, `transform` and `quantize` with any palette: in memory, in parts, on collections of Dask, into files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, params
from clquant.color import spaces
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette, as_palette
from clquant.dithering.registry import Ditherer, find_dither, job_of
from clquant.flow.file_sinks import About
from clquant.flow.result_files import writing
from clquant.images import ImageLike
from clquant.images.moving import bounds
from clquant.mapping import lookup
from clquant.mapping.palette_on_device import METRICS
from clquant.mapping.pipeline import Colored, Nearest, NearestColors
from clquant.runtime import CommandQueue, ProgressCallback


def predict_changes(
    frames: Sequence[npt.NDArray[np.uint8]],
    palette: Palette,
    stays: npt.NDArray[np.bool_],
    *,
    color_space: str = "srgb",
    dither: Any = None,
    queue: CommandQueue | None = None,
) -> tuple[tuple[slice, slice], Sequence[npt.NDArray[np.unsignedinteger[Any]]]]:
    """Map the part of frames that decides pixels that do not stay in all; return the part, and each frame's indices."""
    job = _job(palette, color_space, "l2", dither)
    part = slice(None), slice(None)
    if isinstance(job, flow.Map) and not job.is_serial:
        places = zip(bounds(~stays), stays.shape, strict=True)
        rows, columns = (job.around(place.start, place.stop, length) for place, length in places)
        part = slice(*rows), slice(*columns)
    images = [np.ascontiguousarray(frame[part]) for frame in frames]
    stacked = job.stacked(len(images)) if isinstance(job, flow.Map) and len(images) > 1 else None
    if stacked is not None:
        found = flow.run(stacked, np.concatenate(images), queue=queue)
        return part, found.reshape(len(images), *images[0].shape[:2])
    how: Any = {"color_space": color_space, "dither": dither, "queue": queue}
    return part, [quantize(image, palette, **how).host_indices() for image in images]


def _job(palette: Palette, color_space: str, metric: str, dither: Any) -> flow.Map | Ditherer:
    """Check the arguments, and return the job, or the caller's ditherer, that chooses entries."""
    params.choice("color_space", color_space, spaces.NAMES)
    params.choice("metric", metric, METRICS)
    ditherer = find_dither(dither)
    if ditherer is None:
        return Nearest(palette, color_space, metric)
    return job_of(ditherer, palette, color_space) or ditherer


def _settings(palette: Palette, color_space: str, metric: str, dither: Any) -> dict[str, Any]:
    """Collect what decides a result beside the picture, as values that JSON has."""
    owner = getattr(dither, "__self__", dither)
    if not isinstance(owner, str | bool | None):
        parameters = sorted(getattr(owner, "__dict__", {}).items())
        owner = [getattr(owner, "__qualname__", type(owner).__qualname__), repr(parameters)]
    import hashlib  # loads OpenSSL, which no other job wants

    digest = hashlib.sha256(palette.rgba().tobytes()).hexdigest()
    return {"palette": digest, "color_space": color_space, "metric": metric, "dither": owner}


def _by_own(
    ditherer: Ditherer, image: Any, palette: Palette, colored: bool, out: Any, about: About, memory: Any, given: Any
) -> Any:
    """Indices by a ditherer of the caller's, or their colours."""
    with writing(out, about) as sink:
        found = ditherer(flow.open_picture(image, memory=memory, max_bits=16), palette, **given)
        found = lookup.applied(found, palette, given["queue"]) if colored else found
        if sink is None:
            return found
        sink.open(found.shape, found.dtype)
        sink.write(0, len(found), found)
        return sink.target


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
        Called with (rows done, rows), by `SearchDither` with passes; returning False stops the job.
    out : object or path-like, optional
        Gets the result instead of a new array, of an image that is not on the device: with ``shape`` and
        ``__setitem__`` of rows (NumPy, zarr, h5py), of the result's shape and of a dtype that holds it. Or the path
        of a file, ``.zarr`` or ``.tif`` in tiles with the palette, which is there when the job is done.
    memory : int or str, optional
        Host memory that a lazy image (zarr, h5py, `numpy.memmap`, a TIFF in tiles) may take, such as ``"1 GiB"``;
        default 512 MiB.
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
    checked = as_palette(palette)
    job = _job(checked, color_space, metric, dither)
    settings = {} if out is None else _settings(checked, color_space, metric, dither)
    about = About(checked.colors, image, resume, settings)
    if isinstance(job, flow.Map):
        return flow.run(job, image, queue=queue, progress=progress, out=out, about=about, memory=memory)
    given = {"color_space": color_space, "queue": queue, "progress": progress}
    return _by_own(job, image, checked, False, out, about, memory, given)


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
    checked = as_palette(palette)
    job = _job(checked, color_space, metric, dither)
    settings = {} if out is None else {"verb": "transform", **_settings(checked, color_space, metric, dither)}
    about = About(None, image, resume, settings)
    if isinstance(job, flow.Map):
        plain = type(job) is Nearest
        colored = NearestColors(checked, color_space, metric) if plain else Colored(job, checked)
        return flow.run(colored, image, queue=queue, progress=progress, out=out, about=about, memory=memory)
    given = {"color_space": color_space, "queue": queue, "progress": progress}
    return _by_own(job, image, checked, True, out, about, memory, given)


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
    job = _job(checked, color_space, metric, dither)
    if isinstance(job, flow.Map):
        indices = flow.fetch(flow.run(job, image, queue=queue, progress=progress), progress)
        return IndexedImage.of_own(indices, checked)
    given = {"color_space": color_space, "queue": queue, "progress": progress}
    return IndexedImage(_by_own(job, image, checked, False, None, About(), None, given), checked)
