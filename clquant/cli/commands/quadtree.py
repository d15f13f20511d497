"""`clquant quadtree`: pictures as trees of uniform squares."""

from __future__ import annotations

import argparse
import json
import pathlib
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import KMeansPalette
from clquant.cli import batch, common, inputs, outputs
from clquant.cli.batch import Item
from clquant.cli.common import option
from clquant.cli.inputs import Source
from clquant.cli.loading import Loaded, load_still
from clquant.cli.outputs import expected, picture_bytes
from clquant.color.formats.gif import MAX_COLORS
from clquant.color.values import lay_over
from clquant.images.folders import PICTURE_SUFFIXES
from clquant.quadtree import Quadtree, QuadtreeBuilder, files
from clquant.quadtree.criteria import CRITERIA
from clquant.video import animation

HELP = "decompose pictures into uniform squares"

FRAME_MS = 400
LAST_FRAME_MS = 2000

EPILOG = """examples:
  clquant quadtree photo.jpg                          writes photo-quadtree.png beside it: every leaf in its mean
  clquant quadtree photo.jpg --outline -o outline.png
  clquant quadtree photo.jpg --gif -o levels.gif      one frame a level, root first
  clquant quadtree photo.jpg --threshold 20 --save photo.clqt
  clquant quadtree photo.clqt -o again.png            a saved tree is an input too
  clquant quadtree photo.jpg -o leaves.geojson        the leaves as features, y up
  clquant quadtree photos/ -o out/

A region is a leaf when the standard deviation of each channel is at most the threshold (see --criterion).
The same picture and options give the same tree on every device."""

