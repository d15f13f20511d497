"""`clquant palette` of moving pictures: animated files in, animated files out; pictures as frames of one file."""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from clquant import ColorHistogram, images
from clquant.cli import batch, common, inputs, loading, outputs
from clquant.cli.batch import Item
from clquant.cli.commands.palette import options as palette_options
from clquant.cli.commands.palette.options import Options
from clquant.cli.common import STDOUT, shown
from clquant.cli.inputs import Inputs, Source
from clquant.cli.loading import Loaded, piped
from clquant.cli.outputs import Outputs
from clquant.color.formats.gif import MAX_COLORS, OPAQUE_ALPHA
from clquant.color.palette import Palette
from clquant.color.values import lay_over
from clquant.images import moving
from clquant.runtime import ClquantError, InvalidArgument, Progress
from clquant.video import animation, gif_frames, writing
from clquant.video.shown import About
from clquant.video.spool import Spool

STILL_SUFFIX = ".png"
_KEPT_BYTES = 1 << 27  # of a film that is read once
_HELD_BYTES = 1 << 30  # of films that are looked at as a whole


def suffix(source: Source) -> str:
    """Choose the default suffix of a result: its input's own if that is animated or large."""
    own = os.path.splitext(source.path)[1].lower()
    is_film = not source.piped and own in writing.SUFFIXES and _is_film(source)
    return own if is_film else loading.suffix_of(source) or STILL_SUFFIX


def _is_film(source: Source) -> bool:
    try:
        return moving.about(source.path, source.shown).count > 1
    except ClquantError:  # is said when it is read
        return False


def holds_frames(target: str, loaded: Loaded) -> bool:
    """Whether a result keeps its input's frames: there are several, and the format holds them."""
    if target == STDOUT:
        return loaded.is_film and loaded.format in writing.ANIMATED
    return loaded.is_film and os.path.splitext(target)[1].lower() in writing.SUFFIXES


class Film:
    """The frames of an input: of a long film one in memory at a time, read again for each pass."""

    def __init__(self, args: argparse.Namespace, source: Source, data: bytes | None = None) -> None:
        self._args, self._shown = args, source.shown
        data = data or piped(source)
        self._file = source.path if data is None else data
        about = moving.about(self._file, self._shown)
        self.plays, self._count = about.plays, about.count
        self._reading: Iterator[moving.Frame] = iter(())
        self._read: dict[int, tuple[Any, int]] = {}
        self._keeps_all = True
        height, width = self.read(0)[0].shape[:2]
        self._keeps_all = 4 * about.count * height * width <= _KEPT_BYTES
        self.frames = [_Frame(self, number, (height, width)) for number in range(about.count)]

    def read(self, number: int) -> tuple[Any, int]:
        """A frame's pixels by the rules of `clquant.images`, with ``--alpha`` applied, and its milliseconds."""
        while number not in self._read:
            last = max(self._read, default=-1)
            if last < 0 or last > number:
                self._reading, last = moving.frames(self._file, self._shown), -1
            frame = next(self._reading)
            if not self._keeps_all:
                self._read.clear()
            pixels: Any = images.read(np.atleast_3d(frame.pixels), argument=self._shown).array
            if pixels.shape[2] == 4 and self._args.background:
                pixels = lay_over(pixels, self._args.background)
            self._read[last + 1] = palette_options.settled(self._args, pixels), frame.delay_ms
            if last + 2 == self._count:
                next(self._reading, None)  # which closes the file
        return self._read[number]


@dataclass(frozen=True)
class _Frame:
    """A frame of a film, a picture that is read when its pixels are asked for."""

    film: Film
    number: int
    shape: tuple[int, int]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.film.read(self.number)[0]


