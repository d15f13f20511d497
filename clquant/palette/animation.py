"""Animations of indexed frames: GIF, PNG and WebP."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant import params
from clquant.color.formats import apng, gif, gif_frames, webp
from clquant.color.indexed import IndexedImage
from clquant.images import ImageLike, files, materialize
from clquant.palette import engine
from clquant.runtime import InvalidArgument, InvalidType, Progress, ProgressCallback, reports_memory

DELAYS_MS = 10, 10 * gif.MAX_DELAY
ANIMATED = ("GIF", "PNG", "WEBP")
_SUFFIXES = {".gif": "GIF", ".png": "PNG", ".apng": "PNG", ".webp": "WEBP"}


@reports_memory
@dataclass(frozen=True)
class Animation:
    """Frames in few colours with their times.

    Attributes
    ----------
    frames : list of IndexedImage
        At least one, all of one size.
    delays_ms : list of int
        How long each stands.
    plays : int
        How often they are shown; 0 for ever.
    """

    frames: list[IndexedImage]
    delays_ms: list[int]
    plays: int = 0

    def __len__(self) -> int:
        return len(self.frames)

    def to_bytes(self, format: str) -> bytes:
        """The animation in a file format: see `animation_bytes`.

        Parameters
        ----------
        format : str

        Returns
        -------
        bytes

        Raises
        ------
        InvalidArgument, InvalidType
            As `animation_bytes`.
        """
        return animation_bytes(self.frames, format, delay_ms=self.delays_ms, plays=self.plays)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the animation, whole or not at all: see `save_animation`.

        Parameters
        ----------
        path : path_like
        format : str, optional

        Raises
        ------
        InvalidArgument, InvalidType, FileError
            As `save_animation`.
        """
        save_animation(path, self.frames, delay_ms=self.delays_ms, plays=self.plays, format=format)


