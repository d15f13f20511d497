"""`clquant quadtree`: pictures as trees of uniform squares."""

from __future__ import annotations

import argparse
import pathlib
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import KMeansPalette, images, runtime
from clquant.cli import batch, common, inputs, loading, outputs
from clquant.cli.batch import Item
from clquant.cli.common import option
from clquant.cli.inputs import Source
from clquant.cli.loading import Loaded, load_still
from clquant.cli.outputs import expected, picture_bytes
from clquant.color.formats import png
from clquant.color.formats.gif import MAX_COLORS
from clquant.color.values import lay_over
from clquant.images import storage
from clquant.images.folders import PICTURE_SUFFIXES
from clquant.images.tiff import geo, geo_files
from clquant.quadtree import Quadtree, QuadtreeBuilder, figures, files, geojson, streaming
from clquant.quadtree.criteria import CRITERIA
from clquant.quadtree.geometry import MAX_CHANNELS
from clquant.runtime import FileError, PictureError
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
GEOJSON = "GEOJSON"  # means as numbers
MEMORY = "1 GiB"  # without --memory
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
    text = f"host memory beside the picture itself; larger trees are written square by square (default: {MEMORY})"
    option(parser, "--memory SIZE", text)
    common.add(parser, "background", "bands", "range", "device", "quiet")


def run(args: argparse.Namespace) -> int:
    """Decompose every input."""
    kinds, suffix = ({".gif": "GIF"}, "gif") if args.gif else (FORMATS, "png")
    places, pairs = expected(args, lambda source: f"{source.stem}-quadtree.{suffix}", known=SUFFIXES, suffixes=kinds)
    trees = places.further(args.save, lambda source: f"{source.stem}.clqt", "--save", (".clqt",))
    if all(_is_tree(source) for source in places.inputs):
        _refuse_building(args)
    storage.memory_bytes(args.memory or MEMORY, "--memory")
    if not pairs:
        return 0
    given = common.parameters(args, QuadtreeBuilder)
    builder = QuadtreeBuilder(**given, method="top-down", queue=common.open_queue(args))
    return batch.run(args, pairs, partial(_read, args), partial(_one, builder, trees))


def _read(args: argparse.Namespace, source: Source, target: str | None) -> Quadtree | Loaded:
    """Read a saved tree or a picture; standard input may hold either."""
    data = inputs.read_bytes(source) if source.piped or _is_tree(source) else b""
    if _is_tree(source) or data.startswith(files.MAGIC):
        if source.piped:
            _refuse_building(args)
        with inputs.named(source):
            return Quadtree.from_bytes(data, max_pixels=args.max_pixels)
    is_map = _kind_of(target) == GEOJSON  # which keeps the place
    how: dict[str, Any] = {"data": data or None, "max_bits": 16, "keeps_depth": True, "keeps": is_map}
    return load_still(args, source, "trees are of one picture", **how).laid_over(args, None)


def _one(builder: QuadtreeBuilder, trees: dict[Source, str], item: Item, found: Quadtree | Loaded) -> batch.Finish:
    args = item.args
    place = _place_of(item, found) if _kind_of(item.target) == GEOJSON else {}
    if isinstance(found, Quadtree):
        tree = found
    else:
        picture = images.read(found.pixels, max_channels=MAX_CHANNELS, max_bits=16)
        if picture.bits == 8 and streaming.streamed_bytes(picture) > storage.memory_bytes(
            args.memory or MEMORY, "--memory"
        ):
            made = _streamed(builder, item, found, picture, place, needs_tree=args.gif or item.source in trees)
            if made is not None:
                return lambda: made
        with item.working() as progress:
            tree = builder.build(found.pixels, progress=progress)
    saved = tree.compression() if common.is_reported(args) else {}
    data = b"" if place else _animation(tree, args) if args.gif else _drawn(tree, args, item.place)

    def finish() -> batch.Report:
        if place:
            with outputs.opened(item.place) as write:
                for text in geojson.texts(tree.records(flat=True, **place)):
                    write(text.encode())
        else:
            item.write(data)
        if item.source in trees:
            outputs.write(trees[item.source], tree.to_bytes())
        shape = tree.height, tree.width, tree.channels
        return _report(item, shape, len(tree), saved.get("psnr"), found) if saved else lambda: None

    return finish


