"""The rows of `benchmarks.sweep`: one or several calls of every public function and method, on one picture's size."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image

import clquant
from benchmarks.harness import Picture
from benchmarks.sweep_case import ENGINES, Case
from clquant import (
    KMeansPalette,
    NeuQuantCL,
    PinwheelHalftoner,
    QuadtreeBuilder,
    SpatialPalette,
    VQCodec,
    quality,
    video,
)
from clquant import panel as panels

FIXED = ["#000000", "#ffffff", "#ff0000", "#0000ff"]
MEASURES = ("mse", "psnr", "ssim", "visual_error", "speck_error", "color_difference", "blurred_color_difference")
DITHERS = ("blue-noise", "bayer8", "floyd-steinberg", "pinwheel", "search")


@dataclass(frozen=True)
class Row:
    """A call that is timed.

    Attributes
    ----------
    of : str
        The public name whose row it is: ``"KMeansPalette.fit"``, ``"quantize"``, ``"quality.ssim"``.
    detail : str
        How it is called, after the name.
    call : callable
        Without arguments. What it needs is made by the first call, which is not timed.
    """

    of: str
    detail: str
    call: Callable[[], object]

    @property
    def name(self) -> str:
        """What the table shows."""
        return f"{self.of} {self.detail}".strip()


def rows(case: Case) -> Iterator[Row]:
    """Every row."""
    for family in (
        learning,
        learners,
        mapping,
        dithers,
        values,
        moving,
        maps,
        codecs,
        halftones,
        quadtrees,
        scalars,
        measures,
    ):
        yield from family(case)


def learning(case: Case) -> Iterator[Row]:
    """Palettes learned in the ways there are."""
    q = {"queue": case.queue}
    fit, means = "KMeansPalette.fit", functools.partial(KMeansPalette, queue=case.queue)
    for colors in (4, 16, 64, 256, 1024, 4096):
        yield Row(fit, f"{colors} RGB", lambda k=colors: means(k).fit(case.rgb))
    yield Row(fit, "256 RGBA", lambda: means(256).fit(case.rgba))
    yield Row(fit, "128 gray", lambda: means(128).fit(case.gray))
    yield Row(fit, "256 on the device", lambda: means(256).fit(case.device_rgb))
    yield Row(fit, "256 of a file", lambda: means(256).fit(case.file(".png")))
    for space in ("linear", "oklab"):
        yield Row(fit, f"256 {space}", lambda s=space: means(256, color_space=s).fit(case.rgb))
    for init in ("random", "wu", "median-cut"):
        yield Row(fit, f"256 init={init}", lambda i=init: means(256, init=i).fit(case.rgb))
    yield Row(fit, "64 n_init=4", lambda: means(64, n_init=4).fit(case.rgb))
    yield Row(fit, "64 four fixed", lambda: means(64, fixed_colors=FIXED).fit(case.rgb))
    yield Row(fit, "64 weighted", lambda: means(64).fit(case.rgb, sample_weight=case.gray))
    yield Row(fit, "64 of icons", lambda: means(64).fit(case.icons))
    yield Row("KMeansPalette.fit_many", "16, icons", lambda: means(16).fit_many(case.icons))
    yield Row("NeuQuantCL.fit_many", "16, icons", lambda: NeuQuantCL(16, **q).fit_many(case.icons))
    yield Row("KMeansPalette.fit_histogram", "64", lambda: means(64).fit_histogram(case.histogram))
    yield Row("NeuQuantCL.fit_histogram", "64", lambda: NeuQuantCL(64, **q).fit_histogram(case.histogram))
    neural, fit = functools.partial(NeuQuantCL, queue=case.queue), "NeuQuantCL.fit"
    yield Row(fit, "256 RGB", lambda: neural(256).fit(case.rgb))
    yield Row(fit, "256 RGBA", lambda: neural(256).fit(case.rgba))
    yield Row(fit, "256 l1", lambda: neural(256, metric="l1").fit(case.rgb))
    yield Row(fit, "256 l1 conscience", lambda: neural(256, metric="l1", conscience=True).fit(case.rgb))
    sequential = functools.partial(NeuQuantCL, mode="sequential", sample_factor=10, queue=case.queue)
    yield Row(fit, "256 sequential, factor 10", lambda: sequential(256).fit(case.rgb))
    yield Row("quantize", "256", lambda: clquant.quantize(case.rgb, 256, **q))
    yield Row("quantize", "16 blue-noise", lambda: clquant.quantize(case.rgb, 16, dither="blue-noise", **q))
    pil = PIL.Image.fromarray(case.rgb)
    yield Row("pillow.quantize", "256", lambda: clquant.pillow.quantize(pil, 256))
    yield Row("dominant_colors", "", lambda: clquant.dominant_colors(case.rgb, **q))
    yield Row("ColorHistogram.of", "RGB", lambda: clquant.ColorHistogram.of(case.rgb, **q))
    yield Row("ColorHistogram.save", "", lambda: case.histogram.save(case.folder / "h.cqh"))
    yield Row("ColorHistogram.load", "", lambda: clquant.ColorHistogram.load(case.file(".cqh")))
    yield Row("ColorHistogram.to_arrays", "", lambda: case.histogram.to_arrays())
    merged = lambda: case.histogram + case.histogram  # noqa: E731
    yield Row("ColorHistogram.__add__", "", merged)
    yield Row("ColorHistogram.__sub__", "", lambda: case.histogram - case.histogram)


def learners(case: Case) -> Iterator[Row]:
    """What every palette engine can do beside learning in particular ways."""
    for name, make in ENGINES.items():

        def row(verb: str, detail: str, call: Callable[[Any], object], name: str = name) -> Row:
            return Row(f"{name}.{verb}", detail, lambda: call(case.engine(name)))

        def new(verb: str, detail: str, call: Callable[[Any], object], name: str = name, make: Any = make) -> Row:
            return Row(f"{name}.{verb}", detail, lambda: call(make(queue=case.queue)))

        yield new("fit", "default size", lambda e: e.fit(case.rgb))
        yield new("fit_predict", "", lambda e: e.fit_predict(case.rgb))
        yield new("fit_transform", "", lambda e: e.fit_transform(case.rgb))
        if name in ("KMeansPalette", "NeuQuantCL"):
            yield new(
                "fit_quality", "30 dB", lambda e: e.set_params(n_colors=256).fit_quality(case.rgb, target_psnr=30)
            )
        yield row("predict", "", lambda e: e.predict(case.rgb))
        yield row("transform", "", lambda e: e.transform(case.rgb))
        yield row("quantize", "", lambda e: e.quantize(case.rgb))
        if name != "TilePalettes":
            yield row("score", "", lambda e: e.score(case.rgb))
        yield row("stream", "four bands", lambda e: list(e.stream(case.bands, "predict")))


def maps(case: Case) -> Iterator[Row]:
    """Pictures of tiles: those of consoles, and pyramids of maps."""
    yield Row("TilePalettes.predict", "blue-noise", lambda: case.engine("TilePalettes").predict(case.rgb, "blue-noise"))
    nes = [["black", "red", "white", "green"], ["black", "blue", "gray", "cyan"]]
    yield Row("TilePalettes.with_palettes", "", lambda: clquant.TilePalettes.with_palettes(nes))
    numbers = functools.cache(lambda: case.engine("TilePalettes").predict(case.rgb))
    yield Row("TilePalettes.tile_numbers", "", lambda: case.engine("TilePalettes").tile_numbers(numbers()))
    make = functools.partial(SpatialPalette, queue=case.queue)
    yield Row("SpatialPalette.fit_many", "16, four bands", lambda: make(16).fit_many(case.bands))
    yield Row("tiles.histogram", "", lambda: clquant.tiles.histogram(case.pyramid, queue=case.queue))
    out = case.folder / "map.mbtiles"
    yield Row("tiles.quantize", "64", lambda: clquant.tiles.quantize(case.pyramid, out, 64, queue=case.queue))


def mapping(case: Case) -> Iterator[Row]:
    """Pixels to the nearest of given colours."""
    predict = "KMeansPalette.predict"
    for colors in (16, 256, 4096):
        yield Row(predict, f"{colors} RGB", lambda k=colors: case.palette(k).predict(case.rgb))
    yield Row(predict, "256 RGBA", lambda: case.palette(256, "rgba").predict(case.rgba))
    yield Row(predict, "256 oklab", lambda: case.palette(256, "oklab").predict(case.rgb))
    yield Row(predict, "256 gray", lambda: case.palette(256).predict(case.gray))
    yield Row(predict, "256 of a file", lambda: case.palette(256).predict(case.file(".png")))
    yield Row(predict, "256 on the device", lambda: finished(case, case.palette(256).predict(case.device_rgb)))
    yield Row("KMeansPalette.transform", "256 RGB", lambda: case.palette(256).transform(case.rgb))
    yield Row("KMeansPalette.quantize", "256 RGB", lambda: case.palette(256).quantize(case.rgb))


def finished(case: Case, array: Any) -> Any:
    """A device's result, once it is there."""
    case.queue.finish()
    return array


