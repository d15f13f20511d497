"""The ``dither=`` argument: a registry of the ways to choose indices other than the nearest colour.

A ditherer is a function of a picture and a palette. Modules that provide one register it under a name when they are
imported; those of this library are imported when one of their names is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from clquant import flow, params
from clquant.color.palette import Palette, as_palette
from clquant.dithering.error_filters import FILTERS
from clquant.dithering.threshold_maps import ORDERED
from clquant.runtime import CommandQueue, InvalidArgument, InvalidType, ProgressCallback


class Ditherer(Protocol):
    """Chooses a palette index for every pixel."""

    def __call__(
        self,
        image: Any,
        palette: Palette,
        *,
        color_space: str,
        queue: CommandQueue | None,
        progress: ProgressCallback | None,
    ) -> Any:
        """Indices (H, W), uint8 up to 256 colours, else uint16; a device array where `image` is one."""


class JobDither:
    """A way to dither that is a job of `clquant.flow`."""

    def _job(self, palette: Palette, color_space: str) -> flow.Map:
        """Return the job that chooses indices; raises InvalidArgument or InvalidType if a parameter is not allowed."""
        raise NotImplementedError

    def _for_learned(self) -> JobDither:
        """Return the way to dither to a palette that an engine learned, where this one leaves that open."""
        return self

    def dither(
        self,
        image: Any,
        palette: Palette,
        *,
        color_space: str = "srgb",
        queue: CommandQueue | None = None,
        progress: ProgressCallback | None = None,
    ) -> Any:
        """Palette indices of an image, dithered.

        Parameters
        ----------
        image : image
            Whatever `clquant.images.read` takes; for `ErrorDiffusion` at most 2^30 pixels per side.
        palette : Palette or array_like
        color_space : str
            Where colours are compared, ``"srgb"``, ``"linear"`` or ``"oklab"``.
        queue : pyopencl.CommandQueue, optional
        progress : callable, optional
            Called with (rows done, rows), by `SearchDither` with (passes done, passes); returning False stops the job.

        Returns
        -------
        ndarray or pyopencl.array.Array
            (H, W) uint8 up to 256 colours, else uint16; on the device for a device array, a lazy one for a Dask array.
            The same on every device, and whether or not the picture fits its memory as a whole.

        Raises
        ------
        InvalidArgument, InvalidType
            If a parameter is not allowed, or the image is not, or it has pixels of alpha 0 and the palette no entry of
            alpha 0.
        StoppedError
            If `progress` returned False.
        """
        return flow.run(self._job(as_palette(palette), color_space), image, queue=queue, progress=progress)


_DITHERERS: dict[str, Ditherer] = {}
# Names by the module that registers them.
_BUILT_IN = {
    "clquant.dithering.error_diffusion": ("leaky", *(name for name in FILTERS if name != "floyd-steinberg")),
    "clquant.dithering.ordered": tuple(ORDERED),
    "clquant.dithering.search": ("search",),
    "clquant.halftone.floyd_steinberg": ("floyd-steinberg", "pinwheel"),
}
_MODULE_OF = {name: module for module, names in _BUILT_IN.items() for name in names}
DEFAULT = "leaky"
"""What ``dither=True`` stands for."""


def register_dither(name: str, ditherer: Ditherer) -> None:
    """Make a ditherer available as ``dither=name``; a later one of the same name takes its place."""
    _DITHERERS[name] = ditherer


def dither_names() -> tuple[str, ...]:
    """The registered names, sorted."""
    return tuple(sorted({*_DITHERERS, *_MODULE_OF}))


def _registered(name: str) -> Ditherer | None:
    if name not in _DITHERERS and name in _MODULE_OF:
        importlib.import_module(_MODULE_OF[name])
    return _DITHERERS.get(name)


def find_dither(dither: Any) -> Ditherer | None:
    """Return the ditherer of a ``dither=`` argument: None, a bool, a registered name or a `Ditherer`."""
    allowed = f"allowed: None, a bool, {', '.join(map(repr, dither_names()))}, or an object with a method dither()"
    if dither is None or isinstance(dither, bool):
        return _registered(DEFAULT) if dither else None
    if isinstance(dither, str):
        registered = _registered(dither)
        if registered is None:
            raise InvalidArgument(f"dither is {dither!r}; {allowed}")
        return registered
    method = getattr(dither, "dither", None)
    if isinstance(dither, type) or not callable(method):
        raise InvalidType(f"dither is {params.shown(dither)}; {allowed}")
    found: Ditherer = method
    return found


def for_learned(dither: Any) -> Any:
    """Return a ``dither=`` argument as an engine that learned the palette takes it."""
    owner = getattr(find_dither(dither), "__self__", None)
    return owner._for_learned() if isinstance(owner, JobDither) else dither


def job_of(ditherer: Ditherer, palette: Palette, color_space: str) -> flow.Map | None:
    """The job of a ditherer; None for the caller's own, which may have none."""
    owner = getattr(ditherer, "__self__", None)
    return owner._job(palette, color_space) if isinstance(owner, JobDither) else None
