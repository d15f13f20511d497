"""Dithering to a palette beside Pillow's, time and visual error: `python -m benchmarks.dithering --images FOLDER`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from benchmarks import harness
from benchmarks.harness import Options, Table
from clquant import Palette, quality, runtime
from clquant.palette import engine

Picture = npt.NDArray[np.uint8]
NAMES = (None, "blue-noise", "bayer8", "floyd-steinberg", "pinwheel")
# Pictures that are timed, of those that are judged.
TIMED = 6


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


PILLOW = "Pillow, Floyd-Steinberg"


def mappings(picture: Picture, colors: int, queue: runtime.CommandQueue) -> dict[str, Callable[[], Any]]:
    """Calls that give indices: ours, and Pillow's to the same palette; last the one that makes it, undithered."""
    image = PIL.Image.fromarray(picture)
    made = pillow_palette(picture, colors)
    palette = palette_of(made, colors)
    calls: dict[str, Callable[[], Any]] = {
        f"clquant, dither={name!r}": partial(engine.predict, picture, palette, dither=name, queue=queue)
        for name in NAMES
    }
    calls["Pillow, no dither"] = partial(image.quantize, palette=made, dither=PIL.Image.Dither.NONE)
    calls[PILLOW] = partial(image.quantize, palette=made, dither=PIL.Image.Dither.FLOYDSTEINBERG)
    calls["Pillow, median cut, no dither"] = partial(image.quantize, colors)
    return calls


def times(pictures: Iterable[Picture], colors: int, options: Options, queue: runtime.CommandQueue) -> Table:
    """Mean times over pictures, and what share of Pillow's time each takes."""
    found: dict[str, list[float]] = {}
    for picture in pictures:
        for name, call in mappings(picture, colors, queue).items():
            found.setdefault(name, []).append(harness.time_call(call, options.repeat, budget_s=5).median_ms)
    height, width = picture.shape[:2]
    title = f"Mapping {width}x{height} to {colors} colours, {len(found[PILLOW])} pictures, host to host"
    table = Table(title, {"method": "method", "ms": "ms", "share": "of Pillow's Floyd-Steinberg"})
    for name, ms in found.items():
        table.add(method=name, ms=sum(ms) / len(ms), share=sum(ms) / sum(found[PILLOW]))
    return table


def run(options: Options) -> Iterator[Table]:
    """Some pictures' times, then all pictures' visual errors."""
    queue = options.queue()
    pictures = list(harness.pictures(options, 2 if options.quick else None).values())
    height, width = (270, 480) if options.quick else (1080, 1920)
    for colors in (16, 256):
        yield times([harness.to_size(p, height, width) for p in pictures[:TIMED]], colors, options, queue)
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
