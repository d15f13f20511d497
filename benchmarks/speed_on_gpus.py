"""Speed figures on devices with memory of their own, 8192x8192 pixels unless named (see `benchmarks.figures`)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl.array
from numpy.typing import NDArray

from benchmarks import harness, measure
from benchmarks.neuquant_peers import NUMBA, baseline
from benchmarks.quadtree_peers import THRESHOLD, reduction
from benchmarks.vq_peers import codec_of, gray
from clquant import KMeansPalette, NeuQuantCL, PinwheelHalftoner, QuadtreeBuilder, empty_pinned, runtime

if TYPE_CHECKING:
    from benchmarks.figures import Figures

MANY = 256


class Large:
    """The large picture, on the host and on the device, and the device's rates."""

    def __init__(self, figures: Figures) -> None:
        side = 1024 if figures.options.quick else 8192
        first = next(iter(harness.pictures(figures.options).values()))
        self.queue = figures.queue
        self.plain = figures.plain
        self.rates = measure.device_rates(figures.queue)
        self.photo = harness.photo_of_size(first, side, side)
        self.flat = gray(self.photo)
        _, self.locked, self.on_device = _forms(self.queue, self.photo)
        _, self.flat_locked, self.flat_on_device = _forms(self.queue, self.flat)
        self.small = harness.photo_of_size(first, 1080, 1920)

    def end_to_end_ms(self, method: Callable[[Any], Any], array: NDArray[Any]) -> float:
        """Milliseconds of an engine's method on a host array, on the queue that engines take by default: one with
        profiling is slower. The median of 15 calls after four, as memory is locked for a size at its second call.
        """
        engine = copy.copy(method.__self__)  # type: ignore[attr-defined]
        engine.queue = self.plain
        return harness.time_call(partial(getattr(engine, method.__name__), array), 15, 4, 3.0).median_ms

    def kernels(self, call: Callable[[], Any]) -> float:
        """Milliseconds of kernels, the median of three."""
        return harness.kernel_ms(call, 3, 1)

    def transfers_ms(self, up: int, down: int) -> float:
        """Milliseconds that bytes take from and to pinned memory, one after the other."""
        return up / self.rates.pinned_upload_gbps / 1e6 + down / self.rates.pinned_download_gbps / 1e6

    def pageable_ms(self, up: int, down: int) -> float:
        """The same from and to ordinary memory, by the driver."""
        return up / self.rates.upload_gbps / 1e6 + down / self.rates.download_gbps / 1e6


def steps(figures: Figures) -> list[Callable[[Figures], None]]:
    """What is measured, in order; nothing on devices that share the host's memory."""
    if figures.limits.unified_memory:
        return []
    large = Large(figures)
    return [partial_with_doc(step, large) for step in (_palettes, _neuquant, _vq, _halftone, _quadtree, _end_to_end)]


def partial_with_doc(step: Callable[[Figures, Large], None], large: Large) -> Callable[[Figures], None]:
    """A step with its picture; it keeps its docstring, which names it."""

    def call(figures: Figures) -> None:
        step(figures, large)

    call.__doc__ = step.__doc__
    return call


def _palettes(figures: Figures, large: Large) -> None:
    """k-means on the GPU."""
    engine = KMeansPalette(256, max_iter=10, tol=0.0, swap_rounds=0, queue=large.queue)
    kernels = large.kernels(partial(engine.fit, large.on_device))
    figures.at_most("k-means", "256 colours, ten Lloyd steps, all kernels, ms", 8, kernels)
    bound = large.transfers_ms(large.photo.nbytes, large.flat.nbytes)
    for name, array in (("page-locked", large.locked), ("ordinary", large.photo)):
        ms = large.end_to_end_ms(engine.fit_predict, array)
        figures.at_most("k-means", f"the same, {name} array to host indices, over pinned transfers", 1.5, ms / bound)


def _neuquant(figures: Figures, large: Large) -> None:
    """NeuQuant on the GPU."""
    engine = NeuQuantCL(256, queue=large.queue)
    small = pyopencl.array.to_device(large.queue, large.small)
    figures.at_most("NeuQuant", "parallel, 2 Mpx, all kernels, ms", 1.0, large.kernels(partial(engine.fit, small)))
    kernels = large.kernels(partial(engine.fit, large.on_device))
    figures.at_most("NeuQuant", "parallel, 67 Mpx, all kernels, ms", 1.5, kernels)
    picture = np.ascontiguousarray(harness.to_size(large.small, 512, 768))
    many = [np.ascontiguousarray(np.roll(picture, 31 * i, axis=1)) for i in range(MANY)]
    sequential = NeuQuantCL(256, mode="sequential", queue=large.queue)
    ms = harness.time_call(partial(sequential.fit_many, many), 1).median_ms
    core = harness.time_call(partial(baseline, picture), 2).median_ms if NUMBA is not None else None
    ratio = None if core is None else MANY * core / ms
    figures.at_least("NeuQuant", "256 pictures of 768x512, sequential, one core's time over it", 30, ratio)