def dithers(case: Case) -> Iterator[Row]:
    """The dithers, by name and as objects."""
    predict = "KMeansPalette.predict"
    for name in DITHERS:
        for colors in (16, 256, 4096):
            yield Row(
                predict,
                f"{colors} RGB {name}",
                lambda k=colors, d=name: case.palette(k).predict(case.rgb, dither=d),
            )
        yield Row(
            predict,
            f"256 RGBA {name}",
            lambda d=name: case.palette(256, "rgba").predict(case.rgba, dither=d),
        )
        yield Row(
            predict,
            f"256 oklab {name}",
            lambda d=name: case.palette(256, "oklab").predict(case.rgb, dither=d),
        )
    objects = {
        "OrderedDither.dither": clquant.OrderedDither("bayer", size=4),
        "ErrorDiffusion.dither": clquant.ErrorDiffusion("jarvis-judice-ninke", 0.9, True),
        "SearchDither.dither": clquant.SearchDither(2),
    }
    for of, dither in objects.items():
        yield Row(
            of,
            "16",
            lambda d=dither: d.dither(case.rgb, case.palette(16).palette_, queue=case.queue),
        )
    tiles = clquant.ErrorDiffusion(tile_size=256)
    palette = case.palette
    yield Row(
        "ErrorDiffusion.dither", "16 tiles", lambda: tiles.dither(case.rgb, palette(16).palette_, queue=case.queue)
    )
    yield Row("alpha_edges", "dithered", lambda: clquant.alpha_edges(case.rgba, queue=case.queue))
    yield Row("floyd_steinberg", "gray", lambda: clquant.floyd_steinberg(case.gray, queue=case.queue))
    colors = [*FIXED, "#00ff00"]
    yield Row("floyd_steinberg", "palette", lambda: clquant.floyd_steinberg(case.rgb, colors, queue=case.queue))
    panel = panels.panel(next(iter(panels.PANELS)))
    shown = functools.cache(lambda: panel.quantize(case.rgb, queue=case.queue))
    yield Row("panel.Panel.prepare", "", lambda: panel.prepare(case.rgb))
    yield Row("panel.Panel.quantize", "", lambda: panel.quantize(case.rgb, queue=case.queue))
    yield Row("panel.Panel.in_device_colors", "", lambda: panel.in_device_colors(shown()))
    yield Row("panel.Panel.pack", "", lambda: panel.pack(shown()))
    yield Row("panel.fitted", "", lambda: panels.fitted(case.rgb, (800, 480), "contain"))


