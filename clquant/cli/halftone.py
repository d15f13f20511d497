"""`clquant halftone`: pictures in few levels or the colours of a palette, by error diffusion."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import PIL.Image

from clquant.cli import common, inputs
from clquant.cli.colors import given_palette
from clquant.cli.inputs import Source
from clquant.cli.outputs import STDOUT, Outputs, picture_bytes, shown
from clquant.color import spaces
from clquant.color.indexed import format_of
from clquant.color.palette import Palette
from clquant.halftone import PinwheelHalftoner
from clquant.halftone.pinwheel.paths import SCANS
from clquant.runtime import InvalidArgument

HELP = "halftone pictures by pinwheel error diffusion"

EPILOG = """examples:
  clquant halftone photo.jpg --gray                   writes photo-halftone.png beside it, 1 bit a pixel
  clquant halftone photo.jpg --gray --levels 16 -o epaper.png
  clquant halftone photo.jpg --gray --refine 3        fewer grains to be seen; slower
  clquant halftone photo.jpg --palette epaper.gpl -o six-colours.png
  clquant halftone scans/ --gray -o out/              every picture of a folder
  cat photo.jpg | clquant halftone - --gray > photo.png

Without --gray and --palette each colour channel is halftoned by itself.
The same picture, options and seed give the same bits on every device."""


# What Pillow writes with loss, or by a coder that has it by default.
LOSSY = frozenset({"AVIF", "JPEG", "JPEG2000", "MPO", "PDF", "WEBP"})


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    common.add_inputs(parser)
    written = ".png, .pbm, .tif, .gif and whatever else Pillow writes without loss"
    common.add_output(parser, written, "IN-halftone.png beside each")
    parser.add_argument("--gray", action="store_true", help="reduce the picture to gray (Rec. 601 luma) first")
    parser.add_argument("--block", type=int, default=32, metavar="N", help="side of a block, 2 to 64 (default: 32)")
    parser.add_argument("--scan", choices=SCANS, default="spiral", help="path through a block (default: spiral)")
    parser.add_argument(
        "--weights",
        choices=("tone-dependent", "constant"),
        default="tone-dependent",
        help="trained thresholds and weights, or Floyd and Steinberg's (default: tone-dependent)",
    )
    parser.add_argument("--levels", type=int, default=2, metavar="L", help="levels a channel, 2 to 256 (default: 2)")
    parser.add_argument(
        "--palette", metavar="COLORS", help="halftone to these colours: 'black,#f00,white' or a palette file"
    )
    parser.add_argument(
        "--space", choices=spaces.NAMES, help="with --palette: where colours are compared with its (default: srgb)"
    )
    parser.add_argument("--noise", type=float, default=0.0, metavar="X", help="threshold noise, 0 to 1 (default: 0)")
    parser.add_argument(
        "--refine",
        type=int,
        default=0,
        metavar="P",
        help="passes of direct binary search, 0 to 16 (default: 0)",
    )
    parser.add_argument("--dpi", type=float, help="with --refine: pixels per inch (default: 300)")
    parser.add_argument("--inches", type=float, help="with --refine: distance of the eye (default: 9.5)")
    parser.add_argument("--linear", action="store_true", help="diffuse errors in linear light")
    parser.add_argument("--seed", type=int, default=0, help="seed of start errors and noise (default: 0)")
    common.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Halftone every input."""
    if args.palette is None:
        common.refuse(args, ["space"], "without --palette; allowed: with --palette")
    if not args.refine:
        common.refuse(args, ["dpi", "inches"], "without --refine; allowed: with --refine")
    seen = {name: getattr(args, name) for name in ("dpi", "inches") if getattr(args, name) is not None}
    sources = inputs.expand(args.inputs)
    places = Outputs(sources, [args.palette])
    targets = places.each(args.output, lambda source: f"{source.stem}-halftone.png")
    kinds = [_kind(target) for target in targets]
    halftoner = PinwheelHalftoner(
        args.block,
        scan=args.scan,
        weights=args.weights,
        noise=args.noise,
        levels=args.levels,
        linear=args.linear,
        palette=given_palette("--palette", args.palette) if args.palette is not None else None,
        color_space=args.space or "srgb",
        queue=common.open_queue(args),
        random_state=args.seed,
    )
    for source, target, kind in zip(sources, targets, kinds, strict=True):
        begin = time.perf_counter()
        picture = _pixels(source, args.gray)
        with inputs.named(source), common.progress_bar(args, source.relative.name) as progress:
            data = _halftoned(halftoner, picture, kind, target, {"refine": args.refine, **seen, "progress": progress})
        places.write(target, data)
        seconds = time.perf_counter() - begin
        height, width = picture.shape[:2]
        common.say(args, f"{source.relative} -> {shown(target)}: {width}x{height}, {_made(halftoner)}, {seconds:.2f} s")
    return 0


def _made(halftoner: PinwheelHalftoner) -> str:
    if isinstance(halftoner.palette, Palette):
        return f"{len(halftoner.palette)} colours"
    return f"{halftoner.levels} levels"


def _kind(target: str) -> str:
    kind = "PNG" if target == STDOUT else format_of(target)
    if kind in LOSSY:
        raise InvalidArgument(f"output {target!r}: a lossy format would spoil a halftone; allowed: .png, .tif, ..")
    return kind


def _pixels(source: Source, gray: bool) -> np.ndarray[Any, np.dtype[np.uint8]]:
    pixels: np.ndarray[Any, np.dtype[np.uint8]] = inputs.read_picture(source)
    if gray and pixels.shape[2] > 1:
        return np.asarray(PIL.Image.fromarray(pixels).convert("L"))
    return pixels[:, :, 0] if pixels.shape[2] == 1 else pixels


def _halftoned(halftoner: PinwheelHalftoner, picture: Any, kind: str, target: str, how: dict[str, Any]) -> bytes:
    if halftoner.palette is not None:
        return halftoner.quantize(picture, **how).to_bytes(kind)
    return picture_bytes(halftoner.to_pil(picture, **how), kind, target)