class _Made:
    """Frames in few colours that wait in a temporary file to be written."""

    def __init__(self, made: Iterable[writing.Made], plays: int) -> None:
        self._palettes: list[Any] = []
        self._shape, self._plays = (0, 0), plays
        self._frames = Spool(self._seen(made))

    def _seen(self, made: Iterable[writing.Made]) -> Iterator[writing.Made]:
        for one in made:
            if self._palettes and one.image.shape != self._shape:
                raise writing.sizes_differ({one.image.shape, self._shape})
            self._shape = one.image.shape
            self._palettes.append(one.image.palette.rgba())
            yield one

    def about(self) -> About:
        return writing.about_of(self._shape, self._palettes, self._plays)

    def frames(self) -> Iterator[writing.Made]:
        return iter(self._frames)

    def packing(self) -> writing.Packing:
        return gif_frames.packed

    def fitted(self, write: animation.Write, file: BinaryIO) -> tuple[animation.Maker, dict[str, Any]]:
        return self, write(self, file)


def all_frames(args: argparse.Namespace, source: Source, loaded: Loaded) -> list[Any]:
    """Every frame of an input, with ``--alpha`` applied."""
    return list(Film(args, source, loaded.data).frames) if loaded.is_film else [loaded.pixels]


class _Stacked:
    """A film's frames below each other: a lazy picture, of which a map that is trained reads some rows at a time."""

    dtype, ndim = np.dtype(np.uint8), 3

    def __init__(self, frames: list[_Frame]) -> None:
        self._frames = frames
        self._height, width = frames[0].shape
        self.shape = len(frames) * self._height, width, max(np.asarray(frame).shape[2] for frame in frames)

    def __getitem__(self, place: Any) -> npt.NDArray[np.uint8]:
        rows, columns = place if isinstance(place, tuple) else (place, slice(None))
        first, last = rows.start // self._height, -(-rows.stop // self._height)
        frames = [_with_channels(np.asarray(frame), self.shape[2]) for frame in self._frames[first:last]]
        begin = rows.start - first * self._height
        return np.concatenate(frames)[begin : begin + rows.stop - rows.start, columns]


def _with_channels(pixels: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.uint8]:
    """Pixels (H, W, 1, 3 or 4) in at least as many channels, opaque where they had no alpha."""
    if pixels.shape[2] == count:
        return pixels
    colors = np.broadcast_to(pixels[:, :, :3], (*pixels.shape[:2], 3))
    return colors if count == 3 else np.dstack([colors, np.full(colors.shape[:2], 255, np.uint8)])


def learned(options: Options, pictures: list[Any], label: str) -> Palette:
    """One palette of films' frames and other pictures; of a film one frame is in memory at a time."""
    args = options.args
    frames = [picture for picture in pictures if isinstance(picture, _Frame)]
    if options.palette is not None or not frames:
        return options.learn(pictures, label)
    if args.method == "spatial" or {args.weights, args.psnr, args.mse} != {None}:
        nbytes = sum(4 * height * width for height, width in (frame.shape for frame in frames))
        if nbytes > _HELD_BYTES:
            raise InvalidArgument(
                f"{label}: {len(frames)} frames take {nbytes >> 20} MiB; allowed: up to {_HELD_BYTES >> 20} MiB with "
                "--psnr, --mse, --weights and --method spatial, which hold all frames; without these any"
            )
        return options.learn(pictures, label)
    if args.method == "neuquant":
        groups = itertools.groupby(pictures, lambda picture: picture.film if isinstance(picture, _Frame) else None)
        stacked = [[_Stacked(list(group))] if film else list(group) for film, group in groups]
        return options.learn([picture for group in stacked for picture in group], label)
    histogram = ColorHistogram(np.zeros((0, 3), np.uint8), np.zeros(0, np.uint64))
    with common.progress_bar(args, f"palette of {label}") as progress:
        report = Progress(progress)
        for number, picture in enumerate(pictures, 1):
            histogram += ColorHistogram.of(picture, queue=options.queue)
            report.report(number, len(pictures))
    palette: Palette = palette_options.learner(args, options.queue).fit_histogram(histogram).palette_
    return palette


