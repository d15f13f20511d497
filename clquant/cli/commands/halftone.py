"""`clquant halftone`: pictures in few levels or the colours of a palette, by error diffusion."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import flow
from clquant.cli import batch, common, executors, loading
from clquant.cli.batch import Item
from clquant.cli.common import given_palette, option, shown
from clquant.cli.inputs import Pair, Source
from clquant.cli.loading import Loaded, load_still
from clquant.cli.outputs import expected, lossless_kind, make_folder, picture_bytes, source_name
from clquant.color.formats import png
from clquant.color.formats.gif import MAX_COLORS
from clquant.color.formats.parallel import looked_up
from clquant.color.formats.picture_formats import SMALL_DISPLAYS
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette, as_palette
from clquant.color.values import WHITE, as_rgba
from clquant.halftone import PinwheelHalftoner
from clquant.halftone.pinwheel.paths import SCANS
from clquant.halftone.pinwheel.tones import make_tones
from clquant.runtime import InvalidArgument
from clquant.targets.panel import fitting

HELP = "halftone pictures by pinwheel error diffusion"

EPILOG = """examples:
  clquant halftone photo.jpg --gray                   writes photo-halftone.png beside it, 1 bit per pixel
  clquant halftone photo.jpg --gray --levels 16 -o epaper.png
  clquant halftone photo.jpg --gray --refine 3        fewer grains to be seen; slower
  clquant halftone photo.jpg --palette epaper.gpl -o six-colours.png
  clquant halftone scans/ --gray -o out/              every picture of a folder
  cat photo.jpg | clquant halftone - --gray > photo.png

