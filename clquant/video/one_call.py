"""`animate`: its arguments, checked."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clquant import params
from clquant.color.palette import as_palette
from clquant.dithering.registry import find_dither
from clquant.flow.source import take_ahead
from clquant.images.moving import Frame
from clquant.runtime import CommandQueue, Progress, ProgressCallback
from clquant.video import palettes as ways
from clquant.video.animation import Animation
from clquant.video.animator import Reduction
from clquant.video.byte_search import search_within
from clquant.video.frames import Frames
from clquant.video.gif import MAX_PLAYS
from clquant.video.hold import MOST_AHEAD
from clquant.video.spool import Spool
from clquant.video.timing import MILLISECONDS
from clquant.video.writing import DELAYS_MS, with_delays

MOST_LOSS = 100


def animate(
    frames: Any,
    colors: Any = 256,
    *,
    shared: bool = True,
    palettes: str | None = None,
    quality: int = 100,
    hold: int = 4,
    lossy: int | None = None,
    max_bytes: int | None = None,
    dither: Any = None,
    color_space: str = "srgb",
    delay_ms: int | Sequence[int] | None = None,
    plays: int | None = None,
    random_state: Any = 0,
    queue: CommandQueue | None = None,
    progress: ProgressCallback | None = None,
) -> Animation:
    """Moving pictures in few colours.

    Parameters
    ----------
    frames : path_like, ``"-"``, Frames, or list or iterator of images
        Whatever `clquant.video.frames` takes, or gives; all of one size. They are read a few at a time, twice where a
        palette is learned of several (what can be read once only waits in a temporary file).
    colors : int or palette
        How many are learned by `KMeansPalette`, or the colours to map to.
    shared : bool
        False is ``palettes="frame"``.
    palettes : str, optional
        ``"one"``: the same for all frames: the smallest files, and the only way for players that know one palette.
        ``"scene"``: one for each scene (a cut is where more than half of the pixels change their colours). ``"frame"``:
        one for each frame, of at most 255 colours, so that a GIF can leave out what does not change.
    quality : int
        1 to 100. A pixel is held, bit for bit and whatever the dither, while its error is at most (100 - quality) / 2
        steps of 8 bits (the root of the mean of the channels' squares, of which green counts four times, red twice).
        Below 100 at most 255 colours are learned, as for ``"frame"``.
    hold : int
        0 to 15 frames that are looked ahead: a pixel that is held no longer becomes the median of those that are as
        near to it. 0 looks at no other frame, and holds nothing.
    lossy : int, optional
        Of a GIF: 0 to 100, the most steps (as of `quality`) that a pixel, with three quarters of what those before it
        lack, may differ from its colour where that makes the file smaller. By default twice as
        many as `quality` is below 90.
    max_bytes : int, optional
        The most bytes of a file. Where it takes more, the size, `colors`, `quality` and `lossy` that give the least
        squared error at the size of the frames are searched for, by trials on some of these; a size that was given to
        `clquant.video.frames` stays unless no other way fits. What was reached is in the `figures` of the result.
    dither : optional
        As `PaletteEngine.predict`.
    color_space, random_state, queue
        As `KMeansPalette` takes them.
    delay_ms : int or sequence of int, optional
        How long each frame stands, 10 to 65,535,000; one for all, or as many as frames. By default its own time in the
        file (100 frames a second are taken at most), else 40.
    plays : int, optional
        How often they are shown; 0 for ever. By default as the file says, else for ever.
    progress : callable, optional
        Called with (done, total) frames, while a palette is learned and again while frames are made.

    Returns
    -------
    Animation
        Whose `save` makes the frames and writes .gif, .png, .apng and .webp as they come.

    Raises
    ------
    InvalidArgument, InvalidType, FileError
        If there is no frame, a frame cannot be read, or another argument is not allowed.
    StoppedError
        If `progress` returned False.
    """
    report = Progress(params.callback("progress", progress))
    shares = params.boolean("shared", shared)
    way = params.choice("palettes", palettes, ways.WAYS) if palettes is not None else "one" if shares else "frame"
    source = frames if isinstance(frames, Frames) else Frames(frames)
    find_dither(dither)
    if delay_ms is None:
        source = source.at_most(MILLISECONDS // DELAYS_MS[0])
    again: Iterable[Frame] = Spool(take_ahead(source)) if source.once else source
    most = None if max_bytes is None else params.integer("max_bytes", max_bytes, 1)
    reduction = Reduction(
        source=again if delay_ms is None else _Retimed(again, delay_ms),
        alike=source.alike,
        expected=again.expected if isinstance(again, Spool) else source.expected,
        colors=colors if isinstance(colors, numbers.Integral) else as_palette(colors, "colors"),
        palettes=way,
        quality=params.integer("quality", quality, 1, 100),
        hold=params.integer("hold", hold, 0, MOST_AHEAD),
        lossy=min(max(2 * (90 - quality), 0), MOST_LOSS)
        if lossy is None
        else params.integer("lossy", lossy, 0, MOST_LOSS),
        search=None if most is None else functools.partial(search_within, most=most),
        dither=dither,
        color_space=color_space,
        plays=params.integer("plays", source.plays if plays is None else plays, 0, MAX_PLAYS),
        random_state=random_state,
        queue=queue,
        report=report,
        keeps_size=source.is_sized,
    )
    return Animation._of_maker(reduction.prepared())


class _Retimed:
    """Frames with the times that a person gave."""

    def __init__(self, frames: Iterable[Frame], delay_ms: Any) -> None:
        self._frames, self._delay_ms = frames, delay_ms
        next(with_delays([None], delay_ms), None)  # checks them now

    def __iter__(self) -> Iterator[Frame]:
        for frame, delay_ms in with_delays(self._frames, self._delay_ms):
            yield Frame(frame.pixels, delay_ms)
