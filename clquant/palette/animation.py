"""Animated GIFs from indexed frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from clquant import params
from clquant.color.formats import gif, gif_frames
from clquant.color.indexed import IndexedImage
from clquant.images import ImageLike, files, several
from clquant.palette import engine
from clquant.runtime import InvalidArgument, InvalidType, Progress, ProgressCallback, reports_memory

DELAYS_MS = 10, 10 * gif.MAX_DELAY


@reports_memory
def gif_bytes(frames: Iterable[IndexedImage], *, delay_ms: int | Sequence[int] = 40, loop: bool = True) -> bytes:
    """An animated GIF that shows every frame as it is, and as many of them: equal ones are not merged.

    Parameters
    ----------
    frames : sequence or iterator of IndexedImage
        At least one, all of one size, at most 65535 pixels wide and high, each of at most 256 colours; where palettes
        differ, each frame carries its own. Entries of alpha below 128 become one transparent entry.
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms; one for all, or as many as frames. GIF counts in 10 ms, so it is
        rounded to that, half up.
    loop : bool
        Whether it runs for ever, or once.

    Returns
    -------
    bytes

    Raises
    ------
    InvalidArgument
        If there is no frame, or their sizes differ, or a palette or a frame is too large, or there are not as many
        delays as frames.
    """
    params.boolean("loop", loop)
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
    height, width = given[0].shape
    pictures = [(frame.host_indices(), frame.palette.rgba()) for frame in given]
    return gif.encoded(
        width,
        height,
        gif_frames.drawn(pictures, loop),
        delays,
        loop,
    )


def _delays(delay_ms: Any, count: int) -> list[int]:
    """Hundredths of a second for each of `count` frames."""
    if isinstance(delay_ms, Sequence | np.ndarray) and not isinstance(delay_ms, str | bytes):
        each = [params.integer(f"delay_ms[{i}]", delay, *DELAYS_MS) for i, delay in enumerate(delay_ms)]
        if len(each) != count:
            raise InvalidArgument(
                f"delay_ms has {len(each)}; allowed: one for each of the {count} frames, or one number"
            )
    else:
        each = [params.integer("delay_ms", delay_ms, *DELAYS_MS)] * count
    return [(delay + 5) // 10 for delay in each]


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
    frames, delay_ms, loop
        As `gif_bytes` takes them.

    Raises
    ------
    InvalidArgument, InvalidType
        As `gif_bytes`.
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
    pictures = _listed(several(frames, "frames"))
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
