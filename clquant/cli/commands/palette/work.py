"""The work of `clquant palette` on one picture: in memory, or by bands; its figures and its report."""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, quality
from clquant.cli import batch, common, inputs, large, streams, terminal
from clquant.cli.batch import Item
from clquant.cli.commands.palette import films
from clquant.cli.commands.palette.options import MOST_COLORS, Options
from clquant.cli.common import STDOUT
from clquant.cli.inputs import Source
from clquant.cli.loading import Loaded, unkept_by_tiff
from clquant.cli.outputs import LOSSY, READ_BACK, kind_of, make_folder, source_name
from clquant.cli.table import Table
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette, TransparencyError
from clquant.color.values import as_rgba
from clquant.images import decode, files
from clquant.images.decode import narrowed
from clquant.images.tiff.geo_files import GeoTiff
from clquant.mapping.error import error_of
from clquant.palette import engine
from clquant.quality.squared_error import decibels
from clquant.runtime import CommandQueue, PictureError

Pixels = npt.NDArray[Any]  # (H, W, C) uint8 or uint16


def one(options: Options, shared: Palette | None, item: Item, loaded: Loaded | None) -> batch.Finish:
    """Quantize one input, in the palette of all inputs if there is one."""
    args, target = options.args, item.target
    if loaded is None:
        return _by_bands(options, shared, item)
    if target is not None and films.holds_frames(target, loaded):
        return films.film(options, shared, item, loaded)
    picture, data, error = loaded.pixels, b"", 0.0
    kind = None if target is None else kind_of(target)
    kept = {} if kind is None else loaded.options(kind) | source_name(kind, target, item.source)
    as_shown = kind == "SIXEL" or (kind is None and args.show)
    with inputs.named(item.source), images.sent(picture, options.queue) as (_, there):
        if args.max_bytes is not None and kind is not None:
            result, data = options.within_bytes(picture, kind, item.label, kept, there)
        else:
            palette = shared or options.learn([there], item.label)
            result = options.quantize(picture, palette, item.label, as_shown=as_shown, there=there)
        if kind is not None and (kind in READ_BACK or args.save_palette is not None):
            data = data or options.encoded(result, kind, kept)
        if common.is_reported(args):
            seen = decode.from_bytes(data, item.place) if kind in READ_BACK else result
            error = psnr(seen, picture, options.queue, there)
    if args.save_palette is not None:
        result.palette.write(args.save_palette)
    if args.show:
        terminal.show(result)
    specks = quality.speck_error(*_both_seen(picture, result.to_array())) if args.stats else None
    if args.stats and not common.wants_json(args):
        height, width = result.shape
        title = f"{streams.printable(str(item.source.relative))}, {width}x{height}, speck error {specks:.2f}"
        streams.write_text(stats_table(title, result) + "\n")

    def finish() -> batch.Report:
        written, input_bytes = data, loaded.file_bytes(item.source)
        if kind is not None:
            made = data or options.encoded(result, kind, kept)
            written = _smaller(args, item.source, loaded, result, kind, made)
            if skipped := item.skipped_as_larger(len(written), input_bytes):
                return skipped
            item.write(written)
            if written is made:
                item.note_lost(loaded.lost(kind))
        nbytes = len(written) if kind is not None and target != STDOUT else None
        return _reported(item, result, error, (nbytes, input_bytes), specks)

    return finish


def _smaller(
    args: argparse.Namespace, source: Source, loaded: Loaded, result: IndexedImage, kind: str, data: bytes
) -> bytes:
    """Return the input's own file if it is no larger, of that format, and of the result's colours; else `data`."""
    chosen = args.use is not None or args.fixed is not None or args.order != "fitted"
    if chosen or not loaded.indexed or loaded.format != kind:
        return data
    if loaded.data is None and os.path.getsize(source.path) > len(data):
        return data
    if not same_picture(result, loaded.pixels):
        return data
    own = files.read_bytes(source.path) if loaded.data is None else loaded.data
    return own if len(own) <= len(data) else data


