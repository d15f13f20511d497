"""The public calls with good arguments for each parameter, for `fuzz` to put wild ones in their place."""

from __future__ import annotations

import copy
import functools
import itertools
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import clquant
from clquant import images, quality, runtime
from clquant.kmeans.params import INITS
from clquant.mapping import error
from clquant.palette import engine
from clquant.runtime.device.limits import Limits
from clquant.video import animation
from portability import further_calls, wild
from portability.call import Call, Check, Good, one_of, shown
from portability.inputs import photo


def _told(done: int, total: int) -> None:
    assert 0 <= done <= total


_QUEUE, _SEED, _PROGRESS = one_of(None), one_of(0, 7), one_of(None, _told)
_SPACE, _PICTURE = one_of("srgb", "linear", "oklab"), wild.good_picture
TABLE = np.array([(0, 0, 0, 255), (255, 255, 255, 255), (200, 10, 20, 255), (0, 0, 0, 0)], np.uint8)
_PALETTE = one_of(clquant.Palette(TABLE), TABLE)
_FIXED = one_of(None, [(1, 2, 3)], [(1, 2, 3, 40)], [(0, 0, 0, 0)])

_KMEANS: dict[str, Good] = {
    "n_colors": one_of(2, 4, 7),
    "init": one_of(*INITS),
    "n_init": one_of(1, 2),
    "max_iter": one_of(1, 2),
    "tol": one_of(0.0, 1e-4),
    "swap_rounds": one_of(0, 1),
    "fixed_colors": _FIXED,
    "color_space": _SPACE,
    "random_state": _SEED,
    "queue": _QUEUE,
}
_NEUQUANT: dict[str, Good] = {
    "n_colors": one_of(4, 8),
    "mode": one_of("parallel", "sequential"),
    "sample_factor": one_of(30),
    "metric": one_of("l1"),
    "conscience": one_of(False, True),
    "refine_steps": one_of(0, 1),
    "keep_exact": one_of(False, True),
    "fixed_colors": _FIXED,
    "color_space": _SPACE,
    "random_state": _SEED,
    "queue": _QUEUE,
}
_VQ: dict[str, Good] = {
    "codebook_size": one_of(2, 4),
    "block_shape": one_of((4, 4), (2, 3)),
    "init": one_of("k-means++", "splitting"),
    "max_iter": one_of(1, 2),
    "refine": one_of(0, 1),
    "state_size": one_of(0, 2),
    "tolerance": one_of(0.0, 3),
    "random_state": _SEED,
    "queue": _QUEUE,
}
_HALFTONE: dict[str, Good] = {
    "block_size": one_of(4, 8),
    "scan": one_of("spiral", "serpentine"),
    "weights": one_of("tone-dependent"),
    "noise": one_of(0.0),
    "levels": one_of(2),
    "linear": one_of(False, True),
    "palette": one_of(None, clquant.Palette(TABLE)),
    "color_space": _SPACE,
    "error_limit": one_of(None, 100),
    "random_state": _SEED,
    "queue": _QUEUE,
}
_TREE: dict[str, Good] = {
    "threshold": one_of(0.0, 13, 40.5),
    "criterion": one_of("deviation", "range", "luma"),
    "weights": one_of(None),
    "min_size": one_of(1, 2),
    "max_depth": one_of(None, 3),
    "method": one_of("bottom-up", "top-down"),
    "random_state": _SEED,
    "queue": _QUEUE,
}
_OF_DITHER: dict[str, Good] = {"mask": one_of("blue-noise", "bayer"), "size": one_of(2, 8), "strength": one_of(1.0)}


