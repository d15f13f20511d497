"""`clquant palette` of pictures that are read and written in parts: zarr, GeoTIFF, TIFFs larger than memory."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from functools import partial

from clquant import images
from clquant.cli import batch, cluster, common, in_parts, inputs
from clquant.cli.commands.palette import report
from clquant.cli.commands.palette.options import MOST_COLORS
from clquant.cli.commands.palette.work import Options
from clquant.cli.inputs import Source
from clquant.cli.loading import note_lost, unkept_by_tiff
from clquant.cli.outputs import STDOUT, Outputs
from clquant.color.palette import Palette, TransparencyError
from clquant.images import geo, lazy
from clquant.images.geo_files import GeoTiff
from clquant.palette import engine
from clquant.runtime import FileError, InvalidArgument, PictureError

# Options that see the whole picture, and their values if they are not given.
_WHOLE = {
    "alpha": "palette",
    "compression": None,
    "icc": "srgb",
    "max_bytes": None,
    "mse": None,
    "psnr": None,
    "show": False,
    "skip_if_larger": False,
    "stats": False,
    "weights": None,
}


def is_in_parts(args: argparse.Namespace, source: Source, target: str | None) -> bool:
    """Whether an input goes to its result in parts."""
    if source.piped or target is None or target == STDOUT:
        return False
    if in_parts.is_zarr(target):
        return True
    return _is_tiff(target) and (args.memory is not None or _has_layout(args) or in_parts.suffix_of(source) is not None)


def _is_tiff(target: str) -> bool:
    return os.path.splitext(target)[1].lower() in geo.SUFFIXES


def _has_layout(args: argparse.Namespace) -> bool:
    """Whether options say how a GeoTIFF is laid out."""
    return bool(args.cog or args.overviews is not None)


def check(args: argparse.Namespace, pairs: Iterable[tuple[Source, str | None]]) -> None:
    """Refuse options that do not go with results that are written in parts, or go with those alone."""
    lazy.memory_bytes(args.memory)
    pairs = list(pairs)
    targets = [target for source, target in pairs if is_in_parts(args, source, target)]
    for option in ("memory", "resume"):
        if getattr(args, option) and not targets:
            raise InvalidArgument(f"--{option} goes with results that end in .zarr or .tif")
    for option in ("cog", "overviews"):
        if getattr(args, option) and not all(is_in_parts(args, *pair) and _is_tiff(pair[1] or "") for pair in pairs):
            raise InvalidArgument(f"--{option} goes with results that end in .tif, of files")
    if _has_layout(args) and not geo.is_installed():
        raise FileError(f"cannot write {targets[0]!r}: rasterio is not installed (pip install clquant[geo])")
    if not targets:
        return
    for name, absent in _WHOLE.items():
        if getattr(args, name, absent) != absent:
            option = name.replace("_", "-")
            raise InvalidArgument(f"--{option} needs the whole picture, but {targets[0]!r} is written in parts")
    if args.use is None and args.method == "spatial":
        raise InvalidArgument(f"--method is {args.method}; allowed for {targets[0]!r}, read in parts: kmeans, neuquant")
    if args.order == "popularity":
        raise InvalidArgument(f"--order popularity needs the whole picture, but {targets[0]!r} is written in parts")


def one(
    options: Options, places: Outputs, target: str, shared: Palette | None, source: Source, parts: in_parts.Parts
) -> batch.Finish:
    """One input to its result in parts, by the palette of all inputs if there is one."""
    args, begin, label = options.args, time.perf_counter(), source.relative.name
    with inputs.named(source), _transparency(args):
        whole = parts.path if args.cluster is None else cluster.picture(parts.path)
        palette = shared or options.learn([whole], label)
        picture = images.read_parts(parts.path, memory=args.memory)
        if _has_holes(picture):
            palette = _with_transparent(palette)
        if args.order != "fitted":
            palette = palette.sorted(args.order)
        places.make_folder(target)
        with common.progress_bar(args, label) as progress:
            engine.predict(
                whole,
                palette,
                color_space=args.space,
                dither=options.dither,
                queue=options.queue,
                progress=progress,
                out=_out(args, target),
                memory=args.memory,
                resume=args.resume and in_parts.is_zarr(target),
            )
    note_lost(args, source, target, unkept_by_tiff(parts.path))
    if args.save_palette is not None:
        palette.write(args.save_palette)
    shape = picture.height, picture.width
    return lambda: partial(_report, args, source, target, palette, shape, time.perf_counter() - begin)


def _out(args: argparse.Namespace, target: str) -> str | GeoTiff:
    """The result's path, with the layout that options say."""
    return GeoTiff(target, cog=args.cog or None, overviews=args.overviews) if _has_layout(args) else target


def _with_transparent(palette: Palette) -> Palette:
    """A palette with an entry of alpha 0; one of 256 opaque colours stays, so that indices have 8 bits."""
    return palette if len(palette) == MOST_COLORS else palette.with_transparent()


@contextlib.contextmanager
def _transparency(args: argparse.Namespace) -> Iterator[None]:
    """Say what to do where pixels of alpha 0, or without data, meet a palette that is full."""
    try:
        yield
    except TransparencyError as error:
        if args.use is None:
            raise
        raise PictureError(
            f"--use {args.use!r} has {MOST_COLORS} opaque colours, but there are pixels of alpha 0 or without data; "
            f"allowed: {MOST_COLORS - 1} opaque ones, or one of alpha 0 among them"
        ) from error


def _has_holes(picture: images.Picture) -> bool:
    """Whether pixels may have alpha 0."""
    if picture.channels != 4 or picture.array is None:
        return picture.channels == 4
    return not picture.array[..., 3].all()


def _report(
    args: argparse.Namespace,
    source: Source,
    target: str,
    palette: Palette,
    shape: tuple[int, int],
    seconds: float,
) -> None:
    height, width = shape
    nbytes, input_bytes = (os.path.getsize(path) if os.path.isfile(path) else None for path in (target, source.path))
    common.say(
        args,
        f"{source.relative} -> {target}: {width}x{height}, {report.count_of(len(palette))}"
        f"{common.sizes(nbytes, input_bytes)}, {seconds:.2f} s",
        input=source.path,
        output=target,
        width=width,
        height=height,
        n_colors=len(palette),
        colors=palette.hex(),
        bytes=nbytes,
        input_bytes=input_bytes,
        seconds=seconds,
    )