SUFFIXES = PICTURE_SUFFIXES | {".clqt"}
GEOJSON = "GEOJSON"  # y up, means as numbers
FORMATS = {f".{kind.lower()}": kind for kind in ("PNG", "GIF", "BMP", "TIFF", "WEBP", "JPEG", GEOJSON)}
FORMATS |= {".tif": "TIFF", ".jpg": "JPEG"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    default = "IN-quadtree.png (.gif with --gif) beside each input"
    common.add_batch(parser, ", ".join(FORMATS), default, what="picture or tree (.clqt)")
    made = QuadtreeBuilder
    text = "gray levels, 0 to 255 (default: {default})"
    option(parser, "-t --threshold T", text, "everyday learns", made, type=float)
    text = "what must not exceed the threshold (default: {default})"
    option(parser, "--criterion", text, "everyday learns", made, choices=CRITERIA)
    option(parser, "--weights W", "weighted only: one of 0 to 255 a channel", "learns", type=int, nargs="+")
    option(parser, "--min-size N", "least side of a region (default: {default})", "learns", made, type=int)
    option(parser, "--max-depth N", "most splits from the root down (default: no limit)", "everyday learns", type=int)
    option(parser, "--outline", "draw the borders of the leaves", "everyday")
    option(parser, "--gif", "write an animation, one frame a level", "everyday")
    option(parser, "--save TREE", "write the tree too: a .clqt file, or a folder for several inputs", "everyday")
    text = "refuse saved trees that claim more (default: %(default)s)"
    parser.add_argument("--max-pixels", type=int, default=files.MAX_PIXELS, metavar="PIXELS", help=text)
    common.add(parser, "background", "range", "device", "quiet")


def run(args: argparse.Namespace) -> int:
    """Decompose every input."""
    kinds, suffix = ({".gif": "GIF"}, "gif") if args.gif else (FORMATS, "png")
    places, pairs = expected(args, lambda source: f"{source.stem}-quadtree.{suffix}", known=SUFFIXES, suffixes=kinds)
    trees = places.further(args.save, lambda source: f"{source.stem}.clqt", "--save", (".clqt",))
    if all(_is_tree(source) for source in places.inputs):
        _refuse_building(args)
    if not pairs:
        return 0
    given = common.parameters(args, QuadtreeBuilder)
    builder = QuadtreeBuilder(**given, method="top-down", queue=common.open_queue(args))
    return batch.run(args, pairs, partial(_read, args), partial(_one, builder, trees))


def _read(args: argparse.Namespace, source: Source, _: str | None) -> Quadtree | Loaded:
    """Read a saved tree or a picture; standard input may hold either."""
    data = inputs.read_bytes(source) if source.piped or _is_tree(source) else b""
    if _is_tree(source) or data.startswith(files.MAGIC):
        if source.piped:
            _refuse_building(args)
        with inputs.named(source):
            return Quadtree.from_bytes(data, max_pixels=args.max_pixels)
    how: dict[str, Any] = {"data": data or None, "max_bits": 16, "keeps_depth": True}
    return load_still(args, source, "trees are of one picture", **how).laid_over(args, None)


def _one(builder: QuadtreeBuilder, trees: dict[Source, str], item: Item, found: Quadtree | Loaded) -> batch.Finish:
    args = item.args
    if isinstance(found, Quadtree):
        tree = found
    else:
        with item.working() as progress:
            tree = builder.build(found.pixels, progress=progress)
    data = _animation(tree, args) if args.gif else _drawn(tree, args, item.place)
    figures = tree.compression() if common.is_reported(args) else {}

    def finish() -> batch.Report:
        item.write(data)
        if item.source in trees:
            outputs.write(trees[item.source], tree.to_bytes())
        return _report(item, tree, figures) if figures else lambda: None

    return finish


def _refuse_building(args: argparse.Namespace) -> None:
    """Refuse options that choose leaves, beside saved trees."""
    common.refuse(
        args, common.with_trait(args, "learns"), "with saved trees, whose leaves are chosen; allowed: with pictures"
    )


def _is_tree(source: Source) -> bool:
    return source.path.lower().endswith(".clqt")


def _drawable(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Make a picture gray, RGB or RGBA: two bands become the first as gray, more than four the first three."""
    known = picture.ndim == 2 or picture.shape[2] in (3, 4)
    return picture if known else picture[..., [0, 0, 0] if picture.shape[2] < 3 else [0, 1, 2]]


def _drawn(tree: Quadtree, args: argparse.Namespace, target: str) -> bytes:
    """Encode a tree as a picture, or its leaves as features."""
    kind = FORMATS.get(pathlib.PurePath(target).suffix.lower(), "PNG")
    if kind == GEOJSON:
        return json.dumps(tree.to_geojson(y_up=True, flat=True)).encode()
    image = PIL.Image.fromarray(tree.outline() if args.outline else _drawable(tree.render()))
    return picture_bytes(image, kind, target, args.background)


def _animation(tree: Quadtree, args: argparse.Namespace) -> bytes:
    """Encode one frame a level, each of its own colours, and one of outlines with --outline."""
    pictures = [_drawable(frame) for frame in tree.frames()]
    if args.background is not None and tree.channels == 4:
        pictures = [lay_over(picture, args.background) for picture in pictures]
    if args.outline:
        pictures.append(tree.outline())
    # One entry less where a GIF may need one to clear a frame with.
    learner = KMeansPalette(MAX_COLORS - (pictures[0].shape[-1] == 4), queue=common.open_queue(args))
    delays = [FRAME_MS] * (len(pictures) - 1) + [LAST_FRAME_MS]
    return animation.gif_bytes(animation.quantize_frames(learner, pictures, shared=False), delay_ms=delays)


def _report(item: Item, tree: Quadtree, figures: dict[str, Any]) -> batch.Report:
    quality = f", {common.decibels(figures['psnr'])}" if "psnr" in figures else ""
    quality += " of colours and alpha" if quality and tree.channels == 4 else ""
    if quality and pathlib.PurePath(item.place).suffix.lower() in (".jpg", ".jpeg"):
        quality += " before this format's losses"
    count = "1 leaf" if len(tree) == 1 else f"{len(tree)} leaves"
    return item.said(
        (tree.height, tree.width),
        f", {count}, {figures['pixels_per_leaf']:.1f} pixels a leaf{quality}",
        leaves=len(tree),
        pixels_per_leaf=float(figures["pixels_per_leaf"]),
        psnr=figures.get("psnr"),
    )
