"""NeuQuantCL beside Dekker's sequential map on one core and its peers: quality and time.

`python -m benchmarks.neuquant`; with `--images FOLDER` the quality is measured on that folder's pictures. The
sequential baseline is a Numba translation of Dekker's 1994 integer program for one core; it needs Numba.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import harness
from benchmarks.harness import Options, Picture, Table, peer
from benchmarks.neuquant_kinds import kinds
from benchmarks.palette_peers import IMAGEQUANT, SKLEARN, libimagequant
from clquant import NeuQuantCL, Palette, quality
from clquant.palette.engine import transform

COLORS = 256
PRIMES = (499, 491, 487, 503)
NUMBA = peer("numba")


def _train(pixels: npt.NDArray[np.uint8], step: int, colors: int) -> npt.NDArray[np.int64]:
    """Dekker's training at sample factor 1: (colors, 3). Compiled by Numba, hence plain loops."""
    network = np.empty((colors, 3), np.int64)
    for i in range(colors):
        network[i, :] = (i << 12) // colors
    frequency = np.full(colors, 65536 // colors, np.int64)
    bias = np.zeros(colors, np.int64)
    pull = np.zeros(colors, np.int64)
    count = pixels.shape[0]
    per_cycle = max(count // 100, 1)
    alpha, radius = 1024, (colors >> 3) * 64
    reach = -1
    at = 0
    for sample in range(count):
        if sample % per_cycle == 0:
            if sample > 0:
                alpha -= alpha // 30
                radius -= radius // 30
            reach = radius >> 6 if radius >> 6 > 1 else 0
            for d in range(reach):
                pull[d] = alpha * (((reach * reach - d * d) * 256) // (reach * reach))
        x, y, z = (np.int64(pixels[at, 0]) << 4, np.int64(pixels[at, 1]) << 4, np.int64(pixels[at, 2]) << 4)
        least, fairest, nearest, winner = 1 << 40, 1 << 40, 0, 0
        for i in range(colors):
            distance = abs(network[i, 0] - x) + abs(network[i, 1] - y) + abs(network[i, 2] - z)
            if distance < least:
                least, nearest = distance, i
            if distance - (bias[i] >> 12) < fairest:
                fairest, winner = distance - (bias[i] >> 12), i
            share = frequency[i] >> 10
            frequency[i] -= share
            bias[i] += share << 10
        frequency[nearest] += 64
        bias[nearest] -= 65536
        point = (x, y, z)
        for c in range(3):
            move = alpha * (network[winner, c] - point[c])
            network[winner, c] -= move // 1024 if move >= 0 else -(-move // 1024)
        for i in range(max(winner - reach + 1, 0), min(winner + reach, colors)):
            if i != winner:
                for c in range(3):
                    move = pull[abs(i - winner)] * (network[i, c] - point[c])
                    network[i, c] -= move // 262144 if move >= 0 else -(-move // 262144)
        at = (at + step) % count
    return np.minimum((network + 8) >> 4, 255)


_COMPILED = NUMBA.njit(cache=True)(_train) if NUMBA is not None else None


def baseline(picture: Picture) -> Palette:
    """Dekker's palette on one core."""
    assert _COMPILED is not None
    pixels = picture.reshape(-1, 3)
    step = next((p for p in PRIMES if len(pixels) % p), PRIMES[-1])
    return Palette(_COMPILED(pixels, step, COLORS))


def mini_batch(picture: Picture) -> Palette:
    """scikit-learn's MiniBatchKMeans as it comes, seeded."""
    engine = SKLEARN.MiniBatchKMeans(COLORS, random_state=0, n_init=1).fit(picture.reshape(-1, 3).astype(np.float32))
    return Palette(np.clip(np.rint(engine.cluster_centers_), 0, 255).astype(np.uint8))


def qualities(options: Options, pictures: Mapping[str, Picture], title: str) -> Table:
    """PSNR of every picture by the sequential map, by the parallel one raw and refined, and by the peers."""
    columns = {"picture": "picture", "sequential": "sequential, dB", "raw": "parallel raw", "parallel": "parallel"}
    columns |= {"gain": "gain"}
    columns |= {"mini": "MiniBatchKMeans"} if SKLEARN is not None else {}
    columns |= {"liq": "libimagequant"} if IMAGEQUANT is not None else {}
    table = Table(title, columns, note="256 colours, nearest colour, no dithering. gain: parallel over sequential.")
    queue = options.queue()
    for name, picture in pictures.items():

        def of(palette: Palette, shown: Picture = picture) -> float:
            return quality.psnr(shown, transform(shown, palette, queue=queue))

        row: dict[str, float] = {
            "sequential": of(NeuQuantCL(mode="sequential", keep_exact=False, queue=queue).fit(picture).palette_),
            "raw": of(NeuQuantCL(refine_steps=0, queue=queue).fit(picture).palette_),
            "parallel": of(NeuQuantCL(queue=queue).fit(picture).palette_),
        }
        row["gain"] = row["parallel"] - row["sequential"]
        if SKLEARN is not None:
            row["mini"] = of(mini_batch(picture))
        if IMAGEQUANT is not None:
            row["liq"] = quality.psnr(picture, libimagequant(picture, COLORS))
        table.add(picture=name, **row)
    if len(table.rows) > 1:
        numbers = {name: [row[name] for row in table.rows] for name in columns if name != "picture"}
        table.add(picture="mean", **{name: float(np.mean(values)) for name, values in numbers.items()})
        table.add(picture="least", **{name: float(np.min(values)) for name, values in numbers.items()})
    return table


def times(options: Options, picture: Picture, name: str) -> Table:
    """Learning a palette from one picture: ours end to end and in kernels, the baseline, the peers."""
    height, width = picture.shape[:2]
    columns = {
        "method": "method",
        "ms": "end to end, ms",
        "kernel_ms": "kernels, ms",
        "ratio": "sequential core / this",
    }
    table = Table(f"Learning 256 colours from {name}, {width}x{height}", columns)
    queue = options.queue()
    calls: dict[str, Any] = {
        "NeuQuantCL, parallel": NeuQuantCL(queue=queue).fit,
        "NeuQuantCL, parallel, raw": NeuQuantCL(refine_steps=0, queue=queue).fit,
    }
    if options.quick or width * height <= 1 << 21:
        calls["NeuQuantCL, sequential"] = NeuQuantCL(mode="sequential", queue=queue).fit
    core_ms = None
    if _COMPILED is not None:
        core_ms = harness.time_call(partial(baseline, picture), 2, budget_s=20).median_ms
        table.add(method="Dekker's program, one core", ms=core_ms, ratio=1.0)
    else:
        table.add(method="Dekker's program, one core: Numba is not installed")
    for method, call in calls.items():
        timing = harness.time_call(partial(call, picture), options.repeat, budget_s=10)
        kernels = harness.kernel_ms(partial(call, picture))
        ratio = core_ms / timing.median_ms if core_ms else None
        table.add(method=method, ms=timing.median_ms, kernel_ms=kernels, ratio=ratio)
    for method, there, peer_call in (
        ("scikit-learn MiniBatchKMeans", SKLEARN, mini_batch),
        ("libimagequant (with its mapping)", IMAGEQUANT, partial(libimagequant, colors=COLORS)),
    ):
        if there is None:
            table.add(method=f"{method}: not installed")
            continue
        timing = harness.time_call(partial(peer_call, picture), 2, budget_s=20)
        table.add(method=method, ms=timing.median_ms, ratio=core_ms / timing.median_ms if core_ms else None)
    return table


def many(options: Options, picture: Picture) -> Table:
    """Independent palettes for many pictures, all at once and one after another."""
    number = 8 if options.quick else 256 if not options.queue().device.host_unified_memory else 32
    small = [np.ascontiguousarray(np.roll(picture, 31 * i, axis=1)) for i in range(number)]
    height, width = picture.shape[:2]
    table = Table(f"{number} palettes from {number} pictures of {width}x{height}", {"method": "method", "s": "seconds"})
    for mode in ("sequential", "parallel"):
        engine = NeuQuantCL(mode=mode, queue=options.queue())
        timing = harness.time_call(partial(engine.fit_many, small), 1, budget_s=30)
        table.add(method=f"NeuQuantCL.fit_many, {mode}", s=timing.median_ms / 1e3)
    if _COMPILED is not None:
        one = harness.time_call(partial(baseline, small[0]), 3, budget_s=10).median_ms / 1e3
        table.add(method=f"Dekker's program, one core ({number} times one picture)", s=one * number)
    return table


def run(options: Options) -> list[Table]:
    """Quality on the pictures and on thirty made ones; times at 2 Mpx and up; many pictures."""
    pictures = harness.pictures(options)
    if options.quick:
        pictures = {name: harness.to_size(picture, 128, 192) for name, picture in pictures.items()}
    made = {name: p for name, p in kinds().items() if not options.quick or p.size < 100_000}
    photo = max(pictures.values(), key=lambda p: len(np.unique(p.reshape(-1, 3), axis=0)))
    tables = [qualities(options, pictures, "Photographs"), qualities(options, made, "Made pictures")]
    for height, width in [(270, 480)] if options.quick else [(1080, 1920)]:
        tables.append(times(options, harness.to_size(photo, height, width), "a photograph"))
    if options.largest >= 8192 and not options.quick:
        tables.append(times(options, harness.to_size(photo, 8192, 8192), "a photograph"))
    return [*tables, many(options, harness.to_size(photo, *(128, 192) if options.quick else (512, 768)))]


if __name__ == "__main__":
    harness.main(run)
