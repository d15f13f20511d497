"""Each hot kernel beside the least that the device needs for its bytes or operations: `python -m benchmarks limits`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyopencl.array

from benchmarks import harness
from benchmarks.harness import Options, Table
from benchmarks.quadtree import THRESHOLD, reduction
from benchmarks.vq import codec_of, gray
from clquant import (
    KMeansPalette,
    NeuQuantCL,
    Palette,
    PinwheelHalftoner,
    QuadtreeBuilder,
    floyd_steinberg,
    images,
    runtime,
)
from clquant.palette import engine
from clquant.palette.counting import count_colors
from clquant.quadtree.reduction import record_dtype
from clquant.runtime import measure

COLUMNS = {
    "kernel": "kernel",
    "ms": "kernels, ms",
    "launches": "launches",
    "least": "least it must do",
    "limit_ms": "limit, ms",
    "share": "share of the limit",
    "term": "limit by",
}
CODEWORDS, COLORS = 1024, 256


class Limits:
    """The table, the device's rates, and the picture on the device."""

    def __init__(self, options: Options) -> None:
        side = options.sizes(512, 2048, 8192)[-1]
        self.queue, self.repeat = options.queue(), options.repeat
        self.session = runtime.open_session(self.queue)
        self.rates = measure.device_rates(self.queue)
        photo = harness.photo_of_size(next(iter(harness.pictures(options).values())), side, side)
        self.host, self.host_gray = photo, gray(photo)
        self.photo = pyopencl.array.to_device(self.queue, photo)
        self.gray = pyopencl.array.to_device(self.queue, self.host_gray)
        self.pixels = side * side
        note = "Bytes are read once and written once; the rates are those of this run."
        self.table = Table(f"Hot kernels, {side}x{side}, {runtime.describe(self.queue.device)}", COLUMNS, note=note)

    def _row(self, kernel: str, call: Callable[[], Any], least: str, limit_ms: float, term: str) -> None:
        call()
        with runtime.profile() as profile:
            call()
            self.session.finish()
        ms = min(profile.kernel_ms(), harness.kernel_ms(call, self.repeat, 0))
        launches = profile.launches()
        if term == "launches":
            least, limit_ms = f"{launches} launches", launches * self.rates.launch_us / 1e3
        self.table.add(
            kernel=kernel, ms=ms, launches=launches, least=least, limit_ms=limit_ms, share=limit_ms / ms, term=term
        )

    def moves(self, kernel: str, nbytes: float, call: Callable[[], Any]) -> None:
        """A kernel that is bound by memory at best."""
        self._row(kernel, call, f"{nbytes / 1e6:.4g} MB moved", nbytes / self.rates.copy_gbps / 1e6, "copy bandwidth")

    def multiplies(self, kernel: str, count: float, call: Callable[[], Any]) -> None:
        """A kernel that is bound by float multiply-adds at best."""
        least = f"{count / 1e9:.4g} x 10^9 multiply-adds"
        self._row(kernel, call, least, count / self.rates.float_gfma / 1e6, "float multiply-adds")

    def waits(self, kernel: str, call: Callable[[], Any]) -> None:
        """A chain of dependent launches."""
        self._row(kernel, call, "", 0.0, "launches")


def _vq(limits: Limits) -> None:
    codec = codec_of(limits.host_gray, CODEWORDS, limits.queue)
    work = limits.pixels / 16 * 16 * CODEWORDS
    encode = partial(codec.encode, limits.gray)
    limits.multiplies(f"VQ encode, 4x4, N = {CODEWORDS}", work, encode)

    def portable() -> None:
        with runtime.force_variant("portable"):
            encode()

    limits.multiplies("VQ encode, portable form", work, portable)
    indices = encode()
    limits.moves("VQ decode", limits.pixels + indices.nbytes, partial(codec.decode, indices))


def _quadtree(limits: Limits) -> None:
    levels, builder = reduction(limits.queue, limits.host), QuadtreeBuilder(THRESHOLD, queue=limits.queue)
    limits.moves("quadtree, statistics of all levels", 3 * limits.pixels + levels(), levels)
    leaves = len(builder.leaves(limits.photo)) * record_dtype(3, False).itemsize
    limits.moves("quadtree, leaves alone", 3 * limits.pixels + leaves, partial(builder.leaves, limits.photo))


def _mapping(limits: Limits) -> None:
    table = np.random.default_rng(0).choice(limits.host.reshape(-1, 3), COLORS, replace=False)
    palette = Palette(table)
    for name, dither in (("nearest", None), ("blue noise", "blue-noise"), ("pinwheel", "pinwheel")):
        call = partial(engine.predict, limits.photo, palette, dither=dither, queue=limits.queue)
        limits.moves(f"map to {COLORS} colours, {name}", 4 * limits.pixels, call)


def _counting(limits: Limits) -> None:
    def call() -> None:
        with limits.session.scope() as scope:
            count_colors(limits.session, scope, [images.read(limits.photo)])
            limits.session.finish()

    limits.moves("count distinct colours", 3 * limits.pixels, call)


def _halftones(limits: Limits) -> None:
    for size in (8, 16, 32, 64):
        call = partial(PinwheelHalftoner(size, queue=limits.queue).transform, limits.gray)
        limits.moves(f"pinwheel halftone, block {size}", 2 * limits.pixels, call)
    call = partial(floyd_steinberg, limits.gray, queue=limits.queue)
    limits.moves("Floyd-Steinberg, gray", 2 * limits.pixels, call)


def _palettes(limits: Limits) -> None:
    limits.waits("NeuQuant, learn 256 colours", partial(NeuQuantCL(COLORS, queue=limits.queue).fit, limits.photo))
    engines = {
        "k-means, ten Lloyd steps": KMeansPalette(COLORS, max_iter=10, tol=0.0, swap_rounds=0, queue=limits.queue),
        "k-means, with its 24 rounds of swaps": KMeansPalette(COLORS, queue=limits.queue),
    }
    for name, kmeans in engines.items():
        limits.waits(name, partial(kmeans.fit, limits.photo))


def run(options: Options) -> Iterator[Table]:
    """One table, of the largest of 512, 2048 and 8192 that `--largest` admits."""
    limits = Limits(options)
    for step in (_vq, _quadtree, _mapping, _counting, _halftones, _palettes):
        if options.is_over:
            limits.table.note += f" No time left from{step.__name__.replace('_', ' ')} on."
            break
        step(limits)
    yield limits.table


if __name__ == "__main__":
    harness.main(run)