def film(options: Options, shared: Palette | None, item: Item, loaded: Loaded) -> batch.Finish:
    """Quantize an animated input to an animated result with its times, in one palette."""
    args, source = options.args, item.source
    if args.max_bytes is not None:
        raise InvalidArgument(f"{source.shown} has {loaded.frames} frames; --max-bytes is for still pictures alone")
    given = Film(args, source, loaded.data)
    kind = loaded.format if item.target == STDOUT else writing.animated_format_of(item.place)
    with inputs.named(source):
        palette = shared or learned(options, given.frames, item.label)
        made = _quantized(options, given.frames, palette, item.label, given.plays)
    item = item.counted(len(palette))
    if args.save_palette is not None:
        made.palette.write(args.save_palette)

    def finish() -> batch.Report:
        data, input_bytes = made.to_bytes(str(kind)), loaded.file_bytes(source)
        if skipped := item.skipped(len(data), input_bytes):
            return skipped
        item.write(data)
        common.note_lost(args, loaded.name, loaded.unkept)
        return _report(args, source, item.place, made, input_bytes, item.seconds())

    return finish


def _quantized(
    options: Options, frames: list[_Frame], palette: Palette | None, label: str, plays: int, delay_ms: int | None = None
) -> animation.Animation:
    """Map frames to one palette, or each to its own; beside ones with holes, opaque ones leave an entry free."""
    most = None
    if palette is None and palette_options.colors(options.args) == MAX_COLORS:
        pictures = (np.asarray(frame) for frame in frames)
        holes = any(picture.shape[2] == 4 and picture[:, :, 3].min() < OPAQUE_ALPHA for picture in pictures)
        most = MAX_COLORS - 1 if holes else None

    def made() -> Iterator[writing.Made]:
        with common.progress_bar(options.args, f"{label}, frames") as progress:
            for number, frame in enumerate(frames, 1):
                picture, own_delay = frame.film.read(frame.number)
                which = f"{label}, frame {number} of {len(frames)}"
                own = palette or options.learn([picture], which, most)
                delay = writing.shown_ms(delay_ms or own_delay, number - 1)
                yield writing.Made(options.quantize(picture, own, which, as_shown=False), delay)
                progress(number, len(frames))

    return animation.Animation._of_maker(_Made(made(), plays))


def target(args: argparse.Namespace, places: Outputs) -> str:
    """Check the file of ``--animate``."""
    suffix = "" if args.output is None else os.path.splitext(args.output)[1].lower()
    if args.output is None or (args.output != STDOUT and suffix not in writing.SUFFIXES):
        raise InvalidArgument("--animate needs one .gif file, or .png, .apng or .webp, to write, named with -o")
    found = STDOUT if args.output == STDOUT else places.one(args.output)
    outputs.check_targets(args, [found])
    return found


def animate(options: Options, sources: Inputs) -> int:
    """Write all inputs as frames of one file."""
    args = options.args
    frames = [frame for source in sources for frame in Film(args, source).frames]
    begin = time.perf_counter()
    shared = learned(options, frames, "all frames") if args.shared or options.palette else None
    made = _quantized(options, frames, shared, "all inputs", 0, args.animate)
    if args.save_palette is not None:
        made.palette.write(args.save_palette)
    data = made.to_bytes("GIF" if args.output == STDOUT else writing.animated_format_of(args.output))
    outputs.write(args.output, data)
    _report(args, None, args.output, made, None, time.perf_counter() - begin)()
    return 0


def _report(
    args: argparse.Namespace,
    source: Source | None,
    target: str,
    made: animation.Animation,
    input_bytes: int | None,
    seconds: float,
) -> batch.Report:
    figures = made.figures
    count, colors = common.counted(figures["frames"], "frame"), common.counted(figures["colors"], "colour")
    what = f"{count} -> {shown(target)}"
    if source is not None:
        what = f"{source.relative} -> {shown(target)}: {count} of {figures['width']}x{figures['height']}"
    text = f"{what}: {colors}{batch.sizes(figures['bytes'], input_bytes)}, {seconds:.2f} s"
    record = {"input": None if source is None else source.path, "output": target, "n_colors": figures["colors"]}
    record |= {name: figures[name] for name in ("frames", "width", "height", "bytes")}
    return partial(common.say, args, text, **record, input_bytes=input_bytes, seconds=seconds)