def values(case: Case) -> Iterator[Row]:
    """What is made of indices and a palette."""
    of, few = "IndexedImage.to_bytes", functools.cache(lambda: case.palette(16).quantize(case.rgb))
    for format in ("PNG", "GIF", "TIFF", "BMP", "WebP"):
        yield Row(of, f"{format} 256", lambda f=format: case.indexed.to_bytes(f))
    yield Row(of, "PNG 16", lambda: few().to_bytes("PNG"))
    yield Row(of, "PNG 256 small", lambda: case.indexed.to_bytes("PNG", effort="small"))
    yield Row("IndexedImage.save", "PNG 256", lambda: case.indexed.save(case.folder / "saved.png"))
    yield Row("IndexedImage.to_sixel", "256", lambda: case.indexed.to_sixel())
    yield Row("IndexedImage.sorted", "luma", lambda: case.indexed.sorted("luma"))
    for verb in ("counts", "to_array", "to_pil", "host_indices"):
        yield Row(f"IndexedImage.{verb}", "", lambda v=verb: getattr(case.indexed, v)())
    indexed = lambda: clquant.IndexedImage(case.indexed.indices, case.indexed.palette)  # noqa: E731
    yield Row("IndexedImage", "of indices and a palette", indexed)
    html = lambda: case.indexed._repr_png_()  # noqa: E731
    yield Row("IndexedImage._repr_png_", "", html)


