"""`clquant palette` of moving pictures: animated files in, animated files out; pictures as frames of one file."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from clquant import images
from clquant.cli import batch, common, inputs, large
from clquant.cli.batch import Item
from clquant.cli.commands.palette import options as palette_options
from clquant.cli.commands.palette.work import Options, count_of
from clquant.cli.common import STDOUT, shown
from clquant.cli.inputs import Inputs, Source
from clquant.cli.loading import Loaded, piped
from clquant.cli.outputs import Outputs
from clquant.color.formats.gif import MAX_COLORS, OPAQUE_ALPHA
from clquant.color.palette import Palette
from clquant.images import moving
from clquant.runtime import ClquantError, InvalidArgument
from clquant.video import animation, writing

ANIMATED_SUFFIXES = (".gif", ".png", ".apng", ".webp")
STILL_SUFFIX = ".png"


def suffixes(sources: Inputs) -> dict[Source, str]:
    """Choose the default suffix of each result: its input's own if that is animated or large."""
    found = {}
    for source in sources:
        suffix = os.path.splitext(source.path)[1].lower()
        is_film = not source.piped and suffix in ANIMATED_SUFFIXES and _is_film(source)
        found[source] = suffix if is_film else large.suffix_of(source) or STILL_SUFFIX
    return found


def _is_film(source: Source) -> bool:
    try:
        return moving.about(source.path, source.shown).count > 1
    except ClquantError:  # is said when it is read
        return False


def holds_frames(target: str, loaded: Loaded) -> bool:
    """Whether a result keeps its input's frames: there are several, and the format holds them."""
    if loaded.frames < 2:
        return False
    if target == STDOUT:
        return loaded.format in writing.ANIMATED
    return os.path.splitext(target)[1].lower() in ANIMATED_SUFFIXES


@dataclass(frozen=True)
class Film:
    """All frames of an input."""

    pictures: list[Any]  # (H, W, C) uint8
    delays: list[int]  # milliseconds
    plays: int  # 0 for ever


def all_frames(args: argparse.Namespace, source: Source, loaded: Loaded) -> list[Any]:
    """Read every frame of an input, with ``--alpha`` applied."""
    return _frames(args, source, loaded.data).pictures if loaded.frames > 1 else [loaded.pixels]


def _frames(args: argparse.Namespace, source: Source, data: bytes | None = None) -> Film:
    """Read all frames of an input by the rules of `clquant.images`, with ``--alpha`` applied."""
    data = data or piped(source)
    file = source.path if data is None else data
    plays = moving.about(file, source.shown).plays
    frames = list(moving.frames(file, source.shown))
    pictures = [images.read(frame.pixels, argument=source.shown).array for frame in frames]
    settled = [palette_options.settled(args, picture) for picture in pictures]
    return Film(settled, [frame.delay_ms for frame in frames], plays)


def film(options: Options, shared: Palette | None, item: Item, loaded: Loaded) -> batch.Finish:
    """Quantize an animated input to an animated result with its times, in one palette."""
    args, source = options.args, item.source
    if args.max_bytes is not None:
        raise InvalidArgument(f"{source.shown} has {loaded.frames} frames; --max-bytes is for still pictures alone")
    moving_picture = _frames(args, source, loaded.data)
    kind = loaded.format if item.target == STDOUT else writing.animated_format_of(item.place)
    with inputs.named(source):
        palette = shared or options.learn(moving_picture.pictures, item.label)
        made = _quantized(options, moving_picture, palette, item.label)
    if args.save_palette is not None:
        made.frames[0].palette.write(args.save_palette)

    def finish() -> batch.Report:
        data, input_bytes = made.to_bytes(str(kind)), loaded.file_bytes(source)
        if skipped := item.skipped_as_larger(len(data), input_bytes):
            return skipped
        item.write(data)
        item.note_lost(loaded.unkept)
        return _report(args, source, item.place, made, (len(data), input_bytes), item.seconds())

    return finish


def _quantized(options: Options, source: Film, palette: Palette | None, label: str) -> animation.Animation:
    """Map frames to one palette, or each to one of its own.

    Then opaque ones get 255 colours if others have holes in them: GIF needs an entry to clear them with.
    """
    low, high = writing.DELAYS_MS
    most = None
    if palette is None and palette_options.colors(options.args) == MAX_COLORS:
        holes = any(picture.shape[2] == 4 and picture[:, :, 3].min() < OPAQUE_ALPHA for picture in source.pictures)
        most = MAX_COLORS - 1 if holes else None
    made = []
    for number, picture in enumerate(source.pictures, 1):
        which = f"{label}, frame {number} of {len(source.pictures)}"
        own = palette or options.learn([picture], which, most)
        made.append(options.quantize(picture, own, which, as_shown=False))
    return animation.Animation(made, [min(max(delay, low), high) for delay in source.delays], source.plays)


def target(args: argparse.Namespace, places: Outputs) -> str:
    """Check the file of ``--animate``."""
    suffix = "" if args.output is None else os.path.splitext(args.output)[1].lower()
    if args.output is None or (args.output != STDOUT and suffix not in ANIMATED_SUFFIXES):
        raise InvalidArgument("--animate needs one .gif file, or .png, .apng or .webp, to write, named with -o")
    return STDOUT if args.output == STDOUT else places.one(args.output)


def animate(options: Options, sources: Inputs, places: Outputs) -> int:
    """Write all inputs as frames of one file."""
    args = options.args
    frames = [frame for source in sources for frame in _frames(args, source).pictures]
    begin = time.perf_counter()
    shared = options.learn(frames, "all frames") if args.shared or options.palette else None
    made = _quantized(options, Film(frames, [args.animate] * len(frames), 0), shared, "all inputs")
    if args.save_palette is not None:
        made.frames[0].palette.write(args.save_palette)
    data = made.to_bytes("GIF" if args.output == STDOUT else writing.animated_format_of(args.output))
    places.write(args.output, data)
    _report(args, None, args.output, made, (len(data), None), time.perf_counter() - begin)()
    return 0


def _report(
    args: argparse.Namespace,
    source: Source | None,
    target: str,
    made: animation.Animation,
    sizes: tuple[int, int | None],
    seconds: float,
) -> batch.Report:
    height, width = made.frames[0].shape
    count = "1 frame" if len(made) == 1 else f"{len(made)} frames"
    colors = max(len(frame.palette) for frame in made.frames)
    what = f"{count} -> {shown(target)}"
    if source is not None:
        what = f"{source.relative} -> {shown(target)}: {count} of {width}x{height}"
    text = f"{what}: {count_of(colors)}{batch.sizes(*sizes)}, {seconds:.2f} s"
    record: dict[str, Any] = {"input": None if source is None else source.path, "output": target, "frames": len(made)}
    record |= {"width": width, "height": height, "n_colors": colors, "bytes": sizes[0], "input_bytes": sizes[1]}
    return partial(common.say, args, text, **record, seconds=seconds)
