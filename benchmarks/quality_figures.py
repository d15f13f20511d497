"""Quality figures over some of the pictures (see `benchmarks.figures`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import PIL.Image

from benchmarks import harness
from benchmarks import palette_peers as peers
from benchmarks.vq_peers import FAISS, OURS, SKLEARN, gray, trainers
from clquant import KMeansPalette, NeuQuantCL, PinwheelHalftoner, quality, runtime
from clquant.palette.engine import transform

if TYPE_CHECKING:
    from benchmarks.figures import Figures

Picture = harness.Picture
Halftone = Callable[[Picture], Picture]
PICTURES = 4
# Seen error and spectral peak over Pillow's Floyd-Steinberg: pictures, ramp, flat patches, by block.
SEEN = {32: (0.92, 1.08, 1.00), 16: (1.04, 1.18, 1.15), 64: (0.87, 1.02, 0.94)}

FLAT_TONES = (3, 12, 32, 48, 64, 85, 96, 112, 127, 128, 144, 170, 200, 223, 240, 252)


def steps(_: Figures) -> list[Callable[[Figures], None]]:
    """What is measured, in order."""
    return [_halftones, _neuquant, _perceived, _codebooks, _palettes]


def _some(figures: Figures, height: int, width: int) -> list[Picture]:
    """Pictures spread over all of them, at a size that peers manage."""
    found = list(harness.pictures(figures.options).values())
    chosen = found[:: max(len(found) // PICTURES, 1)][: 2 if figures.options.quick else PICTURES]
    return [np.ascontiguousarray(harness.to_size(picture, height, width)) for picture in chosen]


def _mean_mse(call: Callable[[Picture, int], Picture], pictures: list[Picture], colors: int) -> float:
    return float(np.mean([quality.mse(picture, call(picture, colors)) for picture in pictures]))


def _in_palette(queue: runtime.CommandQueue, space: str, picture: Picture, colors: int) -> Picture:
    """A picture in the palette that k-means finds in a colour space."""
    engine = KMeansPalette(colors, color_space=space, queue=queue).fit(picture)
    return engine.palette_.colors[engine.predict(picture)]


def _palettes(figures: Figures) -> None:
    """k-means against converged k-means and the quick peers."""
    pictures = _some(figures, 256, 384)
    what = f"mean MSE over {len(pictures)} pictures of 384x256"
    for colors in (16, 64, 256):
        mine = _mean_mse(partial(_in_palette, figures.queue, "srgb"), pictures, colors)
        converged = _mean_mse(peers.scikit_learn_converged, pictures, colors) if peers.SKLEARN is not None else None
        ratio = None if converged is None else mine / converged
        figures.at_most("k-means", f"{colors} colours, {what}, over scikit-learn's converged", 0.99, ratio)
        quick = {n: call for n, call in peers.methods()[0].items() if not n.startswith("scikit-learn")}
        best = min(_mean_mse(call, pictures, colors) for call in quick.values())
        figures.at_most("k-means", f"{colors} colours, the same, over the best other peer's", 1, mine / best)


def _perceived(figures: Figures) -> None:
    """OKLab against the peers."""
    pictures = _some(figures, 512, 768)

    def difference(call: Callable[[Picture, int], Picture]) -> float:
        return float(np.mean([quality.color_difference(p, call(p, 64), queue=figures.queue) for p in pictures]))

    mine = difference(lambda p, k: _in_palette(figures.queue, "oklab", p, k))
    best = min(difference(call) for call in peers.methods(slow=False)[0].values())
    figures.at_most("mapping", "64 colours in OKLab, mean CIEDE2000 over the best peer's", 1, mine / best)


def _neuquant(figures: Figures) -> None:
    """NeuQuant against its sequential map."""
    gains = []
    for picture in _some(figures, 512, 768):
        found = []
        for mode in ("parallel", "sequential"):
            palette = NeuQuantCL(256, mode=mode, keep_exact=False, queue=figures.queue).fit(picture).palette_
            found.append(quality.psnr(picture, transform(picture, palette, queue=figures.queue)))
        gains.append(found[0] - found[1])
    figures.at_least("NeuQuant", f"parallel over sequential, dB, mean of {len(gains)}", 0.4, float(np.mean(gains)))
    figures.at_least("NeuQuant", "the same, the least", 0, min(gains))


def _codebooks(figures: Figures) -> None:
    """Codebooks against converged k-means."""
    pictures = [gray(picture) for picture in _some(figures, 384, 384)][:2]
    calls = trainers(figures.queue)
    for size in (256, 1024):
        mine = float(np.mean([calls[OURS](picture, size) for picture in pictures]))
        for name, there in (("faiss Kmeans, converged", FAISS), ("scikit-learn KMeans, converged", SKLEARN)):
            ratio = None
            if there is not None:
                ratio = mine / float(np.mean([calls[name](picture, size) for picture in pictures]))
            figures.at_most("VQ", f"codebook of {size}, MSE over that of {name}, 2 of 384x384", 1, ratio)


def _pillow(gray: Picture) -> Picture:
    """Serial Floyd-Steinberg, the baseline of every ratio."""
    return np.asarray(PIL.Image.fromarray(gray).convert("1")).astype(np.uint8) * np.uint8(255)


def _ramp(side: int = 512) -> Picture:
    """Black to white from left to right."""
    return np.tile(np.rint(np.linspace(0, 255, side)).astype(np.uint8), (side, 1))


def _flats(side: int = 256) -> list[Picture]:
    """Constant patches."""
    return [np.full((side, side), tone, np.uint8) for tone in FLAT_TONES]


def _spectral_peak(original: Picture, halftone: Picture, tile: int = 256) -> float:
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


def _seen(halftone: Halftone, originals: list[Picture]) -> tuple[float, float]:
    """Mean seen error and median spectral peak over some pictures."""
    made = [halftone(original) for original in originals]
    seen = [quality.visual_error(o, m) for o, m in zip(originals, made, strict=True)]
    peaks = [_spectral_peak(o, m) for o, m in zip(originals, made, strict=True)]
    return float(np.mean(seen)), float(np.median(peaks))


def _halftones(figures: Figures) -> None:
    """Halftones against serial error diffusion."""
    photos = [np.asarray(PIL.Image.fromarray(picture).convert("L")) for picture in _some(figures, 512, 768)]
    sets = {f"{len(photos)} pictures": photos, "a ramp": [_ramp()], "flat patches": _flats()}
    base = {name: _seen(_pillow, originals) for name, originals in sets.items()}
    for size, aims in SEEN.items():
        engine = PinwheelHalftoner(size, queue=figures.queue)
        for (name, originals), aim in zip(sets.items(), aims, strict=True):
            seen, peak = _seen(engine.transform, originals)
            figures.at_most("halftone", f"block {size}, {name}, seen error over Pillow's", aim, seen / base[name][0])
            if size == 32:
                figures.at_most(
                    "halftone", f"block {size}, {name}, spectral peak over Pillow's", 1, peak / base[name][1]
                )
    engine = PinwheelHalftoner(queue=figures.queue)
    tones = [np.full((256, 256), tone, np.uint8) for tone in range(0, 256, 16 if figures.options.quick else 1)]
    worst = max(abs(float(engine.transform(patch).mean()) - float(patch[0, 0])) for patch in tones)
    figures.at_most("halftone", "worst tone error of a constant patch, gray levels", 0.25, worst)
