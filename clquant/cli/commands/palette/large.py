"""`clquant palette` of pictures that are read and written by bands."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from clquant import images
from clquant.cli import batch, large
from clquant.cli.batch import Item
from clquant.cli.commands.palette.options import MOST_COLORS
from clquant.cli.commands.palette.work import Options, report
from clquant.cli.inputs import Pair
from clquant.cli.loading import unkept_by_tiff
from clquant.cli.outputs import make_folder
from clquant.color.palette import Palette, TransparencyError
from clquant.images import lazy
from clquant.images.tiff import geo
from clquant.images.tiff.geo_files import GeoTiff
from clquant.palette import engine
from clquant.runtime import FileError, InvalidArgument, PictureError


def check(args: argparse.Namespace, pairs: Sequence[Pair]) -> None:
    """Refuse options that do not go with results that are written by bands, or go with those alone."""
    lazy.memory_bytes(args.memory)
    banded, whole = large.split(args, pairs)
    for option in ("memory", "resume"):
        if getattr(args, option) and not banded:
            raise InvalidArgument(f"--{option} goes with results that end in .zarr or .tif")
    has_layout = bool(args.cog or args.overviews is not None)
    if has_layout and (whole or not all(large.is_tiff(target or "") for _, target in banded)):
        option = "cog" if args.cog else "overviews"
        raise InvalidArgument(f"--{option} goes with results that end in .tif, of files")
    if not banded:
        return
    target = banded[0][1]
    if has_layout and not geo.is_installed():
        raise FileError(f"cannot write {target!r}: rasterio is not installed (pip install clquant[geo])")
    if args.use is None and args.method == "spatial":
        raise InvalidArgument(f"--method is {args.method}; allowed for {target!r}, read in parts: kmeans, neuquant")
    if args.order == "popularity":
        raise InvalidArgument(f"--order popularity needs the whole picture, but {target!r} is written in parts")


def one(options: Options, shared: Palette | None, item: Item) -> batch.Finish:
    """Write one input to its result by bands, in the palette of all inputs if there is one."""
    args, target = options.args, item.place
    out: Any = target
    if args.cog or args.overviews is not None:
        out = GeoTiff(target, cog=args.cog or None, overviews=args.overviews)
    with item.working() as progress:
        whole = large.picture(args, item.source)
        palette = shared or options.learn([whole], item.label)
        picture = images.read_parts(item.source.path, memory=args.memory)
        if _has_holes(picture) and len(palette) != MOST_COLORS:  # so that indices have 8 bits
            palette = palette.with_transparent()
        if args.order != "fitted":
            palette = palette.sorted(args.order)
        make_folder(target)
        how: dict[str, Any] = {"color_space": args.space, "dither": options.dither, "memory": args.memory}
        how["resume"] = args.resume and large.is_zarr(target)
        try:
            engine.predict(whole, palette, **how, queue=options.queue, progress=progress, out=out)
        except TransparencyError as error:
            if args.use is None:
                raise
            raise PictureError(
                f"--use {args.use!r} has {MOST_COLORS} opaque colours, but there are pixels of alpha 0 or without "
                f"data; allowed: {MOST_COLORS - 1} opaque ones, or one of alpha 0 among them"
            ) from error
    item.note_lost(unkept_by_tiff(item.source.path))
    if args.save_palette is not None:
        palette.write(args.save_palette)
    nbytes, input_bytes = (
        os.path.getsize(path) if os.path.isfile(path) else None for path in (target, item.source.path)
    )
    return lambda: report(item, palette, (picture.height, picture.width), (nbytes, input_bytes))


def _has_holes(picture: images.Picture) -> bool:
    """Whether pixels may have alpha 0."""
    if picture.channels != 4 or picture.array is None:
        return picture.channels == 4
    return not picture.array[..., 3].all()
