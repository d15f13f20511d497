"""Frames into files, as they come: what is checked, what must be known of all, pipes that cannot be sought in."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.formats.gif import MAX_COLORS, OPAQUE_ALPHA
from clquant.color.indexed import IndexedImage
from clquant.images import files
from clquant.runtime import InvalidArgument, InvalidType
from clquant.video import apng, gif, gif_frames, webp
from clquant.video.shown import About, Shown
from clquant.video.spool import TemporaryFile

T = TypeVar("T")

DELAYS_MS = 10, apng.MAX_DELAY_MS
ANIMATED = ("GIF", "PNG", "WEBP")
SUFFIXES = {".gif": "GIF", ".png": "PNG", ".apng": "PNG", ".webp": "WEBP"}
_SPOOLED = 1 << 24  # bytes of a file for a pipe that are kept in memory

# Pixels of GIF frames packed: Pillow's way, or with loss.
Packing = Callable[[Iterable[gif_frames.Drawn]], Iterator[tuple[gif.Frame, bytes]]]


class Made(NamedTuple):
    """A frame in few colours with its time; `kept` pixels keep the colour of the frame before."""

    image: IndexedImage
    delay_ms: int
    kept: npt.NDArray[np.bool_] | None = None

    def shown(self) -> Shown:
        """The frame as writers of files take it."""
        return Shown(self.image.host_indices(), self.image.palette.rgba(), self.delay_ms, self.kept)


def write_frames(
    file: BinaryIO, format: str, about: About, frames: Iterable[Shown], packing: Packing = gif_frames.packed
) -> None:
    """Write frames as they come to a file that can be sought in."""
    frames = _split(frames, format)
    if format == "PNG":
        apng.write(file, about, frames)
    elif format == "WEBP":
        webp.write(file, about, frames)
    else:
        gif.write(file, about, packing(gif_frames.drawn(frames, about)))


def shown_ms(delay_ms: int, number: int) -> int:
    """The milliseconds that results show a file's frame: at least 10, about the least that players keep."""
    if delay_ms > DELAYS_MS[1]:
        raise InvalidArgument(f"frames[{number}] stands {delay_ms} ms; allowed: up to {DELAYS_MS[1]}")
    return max(delay_ms, DELAYS_MS[0])


def _split(frames: Iterable[Shown], format: str) -> Iterator[Shown]:
    """Yield frames, those that stand longer than one frame of a file can as several that change nothing."""
    for frame in frames:
        for number, delay in enumerate(_delays_in_file(frame.delay_ms, format)):
            keeps_all = number and frame.kept is not None
            kept = np.ones(frame.indices.shape, np.bool_) if keeps_all else frame.kept
            yield frame._replace(delay_ms=delay, kept=kept)


