"""Dithering to one palette by Pillow and here, each behind one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import Palette, runtime
from clquant.palette import engine

Picture = npt.NDArray[np.uint8]
NAMES = (None, "blue-noise", "bayer8", "floyd-steinberg", "pinwheel")


def pillow_palette(picture: Picture, colors: int) -> PIL.Image.Image:
    """Pillow's median cut, which every method here maps to."""
    return PIL.Image.fromarray(picture).quantize(colors, dither=PIL.Image.Dither.NONE)


def palette_of(made: PIL.Image.Image, colors: int) -> Palette:
    """The palette of Pillow's picture."""
    return Palette(np.array(made.getpalette(), np.uint8).reshape(-1, 3)[:colors])


def pillow(picture: Picture, palette: PIL.Image.Image, dither: PIL.Image.Dither) -> Picture:
    """`Image.quantize` to a given palette."""
    return np.asarray(PIL.Image.fromarray(picture).quantize(palette=palette, dither=dither).convert("RGB"))


def methods(picture: Picture, colors: int, queue: runtime.CommandQueue) -> dict[str, Callable[[], Picture]]:
    """Calls without arguments, from the host's picture to the host's result, all with the same palette."""
    made = pillow_palette(picture, colors)
    palette = palette_of(made, colors)
    calls: dict[str, Callable[[], Picture]] = {
        f"clquant, dither={name!r}": partial(engine.transform, picture, palette, dither=name, queue=queue)
        for name in NAMES
    }
    calls["Pillow, no dither"] = partial(pillow, picture, made, PIL.Image.Dither.NONE)
    calls["Pillow, Floyd-Steinberg"] = partial(pillow, picture, made, PIL.Image.Dither.FLOYDSTEINBERG)
    return calls
