"""Moving pictures: `frames` of animated files, and `animate`, which reduces them to few colours."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterator
from typing import Any

from clquant import params
from clquant.color.formats.gif import MAX_COLORS, OPAQUE_ALPHA
from clquant.color.palette import Palette, as_palette
from clquant.images import Picture, files, materialize, moving, read_many
from clquant.images.moving import Frame
from clquant.kmeans import KMeansPalette
from clquant.palette import engine
from clquant.palette.animation import Animation
from clquant.runtime import CommandQueue, InvalidArgument, Progress, ProgressCallback, reports_memory

__all__ = ["Animation", "Frame", "Frames", "animate", "frames"]

DELAY_MS = 40  # of frames that have none of their own


class Frames:
    """The frames of an animated file, read one at a time as they are asked for; any number of times.

    Parameters
    ----------
    path : path_like
        A GIF, WebP or PNG file, or a still picture, which has one frame.

    Attributes
    ----------
    width, height : int
    plays : int
        How often the file says that they are shown; 0 for ever.

    Raises
    ------
    FileError
        If it cannot be read, or is no picture.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(files.path_of(path))
        self._about = moving.about(self._path, params.shown(self._path))
        self.width, self.height, self.plays = self._about.width, self._about.height, self._about.plays

    def __len__(self) -> int:
        return self._about.count

    def __iter__(self) -> Iterator[Frame]:
        return moving.frames(self._path, params.shown(self._path))

    def __repr__(self) -> str:
        return f"Frames({self._path!r}: {len(self)} of {self.width}x{self.height})"


def frames(path: str | os.PathLike[str]) -> Frames:
    """The frames of an animated GIF, WebP or PNG, each as a player shows it, with its time.

    Parameters
    ----------
    path : path_like

    Returns
    -------
    Frames
        An iterable of `Frame` (`pixels`, `delay_ms`), which every engine takes as a picture. An APNG's default image
        that is no frame is left out. Memory is bounded by one frame.

    Raises
    ------
    FileError
        If it cannot be read, or is no picture.
    """
    return Frames(path)


@reports_memory
def animate(
    frames: Any,
    colors: Any = 256,
    *,
    shared: bool = True,
    dither: Any = None,
    color_space: str = "srgb",
    delay_ms: int | None = None,
    plays: int | None = None,
    random_state: Any = 0,
    queue: CommandQueue | None = None,
    progress: ProgressCallback | None = None,
) -> Animation:
    """Moving pictures in few colours.

    Parameters
    ----------
    frames : path_like, Frames, or sequence or iterator of images
        An animated file, or pictures of one size. All are held until the last is done.
    colors : int or palette
        How many are learned by `KMeansPalette`, or the colours to map to.
    shared : bool
        One palette for all frames: smaller files, and colours that do not change from frame to frame. Else each frame
        has its own; then of frames with holes in them opaque ones get 255 at most, so that GIF can hold them.
    dither : optional
        As `PaletteEngine.predict`. Ordered dithering does not flicker: a pixel that does not change keeps its colour as
        long as the palette does.
    color_space, random_state, queue
        As `KMeansPalette` takes them.
    delay_ms : int, optional
        How long each frame stands; by default its own time in the file, else 40.
    plays : int, optional
        How often they are shown; 0 for ever. By default as the file says, else for ever.
    progress : callable, optional
        Called with (done, total) frames.

    Returns
    -------
    Animation
        Whose `save` writes .gif, .png, .apng and .webp.

    Raises
    ------
    InvalidArgument, InvalidType, FileError
        If there is no frame, a frame cannot be read, or another argument is not allowed.
    StoppedError
        If `progress` returned False.
    """
    report = Progress(params.callback("progress", progress))
    params.boolean("shared", shared)
    source = Frames(frames) if isinstance(frames, str | os.PathLike) else materialize(frames, "frames")
    given = list(source) if isinstance(source, Frames | list | tuple) else []
    if not given:
        raise InvalidArgument(f"frames is {params.shown(frames)}; allowed: an animated file, or pictures, at least one")
    if plays is None:
        plays = source.plays if isinstance(source, Frames) else 0
    delays = [
        (frame.delay_ms if isinstance(frame, Frame) else DELAY_MS) if delay_ms is None else delay_ms for frame in given
    ]
    pictures = read_many([frame.pixels if isinstance(frame, Frame) else frame for frame in given], argument="frames")
    learner = KMeansPalette(colors, color_space=color_space, random_state=random_state, queue=queue)
    palette: Palette | None = None
    if not isinstance(colors, numbers.Integral):
        palette = as_palette(colors, "colors")
    elif shared:
        palette = learner.fit(pictures).palette_
    elif colors == MAX_COLORS and any(_least_alpha(picture) < OPAQUE_ALPHA for picture in pictures):
        learner.set_params(n_colors=MAX_COLORS - 1)
    made = []
    for number, picture in enumerate(pictures, 1):
        chosen = learner.fit(picture).palette_ if palette is None else palette
        if _least_alpha(picture) == 0:
            chosen = chosen.with_transparent()
        made.append(engine.quantize(picture, chosen, color_space=color_space, dither=dither, queue=queue))
        report.report(number, len(pictures))
    return Animation(made, delays, plays)


def _least_alpha(picture: Picture) -> int:
    """The least alpha of a picture's pixels; 255 of one on a device, which is not looked at."""
    if picture.channels < 4 or picture.array is None:
        return 255
    return int(picture.array[:, :, 3].min())
