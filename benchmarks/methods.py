"""Every engine's everyday job and the ways people have of doing it today, each behind one call without arguments.

All take an array in the host's memory and give one there. What is not installed is left out, and named by `missing`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import PIL.Image

from benchmarks import array_peers, harness
from benchmarks.dithering_peers import pillow, pillow_palette
from benchmarks.harness import Method, Picture
from benchmarks.neuquant_peers import NUMBA, baseline, mini_batch
from benchmarks.palette_peers import SKLEARN
from benchmarks.palette_peers import methods as palette_makers
from benchmarks.quadtree_peers import with_numba, with_numpy
from benchmarks.vq_peers import codec_of, gray, rows, searchers
from clquant import KMeansPalette, NeuQuantCL, Palette, PinwheelHalftoner, QuadtreeBuilder, floyd_steinberg, runtime
from clquant.palette import engine
from clquant.palette.engine import PaletteEngine

THRESHOLD = 13
PALETTE_SIDE = 512
NEUQUANT_COLORS = 1024  # the most that NeuQuantCL takes
NUMPY_SIDE = 4096  # beyond it NumPy takes many gigabytes for the levels
# How the names of peers begin that take seconds a megapixel.
SLOW = ("scikit-learn", "OpenCV", "Pillow, median cut + k-means")
PEERS = ("Pillow", "imagequant", "sklearn", "cv2", "faiss", "scipy", "numba", "torch", "cupy")


Job = Callable[[Picture, int, runtime.CommandQueue], list[Method]]


def missing() -> list[str]:
    """Peers that are not installed here."""
    return [name for name in PEERS if harness.peer("PIL" if name == "Pillow" else name) is None]


def ours(
    name: str,
    queue: runtime.CommandQueue,
    make: Callable[[runtime.CommandQueue], Callable[[], Any]],
    shown: Callable[[Any], Picture] | None = None,
) -> Method:
    """A method of this library: end to end on the queue that engines take by default, its kernels on one that profiles
    them, which is slower.
    """
    call = make(runtime.default_queue(queue.device))
    return Method(f"clquant {name}", call, lambda: harness.kernel_ms(make(queue), 1, 1), shown)


def of_engine(engine: Any, method: str, *args: Any) -> Callable[[runtime.CommandQueue], Callable[[], Any]]:
    """What makes the call of an engine's method on a queue, by the engine itself on its own."""

    def make(queue: runtime.CommandQueue) -> Callable[[], Any]:
        mine = engine if engine.queue == queue else copy.copy(engine).set_params(queue=queue)
        return partial(getattr(mine, method), *args)

    return make


def palettes(picture: Picture, colors: int, queue: runtime.CommandQueue) -> list[Method]:
    """Learn a palette from a picture and map the picture to it."""
    plain = runtime.default_queue(queue.device)
    engines: dict[str, PaletteEngine] = {"k-means": KMeansPalette(colors, queue=plain)}
    if colors <= NEUQUANT_COLORS:
        engines["NeuQuant"] = NeuQuantCL(colors, queue=plain)
    found = [
        ours(
            name,
            queue,
            of_engine(made, "fit_predict", picture),
            lambda indices, made=made: made.palette_.colors[indices],
        )
        for name, made in engines.items()
    ]
    if colors <= 256:
        for name, call in palette_makers()[0].items():
            found.append(Method(name, partial(call, picture, colors), None, np.asarray))
    if colors == 256 and NUMBA is not None:
        found.append(
            Method("Dekker's NeuQuant, one core (Numba)", partial(baseline, picture), None, _by(picture, queue))
        )
    if colors == 256 and SKLEARN is not None:
        found.append(Method("scikit-learn MiniBatchKMeans", partial(mini_batch, picture), None, _by(picture, queue)))
    return found


def _by(picture: Picture, queue: runtime.CommandQueue) -> Callable[[Palette], Picture]:
    """For methods that give a palette alone: their pictures."""
    return lambda palette: engine.transform(picture, palette, queue=queue)