def _vq(figures: Figures, large: Large) -> None:
    """VQ on the GPU."""
    codec = codec_of(large.flat, 1024, large.queue)
    encode = partial(codec.encode, large.flat_on_device)
    figures.at_most("VQ", "encode, 4x4, N = 1024, kernel, ms", 1.1, large.kernels(encode))
    with runtime.force_variant("portable"):
        figures.at_most("VQ", "the same, portable form, ms", 3.6, large.kernels(encode))
    small = pyopencl.array.to_device(large.queue, np.ascontiguousarray(large.flat[:512, :512]))
    figures.at_most("VQ", "the same, 512x512, ms", 0.015, large.kernels(partial(codec.encode, small)))
    indices = encode()
    with runtime.profile() as profile:
        codec.decode(indices)
    moved = large.flat.nbytes + indices.nbytes
    share = moved / profile.by_name()["vq_decode"] / 1e6 / large.rates.copy_gbps
    figures.at_least("VQ", "decode, share of the copy bandwidth", 0.6, share)
    bound = large.transfers_ms(large.flat.nbytes, indices.nbytes)
    for name, array in (("page-locked", large.flat_locked), ("ordinary", large.flat)):
        ms = large.end_to_end_ms(codec.encode, array)
        figures.at_most("VQ", f"encode, {name} array to host indices, over pinned transfers", 1.25, ms / bound)


def _halftone(figures: Figures, large: Large) -> None:
    """Halftones on the GPU."""
    for size, aim in ((16, 100), (32, 80)):
        engine = PinwheelHalftoner(size, queue=large.queue)
        rate = large.flat.size / large.kernels(partial(engine.transform, large.flat_on_device)) / 1e6
        figures.at_least("halftone", f"block {size}, kernels, Gpx/s", aim, rate)


def _quadtree(figures: Figures, large: Large) -> None:
    """Quadtrees on the GPU."""
    levels = reduction(large.queue, large.photo)
    figures.at_most("quadtree", "exact statistics of all levels, kernels, ms", 0.2, large.kernels(levels))
    builder = QuadtreeBuilder(THRESHOLD, queue=large.queue)
    alone = large.kernels(partial(builder.leaves, large.on_device))
    figures.at_most("quadtree", "leaves alone, kernels, ms", 0.2, alone)
    bound = large.transfers_ms(large.photo.nbytes, builder.leaves(large.photo).nbytes)
    for name, array in (("page-locked", large.locked), ("ordinary", large.photo)):
        ms = large.end_to_end_ms(builder.leaves, array)
        figures.at_most("quadtree", f"{name} array to host leaves, over pinned transfers", 1.5, ms / bound)


def _end_to_end(figures: Figures, large: Large) -> None:
    """End to end over the larger of transfers and kernels."""
    queue, photo, flat = large.queue, large.photo, large.flat
    kmeans, neuquant = KMeansPalette(256, queue=queue).fit(photo), NeuQuantCL(256, queue=queue)
    codec = codec_of(flat, 1024, queue)
    halftoner, builder = PinwheelHalftoner(queue=queue), QuadtreeBuilder(THRESHOLD, queue=queue)
    whole, plane = (photo, large.locked, large.on_device), (flat, large.flat_locked, large.flat_on_device)
    calls: dict[str, tuple[Callable[[Any], Any], tuple[Any, Any, Any], int]] = {
        "k-means, learn and map": (kmeans.fit_predict, whole, flat.nbytes),
        "map to 256 colours": (kmeans.predict, whole, flat.nbytes),
        "NeuQuant, learn": (neuquant.fit, whole, 0),
        "VQ encode": (codec.encode, plane, flat.nbytes // 8),
        "VQ decode": (codec.decode, _forms(queue, codec.encode(flat)), flat.nbytes),
        "halftone": (halftoner.transform, plane, flat.nbytes),
        "quadtree": (builder.leaves, whole, builder.leaves(photo).nbytes),
    }
    for name, (call, (host, locked, there), down) in calls.items():
        kernels = large.kernels(partial(call, there))
        for kind, array, transfers in (
            ("page-locked", locked, large.transfers_ms(host.nbytes, down)),
            ("ordinary", host, large.pageable_ms(host.nbytes, down)),
        ):
            ratio = large.end_to_end_ms(call, array) / max(transfers, kernels)
            figures.at_most("end to end", f"{name}, {kind}, over the larger of its transfers and kernels", 1.25, ratio)


def _forms(queue: runtime.CommandQueue, array: NDArray[Any]) -> tuple[Any, Any, Any]:
    """An array in ordinary memory, in page-locked memory, and on the device."""
    locked = empty_pinned(array.shape, array.dtype, queue=queue)
    locked[...] = array
    return array, locked, pyopencl.array.to_device(queue, array)