def _streamed(
    builder: QuadtreeBuilder,
    item: Item,
    found: Loaded,
    picture: images.Picture,
    place: dict[str, Any],
    needs_tree: bool,
) -> batch.Report | None:
    """Write a picture's tree square by square, and make its report; None if a whole tree is needed and fits."""
    args = item.args
    memory = storage.memory_bytes(args.memory or MEMORY, "--memory")
    with item.working() as progress:
        squares = streaming.Squares(builder, picture, memory, runtime.Progress(progress))
        if needs_tree:
            needed = squares.tree_bytes()
            if needed <= memory:
                return None
            what = "--gif" if args.gif else "--save"
            allowed = f"{memory >> 20} MiB (--memory), or less leaves by --threshold or --max-depth"
            raise PictureError(
                f"{item.source.shown}: {what} takes about {needed >> 20} MiB for {squares.count} leaves; allowed: "
                f"{allowed}"
            )
        with outputs.opened(item.place) as write:
            if place:
                affine = geojson.checked_affine(place.get("transform"), "y_up" in place, picture.height)
                how: dict[str, Any] = {"affine": affine, "flat": True, "crs": place.get("crs")}
                shape = picture.height, picture.width
                leaves = (one for square in squares for one in geojson.features(square.leaves, *shape, **how))
                for text in geojson.texts(leaves):
                    write(text.encode())
            else:
                _write_rows(args, item.place, picture, squares, write)
    error = figures.decibels(squares.squared_error, picture.pixels * picture.channels)
    return _report(item, (picture.height, picture.width, picture.channels), squares.count, error, found)


def _write_rows(
    args: argparse.Namespace, target: str, picture: images.Picture, squares: streaming.Squares, write: outputs.Write
) -> None:
    """Draw a tree from top to bottom; other formats than PNG need the whole drawing at once."""
    ink = (255, 255, 255) if args.outline else None
    is_gray = picture.gray and not args.outline
    drawn = (_laid(_drawable(rows[..., 0] if is_gray else rows), args.background) for rows in squares.drawn(ink))
    if _kind_of(target) != "PNG":
        whole = PIL.Image.fromarray(np.concatenate(list(drawn)))
        write(picture_bytes(whole, _kind_of(target), target, args.background))
        return
    writer = None
    for rows in drawn:
        pixels = np.atleast_3d(rows)
        writer = writer or png.RowWriter(write, picture.height, picture.width, pixels.shape[2])
        writer.write(pixels)
    assert writer is not None
    writer.close()


def _laid(rows: npt.NDArray[np.uint8], background: tuple[int, ...] | None) -> npt.NDArray[np.uint8]:
    return rows if background is None or rows.shape[-1] != 4 or rows.ndim == 2 else lay_over(rows, background)


def _kind_of(target: str | None) -> str:
    """The format of a result."""
    return FORMATS.get(pathlib.PurePath(target or "").suffix.lower(), "PNG")


def _place_of(item: Item, found: Quadtree | Loaded) -> dict[str, Any]:
    """Where leaves lie, as `Quadtree.records` takes it: on the earth if the picture says so, else in pixels, y up."""
    if isinstance(found, Quadtree) or not found.place:
        return {"y_up": True}
    shown = item.source.shown
    if not geo.is_installed():
        raise FileError(f"{shown}: GeoJSON of a place on the map needs rasterio (pip install clquant[geo])")
    profile = getattr(geo_files.place_of(item.source.path), "profile", {})
    for name, what in (("crs", "coordinate system"), ("transform", "transformation of a grid")):
        if name not in profile:
            raise FileError(f"{shown} has no {what}, of which GeoJSON's longitudes and latitudes follow; try .png")
    return dict(profile)


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
    """Encode a tree as a picture."""
    image = PIL.Image.fromarray(tree.outline() if args.outline else _drawable(tree.render()))
    return picture_bytes(image, _kind_of(target), target, args.background)


def _animation(tree: Quadtree, args: argparse.Namespace) -> bytes:
    """Encode one frame a level, each of its own colours, and one of outlines with --outline."""
    pictures = [_laid(_drawable(frame), args.background) for frame in tree.frames()]
    if args.outline:
        pictures.append(tree.outline())
    # One entry less where a GIF may need one to clear a frame with.
    learner = KMeansPalette(MAX_COLORS - (pictures[0].shape[-1] == 4), queue=common.open_queue(args))
    delays = [FRAME_MS] * (len(pictures) - 1) + [LAST_FRAME_MS]
    return animation.gif_bytes(animation.quantize_frames(learner, pictures, shared=False), delay_ms=delays)


def _report(
    item: Item, shape: tuple[int, int, int], count: int, psnr: float | None, found: Quadtree | Loaded
) -> batch.Report:
    over, colors = loading.over(found.background if isinstance(found, Loaded) else None, False)
    of_all = " of colours and alpha" if shape[2] == 4 else over
    quality = "" if psnr is None else f", {common.decibels(psnr)}{of_all}"
    if quality and _kind_of(item.target) == "JPEG":
        quality += " before this format's losses"
    each = shape[0] * shape[1] / count
    leaves = "1 leaf" if count == 1 else f"{count} leaves"
    what = f", {leaves}, {each:.1f} pixels a leaf{quality}"
    return item.said(shape, what, leaves=count, pixels_per_leaf=float(each), psnr=psnr, psnr_over=colors)
