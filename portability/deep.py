"""Jobs of 16-bit pictures, for `portability/jobs.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import clquant
from clquant import runtime
from clquant.color import spaces
from clquant.palette import engine
from portability.inputs import noise, photo

Result = Mapping[str, Any]


def deep(height: int, width: int, channels: int) -> Any:
    """`photo` with all 16 bits; alpha of 0 and of opaque pixels stays."""
    plain = photo(height, width, channels)
    values = plain.astype(np.int64) * 257 + noise(height, width, channels, 5).reshape(plain.shape) // 2 - 64
    if channels == 4:
        values[..., 3] = plain[..., 3].astype(np.int64) * 257
    return np.clip(values, 0, 65535).astype(np.uint16)


def _counted(picture: Any) -> Callable[[runtime.CommandQueue], Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        colors, counts = clquant.ColorHistogram.of(picture, queue=queue).to_arrays()
        return {"colors": colors, "counts": counts}

    return run


def _mapped(picture: Any, colors: int, color_space: str, *dithers: Any) -> Callable[[runtime.CommandQueue], Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        channels = picture.shape[2]
        table = noise(colors, 1, channels, seed=9).astype(np.uint8).reshape(colors, channels)
        if channels == 4:
            table[0] = 0  # the entry for pixels of alpha 0
        options = {"color_space": color_space, "queue": queue}
        palette = clquant.Palette(table)
        return {f"dither {i}": engine.predict(picture, palette, dither=d, **options) for i, d in enumerate(dithers)}

    return run


def _halftones(picture: Any, **arguments: Any) -> Callable[[runtime.CommandQueue], Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        return {"halftone": clquant.PinwheelHalftoner(queue=queue, random_state=7, **arguments).transform(picture)}

    return run


def _leaves(picture: Any, **arguments: Any) -> Callable[[runtime.CommandQueue], Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        leaves = clquant.QuadtreeBuilder(queue=queue, **arguments).leaves(picture)
        return {name: leaves[name] for name in ("x", "y", "size", "mean")}

    return run


_DIFFUSED = (clquant.ErrorDiffusion("stucki"), "leaky", "floyd-steinberg")

SMALL_DEEP = {
    "16 bits count": _counted(deep(24, 28, 3)),
    "16 bits map": _mapped(deep(24, 28, 4), 40, "oklab", None, "bayer4"),
    "16 bits halftone": _halftones(deep(40, 37, 1), block_size=8),
    "16 bits quadtree": _leaves(deep(40, 37, 3)),
}
DEEP = {
    "16 bits count rgba": _counted(deep(61, 83, 4)),
    "16 bits count gray": _counted(deep(61, 83, 1)),
    "16 bits map by cells": _mapped(deep(300, 326, 3), 256, "srgb", None, "blue-noise"),
    "16 bits map linear": _mapped(
        deep(41, 67, 3), 60, "linear", None, clquant.OrderedDither("bayer", size=256, means="near")
    ),
    "16 bits diffusion": _mapped(deep(61, 83, 3), 16, "srgb", *_DIFFUSED),
    "16 bits diffusion rgba": _mapped(deep(61, 83, 4), 16, "oklab", *_DIFFUSED),
    "16 bits halftone rgba": _halftones(deep(61, 83, 4), block_size=16, levels=5, linear=True),
    "16 bits quadtree luma": _leaves(deep(130, 257, 3), criterion="luma", threshold=20.5, min_size=2),
    "16 bits quadtree range": _leaves(deep(130, 257, 4), criterion="range", threshold=90, max_depth=6),
    "16 bits quadtree weighted": _leaves(deep(61, 83, 3), criterion="weighted", weights=[3, 6, 1]),
}
_IN_OKLAB = ("16 bits map", "16 bits diffusion rgba")


def table_bytes(name: str) -> int:
    """Bytes of the largest table of a job: OKLab of 16 bits has one of 2.4 MB."""
    return spaces.space("oklab", False, 16).tables().nbytes if name in _IN_OKLAB else 0
