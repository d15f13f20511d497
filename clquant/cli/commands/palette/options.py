"""The arguments of `clquant palette`, and the engine, the dither and the work on a picture that they describe."""

from __future__ import annotations

import argparse
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import clquant
from clquant import images, params
from clquant.cli import common, executors, loading
from clquant.cli.common import given_palette, option
from clquant.cli.inputs import Pair
from clquant.color import order
from clquant.color.formats.embedded import LVGL_VERSIONS
from clquant.color.formats.picture_formats import SMALL_DISPLAYS, SOURCES
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.dithering.error_filters import FILTERS
from clquant.dithering.registry import DEFAULT
from clquant.dithering.threshold_maps import ORDERED
from clquant.images import storage
from clquant.images.decode import narrowed
from clquant.images.tiff import geo, geo_files
from clquant.palette import engine
from clquant.palette.sixel import shown_palette
from clquant.runtime import CommandQueue, FileError, InvalidArgument, PictureError
from clquant.video.frames import resized
from clquant.video.writing import DELAYS_MS

EFFORTS = ("fast", "medium", "normal", "small")
ALPHA_CHOICES = ("palette", "binary", "dithered")
FEWEST_COLORS = 2
MOST_COLORS = 256  # without -k
# Where ``--max-bytes`` leaves fewer colours than the first, a size is named that has as many as the second.
_FEW_COLORS, _MANY_COLORS = 12, 64
_SIZES_TRIED, _SMALLER_BY = 5, 0.8
METHODS = {"kmeans": "KMeansPalette", "neuquant": "NeuQuantCL", "spatial": "SpatialPalette"}  # classes of `clquant`
# Parameters of k-means by ``--effort``; the others leave the engine's own.
SHORTER_FITS: dict[str, dict[str, Any]] = {
    "fast": {"max_iter": 1, "swap_rounds": 8, "tol": 1e-3},
    "medium": {"max_iter": 2, "swap_rounds": 12, "tol": 1e-3},
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    common.add_batch(
        parser,
        ".png, .gif, .tif and .bmp are indexed, .webp is without loss, .six is sixel; animated pictures stay so as "
        ".gif, .png and .webp",
        "IN-K.png beside each input, of animated ones with their own suffix",
        ", {colors} is K",
    )
    _add_learning(parser.add_argument_group("the palette"))
    _add_drawing(parser.add_argument_group("the picture"))
    _add_writing(parser.add_argument_group("the file"))
    text = (
        "on CPUs, processes that share the inputs out; results are the same (default: through PoCL one per core, "
        f"at most {executors.MOST_BY_DEFAULT}, for many inputs; else 1); a GPU has one, with threads on all cores"
    )
    option(parser, "--jobs N", text, type=int)
    common.add(parser, "cluster", "device", "quiet")


def _add_learning(group: argparse._ArgumentGroup) -> None:
    """Declare the options of the palette: its size, learning, allowed colours and order."""
    common.add(group, "colors", help=f"colours, 1 to 65536 (default: {MOST_COLORS})", traits="everyday learns")
    text = "the fewest colours, up to K, that give this PSNR, undithered"
    option(group, "--psnr --target-psnr DB", text, "learns whole", type=float)
    option(group, "--mse --max-mse E", "the same for a mean squared error a channel", "learns whole", type=float)
    common.add(group, "use")
    text = "how it is learned (default: %(default)s)"
    option(group, "--method", text, "learns", choices=sorted(METHODS), default="kmeans")
    option(group, "--sample-factor N", "neuquant: train on one pixel in N, 1 to 30", "learns", type=int)
    option(group, "--sequential", "neuquant: Dekker's program of 1994, bit for bit, instead of ours", "learns")
    text = "where colours are compared; srgb for the least error, linear for light, oklab for the eye (default: srgb)"
    common.add(group, "space", help=text)
    text = (
        "only colours that a display of so many bits per channel has, by --method kmeans or the nearest to --use; "
        "palettes in .c and .h are written so"
    )
    common.add(group, "color_format", help=text)
    text = "a gray picture of the same size: how much each pixel counts"
    option(group, "--weights --sample-weight FILE", text, "learns whole file")
    text = "colours that must be in it, '#f80,black' or a palette file"
    option(group, "--fixed --fixed-colors COLORS", text, "learns file")
    option(group, "--shared", "learn one palette for all inputs", "everyday joint")
    common.add(group, "seed", default=None, traits="learns")
    option(group, "--order", "order of the colours (default: fitted)", choices=tuple(order.ORDERS), default="fitted")
    common.add(group, "save_palette")


def _add_drawing(group: argparse._ArgumentGroup) -> None:
    """Declare the options of dithering, alpha and display."""
    remark = f"(default: {DEFAULT}; search with --method spatial; none with --psnr and --mse)"
    common.add_dither(group, "imitate more colours, such as by blue-noise", remark, default=DEFAULT)
    option(group, "--strength S", "of ordered dithering and of error filters, 0 to 1 (default: 1)", type=float)
    option(group, "--sharpness S", "of --dither search, 0 to 16: greater is calmer (default: 0.4)", type=float)
    option(group, "--serpentine", "error filters: every other row from right to left")
    text = (
        "partly transparent pixels: entries with alpha for them; all or nothing, sharp or dithered "
        "(default: %(default)s)"
    )
    option(group, "--alpha", text, "whole", choices=ALPHA_CHOICES, default="palette")
    common.add(group, "background", traits="whole")
    text = "write all inputs as frames of one .gif, .png or .webp, MS ms each"
    option(group, "--animate MS", text, "everyday here", type=int)
    option(group, "--stats", "print the colours with their shares; no file unless -o", "here whole")
    option(group, "--show", "print the picture into the terminal (sixel)", "here whole")


def _add_writing(group: argparse._ArgumentGroup) -> None:
    """Declare the options of the result's file."""
    text = "the most colours, up to K, whose file has at most N bytes; 60k or 2M: thousands or millions of them"
    option(group, "--max-bytes N", text, "everyday whole", type=common.byte_count)
    option(group, "--skip-if-larger", "write no result that is larger than its input's file", "whole")
    text = (
        "time for a k-means palette and a small PNG; medium: 20 %% faster than normal, 0.3 %% more error; fast: 60 %% "
        "faster, 8 %% more bytes (default: medium)"
    )
    option(group, "--effort", text, choices=EFFORTS, default="medium")
    text = ".c, .h: an image of this version of LVGL instead of plain arrays; .lvgl.bin: of this version (default: 9)"
    option(group, "--lvgl", text, type=int, choices=LVGL_VERSIONS)
    text = (
        ".tif, .zarr: host memory for pixels, which are read and written in parts (default: 512MiB); Python, the "
        "driver, a table of colours and the file formats' libraries take up to 500 MB beside it"
    )
    option(group, "--memory SIZE", text, "bands")
    option(group, "--resume", ".zarr: keep the work of a job that is stopped, and go on with it")
    option(group, "--cog", ".tif: a cloud-optimized GeoTIFF; if the input is one, so is OUT", "bands")
    text = (
        ".tif: smaller copies in the file, of the nearest or the most frequent indices (default: nearest, with "
        "--cog or if the input has some)"
    )
    option(group, "--overviews", text, "bands", choices=geo_files.OVERVIEWS)
    common.add(group, "compression", "icc", "range", "bands")


def check(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together."""
    for name in common.given(args, "learns") if args.use is not None else ():
        raise InvalidArgument(f"--use takes a palette as it is; {name} would learn one")
    for name in (*common.with_trait(args, "learns"), "color_format"):
        if common.is_given(args, name) and not _takes(args, args.method, name):
            methods = ", ".join(method for method in METHODS if _takes(args, method, name))
            why = f"with --method {args.method}; allowed: with --method {methods}"
            common.refuse(args, [name] if methods else [], why)
    of_dithers = {"strength": {*ORDERED, *FILTERS}, "sharpness": {"search"}, "serpentine": {*FILTERS}}
    for name, dithers in of_dithers.items():
        if common.is_given(args, name) and args.dither not in dithers:
            raise InvalidArgument(
                f"{common.typed(args, name)} goes with --dither {', '.join(sorted(dithers))}, not {args.dither}"
            )
    if args.shared and args.cluster is not None:
        common.refuse(args, ("psnr", "mse", "weights"), "with --shared and --cluster; allowed: without one of them")
        if args.method != "kmeans":
            raise InvalidArgument(f"--method is {args.method}; allowed for --shared with --cluster: kmeans")
    if args.max_bytes is not None:
        params.integer("--max-bytes", args.max_bytes, 1)
        common.refuse(args, ("use", "psnr", "mse", "animate"), "with --max-bytes; allowed: one of them")
        if args.shared or args.method != "kmeans":
            raise InvalidArgument("--max-bytes learns a palette for each input by k-means; allowed: without the others")
    if args.animate is not None:
        params.integer("--animate", args.animate, *DELAYS_MS)
        common.refuse_both(args, ["show", "skip_if_larger"], "animate")
        if args.save_palette and not (args.shared or args.use is not None):
            raise InvalidArgument("--save-palette with --animate needs --shared: each frame would have its own palette")


def _takes(args: argparse.Namespace, method: str, name: str) -> bool:
    """Whether an option sets a parameter of a method's engine."""
    parameter = args.options[name].parameter
    known = inspect.signature(engine_class(method)).parameters
    return parameter in known or (parameter == "sequential" and "mode" in known)


def check_bands(args: argparse.Namespace, pairs: Sequence[Pair]) -> None:
    """Refuse options that do not go with results that are written by bands, or go with those alone."""
    storage.memory_bytes(args.memory, "--memory")
    banded, whole = loading.split(args, pairs)
    for name in ("memory", "resume"):
        if getattr(args, name) and not banded:
            raise InvalidArgument(f"--{name} goes with results that end in .zarr or .tif")
    has_layout = bool(args.cog or args.overviews is not None)
    if has_layout and (whole or not all(loading.is_tiff(target or "") for _, target in banded)):
        name = "cog" if args.cog else "overviews"
        raise InvalidArgument(f"--{name} goes with results that end in .tif, of files")
    if not banded:
        return
    target = banded[0][1]
    if has_layout and not geo.is_installed():
        raise FileError(f"cannot write {target!r}: rasterio is not installed (pip install rasterio)")
    if args.use is None and args.method == "spatial":
        raise InvalidArgument(f"--method is {args.method}; allowed for {target!r}, read in parts: kmeans, neuquant")
    if args.order == "popularity":
        raise InvalidArgument(f"--order popularity needs the whole picture, but {target!r} is written in parts")


def ditherer(args: argparse.Namespace) -> Any:
    """Make the object or name for ``dither=``."""
    strength = 1.0 if args.strength is None else args.strength
    if args.dither in ORDERED and args.strength is not None:
        mask, size = ORDERED[args.dither]
        return clquant.OrderedDither(mask, size=size, strength=strength)
    if args.dither in FILTERS and (args.strength is not None or args.serpentine):
        from clquant.dithering.error_diffusion import named_error_space

        space = named_error_space(args.dither)
        return clquant.ErrorDiffusion(args.dither, strength, args.serpentine, error_space=space)
    if args.sharpness is not None:
        return clquant.SearchDither(sharpness=args.sharpness)
    if "dither" in args.typed:
        return args.dither
    if args.method == "spatial":
        return "search"
    return None if common.is_given(args, "psnr") or common.is_given(args, "mse") else args.dither


def engine_class(method: str) -> Any:
    """Return a class of engines by its name in `METHODS`."""
    return getattr(clquant, METHODS[method])


def settled(args: argparse.Namespace, pixels: Any) -> Any:
    """Apply ``--alpha`` to a picture."""
    return pixels if args.alpha == "palette" else clquant.alpha_edges(pixels, args.alpha)


def learner(args: argparse.Namespace, queue: CommandQueue, most: int | None = None) -> Any:
    """Make the engine that the arguments describe, with `most` colours instead of theirs if that is given."""
    more = dict(SHORTER_FITS.get(args.effort, {}) if args.method == "kmeans" else {})
    made = engine_class(args.method)
    more |= common.parameters(args, made) | {"n_colors": most or colors(args)}
    more.pop("sharpness", None)  # is of the dither alone
    if args.fixed is not None:
        more["fixed_colors"] = given_palette("--fixed", args.fixed)
    if args.sequential:
        more["mode"] = "sequential"
    return made(**more, queue=queue)


def colors(args: argparse.Namespace) -> int:
    """Return the most colours that a palette gets."""
    return MOST_COLORS if args.colors is None else int(args.colors)


def weight_maps(args: argparse.Namespace, pictures: list[Any]) -> list[Any] | None:
    """Read the map of ``--weights``, once for each picture."""
    if args.weights is None:
        return None
    drawn = images.read(args.weights, argument="--weights")
    gray = drawn.array
    if gray is None or drawn.channels != 1:
        raise InvalidArgument(f"--weights {args.weights!r} has {drawn.channels} channels; allowed: a gray picture")
    for picture in pictures:
        if picture.shape[:2] != gray.shape[:2]:
            height, width = gray.shape[:2]
            raise PictureError(f"--weights is {width}x{height}, but a picture is {picture.shape[1]}x{picture.shape[0]}")
    return [gray[:, :, 0]] * len(pictures)


@dataclass(frozen=True)
class Options:
    """Checked arguments, with the palette of ``--use`` and the value of ``dither=``."""

    args: argparse.Namespace
    queue: CommandQueue
    palette: Palette | None
    dither: Any

    def quantize(self, picture: Any, palette: Palette, label: str, as_shown: bool, sent: Any = None) -> IndexedImage:
        """Map one picture to a palette; `sent` is the same on its way to the device."""
        if picture.shape[2] == 4 and not narrowed(picture[:, :, 3]).all():
            palette = palette.with_transparent()
        if as_shown:
            palette = shown_palette(palette)
        given = picture if sent is None else sent
        how = {"color_space": self.args.space, "dither": self.dither, "queue": self.queue}
        with common.progress_bar(self.args, label) as progress:
            result = engine.quantize(given, palette, progress=progress, **how)
        return result if self.args.order == "fitted" else result.sorted(self.args.order)

    def learn(self, pictures: list[Any], label: str, most: int | None = None) -> Palette:
        """Return the palette of ``--use``, or else learn one of some pictures together."""
        if self.palette is not None:
            return self.palette
        made = learner(self.args, self.queue, most)
        bound = {} if self.args.memory is None else {"memory": self.args.memory}
        weights = weight_maps(self.args, pictures)
        with common.progress_bar(self.args, f"palette of {label}") as progress:
            if self.args.psnr is None and self.args.mse is None:
                made.fit(pictures, weights, progress=progress, **bound)
            else:
                target = {"target_psnr": self.args.psnr, "max_mse": self.args.mse}
                made.fit_quality(pictures, **target, sample_weight=weights, progress=progress)
        palette: Palette = made.palette_
        return palette

    def encoded(self, result: IndexedImage, kind: str, kept: dict[str, Any]) -> bytes:
        """Encode a result as ``--effort``, ``--compression``, ``--lvgl`` and ``--color-format`` say."""
        more: dict[str, Any] = {}
        if kind == "PNG":
            more["effort"] = "normal" if self.args.effort == "medium" else self.args.effort
        if kind in SMALL_DISPLAYS and self.args.lvgl is not None:
            more["lvgl"] = self.args.lvgl
        elif kind in SOURCES:
            more["color_format"] = self.args.color_format
        return result.to_bytes(kind, **kept, **common.compression(self.args, kind), **more)

    def within_bytes(
        self, picture: Any, kind: str, label: str, kept: Callable[[int], dict[str, Any]], sent: Any
    ) -> tuple[IndexedImage, bytes]:
        """Find the result of the most colours, up to ``--colors``, whose file has at most ``--max-bytes`` bytes.

        `kept` gives what a file of so many colours keeps of the input.
        """
        # Bisection: a file of more colours is taken to be no smaller.
        low, high = min(FEWEST_COLORS, colors(self.args)), colors(self.args)
        best: tuple[IndexedImage, bytes] | None = None
        count, least = high, sys.maxsize
        while low <= high:
            palette = self.learn([sent], label, count)
            result = self.quantize(picture, palette, label, as_shown=kind == "SIXEL", sent=sent)
            data = self.encoded(result, kind, kept(len(result.palette)))
            least = min(least, len(data))
            if len(data) <= self.args.max_bytes:
                best, low = (result, data), count + 1
            else:
                high = min(count, len(result.palette)) - 1
            count = (low + high + 1) // 2
        few = high < min(_FEW_COLORS, colors(self.args))
        smaller = self._smaller_size(picture, kind, label, kept, least) if few else ""
        if best is None:
            too_small = f"--max-bytes {self.args.max_bytes} is too small"
            raise PictureError(f"{too_small}: the smallest result takes {least:,} bytes{smaller}")
        if smaller:
            found = common.counted(len(best[0].palette), "colour")
            common.note(self.args, f"{label}: {found} of {colors(self.args)} for --max-bytes{smaller}")
        return best

    def _smaller_size(
        self, picture: Any, kind: str, label: str, kept: Callable[[int], dict[str, Any]], nbytes: int
    ) -> str:
        """Name a size in which a result within ``--max-bytes`` has many colours; "" if none is found.

        `nbytes` is what the fewest colours tried take at the picture's own size.
        """
        count = min(_MANY_COLORS, colors(self.args))
        side = min(math.sqrt(self.args.max_bytes / nbytes) / 2, 0.9)
        pixels = narrowed(picture)
        for _ in range(_SIZES_TRIED):
            width, height = (max(round(length * side), 1) for length in (picture.shape[1], picture.shape[0]))
            small = np.atleast_3d(resized(pixels[..., 0] if pixels.shape[2] == 1 else pixels, (width, height)))
            result = self.quantize(small, self.learn([small], label, count), label, as_shown=False)
            if len(self.encoded(result, kind, kept(len(result.palette)))) <= self.args.max_bytes:
                has = common.counted(len(result.palette), "colour")
                return f"; resized to {width}x{height} it has {has} (`clquant animate` chooses a size, of stills too)"
            side *= _SMALLER_BY
        return ""