Without --gray and --palette each colour channel is halftoned by itself.
The same picture, options and seed give the same bits on every device."""

# Formats in which halftones of several levels are indexed.
INDEXED = frozenset({"PNG", "GIF", "PBM", "SIXEL"}) | SMALL_DISPLAYS


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    written = ".png, .pbm, .tif, .gif and whatever else Pillow writes without loss"
    common.add_batch(parser, written, "IN-halftone.png beside each", ", {levels} is L")
    option(parser, "--gray", "reduce the picture to gray (Rec. 601 luma) first", "everyday")
    made, done = PinwheelHalftoner, PinwheelHalftoner.transform
    text = "side of a block, 2 to 64 (default: {default})"
    option(parser, "--block --block-size N", text, "everyday", made, type=int)
    option(parser, "--scan", "path through a block (default: {default})", of=made, choices=SCANS)
    text = "trained thresholds and weights, or Floyd and Steinberg's (default: {default})"
    option(parser, "--weights", text, of=made, choices=("tone-dependent", "constant"))
    levels = {"type": int, "default": common.default_of(made, "levels")}
    option(parser, "--levels L", "levels per channel, 2 to 256 (default: %(default)s)", "everyday", **levels)
    text = "halftone to these colours: 'black,#f00,white' or a palette file"
    option(parser, "--palette COLORS", text, "everyday file")
    text = "with --palette: where colours are compared with its (default: srgb)"
    common.add(parser, "space", help=text, default=None)
    option(parser, "--noise X", "threshold noise, 0 to 1 (default: {default})", of=made, type=float)
    text = "passes of direct binary search, 0 to 16 (default: {default})"
    option(parser, "--refine P", text, "everyday whole", done, type=int)
    option(parser, "--dpi DPI", "with --refine: pixels per inch (default: {default})", "everyday", done, type=float)
    option(parser, "--inches INCHES", "with --refine: distance of the eye (default: {default})", of=done, type=float)
    option(parser, "--linear", "diffuse errors in linear light")
    text = "bring pictures to this size before they are halftoned"
    option(parser, "--size WxH", text, "whole", type=common.sides)
    text = "with --size: all of it beside the background, cut to fill it, or in other proportions (default: contain)"
    option(parser, "--fit", text, "whole", choices=fitting.WAYS)
    common.add(parser, "background", "bands", "seed", "compression", "icc", "range", "cluster", "device", "quiet")


def run(args: argparse.Namespace) -> int:
    """Halftone every input."""
    if args.palette is None:
        common.refuse(args, ["space"], "without --palette; allowed: with --palette")
    if args.size is None:
        common.refuse(args, ["fit"], "without --size; allowed: with --size")
    if not args.refine:
        common.refuse(args, ["dpi", "inches"], "without --refine; allowed: with --refine")
    _, pairs = expected(
        args, lambda source: f"{source.stem}-halftone{loading.suffix_of(source) or '.png'}", levels=args.levels
    )
    for source, target in pairs:
        if not loading.is_banded(args, (source, target)):
            lossless_kind(str(target), "a halftone")
    banded, _ = loading.split(args, pairs)
    if banded and not args.gray:
        common.refuse(args, ["background"], f"without --gray for {banded[0][1]!r}; allowed: with --gray, or without it")
    with executors.cluster(args, pairs) as client:
        return executors.run(args, pairs, client, partial(loading.is_banded, args), _here)


def _here(args: argparse.Namespace, pairs: Sequence[Pair]) -> int:
    """Halftone inputs one by one; workers do the chunks of large ones if there is a cluster."""
    given = common.parameters(args, PinwheelHalftoner)
    if args.palette is not None:
        given["palette"] = given_palette("--palette", args.palette)
    halftoner = PinwheelHalftoner(**given, queue=common.open_queue(args) if args.cluster is None else None)
    return batch.run(args, pairs, partial(_read, args), partial(_one, halftoner))


def _read(args: argparse.Namespace, source: Source, target: str | None) -> Loaded | None:
    """Read a picture with what goes with it; None of one that goes by bands."""
    if loading.is_banded(args, (source, target)):
        return None
    how: dict[str, Any] = {"keeps": True, "keep_profile": args.icc == "keep", "max_bits": 16, "keeps_depth": True}
    loaded = load_still(args, source, "halftones are of one picture", **how).laid_over(args, target, args.gray)
    if args.size is not None:
        fitted = fitting.fitted(loaded.pixels, args.size, args.fit or "contain", args.background or WHITE)
        loaded = replace(loaded, pixels=fitted)
    return replace(loaded, pixels=loading.luma(loaded.pixels)) if args.gray and loaded.pixels.shape[2] > 1 else loaded


def _one(halftoner: PinwheelHalftoner, item: Item, loaded: Loaded | None) -> batch.Finish:
    args = item.args
    if loaded is None:
        make_folder(item.place)
        with item.working() as progress:
            halftoner.transform(loading.picture(args, item.source), progress=progress, out=item.target)
        whole = flow.open_picture(loading.chosen_bands(item.source, args.bands) or item.source.path)
        return lambda: _report(halftoner, item, (whole.height, whole.width), None)
    kind = lossless_kind(item.place, "a halftone")
    how = common.parameters(args, halftoner.transform)
    how["output"] = "levels" if halftoner.palette is None else "values"
    with item.working() as progress:
        made = halftoner.transform(loaded.pixels, progress=progress, **how)
    kept = loaded.options(kind) | common.compression(args, kind) | source_name(args, kind, item.target, item.source)

    def finish() -> batch.Report:
        if halftoner.palette is not None:
            data = IndexedImage.of_own(made, as_palette(halftoner.palette)).to_bytes(kind, **kept)
        else:
            data = _encoded(made, make_tones(args.levels, args.linear).output, kind, item.place, kept)
        item.write(data)
        common.note_lost(args, loaded.name, loaded.lost(kind))
        return _report(halftoner, item, loaded.pixels.shape, len(data))

    return finish


def _report(halftoner: PinwheelHalftoner, item: Item, shape: Sequence[int], nbytes: int | None) -> batch.Report:
    if halftoner.palette is None:
        levels = item.args.levels
        return item.said(shape, f", {levels} levels", levels=levels, bytes=nbytes)
    count = len(as_palette(halftoner.palette))
    return item.said(shape, f", {common.counted(count, 'colour')}", n_colors=count, bytes=nbytes)


def _encoded(
    levels: npt.NDArray[np.uint8], values: npt.NDArray[np.uint8], kind: str, target: str, kept: dict[str, Any]
) -> bytes:
    """A halftone in a file format, indexed if that has a palette and all of its colours fit."""
    gray = levels.ndim == 2
    count, channels = len(values), 1 if gray else 3
    alpha = None if gray or levels.shape[2] == 3 else levels[:, :, 3]  # which is as it was
    hole = count**channels
    binary = alpha is None or bool(np.isin(alpha, (0, 255)).all())
    if kind not in INDEXED or not binary or hole + (alpha is not None) > MAX_COLORS:
        shades = looked_up(values, levels if gray else np.ascontiguousarray(levels[:, :, :3]))
        image = PIL.Image.fromarray(shades if alpha is None else np.dstack([shades, alpha]))
        if image.mode == "L" and count == 2:
            image = image.convert("1", dither=PIL.Image.Dither.NONE)
        return picture_bytes(image, kind, target, **kept)
    grid = np.indices((count,) * channels).reshape(channels, -1).T
    colors = values[grid if channels == 3 else grid.repeat(3, axis=1)]
    if gray:
        indices = levels
    else:
        indices = (levels[:, :, 0] * np.uint8(count) + levels[:, :, 1]) * np.uint8(count) + levels[:, :, 2]
    if alpha is not None:
        indices = np.where(alpha == 0, np.uint8(hole), indices)
        colors = np.concatenate([as_rgba(colors), np.zeros((1, 4), np.uint8)])
    drawn = IndexedImage.of_own(indices, Palette(colors))
    ramp = 255 % (count - 1) == 0 and np.array_equal(values.astype(int) * (count - 1), 255 * np.arange(count))
    if kind == "PNG" and gray and ramp and count in (2, 4, 16, 256):
        return png.indexed(indices, drawn.palette.rgba(), gray=True, **kept)
    try:
        return drawn.to_bytes(kind, **kept)
    except InvalidArgument as error:
        height, width = levels.shape[:2]
        why = f"{kind} cannot hold this picture of {width}x{height}: {error}"
        raise InvalidArgument(f"output {shown(target)!r}: {why}") from error
