"""The ``dither=`` argument: a registry of the ways to choose indices other than the nearest colour.

A ditherer is a function of a picture and a palette. Modules that provide one register it under a name when they are
imported; those of this library are imported when one of their names is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from clquant.color.palette import Palette
from clquant.dithering.error_filters import FILTERS
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
        """Indices (H, W), uint8 up to 256 colours, else uint16; a device array where `image` is one.

        Parameters
        ----------
        image : object
            Whatever `clquant.images.read` takes.
        color_space : str
            The space in which colours are compared.
        """


_DITHERERS: dict[str, Ditherer] = {}
# Names by the module that registers them.
_BUILT_IN = {
    "clquant.dithering.error_diffusion": ("leaky", *(name for name in FILTERS if name != "floyd-steinberg")),
    "clquant.dithering.ordered": ("blue-noise", "bayer", "bayer2", "bayer4", "bayer8", "bayer16"),
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
    """The ditherer that a ``dither=`` argument stands for.

    Parameters
    ----------
    dither : None, bool, str or object
        None or False (nearest colour), True (`DEFAULT`), a registered name, or an object with a method ``dither`` of
        `Ditherer`'s form.
    """
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
        raise InvalidType(f"dither is a {type(dither).__name__}; {allowed}")
    found: Ditherer = method
    return found
