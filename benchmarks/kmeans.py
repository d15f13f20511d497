"""KMeansPalette beside the palette makers that people use: time, quality, growth. `python -m benchmarks.kmeans`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from benchmarks import harness
from benchmarks.harness import Options, Picture, Table
from benchmarks.palette_peers import SKLEARN, Method, methods, scikit_learn_converged
from clquant import KMeansPalette, quality, runtime

OURS = "clquant KMeansPalette"
TIMES = {
    "method": "method",
    "ms": "end to end, ms",
    "kernel_ms": "kernels, ms",
    "mse": "MSE",
    "psnr": "PSNR, dB",
}


def ours(queue: runtime.CommandQueue) -> Method:
    """Our engine, learning and mapping: host picture in, host picture in its palette out."""

    def call(picture: Picture, colors: int) -> Picture:
        engine = KMeansPalette(colors, queue=queue).fit(picture)
        return engine.palette_.colors[engine.predict(picture)]

    return call


def beside_peers(options: Options, picture: Picture, name: str, colors: int, slow: bool) -> Table:
    """One picture, one palette size, every method."""
    height, width = picture.shape[:2]
    title = f"{colors} colours for {name}, {width}x{height}, {_distinct(picture)} distinct colours"
    table = Table(title, TIMES, note="One call learns a palette and maps every pixel. No dithering.")
    queue = options.queue()
    found, missing = methods(slow)
    for method, call in {OURS: ours(queue), **found}.items():
        repeat = options.repeat if method == OURS else 3
        timing = harness.time_call(partial(call, picture, colors), repeat, budget_s=10)
        result = call(picture, colors)
        kernels = harness.kernel_ms(partial(call, picture, colors)) if method == OURS else None
        error = quality.mse(picture, result)
        table.add(method=method, ms=timing.median_ms, kernel_ms=kernels, mse=error, psnr=quality.psnr(picture, result))
    for method in missing:
        table.add(method=f"{method}: not installed")
    return table


def _distinct(picture: Picture) -> int:
    values = picture.reshape(-1, 3).astype(np.uint32)
    return len(np.unique(values[:, 0] << 16 | values[:, 1] << 8 | values[:, 2]))


def mean_quality(options: Options, pictures: Mapping[str, Picture], sizes: tuple[int, ...]) -> Table:
    """Mean MSE over many pictures, for each palette size; scikit-learn runs until it converges."""
    columns = {"method": "method"} | {f"k{k}": f"k = {k}" for k in sizes}
    title = f"Mean MSE over {len(pictures)} pictures, without dithering"
    table = Table(title, columns, note="Pillow's k-means starts from its median cut.")
    calls: dict[str, Method] = {OURS: ours(options.queue()), **methods(slow=False)[0]}
    if SKLEARN is not None and not options.quick:
        calls["scikit-learn, converged"] = scikit_learn_converged
    for method, call in calls.items():
        means = {f"k{k}": float(np.mean([quality.mse(p, call(p, k)) for p in pictures.values()])) for k in sizes}
        table.add(method=method, **means)
    return table


def growth(options: Options, picture: Picture) -> Table:
    """End-to-end time by size of the picture, and by palette size."""
    columns = {"what": "picture, colours", "mpx": "megapixels"}
    queue = options.queue()
    found, _ = methods(slow=False)
    calls = {OURS: ours(queue), **found}
    columns |= {f"m{i}": f"{name}, ms" for i, name in enumerate(calls)} | {"kernels": "our kernels, ms"}
    table = Table("Growth with size and with the number of colours", columns)
    cases = [(side, 256) for side in options.sizes(64, 256, 1024, 2048, 4096, 8192, 16384)]
    cases += [(options.sizes(512, 1024)[-1], k) for k in (2, 16, 64, 1024, 4096)]
    for side, colors in cases:
        sized = harness.to_size(picture, side, side)
        cells = {}
        for i, (name, call) in enumerate(calls.items()):
            if colors > 256 and name != OURS:
                continue  # their limit
            timing = harness.time_call(partial(call, sized, colors), options.repeat, budget_s=5)
            cells[f"m{i}"] = timing.median_ms
        kernels = harness.kernel_ms(partial(ours(queue), sized, colors), repeat=1)
        table.add(what=f"{side}x{side}, {colors}", mpx=side * side / 1e6, kernels=kernels, **cells)
    return table


def run(options: Options) -> Iterator[Table]:
    """All tables of this topic."""
    pictures = harness.pictures(options)
    name, first = next(iter(pictures.items()))
    size = (270, 480) if options.quick else (1080, 1920)
    photo = harness.to_size(first, *size)
    yield beside_peers(options, photo, name, 256, slow=not options.quick)
    yield growth(options, first)
    yield mean_quality(options, pictures, (16, 64, 256))


if __name__ == "__main__":
    harness.main(run)
