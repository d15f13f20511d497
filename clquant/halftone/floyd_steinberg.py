"""Floyd and Steinberg's serial error diffusion, for people who ask for the classic; and the names for ``dither=``."""

from __future__ import annotations

from typing import Any, overload

import numpy.typing as npt

from clquant import flow, images, params, runtime
from clquant.color import spaces
from clquant.color.palette import Palette, as_palette
from clquant.dithering.error_diffusion import CLASSIC, ErrorDiffusion
from clquant.dithering.registry import JobDither, register_dither
from clquant.halftone.halftoner import PinwheelHalftoner
from clquant.halftone.serial.scan import BlackAndWhite, Classic
from clquant.images import HostImage, ImageLike


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
    params.choice("color_space", color_space, spaces.NAMES)
    given: dict[str, Any] = {"queue": queue, "progress": progress}
    if palette is not None:
        return _Classic().dither(image, as_palette(palette), color_space=color_space, **given)  # type: ignore[no-any-return]
    params.callback("progress", progress)
    picture = images.read(image, max_bits=16)
    if picture.channels != 1:
        raise runtime.InvalidArgument(f"image has {picture.channels} channels; allowed: gray, or give a palette")
    return flow.run(BlackAndWhite(), picture, **given)  # type: ignore[no-any-return]


class _Classic(JobDither):
    """``"floyd-steinberg"``."""

    def _job(self, palette: Palette, color_space: str) -> Classic:
        """The serial scan with errors of 8-bit values."""
        return Classic(palette, color_space, ErrorDiffusion(CLASSIC, error_space="srgb"))


class _Pinwheel(JobDither):
    """``"pinwheel"``."""

    def _job(self, palette: Palette, color_space: str) -> flow.Map:
        """The halftone to a palette."""
        return PinwheelHalftoner(palette=palette, color_space=color_space, linear=color_space == "linear")._job()


register_dither("floyd-steinberg", _Classic().dither)
register_dither("pinwheel", _Pinwheel().dither)