def mapping(picture: Picture, colors: int, queue: runtime.CommandQueue) -> list[Method]:
    """Map a picture to a given palette, with and without dithering."""
    step = max(max(picture.shape) // PALETTE_SIDE, 1)  # which palette it is matters little, and making it takes long
    made = pillow_palette(np.ascontiguousarray(picture[::step, ::step]), min(colors, 256))
    table = np.array(made.getpalette(), np.uint8).reshape(-1, 3)[:colors]
    if len(table) < colors:
        table = np.random.default_rng(0).integers(0, 256, (colors, 3), dtype=np.uint8)
    palette = Palette(table)

    def by_index(indices: Any) -> Picture:
        return palette.colors[np.asarray(indices).reshape(picture.shape[:2])]

    found = [
        ours(
            label,
            queue,
            lambda queue, dither=dither: partial(engine.predict, picture, palette, dither=dither, queue=queue),
            by_index,
        )
        for label, dither in (
            ("nearest", None),
            ("blue noise", "blue-noise"),
            ("Floyd-Steinberg", "floyd-steinberg"),
            ("pinwheel, palette", "pinwheel"),
        )
    ]
    if colors <= 256:
        none, diffused = PIL.Image.Dither.NONE, PIL.Image.Dither.FLOYDSTEINBERG
        found.append(Method("Pillow, nearest", partial(pillow, picture, made, none), None, np.asarray))
        found.append(Method("Pillow, Floyd-Steinberg", partial(pillow, picture, made, diffused), None, np.asarray))
    return found + _nearest_peers(picture.reshape(-1, 3), palette.colors, by_index)


def vq(picture: Picture, size: int, queue: runtime.CommandQueue) -> list[Method]:
    """Nearest of `size` codewords for every 4x4 block of a gray picture."""
    flat = gray(picture)
    codec = codec_of(flat, size, runtime.default_queue(queue.device))

    def decoded(indices: Any) -> Picture:
        table = np.asarray(indices).reshape(-(-flat.shape[0] // 4), -1)
        return np.asarray(codec.decode(table, flat.shape))

    found = [ours("VQ encode", queue, of_engine(codec, "encode", flat), decoded)]
    for name, call in searchers(codec, flat).items():
        which = 1 if name.startswith("faiss") else 0
        found.append(Method(name, call, None, lambda result, which=which: decoded(result[which])))
    return found + array_peers.nearest(rows(flat), codec.codebook_.reshape(size, 16), decoded)


def _nearest_peers(pixels: Picture, colors: Picture, shown: Callable[[Any], Picture]) -> list[Method]:
    """Nearest colours by the libraries that search any points."""
    found = []
    spatial, faiss = harness.peer("scipy.spatial"), harness.peer("faiss")
    if spatial is not None:
        tree = spatial.cKDTree(colors)
        found.append(Method("SciPy cKDTree", lambda: tree.query(pixels, workers=-1)[1], None, shown))
    if faiss is not None:
        index = faiss.IndexFlatL2(3)
        index.add(colors.astype(np.float32))
        found.append(
            Method("faiss IndexFlatL2", lambda: index.search(pixels.astype(np.float32), 1)[1][:, 0], None, shown)
        )
    return found + array_peers.nearest(pixels, colors, shown)


def halftones(picture: Picture, size: int, queue: runtime.CommandQueue) -> list[Method]:
    """A gray picture at two levels; `size` is the block of the pinwheel."""
    flat = gray(picture)
    image, halftoner = PIL.Image.fromarray(flat), PinwheelHalftoner(size, queue=runtime.default_queue(queue.device))
    return [
        ours(f"pinwheel {size}", queue, of_engine(halftoner, "transform", flat), np.asarray),
        ours("Floyd-Steinberg", queue, lambda queue: partial(floyd_steinberg, flat, queue=queue), np.asarray),
        Method(
            "Pillow, Floyd-Steinberg",
            lambda: np.asarray(image.convert("1")),
            None,
            lambda bits: bits.astype(np.uint8) * np.uint8(255),
        ),
    ]


@functools.cache
def _compiled_tree(keep: bool) -> Callable[[Picture, int], Any]:
    """The Numba peer, compiled before it is timed."""
    build = with_numba(keep)
    build(np.zeros((8, 8, 3), np.uint8), THRESHOLD)
    return build


def quadtrees(picture: Picture, threshold: int, queue: runtime.CommandQueue) -> list[Method]:
    """Squares of at most a deviation; the peers stop at the levels' statistics, and want a power of two a side."""
    builder = QuadtreeBuilder(threshold, queue=runtime.default_queue(queue.device))
    found = [ours("quadtree", queue, of_engine(builder, "leaves", picture), lambda _: builder.build(picture).render())]
    height, width = picture.shape[:2]
    if height == width and height & (height - 1) == 0:
        if height <= NUMPY_SIDE:
            found.append(Method("NumPy", partial(with_numpy, picture, threshold)))
        if NUMBA is not None:
            found.append(Method("Numba, all cores", partial(_compiled_tree(True), picture, threshold)))
            found.append(Method("Numba, new arrays", partial(_compiled_tree(False), picture, threshold)))
    return found
