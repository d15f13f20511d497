"""The tables of the papers that the engines follow, beside the same jobs here. `python -m benchmarks papers`.

The papers' figures are of their authors' machines, named in each title. Pictures are `--images`, else the sample,
brought to the papers' sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyopencl.array

from benchmarks import harness
from benchmarks.harness import Options, Picture, Table
from benchmarks.vq_peers import codec_of, gray
from clquant import NeuQuantCL, PinwheelHalftoner, QuadtreeBuilder, runtime

# Manohar et al., tables I to III: codewords to mean ms of the CPU's and the GPU's encoder, then of the decoders.
VQ = {
    128: (183.449, 2.987, 68.700, 0.340),
    256: (262.598, 5.900, 69.202, 0.259),
    512: (405.421, 11.691, 72.853, 0.274),
    1024: (690.664, 23.108, 77.739, 0.306),
}
# Bottisti et al., table 1: microseconds per pixel of Dekker's program on one core, and of CuNeuQuant.
NEUQUANT_US = {"sequential": 2.9610, "parallel": 0.58899}
NEUQUANT_SIZES = ((1200, 1600), (2000, 3000))
# Zhang et al., table 1: block size to megapixels per second of a 4096x4096 picture; they could not run larger blocks.
PINWHEEL = {2: 1701.5, 4: 1199.2, 6: 859.9, 8: 721.3, 10: 607.4, 12: 551.7, 14: 475.5, 32: None, 64: None}
# Masina and Stedile, table 1: side to ms of the mixed implementation, the best of its launches.
QUADTREE = {1024: 147.8, 4096: 453.4, 8192: 1448.4}
THRESHOLD = 13.0


def kernels_ms(options: Options, call: Callable[[], Any]) -> float:
    """Milliseconds of a call's kernels; the call's arrays and engines are on a profiling queue."""
    return harness.kernel_ms(call, min(options.repeat, 3), 1)


def vq(options: Options, photo: Picture) -> Table:
    """Encoding and decoding of 512x512 gray pixels in 4x4 blocks, from host array to host array."""
    columns = {
        "n": "codewords",
        "cpu": "paper, NumPy: encode, ms",
        "gpu": "paper, GPU: encode, ms",
        "ms": "here: encode, ms",
        "kernel_ms": "its kernels, ms",
        "cpu_decode": "paper, NumPy: decode, ms",
        "gpu_decode": "paper, GPU: decode, ms",
        "decode_ms": "here: decode, ms",
    }
    table = Table("VQ, 512x512 (paper: NVIDIA RTX 3050 Ti, Core i7-12650H)", columns)
    picture, queue = gray(harness.to_size(photo, 512, 512)), options.queue()
    on_device = pyopencl.array.to_device(queue, picture)
    for n, (cpu, gpu, cpu_decode, gpu_decode) in [*VQ.items()][: 1 if options.quick else None]:
        profiled = codec_of(picture, n, queue)
        codec = codec_of(picture, n, runtime.default_queue(options.device))
        indices = codec.encode(picture)
        table.add(
            n=n,
            cpu=cpu,
            gpu=gpu,
            ms=options.median_ms(partial(codec.encode, picture), 0.5),
            kernel_ms=kernels_ms(options, partial(profiled.encode, on_device)),
            cpu_decode=cpu_decode,
            gpu_decode=gpu_decode,
            decode_ms=options.median_ms(partial(codec.decode, indices), 0.5),
        )
    return table


def neuquant(options: Options, photo: Picture) -> Table:
    """256 colours from every pixel, learned and mapped; the sequential map at the first size alone."""
    columns = {
        "mode": "mode",
        "pixels": "megapixels",
        "paper": "paper, microseconds per pixel",
        "us": "here, microseconds per pixel",
        "ratio": "paper / here",
    }
    table = Table("NeuQuant, learn and map (paper: GeForce 9800 GTX+; sequential on one core of a Core i7)", columns)
    queue = runtime.default_queue(options.device)
    for mode, paper in NEUQUANT_US.items():
        sizes = NEUQUANT_SIZES if mode == "parallel" else NEUQUANT_SIZES[:1]
        for height, width in [(120, 160)] if options.quick else sizes:
            picture = harness.photo_of_size(photo, height, width)
            engine = NeuQuantCL(256, mode=mode, sample_factor=1, queue=queue)
            ms = options.median_ms(partial(engine.fit_predict, picture), 0.5)
            us = None if ms is None else 1e3 * ms / (height * width)
            pixels = height * width / 1e6
            table.add(mode=mode, pixels=pixels, paper=paper, us=us, ratio=None if us is None else paper / us)
    return table


def pinwheel(options: Options, photo: Picture) -> Table:
    """Spiral blocks with weights by tone: kernels from and to memory of the device, and whole calls."""
    columns = {
        "block": "block size",
        "paper": "paper, Mpx/s",
        "kernel": "here: kernels, Mpx/s",
        "ratio": "here / paper",
        "whole": "host array to host array, Mpx/s",
    }
    side = min(512 if options.quick else 4096, options.largest)
    table = Table(f"Pinwheels, {side}x{side} (paper: 4096x4096, GeForce GTX 460)", columns)
    picture, queue = gray(harness.photo_of_size(photo, side, side)), options.queue()
    on_device = pyopencl.array.to_device(queue, picture)
    rate = side * side / 1e3
    for block, paper in [*PINWHEEL.items()][:: 7 if options.quick else 1]:
        kernel = rate / kernels_ms(options, partial(PinwheelHalftoner(block, queue=queue).transform, on_device))
        engine = PinwheelHalftoner(block, queue=runtime.default_queue(options.device))
        ms = options.median_ms(partial(engine.transform, picture), 0.5)
        ratio = None if paper is None else kernel / paper
        table.add(block=block, paper=paper, kernel=kernel, ratio=ratio, whole=None if ms is None else rate / ms)
    return table


def quadtree(options: Options, photo: Picture) -> Table:
    """Trees of RGB squares: the complete array on the host, as the paper makes it, and the leaves alone."""
    columns = {
        "side": "pixels a side",
        "paper": "paper: complete array, ms",
        "array_ms": "here: complete array, ms",
        "ratio": "paper / here",
        "leaves_ms": "here: leaves, ms",
        "kernel_ms": "kernels of the leaves, ms",
    }
    table = Table("Quadtrees (paper: NVIDIA V100, Xeon E5-2680 v4)", columns)
    queue, plain = options.queue(), runtime.default_queue(options.device)
    for side in options.sizes(*QUADTREE):
        picture = harness.photo_of_size(photo, side, side)
        builder = QuadtreeBuilder(THRESHOLD, queue=plain)

        def complete(builder: QuadtreeBuilder = builder, picture: Picture = picture) -> Any:
            return builder.build(picture).to_array()

        array_ms = options.median_ms(complete, 1.0)
        on_device = pyopencl.array.to_device(queue, np.ascontiguousarray(picture))
        table.add(
            side=side,
            paper=QUADTREE[side],
            array_ms=array_ms,
            ratio=None if array_ms is None else QUADTREE[side] / array_ms,
            leaves_ms=options.median_ms(partial(builder.leaves, picture), 0.5),
            kernel_ms=kernels_ms(options, partial(QuadtreeBuilder(THRESHOLD, queue=queue).leaves, on_device)),
        )
    return table


def run(options: Options) -> Iterator[Table]:
    """A table per paper; the tutorial of k-means has no figures."""
    photo = next(iter(harness.pictures(options).values()))
    for make in (vq, pinwheel, quadtree, neuquant):
        if not options.is_over:
            yield make(options, photo)


if __name__ == "__main__":
    harness.main(run)
