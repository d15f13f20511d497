"""Each hot kernel beside the least time that the device needs for it: `python -m benchmarks limits`.

What a job must do at least for the same exact result, whatever its kernels do: bytes read once and written once;
multiply-adds of an exhaustive search; a read of a table for each pixel whose answer depends on its colour; an addition
for each pixel that is counted; integer operations of a pixel; steps of which each waits for the one before; launches
of which each does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyopencl.array

from benchmarks import harness, measure
from benchmarks.harness import Options, Table
from benchmarks.measure import DeviceRates
from benchmarks.quadtree_peers import THRESHOLD, reduction
from benchmarks.vq_peers import codec_of, gray
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
from clquant.histogram.counting import count_colors
from clquant.palette import engine
from clquant.quadtree.leaf_list import record_dtype

COLUMNS = {
    "kernel": "kernel",
    "ms": "kernels, ms",
    "launches": "launches",
    "least": "least it must do",
    "limit_ms": "limit, ms",
    "share": "share of the limit",
    "term": "limit by",
}
CODEWORDS, COLORS, BLOCK = 1024, 256, 32
# Integer operations of a pixel of the pinwheel at two levels: five to decide it and to clamp its error, twelve to split
# that in four and four to add the shares up.
PINWHEEL_OPERATIONS = 21


@dataclasses.dataclass(frozen=True)
class Term:
    """Something that takes a device time: what it is called, how an amount is told, and milliseconds of one."""

    name: str
    unit: float
    text: str
    ms: Callable[[DeviceRates], float]


TERMS = {
    "bytes": Term("copy bandwidth", 1e6, "MB moved", lambda rates: 1e-6 / rates.copy_gbps),
    "multiply_adds": Term("float multiply-adds", 1e9, "x 10^9 multiply-adds", lambda rates: 1e-6 / rates.float_gfma),
    "operations": Term("integer operations", 1e9, "x 10^9 integer operations", lambda rates: 1e-6 / rates.integer_gmad),
    # A table too large for local memory, of which the nearest cache holds what is read.
    "reads": Term("reads of a table", 1e6, "x 10^6 reads of a table", lambda rates: 1e-6 / rates.small_reads_g),
    "adds": Term("additions in local memory", 1e6, "x 10^6 additions", lambda rates: 1e-6 / rates.local_adds_g),
    "steps": Term("dependent steps", 1, "dependent steps", lambda rates: rates.local_wait_ns * 1e-6),
    "launches": Term("launches", 1, "launches", lambda rates: rates.launch_us * 1e-3),
}


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
        note = "The limit is the longest of what each must do at least, at the rates of this run."
        self.table = Table(f"Hot kernels, {side}x{side}, {runtime.describe(self.queue.device)}", COLUMNS, note=note)

    def row(self, kernel: str, call: Callable[[], Any], **least: float) -> None:
        """Time a call's kernels beside the longest of what they must do at least, in the units of `TERMS`."""
        call()
        with runtime.profile() as profile:
            call()
            self.session.finish()
        ms = min(profile.kernel_ms(), harness.kernel_ms(call, self.repeat, 0))
        launches = profile.launches()
        amounts = least or {"launches": launches}
        times = {name: amount * TERMS[name].ms(self.rates) for name, amount in amounts.items()}
        longest = max(times, key=lambda name: times[name])
        term, limit_ms = TERMS[longest], times[longest]
        self.table.add(
            kernel=kernel,
            ms=ms,
            launches=launches,
            least=f"{amounts[longest] / term.unit:.4g} {term.text}",
            limit_ms=limit_ms,
            share=limit_ms / ms,
            term=term.name,
        )


def _vq(limits: Limits) -> None:
    codec = codec_of(limits.host_gray, CODEWORDS, limits.queue)
    work = limits.pixels / 16 * 16 * CODEWORDS
    encode = partial(codec.encode, limits.gray)
    moved = limits.pixels + encode().nbytes
    limits.row(f"VQ encode, 4x4, N = {CODEWORDS}", encode, multiply_adds=work, bytes=moved)

    def portable() -> None:
        with runtime.force_variant("portable"):
            encode()

    limits.row("VQ encode, portable form", portable, multiply_adds=work, bytes=moved)
    limits.row("VQ decode", partial(codec.decode, encode()), bytes=moved)


def _quadtree(limits: Limits) -> None:
    levels, builder = reduction(limits.queue, limits.host), QuadtreeBuilder(THRESHOLD, queue=limits.queue)
    limits.row("quadtree, statistics of all levels", levels, bytes=3 * limits.pixels + levels())
    leaves = len(builder.leaves(limits.photo)) * record_dtype(3, False).itemsize
    limits.row("quadtree, leaves alone", partial(builder.leaves, limits.photo), bytes=3 * limits.pixels + leaves)


def _mapping(limits: Limits) -> None:
    pixels = limits.pixels
    palette = Palette(limits.host.reshape(-1, 3)[np.random.default_rng(0).integers(0, pixels, COLORS)])
    for name, dither in (("nearest", None), ("blue noise", "blue-noise"), ("pinwheel", "pinwheel")):
        call = partial(engine.predict, limits.photo, palette, dither=dither, queue=limits.queue)
        steps = 2 * BLOCK**2 if dither == "pinwheel" else 0
        limits.row(f"map to {COLORS} colours, {name}", call, bytes=4 * pixels, reads=pixels, steps=steps)


def _counting(limits: Limits) -> None:
    def call() -> int:
        with limits.session.scope() as scope:
            colors = count_colors(limits.session, scope, [images.read(limits.photo)]).n_colors
            limits.session.finish()
        return colors

    colors = call()
    limits.row("count distinct colours", call, bytes=3 * limits.pixels + 8 * colors, adds=limits.pixels)


def _halftones(limits: Limits) -> None:
    pixels = limits.pixels
    for size in (8, 16, 32, 64):
        call = partial(PinwheelHalftoner(size, queue=limits.queue).transform, limits.gray)
        # The blocks of one colour of the checkerboard, then those of the other, each from pixel to pixel.
        least = {"bytes": 2 * pixels, "steps": 2 * size**2, "operations": PINWHEEL_OPERATIONS * pixels}
        limits.row(f"pinwheel halftone, block {size}", call, **least)
    call = partial(floyd_steinberg, limits.gray, queue=limits.queue)
    # A pixel waits for its left neighbour and for the upper right one, so each row is two pixels behind the one above.
    side = int(limits.pixels**0.5)
    limits.row("Floyd-Steinberg, gray", call, bytes=2 * pixels, steps=3 * side)


def _palettes(limits: Limits) -> None:
    limits.row("NeuQuant, learn 256 colours", partial(NeuQuantCL(COLORS, queue=limits.queue).fit, limits.photo))
    engines = {
        "k-means, ten Lloyd steps": KMeansPalette(COLORS, max_iter=10, tol=0.0, swap_rounds=0, queue=limits.queue),
        "k-means, with its 24 rounds of swaps": KMeansPalette(COLORS, queue=limits.queue),
    }
    for name, kmeans in engines.items():
        limits.row(name, partial(kmeans.fit, limits.photo))


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