def animation_bytes(
    frames: Iterable[IndexedImage], format: str, *, delay_ms: int | Sequence[int] = 40, plays: int = 0
) -> bytes:
    """An animation that shows every frame as it is.

    Parameters
    ----------
    frames : sequence or iterator of IndexedImage
        At least one, all of one size.
    format : str
        ``"GIF"`` (as `gif_bytes`), ``"PNG"`` (indexed if all frames have one palette of at most 256 colours, else in
        full colour; all alpha is kept) or ``"WEBP"`` (without loss).
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms; one for all, or as many as frames.
    plays : int
        How often they are shown, 0 to 65535; 0 for ever.
    """
    name = params.choice("format", format.upper() if isinstance(format, str) else format, ANIMATED)
    params.integer("plays", plays, 0, gif.MAX_PLAYS)
    given = _listed(frames)
    for frame in given:
        if not isinstance(frame, IndexedImage):
            raise InvalidType(
                f"frames holds {params.shown(frame)}; allowed: IndexedImage (quantize_frames makes them of pictures)"
            )
    delays = _delays(delay_ms, len(given))
    shapes = sorted({frame.shape for frame in given})
    if len(shapes) > 1:
        raise InvalidArgument(f"frames have the sizes {shapes} (height, width); allowed: one size for all")
    pictures = [(frame.host_indices(), frame.palette.rgba()) for frame in given]
    if name == "PNG":
        return apng.encoded(pictures, delays, plays)
    if name == "WEBP":
        return webp.encoded(pictures, delays, plays)
    height, width = given[0].shape
    hundredths = [(delay + 5) // 10 for delay in delays]
    return gif.encoded(width, height, gif_frames.drawn(pictures, plays != 1), hundredths, plays)


def animated_format_of(path: str | os.PathLike[str]) -> str:
    """The name, for `animation_bytes`, of the format that a path's suffix stands for."""
    suffix = files.path_of(path).suffix.lower()
    if suffix not in _SUFFIXES:
        allowed = ", ".join(_SUFFIXES)
        raise InvalidArgument(f"{os.fspath(path)!r}: no animation has the suffix {suffix!r}; allowed: {allowed}")
    return _SUFFIXES[suffix]


@reports_memory
def save_animation(
    path: str | os.PathLike[str],
    frames: Iterable[IndexedImage],
    *,
    delay_ms: int | Sequence[int] = 40,
    plays: int = 0,
    format: str | None = None,
) -> None:
    """Write an animation, whole or not at all.

    Parameters
    ----------
    path : path_like
        .gif, .png, .apng or .webp.
    frames : sequence or iterator of IndexedImage
        At least one, all of one size.
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms; one for all, or as many as frames.
    plays : int
        How often they are shown, 0 to 65535; 0 for ever.
    format : str, optional
        ``"GIF"`` (see `save_gif`), ``"PNG"`` (indexed if all frames have one palette of at most 256 colours, else in
        full colour; all alpha is kept) or ``"WEBP"`` (without loss); by default that of the path's suffix.

    Raises
    ------
    InvalidArgument
        If there is no frame, or their sizes differ, or the format cannot hold them, or there are not as many delays as
        frames, or no format has the suffix.
    InvalidType
        If a frame is no `IndexedImage`.
    FileError
        If the file cannot be written.
    """
    name = animated_format_of(path) if format is None else format
    files.write_bytes(path, animation_bytes(frames, name, delay_ms=delay_ms, plays=plays))


@reports_memory
def gif_bytes(frames: Iterable[IndexedImage], *, delay_ms: int | Sequence[int] = 40, loop: bool = True) -> bytes:
    """An animated GIF that shows every frame as it is, and as many of them: equal ones are not merged.

    Parameters
    ----------
    frames : sequence or iterator of IndexedImage
        At least one, all of one size, at most 65535 pixels wide and high, each of at most 256 colours; if palettes
        differ, each frame carries its own. Entries of alpha below 128 become one transparent entry.
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms; one for all, or as many as frames. GIF counts in 10 ms, so it is
        rounded to that, half up.
    loop : bool
        Whether it runs for ever, or once.
    """
    return animation_bytes(frames, "GIF", delay_ms=delay_ms, plays=0 if params.boolean("loop", loop) else 1)


def _delays(delay_ms: Any, count: int) -> list[int]:
    """Milliseconds for each of `count` frames."""
    one = isinstance(delay_ms, str | bytes) or (isinstance(delay_ms, np.ndarray) and not delay_ms.ndim)
    if isinstance(delay_ms, Sequence | np.ndarray) and not one:
        each = [params.integer(f"delay_ms[{i}]", delay, *DELAYS_MS) for i, delay in enumerate(delay_ms)]
        if len(each) != count:
            raise InvalidArgument(
                f"delay_ms has {len(each)}; allowed: one for each of the {count} frames, or one number"
            )
    else:
        each = [params.integer("delay_ms", delay_ms, *DELAYS_MS)] * count
    return each


def _listed(frames: Any) -> list[Any]:
    """Frames as a list; those of a sequence or an iterator are taken out once."""
    if isinstance(frames, str | bytes) or not isinstance(frames, Sequence | Iterator):
        raise InvalidType(f"frames is {params.shown(frames)}; allowed: a sequence or an iterator")
    listed = list(frames)
    if not listed:
        raise InvalidArgument("frames are none; allowed: at least one")
    return listed


@reports_memory
def save_gif(
    path: str | os.PathLike[str],
    frames: Iterable[IndexedImage],
    *,
    delay_ms: int | Sequence[int] = 40,
    loop: bool = True,
) -> None:
    """Write an animated GIF, whole or not at all.

    Parameters
    ----------
    path : path_like
    frames : sequence or iterator of IndexedImage
        At least one, all of one size, at most 65535 pixels wide and high, each of at most 256 colours; if palettes
        differ, each frame carries its own. Entries of alpha below 128 become one transparent entry.
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms, rounded half up to 10 ms; one for all, or as many as frames.
    loop : bool
        Whether it runs for ever, or once.

    Raises
    ------
    InvalidArgument
        If there is no frame, or their sizes differ, or a palette or a frame is too large, or there are not as many
        delays as frames, or a frame of 256 opaque colours, all in use, comes before one with holes in it.
    InvalidType
        If a frame is no `IndexedImage`.
    FileError
        If the file cannot be written.
    """
    files.write_bytes(path, gif_bytes(frames, delay_ms=delay_ms, loop=loop))


@reports_memory
def quantize_frames(
    learner: engine.PaletteEngine,
    frames: Iterable[ImageLike],
    *,
    shared: bool = True,
    dither: Any = None,
    progress: ProgressCallback | None = None,
) -> list[IndexedImage]:
    """Frames in few colours.

    Parameters
    ----------
    learner : PaletteEngine
        Fitted to all frames where they share a palette (it keeps that one), else to each.
    frames : sequence or iterator of images
        All are held until the last is done. The pictures of an animated file: ``PIL.ImageSequence.Iterator(image)``.
    shared : bool
        One palette for all: smaller files, and colours that do not change from frame to frame.
    dither : optional
        As `PaletteEngine.predict`. Ordered dithering does not flicker: a pixel that does not change keeps its colour
        as long as the palette does.
    progress : callable, optional
        Called with (done, total) frames.

    Returns
    -------
    list of IndexedImage
        One a frame, in order.

    Raises
    ------
    InvalidArgument
        If there is no frame.
    StoppedError
        If `progress` returned False.
    """
    pictures = _listed(materialize(frames, "frames"))
    if not isinstance(learner, engine.PaletteEngine):
        raise InvalidType(f"learner is {params.shown(learner)}; allowed: an engine that learns palettes")
    params.boolean("shared", shared)
    report = Progress(params.callback("progress", progress))
    if shared:
        learner.fit(pictures)
    results: list[IndexedImage] = []
    for number, frame in enumerate(pictures, 1):
        if not shared:
            learner.fit(frame)
        results.append(learner.quantize(frame, dither))
        report.report(number, len(pictures))
    return results