def moving(case: Case) -> Iterator[Row]:
    """Frames in, animations out."""
    q = {"queue": case.queue}
    for shared in (True, False):
        detail = "four frames, shared" if shared else "four frames, apart"
        call = lambda s=shared: clquant.animate(case.bands, 64, shared=s, **q)  # noqa: E731
        yield Row("animate", detail, call)
    learner = functools.partial(KMeansPalette, 64, **q)
    yield Row("quantize_frames", "four frames", lambda: clquant.quantize_frames(learner(), case.bands))
    for format in ("GIF", "PNG", "WebP"):
        yield Row("Animation.to_bytes", format, lambda f=format: case.animation.to_bytes(f))
    frames = lambda: case.animation.frames  # noqa: E731
    yield Row("Animation.save", "GIF", lambda: case.animation.save(case.folder / "a.gif"))
    yield Row("save_gif", "", lambda: clquant.save_gif(case.folder / "b.gif", frames()))
    yield Row("save_animation", "PNG", lambda: clquant.save_animation(case.folder / "c.png", frames()))
    yield Row("video.frames", "GIF", lambda: sum(1 for _ in video.frames(case.file(".gif"))))


def codecs(case: Case) -> Iterator[Row]:
    """Vector quantization."""
    quad = (4, 4)
    kinds = [(n, quad, "gray") for n in (64, 256, 1024, 4096)]
    for n, shape, kind in [*kinds, (256, (2, 2), "gray"), (256, (8, 8), "gray"), (256, quad, "rgb")]:

        def row(verb: str, call: Callable[[VQCodec, Picture], object], given: Any = (n, shape, kind)) -> Row:
            n, shape, kind = given
            detail = f"{n}, {shape[0]}x{shape[1]}, {kind}"
            return Row(f"VQCodec.{verb}", detail, lambda: call(case.codec(*given), getattr(case, kind)))

        indices = functools.cache(lambda g=(n, shape, kind): case.codec(*g).encode(getattr(case, g[2])))
        data = functools.cache(lambda g=(n, shape, kind): case.codec(*g).compress(getattr(case, g[2])))
        yield row("fit", lambda c, p: VQCodec(c.codebook_size, c.block_shape, queue=case.queue).fit(p))
        yield row("encode", lambda c, p: c.encode(p))
        yield row("decode", lambda c, p, i=indices: c.decode(i(), p.shape[:2]))
        if n in (256, 1024):
            yield row("compress", lambda c, p: c.compress(p))
            yield row("decompress", lambda c, _, d=data: c.decompress(d()))
    sided = functools.partial(case.codec, 256, quad, "gray", 32)
    stored = functools.cache(lambda: sided().compress(case.gray))
    yield Row("VQCodec.compress", "side match, gray", lambda: sided().compress(case.gray))
    yield Row("VQCodec.decompress", "side match, gray", lambda: sided().decompress(stored()))
    plain, file = functools.partial(case.codec, 256, quad, "gray"), functools.partial(case.file, ".clvq")
    yield Row("VQCodec.compress_to", "gray", lambda: plain().compress_to(io.BytesIO(), case.gray))
    yield Row("VQCodec.decompress_from", "gray", lambda: plain().decompress_from(io.BytesIO(file().read_bytes())))
    yield Row("VQCodec.stream", "four bands", lambda: list(plain().stream([b[..., 1] for b in case.bands], "encode")))
    yield Row("VQCodec.save", "", lambda: plain().save(case.folder / "book.npz"))
    yield Row("VQCodec.load", "", lambda: VQCodec.load(case.file(".npz"), queue=case.queue))
    yield Row("clvq_info", "gray", lambda: clquant.clvq_info(file()))