def _parts(engine_class: type, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    names = engine_class._parameter_names() if hasattr(engine_class, "_parameter_names") else list(_OF_DITHER)
    return {n: v for n, v in given.items() if n in names}, {n: v for n, v in given.items() if n not in names}


def _fresh(engine_class: Any, method: str) -> Callable[..., Any]:
    """Construct with the parameters that it names, then call the method with the others."""

    def call(**given: Any) -> Any:
        parameters, arguments = _parts(engine_class, given)
        made = engine_class(**parameters)
        repr_is_safe = not any(isinstance(value, wild.Spiteful) for value in given.values())
        if repr_is_safe and hasattr(made, "get_params"):
            made.set_params(**made.get_params())
        return getattr(made, method)(**arguments)

    return call


@functools.cache
def _learned(name: str) -> Any:
    made = getattr(clquant, name)
    if name == "VQCodec":
        return made(4, max_iter=2, refine=0).fit(photo(24, 28))
    if name == "QuadtreeBuilder":
        return made(9.0).build(photo(9, 14))
    return made(4).fit(photo(9, 14, 4))


def _with(name: str, method: str) -> Callable[..., Any]:
    """A learned engine, its parameters changed, then the method."""

    def call(**given: Any) -> Any:
        made = copy.copy(_learned(name))
        parameters, arguments = _parts(type(made), given)
        return getattr(made.set_params(**parameters), method)(**arguments)

    return call


def _shape_of(given: Any) -> tuple[int, ...] | None:
    picture = images.read(given, max_channels=16)
    return picture.height, picture.width


def _host(result: Any) -> Any:
    return result.get() if isinstance(result, runtime.Array) else result


def _same_bits(function: Callable[..., Any]) -> Check:
    """The result is of the picture's size, and that of a plain copy of the picture on the host."""

    def check(result: Any, given: Mapping[str, Any]) -> str | None:
        own = _host(result)
        image = given["image"]
        if isinstance(own, np.ndarray) and own.dtype.names is None and own.shape[:2] != _shape_of(image):
            return f"a result of shape {own.shape}"
        if isinstance(image, np.ndarray | runtime.Array):
            picture = images.read(image, max_channels=16, max_bits=16)
            host = picture.array.copy() if picture.array is not None else _host(picture.device_array)
            plain = host.reshape(image.shape) if picture.array is None else host
            shaped = plain.reshape(picture.shape) if not isinstance(image, runtime.Array) else plain
            again = _host(function(**{**given, "image": shaped, "progress": None}))
            equal = np.array_equal(own, again) if isinstance(own, np.ndarray) else own == again
            return None if equal else "another result for a plain copy of the picture"
        return None

    return check


def _checked(name: str, function: Callable[..., Any], arguments: dict[str, Good], **more: Any) -> Call:
    return Call(name, function, arguments, _same_bits(function), **more)


def _all_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take a bounded number of results of an iterator."""
    return lambda **given: list(itertools.islice(function(**given), 4))


def _saved(write: Callable[..., Any]) -> Callable[..., Any]:
    """Write in a folder of its own, where relative paths land."""

    def call(**given: Any) -> Any:
        before = pathlib.Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                return write(**given)
            finally:
                os.chdir(before)

    return call


def _indexed(indices: Any, palette: Any, format: Any, order: Any) -> Any:
    made = clquant.IndexedImage(indices, palette)
    made.to_sixel()
    return made.sorted(order).to_bytes(format)


def _fit_check(result: Any, given: Mapping[str, Any]) -> str | None:
    return None if 1 <= len(result.palette_) <= given["n_colors"] else f"{len(result.palette_)} colours"


_VERB: dict[str, Good] = {"image": _PICTURE, "dither": one_of(None, "bayer", "pinwheel"), "progress": _PROGRESS}
_INDICES = one_of(np.zeros((9, 14), np.uint8), np.arange(12).reshape(3, 4) % 4)
_FRAMES = one_of([clquant.IndexedImage(np.arange(12).reshape(3, 4) % 4, TABLE)] * 2)
_MANY = one_of([photo(9, 14), photo(5, 4, 1)], [photo(9, 14, 4)])
_FIT: dict[str, Good] = {
    "images": one_of(photo(9, 14), photo(9, 14, 4)),
    "sample_weight": one_of(None, np.ones((9, 14))),
}
_REAL = one_of(photo(12, 12), photo(12, 12) / 255)


def _palette_calls() -> tuple[Call, ...]:
    """Of the engines that learn palettes."""
    k, n = clquant.KMeansPalette, clquant.NeuQuantCL
    return (
        Call("KMeansPalette.fit", _fresh(k, "fit"), {**_KMEANS, **_FIT, "progress": _PROGRESS}, _fit_check),
        Call("KMeansPalette.fit_many", _fresh(k, "fit_many"), {**_KMEANS, "images": _MANY, "progress": _PROGRESS}),
        Call("KMeansPalette.fit_quality", _fresh(k, "fit_quality"), {
            **_KMEANS, **_FIT, "target_psnr": one_of(2), "max_mse": one_of(None)},
            aliases={"target_psnr": ("mean squared error",), "max_mse": ("mean squared error",)}),
        _checked("KMeansPalette.fit_predict", _fresh(k, "fit_predict"), {**_KMEANS, "image": _PICTURE}),
        _checked("KMeansPalette.fit_transform", _fresh(k, "fit_transform"), {**_KMEANS, "image": _PICTURE}),
        Call("NeuQuantCL.fit", _fresh(n, "fit"), {
            **_NEUQUANT, **_FIT, "progress": _PROGRESS}, _fit_check),
        Call("NeuQuantCL.fit_many", _fresh(n, "fit_many"), {**_NEUQUANT, "images": _MANY, "progress": _PROGRESS}),
        *(_checked(f"{name}.{verb}", _with(name, verb), {**_VERB, "color_space": _SPACE, "queue": _QUEUE})
          for name in ("KMeansPalette", "NeuQuantCL") for verb in ("predict", "transform", "quantize")),
        Call("KMeansPalette.stream", _all_of(_with("KMeansPalette", "stream")), {
            "images": _MANY, "method": one_of(None, "predict"), "depth": one_of(1, 2)}),
    )  # fmt: skip


def _codec_calls() -> tuple[Call, ...]:
    """Of the codec and its files."""
    v = clquant.VQCodec
    on_vq = {name: _VQ[name] for name in ("state_size", "tolerance", "queue")}
    return (
        Call("VQCodec.fit", _fresh(v, "fit"), {
            **_VQ, "images": one_of([photo(9, 14)], photo(9, 14, 1)), "sample_weight": one_of(None),
            "progress": _PROGRESS}),
        Call("VQCodec.encode", _with("VQCodec", "encode"), {"image": one_of(photo(4, 4), photo(3, 1)), **on_vq}),
        Call("VQCodec.decode", _with("VQCodec", "decode"), {
            "indices": one_of(np.zeros((2, 2), int)), "shape": one_of(None, (7, 8), (7, 8, 3)), **on_vq},
            aliases={"indices": ("table",)}),
        Call("VQCodec.compress", _with("VQCodec", "compress"), {
            "image": one_of(photo(9, 14)), "embed_codebook": one_of(True, False), **on_vq}),
        Call("VQCodec.decompress", _with("VQCodec", "decompress"), {
            "data": one_of(_learned("VQCodec").compress(photo(9, 14))), "max_pixels": one_of(1000), **on_vq},
            aliases={"data": (".clvq",), "max_pixels": ("pixels",)}),
        Call("VQCodec.save", _saved(_with("VQCodec", "save")), {"path": one_of("x.clvq")}),
        Call("VQCodec.load", v.load, {"path": one_of("/dev/null"), "queue": _QUEUE},
            aliases=dict.fromkeys(("path", "queue"), (".clvq", "cannot"))),
        Call("clvq_info", clquant.clvq_info, {"source": one_of(_learned("VQCodec").compress(photo(9, 14)))},
            aliases={"source": (".clvq", "path", "cannot read")}),
    )  # fmt: skip


def _halftone_and_tree_calls() -> tuple[Call, ...]:
    """Of halftoning, and of quadtrees and their files."""
    h, q = clquant.PinwheelHalftoner, clquant.QuadtreeBuilder
    tree = _learned("QuadtreeBuilder")
    return (
        _checked("PinwheelHalftoner.transform", _fresh(h, "transform"), {
            **_HALFTONE, "image": _PICTURE, "output": one_of("values", "levels"), "progress": _PROGRESS}),
        Call("PinwheelHalftoner.to_pil", _fresh(h, "to_pil"), {**_HALFTONE, "image": _PICTURE, "progress": _PROGRESS}),
        _checked("floyd_steinberg", clquant.floyd_steinberg, {
            "image": _PICTURE, "palette": _PALETTE, "color_space": _SPACE, "queue": _QUEUE, "progress": _PROGRESS}),
        Call("WeightTables.checked", lambda **given: clquant.WeightTables(**given).checked(), {
            "threshold": one_of(np.zeros((3, 256), np.int16)), "spread": one_of(np.zeros((3, 256), np.int16)),
            "weights": one_of(np.ones((3, 256, 5), np.uint8)), "start": one_of(0)}),
        _checked("QuadtreeBuilder.build", _fresh(q, "build"), {**_TREE, "image": _PICTURE, "progress": _PROGRESS}),
        _checked("QuadtreeBuilder.leaves", _fresh(q, "leaves"), {**_TREE, "image": _PICTURE, "progress": _PROGRESS}),
        Call("Quadtree.find", tree.find, {"x": one_of(0, np.arange(3)), "y": one_of(0, np.arange(3))}),
        Call("Quadtree.neighbours", tree.neighbours, {"leaf": one_of(0)}),
        Call("Quadtree.outline", tree.outline, {"image": one_of(None), "color": one_of((1, 2, 3))}),
        Call("Quadtree.from_bytes", clquant.Quadtree.from_bytes, {"data": one_of(tree.to_bytes())},
            aliases={"data": ("quadtree file",)}),
        Call("Quadtree.save", _saved(tree.save), {"path": one_of("x.clqt")}),
        Call("Quadtree.load", clquant.Quadtree.load, {"path": one_of("/dev/null")},
            aliases={"path": ("quadtree file", "cannot")}),
    )  # fmt: skip


def _object_calls() -> tuple[Call, ...]:
    """Of palettes and indexed pictures."""
    return (
        Call("Palette", clquant.Palette, {"colors": _PALETTE}),
        Call("Palette.sorted", clquant.Palette(TABLE).sorted, {"order": one_of("luma", "hue")}),
        Call("Palette.take", clquant.Palette(TABLE).take, {"indices": one_of(np.array([1, 0]))}),
        Call("Palette.hex", clquant.Palette(TABLE).hex, {"limit": one_of(None, 2)}),
        Call("Palette.write", _saved(clquant.Palette(TABLE[:2, :3]).write), {
            "path": one_of("x.gpl", "x.act"), "format": one_of(None, "hex")}),
        Call("Palette.read", clquant.Palette.read, {"path": one_of("/dev/null"), "format": one_of(None, "gpl")}),
        Call("IndexedImage", _indexed, {
            "indices": _INDICES, "palette": _PALETTE, "format": one_of("PNG", "GIF", "BMP"),
            "order": one_of("luma", "popularity")}),
        Call("IndexedImage.save", _saved(clquant.IndexedImage(np.zeros((2, 2), int), TABLE).save), {
            "path": one_of("x.png", "x.six"), "format": one_of(None, "GIF")}),
    )  # fmt: skip


def _function_calls() -> tuple[Call, ...]:
    """Of what belongs to no engine."""
    return (
        _checked("OrderedDither.dither", _fresh(clquant.OrderedDither, "dither"), {
            **_OF_DITHER, "image": _PICTURE, "palette": _PALETTE, "color_space": _SPACE, "queue": _QUEUE}),
        Call("gif_bytes", animation.gif_bytes, {"frames": _FRAMES, "delay_ms": one_of(40), "loop": one_of(True)}),
        Call("quantize_frames", animation.quantize_frames, {
            "learner": lambda _: copy.copy(_learned("KMeansPalette")), "frames": _MANY,
            "shared": one_of(True, False), "dither": one_of(None), "progress": _PROGRESS}),
        *(_checked(f"palette.engine.{verb.__name__}", verb, {
            **_VERB, "palette": _PALETTE, "color_space": _SPACE, "metric": one_of("l2", "l1"), "queue": _QUEUE})
          for verb in (engine.predict, engine.transform, engine.quantize)),
        Call("palette.error.mean_squared_error", error.mean_squared_error, {
            "image": _PICTURE, "palette": _PALETTE, "color_space": _SPACE, "metric": one_of("l2", "l1"),
            "error_space": one_of(None, "srgb"), "queue": _QUEUE}),
        *(Call(f"quality.{f.__name__}", f, {"original": _REAL, "result": _REAL})
          for f in (quality.mse, quality.ssim, quality.speck_error)),
        Call("quality.psnr", quality.psnr, {"original": _REAL, "result": _REAL, "peak": one_of(255, 1.0)}),
        Call("quality.visual_error", quality.visual_error, {
            "original": _REAL, "result": _REAL, "dpi": one_of(300), "inches": one_of(9.5)}),
        Call("empty_pinned", clquant.empty_pinned, {
            "shape": one_of((3, 4), 5, ()), "dtype": one_of(np.uint8, "u2", np.float32), "queue": _QUEUE,
        }),
        Call("runtime.find_device", runtime.find_device, {"spec": one_of("0", "cpu")}, aliases={"spec": ("device",)}),
        Call("Limits.lowered", lambda text: Limits.of(runtime.default_device()).lowered(shown(text)), {
            "text": one_of("work_group=8", "fp64=0")}, aliases={"text": ("CLQUANT_LIMITS",)}),
    )  # fmt: skip


# What errors call arguments that have no name of their own there.
_FURTHER: dict[str, tuple[str, ...]] = {
    "other": ("histogram", "operand"),
    "colors": ("counts", "palette", "n_colors"),
    "counts": ("colors",),
    "out": ("path", "source", "image has"),
    "images": ("image", "device array", "cannot search"),
    "source": ("path", "cannot read"),
    "codes": ("codes",),
    "indices": ("codes",),
    "lvgl": ("cannot write", "option"),
    "name": ("cannot write", "option", "identifier"),
}


def _further_calls() -> tuple[Call, ...]:
    common = {**_KMEANS, "image": _PICTURE, "palette": _PALETTE, "progress": _PROGRESS}
    named = [
        *further_calls.histogram_calls(one_of, common),
        *further_calls.palette_calls(one_of, common),
        *((name, _saved(call), given) for name, call, given in further_calls.file_calls(one_of, common)),
    ]
    return tuple(Call(name, function, given, aliases=_FURTHER) for name, function, given in named)


@functools.cache
def calls() -> tuple[Call, ...]:
    """Every public call, made once."""
    return (
        *_further_calls(),
        *_palette_calls(),
        *_codec_calls(),
        *_halftone_and_tree_calls(),
        *_object_calls(),
        *_function_calls(),
    )
