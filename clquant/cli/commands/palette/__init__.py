"""`clquant palette`: pictures in few colours."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import os
import re
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import clquant
from clquant import flow, images
from clquant.cli import batch, common, executors, inputs, loading, streams
from clquant.cli.batch import Item
from clquant.cli.commands.palette import films
from clquant.cli.commands.palette import options as palette_options
from clquant.cli.commands.palette.options import MOST_COLORS, Options
from clquant.cli.common import STDOUT, given_palette
from clquant.cli.inputs import Pair, Source
from clquant.cli.loading import Loaded, load
from clquant.cli.outputs import (
    COUNT,
    LOSSY,
    READ_BACK,
    expected,
    kind_of,
    make_folder,
    refuse_counted_inputs,
    source_name,
    with_count,
)
from clquant.cli.table import Table
from clquant.color.display import DISPLAY_FORMATS
from clquant.color.formats.picture_formats import SMALL_DISPLAYS
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette, TransparencyError
from clquant.color.values import as_rgba
from clquant.dithering.registry import for_learned
from clquant.images import decode, files
from clquant.images.tiff.geo_files import GeoTiff
from clquant.mapping.error import error_of
from clquant.palette import engine
from clquant.runtime import (
    CommandQueue,
    InvalidArgument,
    PictureError,
    bound,
    open_session,
    queues_of,
    thread_queue,
)

HELP = "reduce pictures to a palette of few colours"

EPILOG = """examples:
  clquant palette photo.jpg -k 64                         writes photo-64.png beside it
  clquant palette photo.jpg -k 16 --dither blue-noise -o photo.gif
  clquant palette photo.jpg -k 16 --method spatial        the best look in few colours
  clquant palette photo.jpg -k 16 --space oklab           colours chosen for the eye
  clquant palette photo.jpg --psnr 35                     the fewest colours that give 35 dB, which the name says
  clquant palette photo.jpg --use brand.gpl --dither blue-noise     your own palette
  clquant palette photo.jpg -k 32 --save-palette photo.ase
  clquant palette photos/ -k 256 -o out/                  every picture of a folder
  clquant palette frames/*.png -k 128 --shared --animate 40 -o film.gif
  clquant palette icon.png -k 16 --lvgl 9 -o icon.c       for a program on a small display
  clquant palette scene.tif -k 256 -o scene-256.tif       a GeoTIFF keeps its place; larger than memory, too
  clquant palette scene.tif -k 256 --cog --overviews mode -o scene-256.tif
  clquant palette slide.zarr -o out.zarr --memory 1GiB --resume
  clquant palette photo.jpg -k 256 --show                 in a terminal that shows sixel
  cat photo.jpg | clquant palette - -k 32 > photo.png

The same pictures, options and seed give the same colours on every device. Palette files are gpl, act, pal, hex, ase,
txt, or any picture (an indexed one's palette, or its distinct colours)."""

configure = palette_options.configure

Pixels = npt.NDArray[Any]  # (H, W, C) uint8 or uint16


def run(args: argparse.Namespace) -> int:
    """Quantize every input."""
    palette_options.check(args)
    if args.show:
        streams.check_terminal()
    count: int | str = "palette" if args.use is not None else palette_options.colors(args)
    if {args.max_bytes, args.psnr, args.mse} != {None}:
        count = COUNT
    suffix = functools.cache(films.suffix)
    writes = args.animate is None and (args.output is not None or not (args.show or args.stats))
    places, pairs = expected(
        args, lambda source: f"{source.stem}-{count}{suffix(source)}", origin=_origin, writes=writes, colors=count
    )
    refuse_counted_inputs(places.inputs, pairs)
    places.check_palette(args.save_palette)
    is_one = args.shared or args.use is not None or args.animate is not None or not places.inputs.several
    if args.save_palette is not None and not is_one:
        raise InvalidArgument("--save-palette with several inputs needs --shared: each would have its own palette")
    if args.animate is not None:
        target = films.target(args, places)
        for other in ("cluster", "jobs"):
            executors.check(args, [(source, target) for source in places.inputs], other)
        return films.animate(_options(args), places.inputs)
    for _, each in pairs if args.lvgl is not None and writes else ():
        if loading.is_zarr(str(each)) or kind_of(str(each)) not in SMALL_DISPLAYS:
            raise InvalidArgument(f"--lvgl goes with .c, .h and .lvgl.bin, not {each!r}")
    if not pairs:
        return 0
    palette_options.check_bands(args, pairs)
    with executors.cluster(args, pairs) as client:
        shared = None
        if args.shared and client is not None:
            spread = [executors.spread(args, each[0], loading.is_banded(args, each), _frames) for each in pairs]
            shared = _options(args).learn(spread, "all inputs")
        return executors.run(args, pairs, client, partial(loading.is_banded, args), partial(_here, shared))


def _here(shared: Palette | None, args: argparse.Namespace, pairs: Sequence[Pair]) -> int:
    """Quantize inputs one by one, in the palette of all if there is one."""
    options = _options(args)
    read: batch.Read[Loaded | None] = partial(_read, args)
    if args.shared and shared is None:
        read, found = batch.read_together(args, read, pairs)  # as a pipe can be read once only
        pictures: list[Any] = []
        for source, loaded in found.items():
            pictures += [source.path] if loaded is None else films.all_frames(args, source, loaded)
        shared = films.learned(options, pictures, "all inputs")
    queues = _queues(options, pairs)
    if len(queues) == 1:
        return batch.run(args, pairs, read, partial(_one, options, shared))
    of_thread, free = threading.local(), itertools.cycle(queues)

    def work(item: Item, loaded: Loaded | None) -> batch.Finish:
        if not hasattr(of_thread, "options"):
            of_thread.options = dataclasses.replace(options, queue=thread_queue(next(free)))
        return _one(of_thread.options, shared, item, loaded)

    return batch.run(args, pairs, read, work, len(queues))


def _queues(options: Options, pairs: Sequence[Pair]) -> list[CommandQueue]:
    """A queue for each picture that is worked on at a time: some on each GPU, else one."""
    args, queues = options.args, queues_of(options.queue)
    in_turn = args.show or args.stats or args.save_palette or any(loading.is_banded(args, pair) for pair in pairs)
    return queues[:1] if in_turn or open_session(queues).limits.is_cpu else queues * max(bound("folders.queues"), 1)


def _options(args: argparse.Namespace) -> Options:
    """Open the device and read the palette of ``--use``, in the colours of ``--color-format``."""
    used = None if args.use is None else given_palette("--use", args.use)
    if used is not None and args.color_format is not None:
        used = Palette(DISPLAY_FORMATS[args.color_format].nearest(used.colors))
    dither = palette_options.ditherer(args)
    return Options(args, common.open_queue(args), used, for_learned(dither) if used is None else dither)


def _origin(stem: str) -> tuple[str, int | None] | None:
    """Parse the name of an earlier result, ``IN-K`` or ``IN-palette``, into its input's stem and its most colours."""
    match = re.fullmatch(r"(.+)-(?:palette|(\d{1,3}))", stem)
    return None if match is None else (match[1], None if match[2] is None else int(match[2]))


def _frames(args: argparse.Namespace, source: Source) -> list[Any]:
    """Read all frames of an input, on a worker."""
    return [np.asarray(one) for one in films.all_frames(args, source, _settled(args, _loaded(args, source, 8)))]


def _loaded(args: argparse.Namespace, source: Source, max_bits: int) -> Loaded:
    return load(source, args.icc == "keep", max_bits=max_bits, white=args.range, bands=args.bands)


def _settled(args: argparse.Namespace, loaded: Loaded, target: str | None = None) -> Loaded:
    """A picture with ``--background`` and ``--alpha`` applied."""
    laid = loaded.laid_over(args, target)
    return dataclasses.replace(laid, pixels=palette_options.settled(args, laid.pixels))


def _read(args: argparse.Namespace, source: Source, target: str | None) -> Loaded | None:
    """Read a picture with what goes with it; None of one that goes by bands."""
    if loading.is_banded(args, (source, target)):
        return None
    loaded = _loaded(args, source, 16)
    if target is not None and not films.holds_frames(target, loaded):
        loaded = loaded.first_alone("; .gif, .png, .apng and .webp hold all of them" if loaded.is_film else "")
    return _settled(args, loaded, target)


def _one(options: Options, shared: Palette | None, item: Item, loaded: Loaded | None) -> batch.Finish:
    """Quantize one input, in the palette of all inputs if there is one."""
    args, target = options.args, item.target
    if loaded is None:
        return _by_bands(options, shared, item)
    if target is not None and films.holds_frames(target, loaded):
        return films.film(options, shared, item, loaded)
    picture, data, error = loaded.pixels, b"", 0.0
    kind = None if target is None else kind_of(target)

    def kept(count: int) -> dict[str, Any]:
        """What a result of so many colours keeps of the input, and its name."""
        return loaded.options(str(kind)) | source_name(args, kind, with_count(target, count), item.source)

    as_shown = kind == "SIXEL" or (kind is None and args.show)
    with inputs.named(item.source), images.sent(picture, options.queue) as (_, sent):
        if args.max_bytes is not None and kind is not None:
            result, data = options.within_bytes(picture, kind, item.label, kept, sent)
        else:
            palette = shared or options.learn([sent], item.label)
            result = options.quantize(picture, palette, item.label, as_shown=as_shown, sent=sent)
        if kind is not None and (kind in READ_BACK or args.save_palette is not None):
            data = data or options.encoded(result, kind, kept(len(result.palette)))
        if common.is_reported(args):
            seen = decode.from_file(data, item.place) if kind in READ_BACK else result
            error = psnr(seen, picture, options.queue, sent)
    item = item.counted(len(result.palette))
    if args.save_palette is not None:
        result.palette.write(args.save_palette)
    if args.show:
        streams.show_picture(result)
    specks = clquant.quality.speck_error(*_both_seen(picture, result.to_array())) if args.stats else None
    if args.stats and not common.wants_json(args):
        height, width = result.shape
        title = f"{streams.printable(str(item.source.relative))}, {width}x{height}, speck error {specks:.2f}"
        table = Table(title, {"color": "colour", "pixels": "pixels", "percent": "%"})
        for share in shares(result):
            table.add(color=share["color"], pixels=share["pixels"], percent=100 * share["share"])
        streams.write_text(table.text() + "\n")

    def finish() -> batch.Report:
        written, input_bytes = data, loaded.file_bytes(item.source)
        if kind is not None:
            made = data or options.encoded(result, kind, kept(len(result.palette)))
            written = _smaller(args, item.source, loaded, result, kind, made)
            if skipped := item.skipped(len(written), input_bytes):
                return skipped
            item.write(written)
            if written is made:
                common.note_lost(args, loaded.name, loaded.lost(kind))
        where = "the terminal" if args.show or not args.stats else "statistics"
        losses = f" {'with' if kind in READ_BACK else 'before'} this format's losses" if kind in LOSSY else ""
        over, colors = loading.over(loaded.background, 4 in (picture.shape[2], result.palette.colors.shape[1]))
        record: dict[str, Any] = {"to": where if target is None else "", "psnr": error, "speck_error": specks}
        record["psnr_over"] = colors
        if args.stats and common.wants_json(args):
            record["colors"] = shares(result)
        sizes = len(written) if kind is not None and target != STDOUT else None, input_bytes
        return report(item, result.palette, result.shape, sizes, f", {common.decibels(error)}{over}{losses}", **record)

    return finish


def _smaller(
    args: argparse.Namespace, source: Source, loaded: Loaded, result: IndexedImage, kind: str, data: bytes
) -> bytes:
    """Return the input's own file if it is no larger, of that format, and of the result's colours; else `data`."""
    chosen = args.use is not None or args.fixed is not None or args.order != "fitted" or args.background is not None
    if chosen or not loaded.indexed or loaded.format != kind:
        return data
    if loaded.data is None and os.path.getsize(source.path) > len(data):
        return data
    pixels = loaded.pixels.repeat(3, axis=2) if loaded.pixels.shape[2] == 1 else loaded.pixels
    mine, theirs = (as_rgba(colors.reshape(-1, colors.shape[2])) for colors in (result.to_array(), pixels))
    hidden = (mine[:, 3] == 0) & (theirs[:, 3] == 0)  # which are all alike
    if not ((mine == theirs).all(axis=1) | hidden).all():
        return data
    own = files.read_bytes(source.path) if loaded.data is None else loaded.data
    return own if len(own) <= len(data) else data


def _by_bands(options: Options, shared: Palette | None, item: Item) -> batch.Finish:
    """Write one input to its result by bands."""
    args = options.args
    with item.working() as progress:
        whole = loading.picture(args, item.source)
        palette = shared or options.learn([whole], item.label)
        given = whole if args.cluster is None else item.source.path
        picture = flow.open_picture(given, memory=args.memory, max_bits=16)
        # A palette that was learned has an entry for holes if there are some.
        if args.use is not None and len(palette) != MOST_COLORS and _has_holes(picture):
            palette = palette.with_transparent()
        if args.order != "fitted":
            palette = palette.sorted(args.order)
        item = item.counted(len(palette))
        if {args.psnr, args.mse} != {None} and (skipped := item.skipped(0, None)):
            return lambda: skipped
        target = item.place
        out: Any = target
        if args.cog or args.overviews is not None:
            out = GeoTiff(target, cog=args.cog or None, overviews=args.overviews)
        make_folder(target)
        how: dict[str, Any] = {"color_space": args.space, "dither": options.dither, "memory": args.memory}
        how["resume"] = args.resume and loading.is_zarr(target)
        try:
            engine.predict(whole, palette, **how, queue=options.queue, progress=progress, out=out)
        except TransparencyError as error:
            if args.use is None:
                raise
            raise PictureError(
                f"--use {args.use!r} has {MOST_COLORS} opaque colours, but there are pixels of alpha 0 or without "
                f"data; allowed: {MOST_COLORS - 1} opaque ones, or one of alpha 0 among them"
            ) from error
    common.note_lost(
        args,
        str(item.source.relative),
        [*loading.unkept_by_tiff(item.source.path), *([loading.DEPTH] if picture.bits == 16 else [])],
    )
    if args.save_palette is not None:
        palette.write(args.save_palette)
    nbytes, input_bytes = (
        os.path.getsize(path) if os.path.isfile(path) else None for path in (target, item.source.path)
    )
    return lambda: report(item, palette, (picture.height, picture.width), (nbytes, input_bytes))


def _has_holes(picture: images.Picture) -> bool:
    """Whether some pixels have alpha 0, for which a picture in a store is read."""
    if picture.channels != 4:
        return False
    arrays = (part.array for part in flow.PictureSource(picture).parts_in_memory())
    return any(array is not None and not decode.narrowed(array[..., 3]).all() for array in arrays)


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
    return _as_seen(decode.narrowed(picture), alpha), _as_seen(seen, alpha)


def psnr(seen: Any, picture: Pixels, queue: CommandQueue, sent: Any = None) -> float:
    """PSNR in dB of a result, or its colours, and its picture; of transparent ones over black and over white."""
    plain = sent is not None and sent.bits == 8 and sent.channels == 3
    if isinstance(seen, IndexedImage):
        if plain and not seen.palette.has_alpha:
            error = error_of(sent, seen.host_indices(), seen.palette, queue)
            return clquant.quality.squared_error.decibels(error, 255.0)
        seen = seen.to_array()
    if plain and seen.shape == sent.shape:
        return float(clquant.quality.psnr(sent, seen, queue=queue))
    return float(clquant.quality.psnr(*_both_seen(picture, seen), queue=queue))


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