def halftones(case: Case) -> Iterator[Row]:
    """Few levels, by pinwheels."""
    of = "PinwheelHalftoner.transform"
    make = functools.partial(PinwheelHalftoner, queue=case.queue)
    for size in (4, 8, 12, 16, 30, 32, 64):
        yield Row(of, f"{size} gray", lambda n=size: make(n).transform(case.gray))
    kinds: dict[str, dict[str, Any]] = {
        "four levels": {"levels": 4},
        "noise": {"noise": 0.1},
        "linear": {"linear": True},
    }
    for name, options in kinds.items():
        yield Row(of, f"32 gray, {name}", lambda o=options: make(32, **o).transform(case.gray))
    yield Row(of, "32 serpentine", lambda: make(32, scan="serpentine", weights="constant").transform(case.gray))
    yield Row(of, "32 RGB", lambda: make().transform(case.rgb))
    yield Row(of, "32 palette of 5", lambda: make(palette=[*FIXED, "#00ff00"]).transform(case.rgb))
    yield Row(of, "32 packed bits", lambda: make().transform(case.gray, output="bits"))
    yield Row(of, "32 refined twice", lambda: make().transform(case.gray, refine=2))
    yield Row("PinwheelHalftoner.quantize", "", lambda: make(palette=FIXED).quantize(case.rgb))
    yield Row("PinwheelHalftoner.to_pil", "", lambda: make().to_pil(case.gray))
    yield Row("PinwheelHalftoner.stream", "four bands", lambda: list(make().stream([b[..., 1] for b in case.bands])))


