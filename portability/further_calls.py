"""Public calls beside the engines' own: histograms, tile and spatial palettes, panels, tiles of maps, sinks, dithers.

As `calls`, which adds them to its own.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image

import clquant
from clquant import panel, quality, tiles
from portability.call import Good
from portability.inputs import photo

_DEEP = photo(9, 14).astype(np.uint16) * 257


@functools.cache
def _histogram() -> clquant.ColorHistogram:
    return clquant.ColorHistogram.of(photo(9, 14, 4))


@functools.cache
def _map() -> pathlib.Path:
    """A folder of tiles that is there as long as the process."""
    folder = pathlib.Path(tempfile.mkdtemp())
    for x in range(2):
        (folder / "1" / str(x)).mkdir(parents=True)
        PIL.Image.fromarray(photo(16, 16, 4, seed=x)).save(folder / "1" / str(x) / "0.png")
    return folder


def histogram_calls(one_of: Callable[..., Good], common: dict[str, Good]) -> list[tuple[str, Any, dict[str, Good]]]:
    """Of colour histograms: (name, function, good arguments)."""
    h = clquant.ColorHistogram
    k = {name: common[name] for name in ("n_colors", "color_space", "random_state")}

    def fit(**given: Any) -> Any:
        histogram, progress = given.pop("histogram"), given.pop("progress")
        return clquant.KMeansPalette(**given).fit_histogram(histogram, progress=progress)

    def together(one: Any, other: Any, way: Any) -> Any:
        return one - other if way == "-" else one + other

    return [
        ("ColorHistogram", h, {"colors": one_of(np.eye(3, dtype=np.uint8)), "counts": one_of([1, 2, 3])}),
        ("ColorHistogram.of", h.of, {
            "images": one_of(photo(9, 14), [photo(9, 14, 4), _DEEP]), "memory": one_of(None, 1 << 24, "64MB"),
            "max_bits": one_of(8, 16), "progress": common["progress"]}),
        ("KMeansPalette.fit_histogram", fit, {**k, "histogram": one_of(_histogram()), "progress": common["progress"]}),
        ("NeuQuantCL.fit_histogram", clquant.NeuQuantCL(4, sample_factor=30).fit_histogram, {
            "histogram": one_of(_histogram()), "progress": common["progress"]}),
    ]  # fmt: skip


def palette_calls(one_of: Callable[..., Good], common: dict[str, Good]) -> list[tuple[str, Any, dict[str, Good]]]:
    """Of palettes by other roads than k-means' and NeuQuant's."""
    picture, space, seed, progress = (common[name] for name in ("image", "color_space", "random_state", "progress"))

    def engine(name: str, method: str, *of_method: str) -> Callable[..., Any]:
        def call(**given: Any) -> Any:
            arguments = {key: given.pop(key) for key in of_method}
            return getattr(getattr(clquant, name)(**given), method)(**arguments)

        return call

    tile = {
        "n_palettes": one_of(1, 2),
        "n_colors": one_of(2, 3),
        "tile_size": one_of(4, (4, 8)),
        "swap_rounds": one_of(0),
    }
    tile |= {"shared_color": one_of(None, (0, 0, 0)), "color_format": one_of(None, "rgb555")}
    eye = {"n_colors": one_of(2, 3), "rounds": one_of(1), "sharpness": one_of(0.5, 1.0), "fixed_colors": one_of(None)}
    again = {"color_space": space, "random_state": seed}
    return [
        ("TilePalettes.fit_predict", engine("TilePalettes", "fit_predict", "image", "progress"), {
            **tile, **again, "image": picture, "progress": progress}),
        ("SpatialPalette.fit_predict", engine("SpatialPalette", "fit_predict", "image", "sample_weight"), {
            **eye, **again, "image": picture, "sample_weight": one_of(None)}),
        ("SpatialPalette.fit_many", engine("SpatialPalette", "fit_many", "images"), {
            **eye, **again, "images": one_of([photo(5, 4)])}),
        ("KMeansPalette.color_format", engine("KMeansPalette", "fit", "images"), {
            "color_format": one_of("rgb565", "rgb332"), "n_colors": one_of(2, 4),
            "images": one_of(_DEEP, photo(9, 14))}),
        ("quantize", clquant.quantize, {
            "image": picture, "colors": one_of(2, 4, clquant.Palette([(0, 0, 0, 255), (9, 9, 9, 255), (0, 0, 0, 0)])),
            "dither": one_of(None, "search", "atkinson"), **again}),
        ("dominant_colors", clquant.dominant_colors, {"image": picture, "count": one_of(2, 3), **again}),
        ("alpha_edges", clquant.alpha_edges, {"image": picture, "edges": one_of("binary", "dithered")}),
        ("animate", clquant.animate, {
            "frames": one_of([photo(5, 4)] * 2), "colors": one_of(2, 4), "shared": one_of(True, False),
            "delay_ms": one_of(None, 50), "plays": one_of(None, 0, 2), **again}),
        ("SearchDither.dither", engine("SearchDither", "dither", "image", "palette"), {
            "passes": one_of(1), "sharpness": one_of(0.4), "image": picture, "palette": common["palette"]}),
        ("ErrorDiffusion.dither", engine("ErrorDiffusion", "dither", "image", "palette"), {
            "filter": one_of("atkinson", "sierra"), "strength": one_of(0.5), "serpentine": one_of(True),
            "error_space": one_of(None, "srgb"), "tile_size": one_of(None, 64), "image": picture,
            "palette": common["palette"]}),
        *((f"quality.{name}", getattr(quality, name), {
            "original": one_of(photo(12, 12)), "result": one_of(photo(12, 12)), "formula": one_of("ciede2000")})
          for name in ("color_difference", "blurred_color_difference")),
        ("Panel.prepare", next(iter(panel.PANELS.values())).prepare, {
            "image": picture, "tone": one_of(0.5, 1.0), "gamut": one_of(None, 0.5)}),
        ("panel.pack_codes", panel.pack_codes, {"codes": one_of(np.zeros((4, 4), np.uint8)), "bits": one_of(1, 4)}),
        ("panel.pack_planes", panel.pack_planes, {
            "indices": one_of(np.zeros((4, 4), np.uint8)), "black": one_of(0), "color": one_of(2)}),
    ]  # fmt: skip


def file_calls(one_of: Callable[..., Good], common: dict[str, Good]) -> list[tuple[str, Any, dict[str, Good]]]:
    """Of results in files and tiles of maps; written where the caller of `calls` has gone."""
    fitted = clquant.KMeansPalette(4).fit(photo(9, 14))
    sinks = ["x.tif", *(["x.zarr"] if importlib.util.find_spec("zarr") is not None else [])]
    indexed = clquant.IndexedImage(np.zeros((4, 4), int), np.eye(3, dtype=np.uint8))
    return [
        ("transform to a sink", fitted.transform, {
            "image": common["image"], "out": one_of(*sinks),
            "memory": one_of(None, 1 << 24), "resume": one_of(False)}),
        ("tiles.quantize", tiles.quantize, {
            "source": one_of(_map()), "out": one_of("out", "out.mbtiles"), "colors": one_of(2, 4),
            "dither": one_of(None, "bayer"), "tms": one_of(False, True), "keep_empty": one_of(False, True)}),
        ("tiles.histogram", tiles.histogram, {"source": one_of(_map()), "tms": one_of(False), "memory": one_of(None)}),
        ("IndexedImage.save as C", indexed.save, {
            "path": one_of("x.c", "x.h", "x.bin"), "lvgl": one_of(8, 9), "name": one_of("a", "b1")}),
    ]  # fmt: skip
