"""`clquant palette`: pictures in few colours."""

from __future__ import annotations

import argparse
import pathlib
import time
from typing import Any

import numpy as np

import clquant
from clquant import images
from clquant.cli import common
from clquant.cli.common import Source
from clquant.palette import engine, spaces
from clquant.palette.dither import dither_names
from clquant.palette.indexed import IndexedImage, format_of
from clquant.palette.palette import Palette
from clquant.runtime import InvalidArgument

HELP = "reduce pictures to a palette of few colours"

METHODS = {"kmeans": "KMeansPalette", "neuquant": "NeuQuantCL"}

EPILOG = """examples:
  clquant palette photo.jpg -k 64                     writes photo-64.png beside it
  clquant palette photo.jpg -k 16 --dither blue-noise -o photo.gif
  clquant palette photos/ -k 256 -o out/              every picture of a folder
  clquant palette frames/*.png -k 128 --shared -o out/     one palette for all of them
  cat photo.jpg | clquant palette - -k 32 > photo.png

The palette is the one of the least mean squared error that the method finds, in the colour space of --space.
The same picture, options and seed give the same bytes of colour on every device."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    common.add_inputs(parser)
    common.add_output(parser, ".png and .gif are indexed, others full colour", "IN-K.png beside each input")
    parser.add_argument(
        "-k", "--colors", type=int, default=256, metavar="K", help="colours, 1 to 65536 (default: %(default)s)"
    )
    parser.add_argument(
        "--method",
        choices=sorted(name for name, attribute in METHODS.items() if hasattr(clquant, attribute)),
        default="kmeans",
        help="how the palette is learned (default: %(default)s)",
    )
    parser.add_argument(
        "--sample-factor",
        type=int,
        metavar="N",
        help="neuquant only: train on one pixel in N, 1 to 30 (default: 1)",
    )
    parser.add_argument(
        "--sequential",
        action="store_true",
        help="neuquant only: Dekker's program of 1994, bit for bit, instead of the parallel map",
    )
    parser.add_argument(
        "--space",
        choices=spaces.NAMES,
        default="srgb",
        help="where colours are compared: srgb gives the least error in numbers, oklab to the eye (default: srgb)",
    )
    parser.add_argument("--dither", metavar="HOW", help=f"one of: {', '.join(dither_names()) or 'none yet'}")
    parser.add_argument("--shared", action="store_true", help="learn one palette for all inputs")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is random (default: 0)")
    common.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Quantize every input."""
    sources = common.expand_inputs(args.inputs)
    several = len(sources) > 1
    targets = [_target(source, args, several) for source in sources]
    common.check_distinct(targets)
    queue = common.open_queue(args)
    shared = _learned(args, queue, [common.read_input(s) for s in sources], "shared") if args.shared else None
    for source, target in zip(sources, targets, strict=True):
        begin = time.perf_counter()
        picture = _pixels(common.read_input(source))
        palette = shared or _learned(args, queue, picture, source.relative.name)
        with common.progress_bar(args, source.relative.name) as progress:
            result = engine.quantize(
                picture, palette, color_space=args.space, dither=args.dither, queue=queue, progress=progress
            )
        _write(result, target)
        common.say(args, _summary(source, target, result, picture, time.perf_counter() - begin))
    return 0


def _target(source: Source, args: argparse.Namespace, several: bool) -> str:
    stem = pathlib.PurePath(source.relative.name).stem
    target = common.output_path(source, args.output, several, f"{stem}-{args.colors}.png")
    if target != common.STDIN:
        format_of(target)
    return target


def _pixels(image: Any) -> Any:
    """(H, W, C) uint8: read once for learning, mapping and the summary."""
    return images.read(image).array


def _learned(args: argparse.Namespace, queue: Any, picture: Any, label: str) -> Palette:
    learner = getattr(clquant, METHODS[args.method])(
        args.colors, color_space=args.space, random_state=args.seed, queue=queue, **_neuquant_options(args)
    )
    with common.progress_bar(args, f"palette of {label}") as progress:
        learner.fit(picture, progress=progress)
    palette: Palette = learner.palette_
    return palette


def _neuquant_options(args: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {} if args.sample_factor is None else {"sample_factor": args.sample_factor}
    if args.sequential:
        given["mode"] = "sequential"
    if given and args.method != "neuquant":
        option = "--sequential" if args.sequential else "--sample-factor"
        raise InvalidArgument(f"{option} is given with --method {args.method}; allowed: with --method neuquant")
    return given


def _write(result: IndexedImage, target: str) -> None:
    common.write_output(target, result.to_bytes("PNG" if target == common.STDIN else format_of(target)))


def _summary(source: Source, target: str, result: IndexedImage, picture: Any, seconds: float) -> str:
    height, width = result.shape
    shown = result.to_array()[:, :, :3].astype(np.int64)
    difference = shown - picture[:, :, :3]
    error = float((difference**2).mean())
    psnr = 10 * np.log10(255**2 / error) if error else np.inf
    where = "standard output" if target == common.STDIN else target
    return (
        f"{source.relative} -> {where}: {width}x{height}, {len(result.palette)} colours, "
        f"MSE {error:.2f}, PSNR {psnr:.2f} dB, {seconds:.2f} s"
    )
