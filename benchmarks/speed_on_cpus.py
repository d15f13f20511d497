"""Speed figures on CPUs, each over a peer's time in the same run (see `benchmarks.figures`)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from benchmarks import harness
from benchmarks import palette_peers as peers
from benchmarks.dithering_peers import methods as dithering_methods
from benchmarks.neuquant_peers import NUMBA, baseline
from benchmarks.quadtree_peers import THRESHOLD, reduction, with_numba
from benchmarks.vq_peers import codec_of, gray, searchers
from clquant import KMeansPalette, NeuQuantCL, PinwheelHalftoner, quality

if TYPE_CHECKING:
    from benchmarks.figures import Figures

Picture = harness.Picture
COLD = """
import numpy as np, clquant
picture = np.random.default_rng(0).integers(0, 256, (1080, 1920, 3), dtype=np.uint8)
clquant.KMeansPalette(256).fit_predict(picture)
"""
ICONS = 10_000


def steps(figures: Figures) -> list[Callable[[Figures], None]]:
    """What is measured, in order; many icons on any device, the rest on CPUs."""
    if not figures.limits.is_cpu:
        return [_icons]
    return [_icons, _palettes, _cold_start, _dithering, _neuquant, _vq, _halftone, _quadtree]


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int = 7) -> dict[str, float]:
    """Least milliseconds of calls that take turns, so that a busy machine slows all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            took = harness.time_call(call, 1, warmup=0).best_ms
            if turn:
                times[name].append(took)
    return {name: min(found) for name, found in times.items()}


def _photo(figures: Figures, height: int, width: int) -> Picture:
    first = next(iter(harness.pictures(figures.options).values()))
    return harness.photo_of_size(first, height, width)