def _delays_in_file(delay_ms: int, format: str) -> list[int]:
    """Split milliseconds into ones that a file can hold, each at least `DELAYS_MS`'s least."""
    if format == "PNG":
        seconds = (delay_ms - DELAYS_MS[0]) // 1000 * 1000
        return [delay_ms] if apng.holds_delay(delay_ms) else [seconds, delay_ms - seconds]
    count = -(-delay_ms // (10 * gif.MAX_DELAY if format == "GIF" else webp.MAX_DELAY_MS))
    edges = [delay_ms * number // count for number in range(count + 1)]
    return [end - begin for begin, end in itertools.pairwise(edges)]


@contextlib.contextmanager
def sought(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that can be sought in, for a pipe too; whole or not at all."""
    with files.atomic_write(path) as file:
        if file.seekable():
            yield file
            return
        with TemporaryFile(_SPOOLED) as spool:
            yield cast(BinaryIO, spool)
            spool.seek(0)
            shutil.copyfileobj(spool, file)


def format_named(format: Any) -> str:
    return params.choice("format", format.upper() if isinstance(format, str) else format, ANIMATED)


def checked_comment(comment: Any) -> str:
    if not isinstance(comment, str) or "\0" in comment:
        raise InvalidArgument(f"comment is {params.shown(comment)}; allowed: a text without NUL")
    return comment


def checked_plays(plays: Any) -> int:
    return params.integer("plays", plays, 0, gif.MAX_PLAYS)


def write_any(file: BinaryIO, format: str, frames: Any, delay_ms: Any, plays: Any, comment: Any) -> None:
    """Write what a person gave: a list, of which all is known, or an iterator as it gives frames."""
    checked_plays(plays)
    if isinstance(frames, str | bytes) or not isinstance(frames, Sequence | Iterator):
        raise InvalidType(f"frames is {params.shown(frames)}; allowed: a sequence or an iterator")
    if isinstance(frames, Sequence):
        write_list(file, format, made_of(frames, delay_ms), plays, comment)
        return
    first = next(frames, None)
    if first is None:
        raise InvalidArgument("frames are none; allowed: at least one")
    palette = _checked(first).palette
    alpha = palette.rgba()[:, 3]
    indexed = format == "PNG" and len(palette) <= MAX_COLORS
    height, width = first.shape
    about = About(
        width,
        height,
        plays,
        palette.rgba() if indexed else None,
        bool((alpha < OPAQUE_ALPHA).any()),
        bool((alpha == 255).all()),
        checked_comment(comment),
    )
    write_frames(file, format, about, _streamed(first, frames, delay_ms, about.opaque))


def _streamed(first: IndexedImage, frames: Iterator[Any], delay_ms: Any, opaque: bool) -> Iterator[Shown]:
    """Yield an iterator's frames as writers take them."""
    for number, (frame, delay) in enumerate(with_delays(itertools.chain([first], frames), delay_ms)):
        if _checked(frame).shape != first.shape:
            raise sizes_differ({first.shape, frame.shape})
        if opaque and frame.palette != first.palette and (frame.palette.rgba()[:, 3] < 255).any():
            raise InvalidArgument(
                f"frames[{number}] has colours of alpha below 255, the first has none; allowed for frames that are "
                "written as they come: a first frame whose palette has such a colour, or the frames in a list"
            )
        yield Made(frame, delay).shown()


def with_delays(frames: Iterable[T], delay_ms: Any) -> Iterator[tuple[T, int]]:
    """Yield frames with their milliseconds: one number for all, or one for each."""
    delays = iter(_each_delay(delay_ms)) if _is_list(delay_ms) else itertools.repeat(_delays(delay_ms, 1)[0])
    count = 0
    for frame in frames:
        delay = next(delays, None)
        if delay is None:
            raise InvalidArgument(f"delay_ms has {count}; allowed: one for each of the frames, or one number")
        yield frame, delay
        count += 1
    if _is_list(delay_ms) and next(delays, None) is not None:
        raise InvalidArgument(
            f"delay_ms has {len(delay_ms)}; allowed: one for each of the {count} frames, or one number"
        )


def made_of(frames: Sequence[Any], delay_ms: Any, name: str = "delay_ms") -> list[Made]:
    """Check frames that a person gave in a list, and their times."""
    if not len(frames):
        raise InvalidArgument("frames are none; allowed: at least one")
    shapes = {_checked(frame).shape for frame in frames}
    if len(shapes) > 1:
        raise sizes_differ(shapes)
    return [Made(*one) for one in zip(frames, _delays(delay_ms, len(frames), name), strict=True)]


def write_list(file: BinaryIO, format: str, given: list[Made], plays: int, comment: Any) -> None:
    """Write frames of which all is known."""
    palettes = [made.image.palette.rgba() for made in given]
    about = about_of(given[0].image.shape, palettes, plays, checked_comment(comment))
    write_frames(file, format, about, (made.shown() for made in given))


def about_of(shape: tuple[int, int], palettes: list[npt.NDArray[np.uint8]], plays: int, comment: str = "") -> About:
    """Facts about all frames, given the (n, 4) palette of each."""
    alike = all(np.array_equal(rgba, palettes[0]) for rgba in palettes)
    holes = any((rgba[:, 3] < OPAQUE_ALPHA).any() for rgba in palettes)
    opaque = all((rgba[:, 3] == 255).all() for rgba in palettes)
    height, width = shape
    return About(width, height, plays, palettes[0] if alike else None, holes, opaque, comment)


def _checked(frame: Any) -> IndexedImage:
    if not isinstance(frame, IndexedImage):
        raise InvalidType(
            f"frames holds {params.shown(frame)}; allowed: IndexedImage (quantize_frames makes them of pictures)"
        )
    return frame


def sizes_differ(shapes: set[tuple[int, int]]) -> InvalidArgument:
    return InvalidArgument(f"frames have the sizes {sorted(shapes)} (height, width); allowed: one size for all")


def animated_format_of(path: str | os.PathLike[str]) -> str:
    """The name, for `animation_bytes`, of the format that a path's suffix stands for."""
    suffix = files.path_of(path).suffix.lower()
    if suffix not in SUFFIXES:
        allowed = ", ".join(SUFFIXES)
        raise InvalidArgument(f"{os.fspath(path)!r}: no animation has the suffix {suffix!r}; allowed: {allowed}")
    return SUFFIXES[suffix]


def _is_list(delay_ms: Any) -> bool:
    one = isinstance(delay_ms, str | bytes) or (isinstance(delay_ms, np.ndarray) and not delay_ms.ndim)
    return isinstance(delay_ms, Sequence | np.ndarray) and not one


def _each_delay(delay_ms: Any, name: str = "delay_ms") -> list[int]:
    return [params.integer(f"{name}[{i}]", delay, *DELAYS_MS) for i, delay in enumerate(delay_ms)]


def _delays(delay_ms: Any, count: int, name: str = "delay_ms") -> list[int]:
    """Milliseconds for each of `count` frames."""
    if not _is_list(delay_ms):
        return [params.integer(name, delay_ms, *DELAYS_MS)] * count
    each = _each_delay(delay_ms, name)
    if len(each) != count:
        raise InvalidArgument(f"{name} has {len(each)}; allowed: one for each of the {count} frames, or one number")
    return each