def quadtrees(case: Case) -> Iterator[Row]:
    """Quadtrees in and out."""
    make = functools.partial(QuadtreeBuilder, queue=case.queue)
    for name in ("gray", "rgb", "rgba"):
        yield Row("QuadtreeBuilder.leaves", name, lambda n=name: make().leaves(getattr(case, n)))
        yield Row("QuadtreeBuilder.build", name, lambda n=name: make().build(getattr(case, n)))
    top_down = functools.partial(make, method="top-down")
    yield Row("QuadtreeBuilder.leaves", "gray, top-down", lambda: top_down().leaves(case.gray))
    yield Row("QuadtreeBuilder.build", "rgb, luma", lambda: make(20.0, criterion="luma").build(case.rgb))
    yield Row("QuadtreeBuilder.stream", "four bands", lambda: list(make().stream(case.bands)))
    for verb in ("render", "outline", "to_array", "to_bytes", "squared_error", "compression", "counts", "leaves"):
        yield Row(f"Quadtree.{verb}", "rgb", lambda v=verb: getattr(case.tree, v)())
    yield Row("Quadtree.levels", "rgb", lambda: list(case.tree.levels))
    yield Row("Quadtree.frames", "rgb, the last", lambda: case.tree.frames()[-1])
    yield Row("Quadtree.find", "every pixel", lambda: case.tree.find(*np.indices(case.gray.shape)[::-1]))
    yield Row("Quadtree.neighbours", "of one leaf", lambda: case.tree.neighbours(len(case.tree.leaves()) // 2))
    yield Row("Quadtree.records", "rgb", lambda: sum(1 for _ in case.tree.records()))
    yield Row("Quadtree.to_geojson", "rgb", lambda: case.tree.to_geojson())
    yield Row("Quadtree.save", "rgb", lambda: case.tree.save(case.folder / "tree.cqt"))
    yield Row("Quadtree.load", "rgb", lambda: clquant.Quadtree.load(case.file(".cqt")))
    stored = functools.cache(lambda: case.tree.to_bytes())
    yield Row("Quadtree.from_bytes", "rgb", lambda: clquant.Quadtree.from_bytes(stored()))


def scalars(case: Case) -> Iterator[Row]:
    """Optimal codebooks of the rows of a gray picture as numbers."""
    floats = functools.cache(lambda: case.gray.astype(np.float16))
    yield Row("scalar_codebook", "rows", lambda: clquant.scalar_codebook(floats(), 16, axis=1, queue=case.queue))
    yield Row("scalar_codebook", "whole", lambda: clquant.scalar_codebook(case.gray, 16, queue=case.queue))
    rows = functools.cache(lambda: case.gray[:512].reshape(-1, 16))
    trained = functools.cache(lambda: clquant.VectorQuantizer(64, queue=case.queue).fit(rows()))
    of_rows = functools.partial(clquant.VectorQuantizer, 64, queue=case.queue)
    yield Row("VectorQuantizer.fit", "", lambda: of_rows().fit(rows()))
    yield Row("VectorQuantizer.fit_predict", "", lambda: of_rows().fit_predict(rows()))
    yield Row("VectorQuantizer.fit_transform", "", lambda: of_rows().fit_transform(rows()))
    yield Row("VectorQuantizer.partial_fit", "", lambda: of_rows().partial_fit(rows()))
    yield Row("VectorQuantizer.predict", "", lambda: trained().predict(rows()))
    yield Row("VectorQuantizer.transform", "", lambda: trained().transform(rows()))
    yield Row("VectorQuantizer.inverse_transform", "", lambda: trained().inverse_transform(trained().labels_))
    yield Row("VectorQuantizer.score", "", lambda: trained().score(rows()))
    yield Row("VectorQuantizer.stream", "", lambda: list(trained().stream([rows()], "predict")))
    yield from coders(case, rows)


def coders(case: Case, rows: Callable[[], Any]) -> Iterator[Row]:
    """Codes of rows by sub-spaces and by stages."""
    makers: dict[str, Callable[[], Any]] = {
        "ProductQuantizer": lambda: clquant.ProductQuantizer(4, 5, queue=case.queue),
        "ResidualQuantizer": lambda: clquant.ResidualQuantizer(2, 5, queue=case.queue),
    }
    for name, make in makers.items():
        trained = functools.cache(lambda make=make: make().fit(rows()))
        yield Row(f"{name}.fit", "", lambda make=make: make().fit(rows()))
        yield Row(f"{name}.fit_transform", "", lambda make=make: make().fit_transform(rows()))
        yield Row(f"{name}.encode", "", lambda of=trained: of().encode(rows()))
        yield Row(f"{name}.decode", "", lambda of=trained: of().decode(of().encode(rows())))
        yield Row(f"{name}.transform", "", lambda of=trained: of().transform(rows()))
        yield Row(f"{name}.inverse_transform", "", lambda of=trained: of().inverse_transform(of().transform(rows())))
        yield Row(f"{name}.score", "", lambda of=trained: of().score(rows()))
        yield Row(f"{name}.stream", "", lambda of=trained: list(of().stream([rows()], "encode")))


def measures(case: Case) -> Iterator[Row]:
    """How far two pictures are from each other."""
    for name in MEASURES:
        measure = getattr(quality, name)
        yield Row(f"quality.{name}", "RGB", lambda m=measure: m(case.rgb, case.other, queue=case.queue))
    oklab = functools.partial(quality.color_difference, formula="oklab", queue=case.queue)
    yield Row("quality.color_difference", "RGB, OKLab", lambda: oklab(case.rgb, case.other))
    wide = functools.cache(lambda: (case.gray.astype(np.float32), case.gray[::-1].astype(np.float32)))
    for name in ("psnr", "ssim"):
        measure = getattr(quality, name)
        yield Row(f"quality.{name}", "float32 gray", lambda m=measure: m(*wide(), queue=case.queue))
