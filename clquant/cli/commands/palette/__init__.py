"""`clquant palette`: pictures in few colours."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from clquant import images
from clquant.cli import batch, common, executors, inputs, streams, terminal
from clquant.cli import large as large_files
from clquant.cli.batch import Item
from clquant.cli.commands.palette import films, large, work
from clquant.cli.commands.palette import options as palette_options
from clquant.cli.commands.palette.work import Options
from clquant.cli.common import STDOUT, given_palette
from clquant.cli.inputs import Pair, Source
from clquant.cli.loading import Loaded, load
from clquant.cli.outputs import LOSSY, READ_BACK, expected, kind_of, source_name
from clquant.color.display import DISPLAY_FORMATS
from clquant.color.formats.names import SMALL_DISPLAYS
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.images import decode, files
from clquant.runtime import InvalidArgument

HELP = "reduce pictures to a palette of few colours"

configure = palette_options.configure


def run(args: argparse.Namespace) -> int:
    """Quantize every input."""
    palette_options.check(args)
    if args.show:
        terminal.check()
    count = "palette" if args.use is not None else palette_options.colors(args)
    suffix = functools.cache(films.suffix)
    writes = args.animate is None and (args.output is not None or not (args.show or args.stats))
    places, pairs = expected(
        args, lambda source: f"{source.stem}-{count}{suffix(source)}", origin=_origin, writes=writes, colors=count
    )
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
        if large_files.is_zarr(str(each)) or kind_of(str(each)) not in SMALL_DISPLAYS:
            raise InvalidArgument(f"--lvgl goes with .c, .h and .bin, not {each!r}")
    if not pairs:
        return 0
    large.check(args, pairs)
    with executors.cluster(args, pairs) as client:
        shared = None
        if args.shared and client is not None:
            shared = _options(args).learn([_spread(args, *pair) for pair in pairs], "all inputs")
        return executors.run(args, pairs, client, partial(large_files.is_banded, args), partial(_here, shared))


def _here(shared: Palette | None, args: argparse.Namespace, pairs: Sequence[Pair]) -> int:
    """Quantize inputs one by one, in the palette of all if there is one."""
    options = _options(args)
    read: batch.Read[Loaded | None] = partial(_read, args)
    if args.shared and shared is None:
        read, shared = _learned_together(options, pairs, read)
    return batch.run(args, pairs, read, partial(_one, options, shared))


def _options(args: argparse.Namespace) -> Options:
    """Open the device and read the palette of ``--use``, in the colours of ``--color-format``."""
    used = None if args.use is None else given_palette("--use", args.use)
    if used is not None and args.color_format is not None:
        used = Palette(DISPLAY_FORMATS[args.color_format].nearest(used.colors))
    return Options(args, common.open_queue(args), used, palette_options.ditherer(args))


def _origin(stem: str) -> tuple[str, int | None] | None:
    """Parse the name of an earlier result, ``IN-K`` or ``IN-palette``, into its input's stem and its most colours."""
    match = re.fullmatch(r"(.+)-(?:palette|(\d{1,3}))", stem)
    return None if match is None else (match[1], None if match[2] is None else int(match[2]))


def _spread(args: argparse.Namespace, source: Source, target: str | None) -> Any:
    """Open an input as workers read it."""
    if large_files.is_banded(args, (source, target)):
        return large_files.picture(args, source)
    return executors.later(_frames, args, source)


def _frames(args: argparse.Namespace, source: Source) -> list[Any]:
    """Read all frames of an input, on a worker."""
    return [np.asarray(one) for one in films.all_frames(args, source, _settled(args, load(source, args.icc == "keep")))]


def _settled(args: argparse.Namespace, loaded: Loaded) -> Loaded:
    return dataclasses.replace(loaded, pixels=palette_options.settled(args, loaded.pixels))


def _read(args: argparse.Namespace, source: Source, target: str | None) -> Loaded | None:
    """Read a picture with what goes with it; None of one that goes by bands."""
    if large_files.is_banded(args, (source, target)):
        return None
    loaded = load(source, args.icc == "keep", max_bits=16)
    if loaded.frames > 1 and target is not None and not films.holds_frames(target, loaded):
        hold = "; .gif, .png, .apng and .webp hold all of them" if loaded.is_film else ""
        common.note(args, f"{source.relative}: {loaded.first}{hold}")
    return _settled(args, loaded)


def _learned_together(
    options: Options, pairs: Sequence[Pair], read: batch.Read[Loaded | None]
) -> tuple[batch.Read[Loaded | None], Palette]:
    """Learn one palette of all inputs; also returns what gives them again, as a pipe can be read once only."""
    again, found = batch.read_together(read, pairs)
    pictures: list[Any] = []
    for source, loaded in found.items():
        pictures += [source.path] if loaded is None else films.all_frames(options.args, source, loaded)
    return again, films.learned(options, pictures, "all inputs")


def _one(options: Options, shared: Palette | None, item: Item, loaded: Loaded | None) -> batch.Finish:
    args, target = options.args, item.target
    if loaded is None:
        return large.one(options, shared, item)
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
            error = work.psnr(seen, picture, options.queue, there)
    if args.save_palette is not None:
        result.palette.write(args.save_palette)
    if args.show:
        terminal.show(result)
    specks = work.specks(result.to_array(), picture) if args.stats else None
    if args.stats and not common.wants_json(args):
        height, width = result.shape
        title = f"{streams.printable(str(item.source.relative))}, {width}x{height}, speck error {specks:.2f}"
        streams.write_text(work.stats_table(title, result) + "\n")

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
        return _report(item, result, error, (nbytes, input_bytes), specks)

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
    if not work.same_picture(result, loaded.pixels):
        return data
    own = files.read_bytes(source.path) if loaded.data is None else loaded.data
    return own if len(own) <= len(data) else data


def _report(item: Item, result: IndexedImage, error: float, sizes: batch.Sizes, specks: float | None) -> batch.Report:
    args, target = item.args, item.target
    where = "the terminal" if args.show or not args.stats else "statistics"
    kind = None if target is None else kind_of(target)
    losses = f" {'with' if kind in READ_BACK else 'before'} this format's losses" if kind in LOSSY else ""
    record: dict[str, Any] = {"to": where if target is None else "", "psnr": error, "speck_error": specks}
    if args.stats and common.wants_json(args):
        record["colors"] = work.shares(result)
    return work.report(item, result.palette, result.shape, sizes, f", PSNR {error:.2f} dB{losses}", **record)
