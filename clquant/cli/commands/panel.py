"""`clquant panel`: pictures for e-paper panels, as files to look at or as frames for their controllers."""

from __future__ import annotations

import argparse
import os
import re
import time
from functools import partial
from typing import Any

from clquant.cli import batch, common, inputs
from clquant.cli.inputs import Source
from clquant.cli.loading import load_still
from clquant.cli.outputs import STDOUT, Outputs, named, not_there, shown, source_name
from clquant.color import spaces
from clquant.color.formats.embedded import c_frame
from clquant.color.formats.names import SOURCES, format_of
from clquant.color.indexed import IndexedImage
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
    parser.epilog = EPILOG
    common.add_inputs(parser, optional=True)
    common.add_output(parser, ".png, .gif, ... or .bin, .c, .h: the packed frame", "IN-PANEL.png beside each")
    common.add_batch(parser, ", {panel} is the panel's name")
    parser.add_argument("--panel", choices=(*PANELS, "list"), required=True, help="which one; list: print them all")
    parser.add_argument(
        "--fit",
        choices=fitting.WAYS,
        help="bring pictures to the panel's size: all of it beside white, cut to fill it, or in other proportions",
    )
    parser.add_argument(
        "--size", type=_size, metavar="WxH", help="the panel's pixels (default: those of the panel that was measured)"
    )
    parser.add_argument("--dither", default="default", metavar="NAME", help="as of clquant palette; none: no dithering")
    parser.add_argument(
        "--space", "--color-space", choices=spaces.NAMES, default="srgb", help="where colours are compared"
    )
    parser.add_argument("--tone", type=float, default=1.0, metavar="X", help="tone compression, 0 to 1 (default: 1)")
    parser.add_argument("--gamut", type=float, metavar="X", help="chroma that is kept, 0 to 1 (default: the panel's)")
    parser.add_argument(
        "--device-colors", action="store_true", help="write the colours that the driver expects, not the measured ones"
    )
    common.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Make every input's picture."""
    if args.panel == "list":
        for one in PANELS.values():
            print(f"{one.name}: {len(one.palette)} colours, {' '.join(one.palette.hex())}; {one.source}")
        return 0
    if not args.inputs:
        raise InvalidArgument("no picture is given; allowed without one: --panel list")
    chosen = panel(args.panel)
    sources = inputs.expand(args.inputs)
    name = named(args.name, lambda source: f"{source.stem}-{args.panel}.png", panel=args.panel)
    sources = inputs.without_own_results(sources, name, args.output)
    places = Outputs(sources, force=args.force)
    targets = places.each(args.output, name)
    size = args.size or chosen.size
    if size is None and (args.fit or any(_kind(target) in FRAMES for target in targets)):
        raise InvalidArgument(f"--panel {args.panel} stands for panels of several sizes; name yours with --size WxH")
    if args.device_colors and any(_kind(target) in FRAMES for target in targets):
        raise InvalidArgument("--device-colors goes with pictures; a frame has the controller's codes")
    pairs = not_there(args, sources, targets)
    if not pairs:
        return 0
    dither = {"default": True, "none": None}.get(args.dither, args.dither)
    queue = common.open_queue(args)

    def work(number: int, source: Source, picture: Any) -> batch.Finish:
        begin = time.perf_counter()
        with inputs.named(source), common.progress_bar(args, source.relative.name) as progress:
            made = chosen.quantize(
                picture,
                dither,
                tone=args.tone,
                gamut=args.gamut,
                color_space=args.space,
                queue=queue,
                progress=progress,
            )
        return partial(_finish, args, places, str(pairs[number][1]), source, chosen, made, begin)

    return batch.run(args, [source for source, _ in pairs], partial(_read, args, size, dict(pairs)), work)


def _size(text: str) -> tuple[int, int]:
    """Width and height in pixels, of ``WxH``."""
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size in pixels, such as 800x480")
    return int(found[1]), int(found[2])


def _read(
    args: argparse.Namespace, size: tuple[int, int] | None, targets: dict[Source, str | None], source: Source
) -> Any:
    """A picture in the size that its result has."""
    pixels = load_still(args, source, "a panel's frame is of one picture").pixels
    height, width = pixels.shape[:2]
    if size is None or (width, height) == size:
        return pixels
    if args.fit is not None:
        return fitting.fitted(pixels, size, args.fit)
    if args.size is not None or _kind(str(targets[source])) in FRAMES:
        raise FileError(
            f"{source.shown} is {width}x{height}, the panel {size[0]}x{size[1]}; allowed: a picture of that size, "
            f"--fit {'|'.join(fitting.WAYS)}, or another --size"
        )
    return pixels


def _finish(
    args: argparse.Namespace,
    places: Outputs,
    target: str,
    source: Source,
    chosen: Panel,
    made: IndexedImage,
    begin: float,
) -> batch.Report:
    kind = _kind(target)
    if kind == "BIN":
        data = chosen.pack(made)
    elif kind in SOURCES:
        name = source_name(kind, target, source)["name"]
        data = c_frame(chosen.pack(made), made.shape, chosen.bits, header=kind == "H", name=name)
    else:
        shown_as = chosen.in_device_colors(made) if args.device_colors else made
        data = shown_as.to_bytes(kind, **source_name(kind, target, source))
    places.write(target, data)
    seconds = time.perf_counter() - begin
    height, width = made.shape
    return partial(
        common.say,
        args,
        f"{source.relative} -> {shown(target)}: {width}x{height}, {chosen.name}, {seconds:.2f} s",
        input=source.path,
        output=target,
        width=width,
        height=height,
        panel=chosen.name,
        bytes=len(data),
        seconds=seconds,
    )


def _kind(target: str) -> str:
    if target == STDOUT:
        return "PNG"
    return "BIN" if os.path.splitext(target)[1].lower() == ".bin" else format_of(target)
