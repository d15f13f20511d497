"""The ``dither=`` argument: a registry of the ways to choose indices other than the nearest colour.

A ditherer is a function of a picture and a palette. Modules that provide one register it under a name; `palette/`
itself knows none of the engines.
"""

from __future__ import annotations

from typing import Any, Protocol

from clquant.color.palette import Palette
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
        palette : Palette
        color_space : str
            The space in which colours are compared.
        queue : pyopencl.CommandQueue or None
        progress : callable or None
        """


_DITHERERS: dict[str, Ditherer] = {}
DEFAULT = "leaky"
"""What ``dither=True`` stands for."""


def register_dither(name: str, ditherer: Ditherer) -> None:
    """Make a ditherer available as ``dither=name``; a later one of the same name takes its place.

    Parameters
    ----------
    name : str
    ditherer : callable
        See `Ditherer`.
    """
    _DITHERERS[name] = ditherer


def dither_names() -> tuple[str, ...]:
    """The registered names, sorted."""
    return tuple(sorted(_DITHERERS))


def find_dither(dither: Any) -> Ditherer | None:
    """The ditherer that a ``dither=`` argument stands for.

    Parameters
    ----------
    dither : None, bool, str or object
        None or False (nearest colour), True (`DEFAULT`), a registered name, or an object with a method ``dither`` of
        `Ditherer`'s form.

    Returns
    -------
    callable or None

    Raises
    ------
    InvalidArgument
        If no ditherer has that name.
    InvalidType
        If it is neither.
    """
    allowed = f"allowed: None, a bool, {', '.join(map(repr, dither_names()))}, or an object with a method dither()"
    if dither is None or isinstance(dither, bool):
        return _DITHERERS[DEFAULT] if dither else None
    if isinstance(dither, str):
        if dither not in _DITHERERS:
            raise InvalidArgument(f"dither is {dither!r}; {allowed}")
        return _DITHERERS[dither]
    method = getattr(dither, "dither", None)
    if isinstance(dither, type) or not callable(method):
        raise InvalidType(f"dither is a {type(dither).__name__}; {allowed}")
    found: Ditherer = method
    return found
