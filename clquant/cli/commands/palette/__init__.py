"""`clquant palette`: pictures in few colours."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import time
from functools import partial
from typing import Any

from clquant.cli import batch, cluster, common, in_parts, inputs, processes, streams, terminal
from clquant.cli.colors import given_palette
from clquant.cli.commands.palette import films, large, report
from clquant.cli.commands.palette import options as palette_options
from clquant.cli.commands.palette.work import Options
from clquant.cli.in_parts import Parts
from clquant.cli.inputs import Inputs, Source
from clquant.cli.loading import Loaded, load, note_lost
from clquant.cli.outputs import LOSSY, STDOUT, Outputs, kind_of, named, not_there, shown, source_name
from clquant.color.display import DISPLAY_FORMATS
from clquant.color.formats import registry
from clquant.color.formats.names import SMALL_DISPLAYS
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.images import decode, files
from clquant.runtime import ClquantError, InvalidArgument

HELP = "reduce pictures to a palette of few colours"

configure = palette_options.configure


def run(args: argparse.Namespace) -> int:
    """Quantize every input."""
    palette_options.check(args)
    if args.show:
        terminal.check()
    sources = inputs.expand(args.inputs)
    count = "palette" if args.use is not None else palette_options.colors(args)
    suffixes = films.suffixes(sources)
    name = named(args.name, lambda source: f"{source.stem}-{count}{suffixes[source]}", colors=count)
    if args.animate is None and not (_only_told(args) and args.output is None):
        sources = inputs.without_own_results(sources, name, args.output, _origin if args.name is None else None)
    places = Outputs(sources, [args.use, args.weights, args.fixed], force=args.force)
    if args.save_palette is not None:
        registry.format_of(args.save_palette)
        if sources.several and not args.shared and args.use is None and args.animate is None:
            raise InvalidArgument("--save-palette with several inputs needs --shared: each would have its own palette")
        places.one(args.save_palette, "--save-palette")
    targets = _targets(args, sources, places, name)
    used = _used(args)
    if args.animate is None:
        pairs = not_there(args, sources, targets)
        if not pairs:
            return 0
        large.check(args, pairs)
        if args.cluster is not None:
            if args.jobs is not None:
                raise InvalidArgument("--jobs and --cluster are given; allowed: one of them")
            return _on_cluster(args, used, places, pairs)
        jobs = processes.wanted(args, pairs, ["show", "stats", "shared", "save_palette"])
        if jobs > 1 and not any(large.is_in_parts(args, *pair) for pair in pairs):
            return processes.run(args, pairs, jobs)
    for other in ("cluster", "jobs"):
        if args.animate is not None and getattr(args, other) is not None:
            raise InvalidArgument(f"--animate and --{other} are given; allowed: one of them")
    options = Options(args, common.open_queue(args), used, palette_options.ditherer(args))
    if args.animate is not None:
        return films.animate(options, sources, places)
    todo, targets = [source for source, _ in pairs], [target for _, target in pairs]
    read: batch.Read[Loaded | Parts] = partial(_read, args, dict(pairs))
    shared: Palette | None = getattr(args, "learned", None)
    if args.shared:
        read, shared = _learned_together(options, todo, read)
    return batch.run(args, todo, read, partial(_one, options, places, targets, shared))


def _origin(stem: str) -> tuple[str, int | None] | None:
    """What a file may be the result of by its name, ``IN-K`` or ``IN-palette``, with its most colours."""
    match = re.fullmatch(r"(.+)-(?:palette|(\d{1,3}))", stem)
    return None if match is None else (match[1], None if match[2] is None else int(match[2]))


def _on_cluster(
    args: argparse.Namespace, used: Palette | None, places: Outputs, pairs: list[tuple[Source, str | None]]
) -> int:
    """Workers do whole pictures one by one; those that are read in parts are spread over all of them, in turn."""
    cluster.check(args, pairs, ["show", "stats"])
    if args.shared:
        cluster.check(args, pairs, ["psnr", "mse", "weights"])
        if args.method != "kmeans":
            raise InvalidArgument(f"--method is {args.method}; allowed for --shared with --cluster: kmeans")
    apart = [pair for pair in pairs if large.is_in_parts(args, *pair)]
    whole = [pair for pair in pairs if pair not in apart]
    with cluster.opened(args):
        options = Options(args, common.open_queue(args), used, palette_options.ditherer(args))
        shared = options.learn([_spread(args, *pair) for pair in pairs], "all inputs") if args.shared else None
        status = cluster.run(args, whole, {"shared": False, "learned": shared}) if whole else 0
        if apart:
            targets = [target for _, target in apart]
            read: batch.Read[Loaded | Parts] = partial(_read, args, dict(apart))
            work = partial(_one, options, places, targets, shared)
            status = max(status, batch.run(args, [source for source, _ in apart], read, work))
    return status


def _spread(args: argparse.Namespace, source: Source, target: str | None) -> Any:
    """An input as workers read it."""
    if large.is_in_parts(args, source, target):
        return cluster.picture(source.path)
    return cluster.later(_frames, args, source)


def _frames(args: argparse.Namespace, source: Source) -> list[Any]:
    """All frames of an input, on a worker."""
    loaded = load(source, args.icc == "keep")
    settled = dataclasses.replace(loaded, pixels=palette_options.settled(args, loaded.pixels))
    return films.all_frames(args, source, settled)


def _used(args: argparse.Namespace) -> Palette | None:
    """The palette of ``--use``, as the display of ``--color-format`` has it."""
    if args.use is None:
        return None
    palette = given_palette("--use", args.use)
    if args.color_format is None:
        return palette
    return Palette(DISPLAY_FORMATS[args.color_format].nearest(palette.colors))


def _only_told(args: argparse.Namespace) -> bool:
    """Whether results are for the eye, so that no file is written unless one is named."""
    return bool(args.show or args.stats)


def _targets(args: argparse.Namespace, sources: Inputs, places: Outputs, name: inputs.Naming) -> list[str | None]:
    """Where results go, one per input; None if they are only shown, and of an animation its one file."""
    if args.animate is not None:
        return [films.target(args, places)]
    if _only_told(args) and args.output is None:
        return [None] * len(sources)
    targets = places.each(args.output, name)
    for target in targets:
        if not in_parts.is_zarr(target) and kind_of(target) not in SMALL_DISPLAYS and args.lvgl is not None:
            raise InvalidArgument(f"--lvgl goes with .c, .h and .bin, not {target!r}")
    return [*targets]


def _read(args: argparse.Namespace, targets: dict[Source, str | None], source: Source) -> Loaded | Parts:
    target = targets[source]
    if large.is_in_parts(args, source, target):
        return Parts(source.path)
    loaded = load(source, args.icc == "keep", max_bits=16)
    if loaded.frames > 1 and target is not None and not films.holds_frames(target, loaded):
        common.note(
            args,
            f"{source.relative}: the first of {loaded.frames} frames; .gif, .png, .apng and .webp hold all of them",
        )
    return dataclasses.replace(loaded, pixels=palette_options.settled(args, loaded.pixels))


def _learned_together(
    options: Options, sources: list[Source], read: batch.Read[Loaded | Parts]
) -> tuple[batch.Read[Loaded | Parts], Palette]:
    """What gives the inputs as they were read once, a pipe can be read no second time, and their palette."""
    kept: dict[Source, Loaded | Parts | ClquantError] = {}
    for source in sources:
        try:
            kept[source] = read(source)
        except ClquantError as error:
            if len(sources) == 1:
                raise
            kept[source] = error
    pictures: list[Any] = []
    for source, loaded in kept.items():
        if isinstance(loaded, Parts):
            pictures.append(loaded.path)
        elif isinstance(loaded, Loaded):
            pictures += films.all_frames(options.args, source, loaded)
    if not pictures:
        raise next(error for error in kept.values() if isinstance(error, ClquantError))

    def again(source: Source) -> Loaded | Parts:
        found = kept[source]
        if isinstance(found, ClquantError):
            raise found
        return found

    return again, options.learn(pictures, "all inputs")


def _one(
    options: Options,
    places: Outputs,
    targets: list[str | None],
    shared: Palette | None,
    number: int,
    source: Source,
    loaded: Loaded | Parts,
) -> batch.Finish:
    args, target = options.args, targets[number]
    if isinstance(loaded, Parts):
        return large.one(options, places, str(target), shared, source, loaded)
    if target is not None and films.holds_frames(target, loaded):
        return films.film(options, places, target, shared, source, loaded)
    begin = time.perf_counter()
    label, picture = source.relative.name, loaded.pixels
    kind = None if target is None else kind_of(target)
    kept = {} if kind is None else loaded.options(kind) | source_name(kind, target, source)
    as_shown = kind == "SIXEL" or (kind is None and args.show)
    data = b""
    with inputs.named(source):
        if args.max_bytes is not None and kind is not None:
            result, data = options.within_bytes(picture, kind, label, kept)
        else:
            palette = shared or options.learn([picture], label)
            result = options.quantize(picture, palette, label, as_shown=as_shown)
    lossy = kind in LOSSY
    if kind is not None and (lossy or args.save_palette is not None):
        data = data or options.encoded(result, kind, kept)
    error = 0.0
    if common.is_reported(args):
        seen = decode.from_bytes(data, str(target)) if lossy else result.to_array()
        error = report.psnr(seen, picture, options.queue)
    if args.save_palette is not None:
        result.palette.write(args.save_palette)
    if args.show:
        terminal.show(result)
    if args.stats and not common.wants_json(args):
        height, width = result.shape
        streams.write_text(
            report.stats_table(f"{streams.printable(str(source.relative))}, {width}x{height}", result) + "\n"
        )

    input_bytes = loaded.file_bytes(source)

    def finish() -> batch.Report:
        written = data
        if kind is not None and target is not None:
            made = written or options.encoded(result, kind, kept)
            written = _smaller(args, source, loaded, result, kind, made)
            if common.is_larger(args, len(written), input_bytes):
                return partial(common.skip, args, source, len(written), input_bytes)
            places.write(target, written)
            if written is made:
                note_lost(args, source, target, loaded.lost(kind))
        seconds = time.perf_counter() - begin
        return partial(_report, args, source, target, result, error, (len(written), input_bytes), seconds)

    return finish


def _smaller(
    args: argparse.Namespace, source: Source, loaded: Loaded, result: IndexedImage, kind: str, data: bytes
) -> bytes:
    """The input's own file, if it has the format asked for, is no larger, and the result has all of its colours."""
    if (
        not loaded.indexed
        or loaded.format != kind
        or args.use is not None
        or args.fixed is not None
        or args.order != "fitted"
    ):
        return data
    if loaded.data is None and os.path.getsize(source.path) > len(data):
        return data
    if not report.same_picture(result, loaded.pixels):
        return data
    own = files.read_bytes(source.path) if loaded.data is None else loaded.data
    return own if len(own) <= len(data) else data


def _report(
    args: argparse.Namespace,
    source: Source,
    target: str | None,
    result: IndexedImage,
    error: float,
    sizes: tuple[int, int | None],
    seconds: float,
) -> None:
    height, width = result.shape
    where = "the terminal" if target is None else shown(target)
    count = report.count_of(len(result.palette))
    losses = " with this format's losses" if target is not None and kind_of(target) in LOSSY else ""
    if target is None and args.stats and not args.show:
        where = "statistics"
    input_bytes = sizes[1]
    nbytes = sizes[0] if target is not None and target != STDOUT else None
    common.say(
        args,
        f"{source.relative} -> {where}: {width}x{height}, {count}, PSNR {error:.2f} dB{losses}"
        f"{common.sizes(nbytes, input_bytes)}, {seconds:.2f} s",
        input=source.path,
        output=target,
        width=width,
        height=height,
        n_colors=len(result.palette),
        colors=report.shares(result) if args.stats and common.wants_json(args) else result.palette.hex(),
        psnr=error,
        bytes=nbytes,
        input_bytes=input_bytes,
        seconds=seconds,
    )
