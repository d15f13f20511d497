"""`clquant palette`: pictures in few colours."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from clquant.cli import batch, common, executors, large, terminal
from clquant.cli.commands.palette import films, work
from clquant.cli.commands.palette import options as palette_options
from clquant.cli.commands.palette.options import Options
from clquant.cli.common import given_palette
from clquant.cli.inputs import Pair, Source
from clquant.cli.loading import Loaded, load
from clquant.cli.outputs import expected, kind_of
from clquant.color.display import DISPLAY_FORMATS
from clquant.color.formats.names import SMALL_DISPLAYS
from clquant.color.palette import Palette
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
        if large.is_zarr(str(each)) or kind_of(str(each)) not in SMALL_DISPLAYS:
            raise InvalidArgument(f"--lvgl goes with .c, .h and .bin, not {each!r}")
    if not pairs:
        return 0
    palette_options.check_bands(args, pairs)
    with executors.cluster(args, pairs) as client:
        shared = None
        if args.shared and client is not None:
            shared = _options(args).learn([_spread(args, *pair) for pair in pairs], "all inputs")
        return executors.run(args, pairs, client, partial(large.is_banded, args), partial(_here, shared))


def _here(shared: Palette | None, args: argparse.Namespace, pairs: Sequence[Pair]) -> int:
    """Quantize inputs one by one, in the palette of all if there is one."""
    options = _options(args)
    read: batch.Read[Loaded | None] = partial(_read, args)
    if args.shared and shared is None:
        read, shared = _learned_together(options, pairs, read)
    return batch.run(args, pairs, read, partial(work.one, options, shared))


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
    if large.is_banded(args, (source, target)):
        return large.picture(args, source)
    return executors.later(_frames, args, source)


def _frames(args: argparse.Namespace, source: Source) -> list[Any]:
    """Read all frames of an input, on a worker."""
    return [np.asarray(one) for one in films.all_frames(args, source, _settled(args, load(source, args.icc == "keep")))]


def _settled(args: argparse.Namespace, loaded: Loaded) -> Loaded:
    return dataclasses.replace(loaded, pixels=palette_options.settled(args, loaded.pixels))


def _read(args: argparse.Namespace, source: Source, target: str | None) -> Loaded | None:
    """Read a picture with what goes with it; None of one that goes by bands."""
    if large.is_banded(args, (source, target)):
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
