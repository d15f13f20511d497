"""Dithering to a palette beside Pillow's, time and visual error: `python -m benchmarks.dithering --images FOLDER`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import PIL.Image

from benchmarks import harness
from benchmarks.harness import Options, Table
from clquant import Palette, quality, runtime
from clquant.palette import engine

Picture = npt.NDArray[np.uint8]
NAMES = (None, "blue-noise", "bayer8", "floyd-steinberg", "pinwheel")


def pillow_palette(picture: Picture, colors: int) -> PIL.Image.Image:
    """Pillow's median cut, which every method here maps to."""
    return PIL.Image.fromarray(picture).quantize(colors, dither=PIL.Image.Dither.NONE)


def pillow(picture: Picture, palette: PIL.Image.Image, dither: PIL.Image.Dither) -> Picture:
    """`Image.quantize` to a given palette."""
    return np.asarray(PIL.Image.fromarray(picture).quantize(palette=palette, dither=dither).convert("RGB"))


def methods(picture: Picture, colors: int, queue: runtime.CommandQueue) -> dict[str, Callable[[], Picture]]:
    """Calls without arguments, from the host's picture to the host's result, all with the same palette."""
    made = pillow_palette(picture, colors)
    palette = Palette(np.array(made.getpalette(), np.uint8).reshape(-1, 3)[:colors])
    calls: dict[str, Callable[[], Picture]] = {
        f"clquant, dither={name!r}": partial(engine.transform, picture, palette, dither=name, queue=queue)
        for name in NAMES
    }
    calls["Pillow, no dither"] = partial(pillow, picture, made, PIL.Image.Dither.NONE)
    calls["Pillow, Floyd-Steinberg"] = partial(pillow, picture, made, PIL.Image.Dither.FLOYDSTEINBERG)
    return calls


def run(options: Options) -> Iterator[Table]:
    """One picture's times, then all pictures' visual errors."""
    queue = options.queue()
    pictures = list(harness.pictures(options, 2 if options.quick else None).values())
    height, width = (270, 480) if options.quick else (1080, 1920)
    large = harness.to_size(pictures[0], height, width)
    for colors in (16, 256):
        times = Table(f"Mapping {width}x{height} to {colors} colours", {"method": "method", "ms": "ms"})
        for name, call in methods(large, colors, queue).items():
            times.add(method=name, ms=harness.time_call(call, options.repeat, budget_s=5).median_ms)
        yield times
    sizes = (16,) if options.quick else (4, 16, 64)
    errors = Table(
        f"Mean visual error over {len(pictures)} pictures", {"method": "method"} | {f"k{k}": f"k = {k}" for k in sizes}
    )
    found: dict[str, dict[str, float]] = {}
    for k in sizes:
        for picture in pictures:
            for name, call in methods(picture, k, queue).items():
                cells = found.setdefault(name, {})
                cells[f"k{k}"] = cells.get(f"k{k}", 0.0) + quality.visual_error(picture, call()) / len(pictures)
    for name, cells in found.items():
        errors.add(method=name, **cells)
    yield errors


if __name__ == "__main__":
    harness.main(run)
