"""`clquant quadtree`: pictures as trees of uniform squares."""

from __future__ import annotations

import argparse
import io
import pathlib
import time
from typing import Any

import numpy as np
import PIL.Image

from clquant.cli import common
from clquant.cli.common import Source
from clquant.files import write_bytes
from clquant.quadtree import Quadtree, QuadtreeBuilder
from clquant.quadtree.criteria import CRITERIA
from clquant.quadtree.render import as_rgb
from clquant.runtime import InvalidArgument

HELP = "decompose pictures into uniform squares"

FRAME_MS = 400
LAST_FRAME_MS = 2000

EPILOG = """examples:
  clquant quadtree photo.jpg                          writes photo-quadtree.png beside it: every leaf in its mean
  clquant quadtree photo.jpg --outline -o outline.png
  clquant quadtree photo.jpg --gif -o levels.gif      one frame a level, root first
  clquant quadtree photo.jpg --threshold 20 --save photo.clqt
  clquant quadtree photo.clqt -o again.png            a saved tree is an input too
  clquant quadtree photos/ -o out/

A region is a leaf when the standard deviation of each channel is at most the threshold (see --criterion).
The same picture and options give the same tree on every device."""

SUFFIXES = common.PICTURE_SUFFIXES | {".clqt"}
FORMATS = {
    ".png": "PNG",
    ".gif": "GIF",
    ".bmp": "BMP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    common.add_inputs(parser, "picture or tree (.clqt)")
    common.add_output(parser, ", ".join(FORMATS), "IN-quadtree.png (.gif with --gif) beside each input")
    parser.add_argument(
        "-t", "--threshold", type=float, default=13.0, metavar="T", help="gray levels, 0 to 255 (default: %(default)s)"
    )
    parser.add_argument("--criterion", choices=CRITERIA, default="deviation", help="what must not exceed the threshold")
    parser.add_argument("--weights", type=int, nargs="+", metavar="W", help="weighted only: one of 0 to 255 a channel")
    parser.add_argument("--min-size", type=int, default=1, metavar="N", help="least side of a region (default: 1)")
    parser.add_argument("--max-depth", type=int, metavar="N", help="most splits from the root down (default: no limit)")
    parser.add_argument("--outline", action="store_true", help="draw the borders of the leaves")
    parser.add_argument("--gif", action="store_true", help="write an animation, one frame a level")
    parser.add_argument(
        "--save", metavar="TREE", help="write the tree too: a .clqt file, or a folder for several inputs"
    )
    common.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Decompose every input."""
    sources = common.expand_inputs(args.inputs, SUFFIXES)
    several = len(sources) > 1
    targets = [_target(source, args, several) for source in sources]
    trees = [_tree_target(source, args.save, several) for source in sources]
    common.check_distinct([*targets, *(tree for tree in trees if tree is not None)])
    builder = QuadtreeBuilder(
        args.threshold,
        criterion=args.criterion,
        weights=args.weights,
        min_size=args.min_size,
        max_depth=args.max_depth,
        method="top-down",
        queue=common.open_queue(args),
    )
    for source, target, tree_target in zip(sources, targets, trees, strict=True):
        begin = time.perf_counter()
        if source.path.lower().endswith(".clqt"):
            tree = Quadtree.load(source.path)
        else:
            with common.progress_bar(args, source.relative.name) as progress:
                tree = builder.build(common.read_input(source), progress=progress)
        common.write_output(target, _picture(tree, args, target))
        if tree_target is not None:
            write_bytes(tree_target, tree.to_bytes())
        common.say(args, _summary(source, target, tree, time.perf_counter() - begin))
    return 0


def _target(source: Source, args: argparse.Namespace, several: bool) -> str:
    stem = pathlib.PurePath(source.relative.name).stem
    target = common.output_path(source, args.output, several, f"{stem}-quadtree.{'gif' if args.gif else 'png'}")
    suffix = pathlib.PurePath(target).suffix.lower()
    if target != common.STDIN and suffix not in ({".gif": "GIF"} if args.gif else FORMATS):
        allowed = ".gif with --gif" if args.gif else ", ".join(FORMATS)
        raise InvalidArgument(f"output {target!r} has the suffix {suffix!r}; allowed: {allowed}")
    return target


def _tree_target(source: Source, save: str | None, several: bool) -> str | None:
    if save is None:
        return None
    target = common.output_path(source, save, several, f"{pathlib.PurePath(source.relative.name).stem}.clqt")
    if target == common.STDIN or not target.lower().endswith(".clqt"):
        raise InvalidArgument(f"--save {save!r}: allowed: a file whose name ends in .clqt, or a folder")
    return target


def _drawable(picture: np.ndarray[Any, np.dtype[np.uint8]]) -> PIL.Image.Image:
    known = picture.ndim == 2 or picture.shape[2] in (3, 4)
    return PIL.Image.fromarray(picture if known else as_rgb(picture))


def _picture(tree: Quadtree, args: argparse.Namespace, target: str) -> bytes:
    data = io.BytesIO()
    if args.gif:
        shown = [_drawable(frame).convert("RGB").quantize(256) for frame in tree.frames()]
        if args.outline:
            shown.append(PIL.Image.fromarray(tree.outline()).quantize(256))
        times = [FRAME_MS] * (len(shown) - 1) + [LAST_FRAME_MS]
        shown[0].save(data, "GIF", save_all=True, append_images=shown[1:], duration=times, loop=0)
        return data.getvalue()
    image = PIL.Image.fromarray(tree.outline()) if args.outline else _drawable(tree.render())
    kind = "PNG" if target == common.STDIN else FORMATS[pathlib.PurePath(target).suffix.lower()]
    if kind in ("JPEG", "BMP") and image.mode == "RGBA":
        image = image.convert("RGB")
    image.save(data, kind)
    return data.getvalue()


def _summary(source: Source, target: str, tree: Quadtree, seconds: float) -> str:
    figures = tree.compression()
    quality = f", PSNR {figures['psnr']:.2f} dB" if "psnr" in figures else ""
    where = "standard output" if target == common.STDIN else target
    return (
        f"{source.relative} -> {where}: {tree.width}x{tree.height}, {len(tree)} leaves, "
        f"{figures['pixels_per_leaf']:.1f} pixels a leaf{quality}, {seconds:.2f} s"
    )
