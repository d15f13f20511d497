"""The pixels that a subtree is built of."""

from __future__ import annotations

from dataclasses import dataclass

from clquant import runtime


@dataclass(frozen=True)
class Region:
    """Pixels on the device that one subtree is built of.

    Attributes
    ----------
    pixels : pyopencl.Buffer
    origin, pitch : int
        Byte of the first pixel; bytes from one row to the next.
    height, width : int
        Pixels inside the picture.
    left, top : int
        The subtree's corner in the picture.
    level : int
        Of the subtree's root, which may be wider than the pixels inside.
    """

    pixels: runtime.Buffer
    origin: int
    pitch: int
    height: int
    width: int
    left: int
    top: int
    level: int
