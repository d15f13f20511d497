"""`clquant panel`: pictures for e-paper panels, as files to look at or as frames for their controllers."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np

from clquant.cli import batch, common
from clquant.cli.batch import Item
from clquant.cli.common import option
from clquant.cli.inputs import Source
from clquant.cli.loading import load_still
from clquant.cli.outputs import expected, kind_of, source_name
from clquant.color.formats.embedded import c_frame
from clquant.color.formats.picture_formats import LVGL_SUFFIX, SOURCES
from clquant.color.indexed import IndexedImage
from clquant.color.values import WHITE
from clquant.dithering.registry import DEFAULT
from clquant.runtime import FileError, InvalidArgument
from clquant.targets.panel import PANELS, Panel, fitting, panel

FRAMES = SOURCES | {"BIN"}

HELP = "make pictures for e-paper panels of few colours"

EPILOG = """examples:
  clquant panel photo.jpg --panel spectra6                     writes photo-spectra6.png beside it, as it will look
  clquant panel photo.jpg --panel spectra6 --fit cover -o frame.bin   4 bits per pixel, the controller's codes
  clquant panel photo.jpg --panel spectra6 --fit cover -o frame.c     the same as an array for C
  clquant panel label.png --panel bwr --size 296x128 -o frame.bin     the black plane, then the red one
  clquant panel photo.jpg --panel acep7 --device-colors -o driver.png

A frame (.bin, .c, .h) is of the panel's size: other pictures are refused without --fit.
Pixels of exactly a device colour (#f00, say) stay that colour.
With --panel list the panels are named, and the sources of their colours."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    written, fields = ".png, .gif, ... or .bin, .c, .h: the packed frame", ", {panel} is the panel's name"
    common.add_batch(parser, written, "IN-PANEL.png beside each", fields, optional=True)
    option(parser, "--panel", "which one; list: print them all", "everyday", choices=(*PANELS, "list"), required=True)
    text = "bring pictures to the panel's size: whole, beside the background; cut to fill it; or in other proportions"
    option(parser, "--fit", text, "everyday", choices=fitting.WAYS)
    text = "turn pictures by so many degrees clockwise first, for a panel that hangs on its side (default: 0)"
    option(parser, "--rotate", text, type=int, choices=(0, 90, 180, 270), default=0)
    text = "the panel's pixels; default: those of the panel that was measured"
    option(parser, "--size WxH", text, "everyday", type=common.sides)
    common.add_dither(parser, "imitate more colours", default=DEFAULT)
    option(parser, "--tone X", "tone compression, 0 to 1 (default: {default})", of=Panel.quantize, type=float)
    option(parser, "--gamut X", "chroma that is kept, 0 to 1 (default: the panel's)", type=float)
    option(parser, "--device-colors", "write the colours that the driver expects, not the measured ones", "everyday")
    common.add(parser, "background", "bands", "space", "range", "device", "quiet")


def run(args: argparse.Namespace) -> int:
    """Make every input's picture."""
    if args.panel == "list":
        for one in PANELS.values():
            print(f"{one.name}: {len(one.palette)} colours, {' '.join(one.palette.hex())}; {one.source}")
        return 0
    if not args.inputs:
        raise InvalidArgument("no picture is given; allowed without one: --panel list")
    chosen = panel(args.panel)
    _, pairs = expected(args, lambda source: f"{source.stem}-{args.panel}.png", panel=args.panel)
    size = args.size or chosen.size
    has_frames = any(_kind(str(target)) in FRAMES for _, target in pairs)
    if size is None and (args.fit or has_frames):
        raise InvalidArgument(f"--panel {args.panel} stands for panels of several sizes; name yours with --size WxH")
    if args.device_colors and has_frames:
        raise InvalidArgument("--device-colors goes with pictures; a frame has the controller's codes")
    if not pairs:
        return 0
    how = common.parameters(args, chosen.quantize) | {"queue": common.open_queue(args)}
    how["dither"] = args.dither

    def work(item: Item, picture: Any) -> batch.Finish:
        with item.working() as progress:
            made = chosen.quantize(picture, progress=progress, **how)
        return partial(_finish, item, chosen, made)

    return batch.run(args, pairs, partial(_read, args, size), work)


def _read(args: argparse.Namespace, size: tuple[int, int] | None, source: Source, target: str | None) -> Any:
    """Read a picture and fit it to the size of its result."""
    pixels = load_still(args, source, "a panel's frame is of one picture").laid_over(args, None, is_gray=True).pixels
    pixels = np.rot90(pixels, -args.rotate // 90)
    height, width = pixels.shape[:2]
    if size is None or (width, height) == size:
        return pixels
    if args.fit is not None:
        return fitting.fitted(pixels, size, args.fit, args.background or WHITE)
    if args.size is not None or _kind(str(target)) in FRAMES:
        raise FileError(
            f"{source.shown} is {width}x{height}, the panel {size[0]}x{size[1]}; allowed: a picture of that size, "
            f"--fit {'|'.join(fitting.WAYS)}, or another --size"
        )
    return pixels


def _finish(item: Item, chosen: Panel, made: IndexedImage) -> batch.Report:
    kind = _kind(item.place)
    name = source_name(item.args, kind, item.target, item.source)
    if kind == "BIN":
        data = chosen.pack(made)
    elif kind in SOURCES:
        data = c_frame(chosen.pack(made), made.shape, chosen.bits, header=kind == "H", **name)
    else:
        data = (chosen.in_device_colors(made) if item.args.device_colors else made).to_bytes(kind, **name)
    item.write(data)
    return item.said(made.shape, f", {chosen.name}", panel=chosen.name, bytes=len(data))


def _kind(target: str) -> str:
    name = target.lower()
    return "BIN" if name.endswith(".bin") and not name.endswith(LVGL_SUFFIX) else kind_of(target)
