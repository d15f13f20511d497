"""The pixels that a subtree is built of."""

from __future__ import annotations

from dataclasses import dataclass

from clquant import runtime


@dataclass(frozen=True)
class Region:
    """Pixels on the device from which one subtree is built."""

    pixels: runtime.Buffer
    origin: int  # byte of the first pixel
    pitch: int  # bytes from one row to the next
    height: int  # pixels inside the picture
    width: int  # likewise
    left: int  # the subtree's corner in the picture
    top: int  # likewise
    level: int  # of the subtree's root, which may be wider than the pixels inside