def _icons(figures: Figures) -> None:
    """Ten thousand icons."""
    icons = harness.batch_of(_photo(figures, 512, 768), 200, 64)
    many = (icons * (ICONS // 200))[: 1000 if figures.options.quick else ICONS]
    engine = KMeansPalette(16, queue=figures.plain)
    ours = harness.time_call(partial(engine.fit_many, many), 2).median_ms / len(many)
    ratio = None
    if peers.IMAGEQUANT is not None:
        loop = harness.time_call(lambda: [peers.libimagequant(icon, 16) for icon in icons], 2).median_ms
        ratio = loop / len(icons) / ours
    figures.at_least("small pictures", "10,000 of 64x64, 16 colours, libimagequant's time over it", 20, ratio)


def faiss_all(picture: Picture) -> Picture:
    """Ten iterations of faiss over all pixels, as ours are over all pixels."""
    pixels = picture.reshape(-1, 3).astype(np.float32)
    engine = peers.FAISS.Kmeans(3, 256, niter=10, seed=1, max_points_per_centroid=1 << 24)
    engine.train(pixels)
    labels = engine.index.search(pixels, 1)[1][:, 0]
    return np.clip(np.rint(engine.centroids), 0, 255).astype(np.uint8)[labels].reshape(picture.shape)


def _palettes(figures: Figures) -> None:
    """k-means beside its peers."""
    photo = _photo(figures, 1080, 1920)
    engine = KMeansPalette(256, max_iter=3, swap_rounds=2, queue=figures.plain)
    calls: dict[str, Callable[[], Any]] = {"ours": partial(engine.fit_predict, photo)}
    calls |= {"faiss": partial(faiss_all, photo)} if peers.FAISS is not None else {}
    calls |= {"imagequant": partial(peers.libimagequant, photo, 256)} if peers.IMAGEQUANT is not None else {}
    ms = in_turns(calls, 3)
    error = None
    if peers.SKLEARN is not None:
        theirs = quality.mse(photo, peers.scikit_learn(photo, 256))
        error = quality.mse(photo, engine.palette_.colors[engine.predict(photo)]) / theirs
    figures.at_most("k-means", "1920x1080, 256 colours, MSE over scikit-learn's ten iterations", 1, error)
    for name, label in (("faiss", "faiss, ten iterations over all pixels"), ("imagequant", "libimagequant")):
        ratio = ms["ours"] / ms[name] if name in ms else None
        figures.at_most("k-means", f"the same, time over {label}", 0.5, ratio)


def _cold_start(figures: Figures) -> None:
    """The first picture with all caches empty but Python's own, which installing a package fills."""
    with tempfile.TemporaryDirectory() as folder:
        names = "CLQUANT_CACHE_DIR", "POCL_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPYCACHEPREFIX"
        environment = {**os.environ, **dict.fromkeys(names, folder), "PYTHONDONTWRITEBYTECODE": ""}
        subprocess.run([sys.executable, "-c", COLD.splitlines()[1]], env=environment, check=True)
        command = partial(subprocess.run, [sys.executable, "-c", COLD], env=environment, check=True)
        seconds = harness.time_call(command, 1, warmup=0).best_ms / 1e3
    figures.at_most("k-means", "first picture after a cold start, s", 5, seconds)


def _dithering(figures: Figures) -> None:
    """Ordered dithering beside Pillow."""
    photo = _photo(figures, 1080, 1920)
    found = dithering_methods(photo, 16, figures.plain)
    ours, theirs = "clquant, dither='blue-noise'", "Pillow, Floyd-Steinberg"
    ms = in_turns({ours: found[ours], theirs: found[theirs]})
    figures.at_most("mapping", "blue noise, 16 colours, time over Pillow's dithering", 1, ms[ours] / ms[theirs])
    plain = found["clquant, dither=None"]
    seen = quality.visual_error(photo, found[ours]()) / quality.visual_error(photo, plain())
    figures.at_most("mapping", "the same, visual error over undithered", 1, seen)


def _neuquant(figures: Figures) -> None:
    """NeuQuant beside Dekker's program."""
    photo = _photo(figures, 1080, 1920)
    ratio = None
    if NUMBA is not None:
        calls = {"ours": partial(NeuQuantCL(256, queue=figures.plain).fit, photo), "core": partial(baseline, photo)}
        ms = in_turns(calls, 3)
        ratio = ms["core"] / ms["ours"]
    figures.at_least("NeuQuant", "2 Mpx, one core's time for the sequential map over it", 20, ratio)


def _vq(figures: Figures) -> None:
    """VQ beside faiss and NumPy."""
    flat = gray(_photo(figures, 512, 512))
    codec = codec_of(flat, 1024, figures.plain)
    indices = codec.encode(flat)
    found = searchers(codec, flat)
    calls: dict[str, Callable[[], Any]] = {"ours": partial(codec.encode, flat), **found}
    ms = in_turns(calls, 15)
    ratio = ms["ours"] / ms["faiss IndexFlatL2"] if "faiss IndexFlatL2" in ms else None
    figures.at_most("VQ", "encode 512x512, N = 1024, time over faiss", 1, ratio)

    def by_numpy() -> Picture:
        return np.ascontiguousarray(codec.codebook_[indices].transpose(0, 2, 1, 3)).reshape(flat.shape)

    ms = in_turns({"ours": partial(codec.decode, indices), "numpy": by_numpy}, 31)
    figures.at_most("VQ", "decode 512x512, time over NumPy's indexing", 1, ms["ours"] / ms["numpy"])


def _halftone(figures: Figures) -> None:
    """Halftones beside Pillow."""
    flat = gray(_photo(figures, 4096, 4096))
    image = PIL.Image.fromarray(flat)
    engine = PinwheelHalftoner(queue=figures.plain)
    ms = in_turns({"ours": partial(engine.transform, flat), "pillow": lambda: np.asarray(image.convert("1"))})
    figures.at_least("halftone", "4096x4096, rate over Pillow's", 1, ms["pillow"] / ms["ours"])


def _quadtree(figures: Figures) -> None:
    """Quadtrees beside Numba."""
    for side in (512, 2048):
        ratio = None
        if NUMBA is not None:
            photo = _photo(figures, side, side)
            levels = reduction(figures.plain, photo)
            ms = in_turns({"ours": levels, "numba": partial(with_numba(), photo, THRESHOLD)}, 15)
            ratio = ms["numba"] / ms["ours"]
        figures.at_least("quadtree", f"{side}x{side}, all levels, Numba's time on all cores over it", 3, ratio)
