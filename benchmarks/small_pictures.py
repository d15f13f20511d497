"""Thousands of small pictures: `fit_many` beside a loop over peers. `python -m benchmarks.small_pictures`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks import harness
from benchmarks.harness import Options, Picture, Table
from benchmarks.palette_peers import methods
from clquant import KMeansPalette, NeuQuantCL, quality

SIDE = 64
# Colours, and how many times fewer pictures are learned.
JOBS = {16: 1, 256: 10}
LOOPED = 200
COLUMNS = {
    "method": "method",
    "count": "pictures",
    "each_us": "a picture, us",
    "kernel_us": "kernels, us",
    "mse": "MSE",
}


def _mapped(picture: Picture, colors: np.ndarray) -> Picture:
    """The picture in a palette's colours, for its error; not timed."""
    difference = picture.reshape(-1, 1, 3).astype(np.int32) - colors.astype(np.int32)
    return colors[(difference**2).sum(axis=2).argmin(axis=1)].reshape(picture.shape)


def _table(options: Options, icons: list[Picture], colors: int, count: int) -> Table:
    """Palettes of so many colours: ours all at once, peers one by one (they map the pixels as well)."""
    many = (icons * (count // len(icons) + 1))[:count]
    table = Table(f"Palettes of {colors} colours for pictures of {SIDE}x{SIDE}", COLUMNS)
    for engine in (KMeansPalette(colors, queue=options.queue()), NeuQuantCL(colors, queue=options.queue())):
        palettes = engine.fit_many(icons)
        timing = harness.time_call(partial(engine.fit_many, many), 3, budget_s=30)
        table.add(
            method=f"clquant {type(engine).__name__}.fit_many",
            count=count,
            each_us=1000 * timing.median_ms / count,
            kernel_us=1000 * harness.kernel_ms(partial(engine.fit_many, many)) / count,
            mse=float(np.mean([quality.mse(i, _mapped(i, p.colors)) for i, p in zip(icons, palettes, strict=True)])),
        )
    found, missing = methods(slow=False)
    for method, call in found.items():
        timing = harness.time_call(lambda call=call: [call(icon, colors) for icon in icons], 3, budget_s=20)
        error = float(np.mean([quality.mse(icon, call(icon, colors)) for icon in icons]))
        table.add(
            method=f"{method}, in a loop", count=len(icons), each_us=1000 * timing.median_ms / len(icons), mse=error
        )
    for method in missing:
        table.add(method=f"{method}: not installed")
    return table


def run(options: Options) -> Iterator[Table]:
    """Palettes for icons of 64x64."""
    count = 1000 if options.quick else 10_000
    each = LOOPED // len(harness.pictures(options)) + 1
    icons = [icon for p in harness.pictures(options).values() for icon in harness.batch_of(p, each, SIDE)][:LOOPED]
    for colors, fewer in JOBS.items():
        yield _table(options, icons, colors, count // fewer)


if __name__ == "__main__":
    harness.main(run)
