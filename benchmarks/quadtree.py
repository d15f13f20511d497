"""QuadtreeBuilder beside NumPy and Numba, and what the device could do at best. `python -m benchmarks.quadtree`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import PIL.Image
import pyopencl.array

from benchmarks import harness, measure
from benchmarks.harness import Options, Picture, Table
from benchmarks.quadtree_peers import NUMBA, with_numba, with_numpy
from clquant import QuadtreeBuilder, images, runtime
from clquant.quadtree import criteria, geometry
from clquant.quadtree.leaf_list import record_dtype
from clquant.quadtree.plan import Plan, Region
from clquant.quadtree.subtree import Subtree

THRESHOLD = 13


def reduction(queue: runtime.CommandQueue, picture: Picture) -> Callable[[], int]:
    """Exact statistics of all levels of a picture that is on the device; gives the bytes that they take there."""
    session = runtime.open_session(queue)
    height, width, channels = picture.shape
    on_device = pyopencl.array.to_device(queue, picture)
    criterion = criteria.check(THRESHOLD, "deviation", None, 1, None, picture.shape)
    level = geometry.root_level(height, width)
    region = Region(images.buffer_of(on_device), 0, width * channels, height, width, 0, 0, level)

    def call() -> int:
        with session.scope() as scope:
            subtree = Subtree(Plan(session, region, channels, criterion), scope, store_low=True)
            subtree.reduce()
            session.finish()
            assert on_device.size  # the pixels outlive the kernels
            return sum(buffer.size for buffer in subtree.buffers.values())

    return call


def device_time(options: Options, picture: Picture, copy_gbps: float) -> Table:
    """Kernel times by size; the bytes that must move at least, over the copy bandwidth, as a share of them."""
    columns = {
        "what": "picture",
        "leaves": "leaves",
        "stats": "all levels, ms",
        "stats_share": "share of copy",
        "list": "leaves alone, ms",
        "list_share": "share of copy ",
        "portable": "all levels, portable form, ms",
    }
    table = Table("Kernels: exact statistics of all levels; the path to the leaves alone", columns)
    queue = options.queue()
    builder = QuadtreeBuilder(THRESHOLD, queue=queue)
    for side in options.sizes(512, 1024, 2048, 4096, 8192):
        for kind, sized in (("enlarged", enlarged(picture, side)), ("mosaic", harness.to_size(picture, side, side))):
            levels = reduction(queue, sized)
            stats = harness.kernel_ms(levels, options.repeat)
            on_device = pyopencl.array.to_device(queue, sized)
            alone = harness.kernel_ms(partial(builder.leaves, on_device), options.repeat)
            count = len(builder.leaves(on_device))
            with runtime.force_variant("portable"):
                portable = harness.kernel_ms(levels, options.repeat)
            written = levels()
            least = sized.nbytes + count * record_dtype(3, False).itemsize
            table.add(
                what=f"{side}x{side} {kind}",
                leaves=count,
                stats=stats,
                stats_share=(sized.nbytes + written) / copy_gbps / 1e6 / stats,
                list=alone,
                list_share=least / copy_gbps / 1e6 / alone,
                portable=portable,
            )
    return table


def enlarged(picture: Picture, side: int) -> Picture:
    """A square part of the picture, smoothly enlarged: as smooth as large photographs are."""
    part = PIL.Image.fromarray(picture).crop((0, 0, min(picture.shape[:2]), min(picture.shape[:2])))
    return np.asarray(part.resize((side, side), PIL.Image.Resampling.BICUBIC))


def end_to_end(options: Options, picture: Picture, rates: measure.DeviceRates) -> Table:
    """Host array in, leaves out, beside the transfers' own time from pinned memory."""
    columns = {"what": "picture", "ms": "leaves, ms", "bound": "pinned transfers, ms", "ratio": "ratio"}
    table = Table("End to end: host array in, leaves out", columns)
    builder = QuadtreeBuilder(THRESHOLD, queue=runtime.default_queue(options.queue().device))
    for side in options.sizes(512, 2048, 8192):
        for kind, sized in (("enlarged", enlarged(picture, side)), ("mosaic", harness.to_size(picture, side, side))):
            timing = harness.time_call(partial(builder.leaves, sized), options.repeat)
            out = builder.leaves(sized).nbytes
            bound = sized.nbytes / rates.pinned_upload_gbps / 1e6 + out / rates.pinned_download_gbps / 1e6
            table.add(what=f"{side}x{side} {kind}", ms=timing.median_ms, bound=bound, ratio=timing.median_ms / bound)
    return table


def beside_the_cpu(options: Options, picture: Picture) -> Table:
    """All levels with exact statistics: our kernels and the CPU's peers, in one run."""
    columns = {"method": "method", "what": "picture", "ms": "all levels, ms"}
    table = Table("All levels beside the CPU", columns, note="Ours: kernel time, picture on the device.")
    queue = options.queue()
    for side in options.sizes(512, 2048):
        sized = harness.to_size(picture, side, side)
        name = f"{side}x{side}"
        table.add(method="clquant", what=name, ms=harness.kernel_ms(reduction(queue, sized), options.repeat))
        with runtime.force_variant("portable"):
            portable = harness.kernel_ms(reduction(queue, sized), options.repeat)
        table.add(method="clquant, portable form", what=name, ms=portable)
        timing = harness.time_call(partial(with_numpy, sized, THRESHOLD), options.repeat, budget_s=10)
        table.add(method="NumPy", what=name, ms=timing.median_ms)
        if NUMBA is not None:
            timing = harness.time_call(partial(with_numba(), sized, THRESHOLD), options.repeat)
            table.add(method="Numba, all cores", what=name, ms=timing.median_ms)
    if NUMBA is None:
        table.add(method="Numba: not installed")
    return table


def run(options: Options) -> Iterator[Table]:
    """All tables of this topic."""
    picture = next(iter(harness.pictures(options).values()))
    rates = measure.device_rates(options.queue(), megabytes=64 if options.quick else 256)
    yield device_time(options, picture, rates.copy_gbps)
    yield end_to_end(options, picture, rates)
    yield beside_the_cpu(options, picture)


if __name__ == "__main__":
    harness.main(run)
