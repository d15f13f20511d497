"""Quality figures and what trees give out, beside scikit-image: `python -m benchmarks.quality`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks import harness
from benchmarks.harness import Options, Picture, Table
from clquant import QuadtreeBuilder, quality

SKIMAGE = harness.peer("skimage.metrics")
GAUSSIAN = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}


def measures(options: Options, picture: Picture) -> Table:
    """Every measure of two ordinary arrays, and scikit-image's of the same."""
    columns = {"method": "method", "what": "pictures", "ms": "end to end, ms", "ns": "ns per pixel"}
    table = Table("Quality of one picture against another", columns, note="scikit-image: on one core.")
    queue = options.queue()
    for side in options.sizes(512, 2048, 8192):
        first = harness.to_size(picture, side, side)
        second = (first // 32 * 32 + 16).astype(np.uint8)
        gray = first[..., 0].copy(), second[..., 0].copy()
        calls: dict[str, Callable[[], object]] = {
            measure.__name__: partial(measure, first, second, queue=queue)
            for measure in (
                quality.psnr,
                quality.ssim,
                quality.visual_error,
                quality.speck_error,
                quality.color_difference,
                quality.blurred_color_difference,
            )
        }
        calls["ssim, gray"] = partial(quality.ssim, *gray, queue=queue)
        if SKIMAGE is not None and side <= 2048:
            calls["scikit-image, SSIM of gray, the same window"] = partial(
                SKIMAGE.structural_similarity, *gray, **GAUSSIAN
            )
            calls["scikit-image, SSIM of gray, its own window"] = partial(SKIMAGE.structural_similarity, *gray)
        for name, call in calls.items():
            timing = harness.time_call(call, options.repeat)
            table.add(method=name, what=f"{side}x{side}", ms=timing.median_ms, ns=1e6 * timing.median_ms / side**2)
    return table


def trees(options: Options, picture: Picture) -> Table:
    """What a tree gives out, from its list of leaves and its picture."""
    columns = {"call": "call", "what": "picture", "ms": "end to end, ms", "ns": "ns per pixel"}
    table = Table("What quadtrees give out", columns)
    builder = QuadtreeBuilder(queue=options.queue())
    for side in options.sizes(512, 2048, 8192):
        sized = harness.to_size(picture, side, side)
        tree = builder.build(sized)
        calls: dict[str, Callable[[], object]] = {
            "leaves": partial(builder.leaves, sized),
            "build": partial(builder.build, sized),
            "render": tree.render,
            "outline": tree.outline,
            "frames, the sixth": lambda tree=tree: tree.frames()[6],
            "squared_error": tree.squared_error,
            "compression": tree.compression,
            "to_array": tree.to_array,
        }
        for name, call in calls.items():
            timing = harness.time_call(call, options.repeat)
            table.add(call=name, what=f"{side}x{side}", ms=timing.median_ms, ns=1e6 * timing.median_ms / side**2)
    return table


def run(options: Options) -> Iterator[Table]:
    """All tables of this topic."""
    picture = next(iter(harness.pictures(options).values()))
    yield measures(options, picture)
    yield trees(options, picture)


if __name__ == "__main__":
    harness.main(run)
