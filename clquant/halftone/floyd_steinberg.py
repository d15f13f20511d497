"""Floyd and Steinberg's serial error diffusion, for people who ask for the classic; and the names for ``dither=``."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from clquant import images, params, runtime
from clquant.color import spaces
from clquant.color.palette import Palette, as_palette
from clquant.dithering.error_diffusion import CLASSIC, ErrorDiffusion
from clquant.dithering.registry import register_dither
from clquant.flow.driver import check_side
from clquant.halftone.halftoner import PinwheelHalftoner
from clquant.halftone.serial.scan import in_lanes, palette_in_lanes, serial_gray
from clquant.images import HostImage, ImageLike
from clquant.runtime import reports_memory


@overload
def floyd_steinberg(
    image: runtime.Array,
    palette: Palette | npt.ArrayLike | None = ...,
    *,
    color_space: str = ...,
    queue: runtime.CommandQueue | None = ...,
    progress: runtime.ProgressCallback | None = ...,
) -> runtime.Array: ...
@overload
def floyd_steinberg(
    image: HostImage,
    palette: Palette | npt.ArrayLike | None = ...,
    *,
    color_space: str = ...,
    queue: runtime.CommandQueue | None = ...,
    progress: runtime.ProgressCallback | None = ...,
) -> npt.NDArray[Any]: ...
@reports_memory
def floyd_steinberg(
    image: ImageLike,
    palette: Palette | npt.ArrayLike | None = None,
    *,
    color_space: str = "srgb",
    queue: runtime.CommandQueue | None = None,
    progress: runtime.ProgressCallback | None = None,
) -> npt.NDArray[Any] | runtime.Array:
    """Floyd and Steinberg's error diffusion, left to right and top to bottom, equal to the serial scan.

    Parameters
    ----------
    image : path, PIL image, ndarray or device array
        Gray where there is no palette; at most 2^30 pixels per side; see `clquant.images`.
    palette : Palette or array_like, optional
    color_space : str
        "srgb", "linear" or "oklab": where colours are compared with a palette's.
    queue : pyopencl.CommandQueue, optional
    progress : callable, optional
        Called with (rows done, rows); returning False stops the job.

    Returns
    -------
    ndarray or device array (H, W)
        Without a palette 0 and 255, uint8, equal to Pillow's ``convert("1")``. With one, indices: the entry nearest to
        the 8-bit value, errors in Pillow's arithmetic (its ``quantize`` chooses entries by an inexact table instead).
        Of 16-bit pictures the same with 16-bit values, of which 32767 is nearer to black and 32768 to white.

    Raises
    ------
    InvalidArgument, InvalidType
        If an argument is not allowed, or the image is in colour and there is no palette, or it has pixels of alpha 0
        and the palette no entry of alpha 0.
    StoppedError
        If `progress` returned False.

    Notes
    -----
    R. W. Floyd, L. Steinberg, "An adaptive algorithm for spatial grey scale", 1976. A wavefront has no more parallel
    work than a picture has rows; the pinwheel has far more.
    """
    space = params.choice("color_space", color_space, spaces.NAMES)
    report = runtime.Progress(params.callback("progress", progress))
    checked = None if palette is None else as_palette(palette)
    picture = images.read_parts(image, max_bits=16)
    check_side(picture)
    if checked is None:
        _check_gray(picture)
    if picture.bits == 8:
        session = runtime.open_session(queue, images.device_arrays([picture]))
        if checked is None:
            return serial_gray(session, picture, report)
        if in_lanes(session, picture, checked):
            return palette_in_lanes(session, picture, checked, space, report)
    if checked is None:  # 16-bit values: black and white at places 0 and 255
        checked = Palette(np.repeat([[0, 0, 0], [255, 255, 255]], (255, 1), axis=0))
    scan = ErrorDiffusion(CLASSIC, error_space="srgb")
    found: runtime.Array = scan.dither(picture, checked, color_space=space, queue=queue, progress=progress)
    return found


def _check_gray(picture: images.Picture) -> None:
    if picture.channels != 1:
        raise runtime.InvalidArgument(f"image has {picture.channels} channels; allowed: gray, or give a palette")


def _dither_serially(image: Any, palette: Palette, **given: Any) -> Any:
    return floyd_steinberg(image, palette, **given)


def _dither_by_pinwheel(
    image: Any,
    palette: Palette,
    *,
    color_space: str,
    queue: runtime.CommandQueue | None,
    progress: runtime.ProgressCallback | None,
) -> Any:
    linear = color_space == "linear"
    engine = PinwheelHalftoner(palette=palette, color_space=color_space, linear=linear, queue=queue)
    return engine.transform(image, progress=progress)


register_dither("floyd-steinberg", _dither_serially)
register_dither("pinwheel", _dither_by_pinwheel)
