"""`clquant animate`: films, animated files and pictures as a GIF, APNG or WebP of few colours."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import time
from typing import Any

import clquant
from clquant.cli import common, inputs, streams
from clquant.cli.common import STDOUT, given_palette, option, shown
from clquant.cli.inputs import Inputs
from clquant.cli.outputs import Outputs, check_targets, make_folder
from clquant.dithering.registry import DEFAULT
from clquant.images.folders import files_below
from clquant.runtime import InvalidArgument
from clquant.video.animation import Animation
from clquant.video.films import MATRICES
from clquant.video.frames import Frames
from clquant.video.palettes import WAYS
from clquant.video.writing import SUFFIXES, animated_format_of

HELP = "make a GIF, APNG or WebP of a film, of another animation, or of pictures"

MOST_FPS = 50
"""Of a film that names no other: players show a GIF's faster frames slowly."""

EPILOG = f"""examples:
  clquant animate clip.mp4                                writes clip.gif beside it
  clquant animate clip.mp4 --fps 15 --size 480 --start 1:05 --end 1:09 -o clip.gif
  clquant animate clip.mp4 --max-bytes 2M -o clip.gif     as good as two million bytes allow
  clquant animate clip.mp4 -k 64 --dither bayer8 --quality 100 -o clip.webp
  clquant animate frames/ --fps 12 -o walk.png            pictures of a folder, 2.png before 10.png
  ffmpeg -i clip.mkv -f yuv4mpegpipe - | clquant animate - -o clip.gif

Films need PyAV: pip install av. Of one that names more than {MOST_FPS} frames a second no more are taken.
Times are exact: what is rounded in one frame is made good in the next."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    common.add_inputs(parser, "a film, an animation, or picture")
    common.add_output(parser, ", ".join(SUFFIXES), "IN.gif beside it")
    common.add(parser, "colors", help="colours, 2 to 256 (default: 256)", default=256)
    option(parser, "--fps N", "most frames a second; of pictures, how many (25)", "everyday", type=float)
    text = "width, or width and height, in pixels"
    parser.add_argument("--size", type=_size, metavar="W or WxH", help=text)
    parser.add_argument("--start", type=_seconds, metavar="TIME", help="where to begin: seconds, or minutes:seconds")
    parser.add_argument("--end", type=_seconds, metavar="TIME", help="where to end")
    common.add_dither(parser, "imitate more colours", default=DEFAULT)
    option(parser, "--palettes", "one for all frames, for each scene, or for each frame", choices=WAYS, default="one")
    text = "1 to 100 (90); below 100 noise is held, below 90 packing has loss"
    option(parser, "--quality Q", text, "everyday", type=int, default=90)
    option(parser, "--hold N", "frames to look ahead for what is held ({default})", of=clquant.animate, type=int)
    option(parser, "--lossy N", "loss of a GIF's packing, 0 to 100", type=int)
    text = "size, colours, quality and loss that differ least in so many bytes; --size stays where that is possible"
    option(parser, "--max-bytes N", text, "everyday", type=common.byte_count)
    option(parser, "--plays N", "how often it is shown, 0 for ever (default: as IN)", type=int)
    parser.add_argument("--comment", default="", metavar="TEXT", help="a text in the file (GIF, PNG)")
    parser.add_argument("--raw", type=common.sides, metavar="WxH", help="IN is plain RGB of this size, with --fps (25)")
    parser.add_argument("--damaged", action="store_true", help="take the frames before a damage, instead of an error")
    text = "colours of a film that names no matrix (default: bt709 from 720 rows on, else bt601)"
    option(parser, "--matrix NAME", text, choices=tuple(MATRICES))
    common.add(parser, "use", "space", "save_palette", "json", "device", "quiet")


def run(args: argparse.Namespace) -> int:
    """Make the animation."""
    begin = time.perf_counter()
    sources = _sources(args)
    places = Outputs(sources, common.files_read(args))
    target = _target(args, places)
    check_targets(args, [target])
    places.check_palette(args.save_palette)
    colors = given_palette("--use", args.use) if args.use is not None else args.colors
    if args.use is None and not 2 <= args.colors <= 256:
        raise InvalidArgument(f"n_colors is {args.colors}; allowed: 2 to 256")
    how = common.parameters(args, clquant.animate) | {"queue": common.open_queue(args)}
    how["dither"] = args.dither
    frames = _frames(args)
    with common.progress_bar(args, sources.sources[0].relative.name) as progress:
        made = clquant.animate(frames, colors, progress=progress, **how)
        _write(args, target, made)
    if args.save_palette is not None:
        made.palette.write(args.save_palette)
    _report(args, sources, target, made, time.perf_counter() - begin)
    return 0


def _sources(args: argparse.Namespace) -> Inputs:
    """The inputs, of which a folder is one."""
    sources = [inputs.Source(path, pathlib.PurePath(pathlib.Path(path).name or "stdin")) for path in args.inputs]
    if inputs.STDIN in args.inputs and len(args.inputs) > 1:
        raise InvalidArgument("- (standard input) cannot be mixed with other inputs")
    return Inputs(tuple(sources), False)


def _target(args: argparse.Namespace, places: Outputs) -> str:
    if args.output == STDOUT:
        return STDOUT
    if args.output is None:
        if len(args.inputs) > 1 or args.inputs[0] == inputs.STDIN:
            raise InvalidArgument("name the file to write with -o, such as -o film.gif")
        place = os.path.normpath(args.inputs[0])
        args.output = (place if os.path.isdir(place) else os.path.splitext(place)[0]) + ".gif"
    return places.one(args.output, suffixes=SUFFIXES)


def _frames(args: argparse.Namespace) -> Frames:
    """The frames of the inputs: of one its own, of several their pictures in order."""
    source: Any = args.inputs[0]
    if len(args.inputs) > 1:
        source = []
        for path in args.inputs:
            source += [os.fspath(found) for found in files_below(path)] if os.path.isdir(path) else [path]
    raw = args.raw if args.raw is None or args.fps is None else (*args.raw, args.fps)
    of_film = {"raw": raw, "damaged": args.damaged, "matrix": args.matrix}
    return clquant.video.frames(source, args.fps, args.size, args.start, args.end, **of_film).at_most(MOST_FPS)


def _write(args: argparse.Namespace, target: str, made: Animation) -> None:
    if target == STDOUT:
        streams.write(made.to_bytes("GIF", args.comment))
        return
    make_folder(target)
    made.save(target, animated_format_of(target), args.comment)


def _report(args: argparse.Namespace, sources: Inputs, target: str, made: Animation, seconds: float) -> None:
    figures = made.figures
    count = common.counted(figures["frames"], "frame")
    size, colors = f"{figures['width']}x{figures['height']}", common.counted(figures["colors"], "colour")
    changed = "" if args.max_bytes is None else f" ({_changes(args, figures)})"
    common.say(
        args,
        f"{sources.sources[0].relative} -> {shown(target)}: {count} of {size}, {colors}, "
        f"{figures['bytes']} bytes{changed}, {seconds:.2f} s",
        input=sources.sources[0].path,
        output=target,
        seconds=seconds,
        **figures,
    )


def _changes(args: argparse.Namespace, figures: dict[str, Any]) -> str:
    """Say what a file within ``--max-bytes`` has less of than was asked for."""
    if not figures["changed"]:
        return "nothing changed"
    names = {"size": "size" if args.size is None else "no result of --size fits: size", "lossy": "loss"}
    texts = [f"{names.get(name, name)} {asked} -> {found}" for name, (asked, found) in figures["changed"].items()]
    if "better_width" in figures:
        texts.append(f"--size {figures['better_width']} would differ less")
    return f"changed for --max-bytes: {', '.join(texts)}"


def _size(text: str) -> int | tuple[int, int]:
    """Width, or width and height, in pixels."""
    if "x" in text.lower():
        return common.sides(text)
    if not re.fullmatch(r"[1-9]\d{0,4}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no size in pixels, such as 480 or 480x270")
    return int(text)


def _seconds(text: str) -> float:
    """Seconds of ``83.5``, ``1:23.5`` or ``0:01:23.5``."""
    found = re.fullmatch(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d+)?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 83.5 or 1:23.5")
    return 3600 * int(found[1] or 0) + 60 * int(found[2] or 0) + float(found[3])
