"""PinwheelHalftoner beside serial error diffusion: what an eye would see, and time. `python -m benchmarks.halftone`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import PIL.Image

from benchmarks import harness, measure
from benchmarks.harness import Options, Picture, Table
from clquant import PinwheelHalftoner, WeightTables, floyd_steinberg, quality, runtime
from clquant.halftone.pinwheel.paths import FLOYD_STEINBERG
from clquant.halftone.tables import constant_tables, trained_sizes

Halftone = Callable[[Picture], Picture]
FLAT_TONES = (3, 12, 32, 48, 64, 85, 96, 112, 127, 128, 144, 170, 200, 223, 240, 252)
SLOPE = 0.55


def pillow(gray: Picture) -> Picture:
    """Serial Floyd-Steinberg, the baseline of every ratio."""
    return np.asarray(PIL.Image.fromarray(gray).convert("1")).astype(np.uint8) * np.uint8(255)


def ramp(side: int = 512) -> Picture:
    """Black to white from left to right."""
    return np.tile(np.rint(np.linspace(0, 255, side)).astype(np.uint8), (side, 1))


def flats(side: int = 256) -> list[Picture]:
    """Constant patches."""
    return [np.full((side, side), tone, np.uint8) for tone in FLAT_TONES]


def spectral_peak(original: Picture, halftone: Picture, tile: int = 256) -> float:
    """Strongest line of the error's spectrum over the median at its frequency: block edges and other patterns.

    The power spectra of all tiles are averaged; frequencies up to a quarter cycle a pixel count.
    """
    error = halftone.astype(np.float64) - original
    tile = min(tile, *error.shape)
    rows, columns = error.shape[0] // tile, error.shape[1] // tile
    tiles = error[: rows * tile, : columns * tile].reshape(rows, tile, columns, tile).swapaxes(1, 2)
    power = (np.abs(np.fft.fft2(tiles.reshape(-1, tile, tile))) ** 2).mean(axis=0)
    frequency = np.hypot(np.fft.fftfreq(tile)[:, None], np.fft.fftfreq(tile)[None, :])
    ring = np.rint(frequency * tile).astype(int)
    ring[frequency >= 0.25] = 0
    bands = [power[ring == radius] for radius in range(2, tile // 4)]
    return max(float(band.max() / (np.median(band) + 1e-9)) for band in bands)


def figures(halftone: Halftone, originals: list[Picture]) -> tuple[float, float]:
    """Mean seen error and median spectral peak over some pictures."""
    made = [halftone(original) for original in originals]
    seen = [quality.visual_error(o, m) for o, m in zip(originals, made, strict=True)]
    peaks = [spectral_peak(o, m) for o, m in zip(originals, made, strict=True)]
    return float(np.mean(seen)), float(np.median(peaks))


def sloped_serial(gray: Picture) -> Picture:
    """Serial Floyd-Steinberg with the threshold sloped with the tone: a harder baseline than the classic."""
    height, width = gray.shape
    out = np.zeros_like(gray)
    above = np.zeros(width + 2)
    for y in range(height):
        errors = np.zeros(width + 2)
        carry = 0.0
        tones = gray[y].tolist()
        for x, tone in enumerate(tones):
            value = tone + carry + above[x + 1]
            white = value >= 127.5 + SLOPE * (tone - 127.5)
            out[y, x] = 255 if white else 0
            error = value - (255.0 if white else 0.0)
            carry = error * FLOYD_STEINBERG[0] / 16
            errors[x] += error * FLOYD_STEINBERG[135] / 16
            errors[x + 1] += error * FLOYD_STEINBERG[90] / 16
            errors[x + 2] += error * FLOYD_STEINBERG[45] / 16
        above = errors
    return out


def sloped_tables() -> WeightTables:
    """Constant weights under a threshold sloped with the tone, seeded starts: what training begins with."""
    flat = constant_tables()
    threshold = np.rint(16 * (127.5 + SLOPE * (np.arange(256) - 127.5))).astype(np.int16)
    return WeightTables(np.tile(threshold, (3, 1)), flat.spread, flat.weights, 64)


def methods(options: Options) -> dict[str, Halftone]:
    """Serial baselines, then the pinwheel at its trained sizes, and what tone-dependent weights are worth."""
    queue = options.queue()
    found: dict[str, Halftone] = {"serial, sloped threshold": sloped_serial}
    for size in trained_sizes("spiral"):
        found[f"pinwheel {size}"] = PinwheelHalftoner(size, queue=queue).transform
    found["pinwheel 32, constant weights and threshold"] = PinwheelHalftoner(
        32, weights="constant", queue=queue
    ).transform
    sloped = PinwheelHalftoner(32, weights=sloped_tables(), queue=queue)
    found["pinwheel 32, constant weights, sloped threshold"] = sloped.transform
    found["pinwheel 32, serpentine"] = PinwheelHalftoner(32, scan="serpentine", queue=queue).transform
    for noise in (0.05, 0.2):
        found[f"pinwheel 32, noise {noise}"] = PinwheelHalftoner(32, noise=noise, queue=queue).transform
    return found


def seen_errors(options: Options) -> Table:
    """Seen error and spectral peak over Pillow's serial Floyd-Steinberg."""
    photos = [np.asarray(PIL.Image.fromarray(p).convert("L")) for p in harness.pictures(options).values()]
    sets = {"pictures": photos, "ramp": [ramp()], "flats": flats()}
    columns = {"method": "method"}
    columns |= {f"{name}_seen": f"{name}: seen error" for name in sets}
    columns |= {f"{name}_peak": f"{name}: peak" for name in sets}
    title = f"Over serial Floyd-Steinberg (Pillow): {len(photos)} pictures, a ramp, {len(FLAT_TONES)} flat patches"
    table = Table(
        title, columns, note="Mean seen error (visual model, 300 dpi at 9.5 inches) and median spectral peak."
    )
    base = {name: figures(pillow, originals) for name, originals in sets.items()}
    for method, halftone in methods(options).items():
        if options.quick and method.startswith("serial"):
            continue
        cells: dict[str, float] = {}
        for name, originals in sets.items():
            seen, peak = figures(halftone, originals)
            cells[f"{name}_seen"], cells[f"{name}_peak"] = seen / base[name][0], peak / base[name][1]
        table.add(method=method, **cells)
    return table


