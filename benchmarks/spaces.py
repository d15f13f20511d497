"""Fits in OKLab beside the peers, by what the eye sees: `python -m benchmarks.spaces --images FOLDER`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks import harness
from benchmarks.harness import Options, Table
from benchmarks.palette_peers import Method, methods
from clquant import KMeansPalette, quality, runtime

SIZES = (16, 64, 256)


def ours(queue: runtime.CommandQueue, space: str, picture: npt.NDArray[np.uint8], colors: int) -> npt.NDArray[np.uint8]:
    """Our engine in one colour space."""
    engine = KMeansPalette(colors, color_space=space, queue=queue).fit(picture)
    return engine.palette_.colors[engine.predict(picture)]


def run(options: Options) -> Iterator[Table]:
    """Mean CIEDE2000 and OKLab differences over all pictures."""
    pictures = list(harness.pictures(options, 2 if options.quick else None).values())
    sizes = SIZES[:1] if options.quick else SIZES
    columns = {"method": "method"}
    columns |= {f"de{k}": f"CIEDE2000, k = {k}" for k in sizes} | {f"ok{k}": f"100 OKLab dE, k = {k}" for k in sizes}
    table = Table(f"Mean colour difference over {len(pictures)} pictures, without dithering", columns)
    queue = options.queue()
    calls: dict[str, Method] = {f'clquant, "{s}"': partial(ours, queue, s) for s in ("oklab", "linear", "srgb")}
    calls |= methods(slow=not options.quick and len(pictures) <= 4)[0]
    for name, call in calls.items():
        cells = {}
        for k in sizes:
            results = [(picture, call(picture, k)) for picture in pictures]
            for key, formula in (("de", "ciede2000"), ("ok", "oklab")):
                found = [quality.color_difference(a, b, formula, queue=queue) for a, b in results]
                cells[f"{key}{k}"] = float(np.mean(found))
        table.add(method=name, **cells)
    yield table


if __name__ == "__main__":
    harness.main(run)