def _reported(item: Item, result: IndexedImage, error: float, sizes: batch.Sizes, specks: float | None) -> batch.Report:
    args, target = item.args, item.target
    where = "the terminal" if args.show or not args.stats else "statistics"
    kind = None if target is None else kind_of(target)
    losses = f" {'with' if kind in READ_BACK else 'before'} this format's losses" if kind in LOSSY else ""
    record: dict[str, Any] = {"to": where if target is None else "", "psnr": error, "speck_error": specks}
    if args.stats and common.wants_json(args):
        record["colors"] = shares(result)
    return report(item, result.palette, result.shape, sizes, f", PSNR {error:.2f} dB{losses}", **record)


def _by_bands(options: Options, shared: Palette | None, item: Item) -> batch.Finish:
    """Write one input to its result by bands."""
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


def _as_seen(pixels: Pixels, alpha: bool) -> Pixels:
    """(H, W, 3) uint8 of (H, W, C); with `alpha` (2 H, W, 3): over black, and below that over white."""
    colors = np.broadcast_to(pixels[:, :, :3], (*pixels.shape[:2], 3))
    if not alpha:
        return colors
    cover = pixels[:, :, 3:].astype(np.uint16) if pixels.shape[2] == 4 else np.uint16(255)
    black = (colors * cover + 127) // 255
    return np.concatenate([black, black + (255 - cover)]).astype(np.uint8)


def _both_seen(picture: Pixels, seen: Pixels) -> tuple[Pixels, Pixels]:
    """Both as `_as_seen`, with alpha if either has it."""
    alpha = 4 in (picture.shape[2], seen.shape[2])
    return _as_seen(narrowed(picture), alpha), _as_seen(seen, alpha)


def psnr(seen: Any, picture: Pixels, queue: CommandQueue, there: Any = None) -> float:
    """PSNR in dB of a result, or its colours, and its picture; of transparent ones over black and over white."""
    plain = there is not None and there.bits == 8 and there.channels == 3
    if isinstance(seen, IndexedImage):
        if plain and not seen.palette.has_alpha:
            return decibels(error_of(there, seen.host_indices(), seen.palette, queue), 255.0)
        seen = seen.to_array()
    if plain and seen.shape == there.shape:
        return float(quality.psnr(there, seen, queue=queue))
    return float(quality.psnr(*_both_seen(picture, seen), queue=queue))


def report(
    item: Item, palette: Palette, shape: tuple[int, int], sizes: batch.Sizes, figures: str = "", **record: Any
) -> batch.Report:
    """Make the report of a result in a palette; `figures` are words about it, beside its colours and bytes."""
    what = f", {common.counted(len(palette), 'colour')}{figures}{batch.sizes(*sizes)}"
    record = {"n_colors": len(palette), "colors": palette.hex(), "bytes": sizes[0], "input_bytes": sizes[1], **record}
    return item.said(shape, what, **record)


def shares(result: IndexedImage) -> list[dict[str, Any]]:
    """List the colours of a result with their pixels and shares of the picture, the most frequent first."""
    counts, names = result.counts(), result.palette.hex()
    order = np.argsort(-counts, kind="stable")
    total = int(counts.sum())
    return [{"color": names[i], "pixels": int(counts[i]), "share": int(counts[i]) / total} for i in order]


def stats_table(title: str, result: IndexedImage) -> str:
    """Print `shares` as a table, in percent."""
    table = Table(title, {"color": "colour", "pixels": "pixels", "percent": "%"})
    for one in shares(result):
        table.add(color=one["color"], pixels=one["pixels"], percent=100 * one["share"])
    return table.text()


def same_picture(result: IndexedImage, picture: Any) -> bool:
    """Whether a result has the very colours of its (H, W, C) picture; those of alpha 0 are all alike."""
    pixels = picture.repeat(3, axis=2) if picture.shape[2] == 1 else picture
    mine, theirs = (as_rgba(colors.reshape(-1, colors.shape[2])) for colors in (result.to_array(), pixels))
    hidden = (mine[:, 3] == 0) & (theirs[:, 3] == 0)
    return bool(((mine == theirs).all(axis=1) | hidden).all())