def tone_errors(options: Options) -> Table:
    """How far a constant patch's mean strays from its tone."""
    table = Table(
        "Worst tone error of constant 256x256 patches, all 256 tones",
        {"method": "method", "worst": "worst, gray levels", "mean": "mean, gray levels"},
    )
    queue = options.queue()
    found: dict[str, Halftone] = {"Pillow": pillow}
    found |= {f"pinwheel {size}": PinwheelHalftoner(size, queue=queue).transform for size in trained_sizes("spiral")}
    for method, halftone in found.items():
        patches = [np.full((256, 256), tone, np.uint8) for tone in range(0, 256, 16 if options.quick else 1)]
        errors = [abs(float(halftone(patch).mean()) - float(patch[0, 0])) for patch in patches]
        table.add(method=method, worst=max(errors), mean=float(np.mean(errors)))
    return table


def speed(options: Options, gray: Picture) -> Table:
    """Rates by picture size and block size, beside Pillow and the device's copy bandwidth."""
    columns = {
        "what": "picture, method",
        "ms": "end to end, ms",
        "rate": "end to end, Mpx/s",
        "kernel_ms": "kernels, ms",
        "kernel_rate": "kernels, Mpx/s",
        "share": "of copy bandwidth",
    }
    note = "The share: bytes of a picture read and written once a pixel, over the device's copy rate."
    table = Table("Speed at two levels", columns, note=note)
    queue = options.queue()
    copy_gbps = measure.device_rates(queue, megabytes=64 if options.quick else 256).copy_gbps
    for side in options.sizes(512, 2048, 8192):
        picture = harness.to_size(gray, side, side)
        calls: dict[str, Callable[[], object]] = {
            "Pillow convert('1')": partial(PIL.Image.fromarray(picture).convert, "1"),
            "floyd_steinberg": partial(floyd_steinberg, picture, queue=queue),
        }
        for size in (8, 16, 32, 64):
            calls[f"pinwheel {size}"] = partial(PinwheelHalftoner(size, queue=queue).transform, picture)
        with_portable = partial(PinwheelHalftoner(32, queue=queue).transform, picture)
        calls["pinwheel 32, portable form"] = partial(_portable, with_portable)
        for method, call in calls.items():
            timing = harness.time_call(call, options.repeat, budget_s=5)
            cells = {"ms": timing.median_ms, "rate": picture.size / timing.median_ms / 1e3}
            if not method.startswith("Pillow"):
                kernels = harness.kernel_ms(call)
                cells |= {"kernel_ms": kernels, "kernel_rate": picture.size / kernels / 1e3}
                cells["share"] = 2 * picture.size / (kernels * 1e6) / copy_gbps
            table.add(what=f"{side}x{side}, {method}", **cells)
    return table


def _portable(call: Callable[[], object]) -> object:
    with runtime.force_variant("portable"):
        return call()


def run(options: Options) -> Iterator[Table]:
    """All tables of this topic."""
    first = next(iter(harness.pictures(options).values()))
    yield speed(options, np.asarray(PIL.Image.fromarray(first).convert("L")))
    yield tone_errors(options)
    yield seen_errors(options)


if __name__ == "__main__":
    harness.main(run)
