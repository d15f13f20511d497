"""`animate`: moving pictures in few colours, a frame at a time."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from clquant import params
from clquant.color.formats import gif, gif_frames
from clquant.color.formats.shown import About
from clquant.color.palette import Palette, as_palette
from clquant.dithering.registry import find_dither
from clquant.images.moving import Frame
from clquant.kmeans import KMeansPalette
from clquant.palette import engine
from clquant.runtime import CommandQueue, InvalidArgument, Progress, ProgressCallback
from clquant.video import palettes as ways
from clquant.video.ahead import Spool, ahead
from clquant.video.animation import DELAYS_MS, Animation, Made, Maker, Packing, Write
from clquant.video.frames import Frames


def animate(
    frames: Any,
    colors: Any = 256,
    *,
    shared: bool = True,
    palettes: str | None = None,
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
    way = params.choice("palettes", palettes or ("one" if params.boolean("shared", shared) else "frame"), ways.WAYS)
    source = frames if isinstance(frames, Frames) else Frames(frames)
    find_dither(dither)
    if delay_ms is not None:
        params.integer("delay_ms", delay_ms, *DELAYS_MS)
    again: Iterable[Frame] = Spool(ahead(source)) if source.once else source
    reduction = Reduction(
        source=again,
        expected=again.expected if isinstance(again, Spool) else source.expected,
        colors=colors if isinstance(colors, numbers.Integral) else as_palette(colors, "colors"),
        palettes=way,
        dither=dither,
        color_space=color_space,
        delay_ms=delay_ms,
        plays=params.integer("plays", source.plays if plays is None else plays, 0, gif.MAX_PLAYS),
        random_state=random_state,
        queue=queue,
        report=report,
    )
    return Animation._of_maker(reduction.prepared())


@dataclass(frozen=True)
class Reduction:
    """How frames become frames in few colours; the arguments of `animate`, and what was learned.

    Attributes
    ----------
    scenes : tuple of Scene
        The palettes, but of ``palettes="frame"``.
    size : (width, height)
    channels : int
        The most that a frame has.
    holes : bool
        Whether a frame has pixels of alpha 0.
    looked : int
        Frames that were looked at before any is made.
    """

    source: Iterable[Frame]
    expected: int
    colors: Any
    palettes: str
    dither: Any
    color_space: str
    delay_ms: int | None
    plays: int
    random_state: Any
    queue: CommandQueue | None
    report: Progress
    scenes: tuple[ways.Scene, ...] = ()
    size: tuple[int, int] = (0, 0)
    channels: int = 1
    holes: bool = False
    looked: int = 0

    def prepared(self) -> Reduction:
        """Look at all frames where that is needed: for palettes, and for what alpha there is."""
        given = isinstance(self.colors, Palette)
        first = next(iter(self.source))
        height, width = first.pixels.shape[:2]
        self._learner()
        found = dataclasses.replace(self, size=(width, height), channels=_channels(first))
        if given and found.channels < 4:
            return dataclasses.replace(found, scenes=(ways.Scene(0, self.colors),))
        looked = _Looked(found)
        scenes: tuple[ways.Scene, ...] = ()
        if given or self.palettes == "frame":
            for _ in looked if found.channels == 4 else ():
                pass
            if given:
                scenes = (ways.Scene(0, self.colors.with_transparent() if looked.holes else self.colors),)
        else:
            scenes = tuple(ways.learned(ahead(looked), self._learner(), self.palettes == "scene", self.queue))
        if looked.holes:
            scenes = tuple(scene._replace(palette=scene.palette.with_transparent()) for scene in scenes)
        return dataclasses.replace(
            found,
            scenes=scenes,
            channels=max(looked.channels, found.channels),
            holes=looked.holes,
            looked=looked.count,
        )

    def _learner(self) -> KMeansPalette:
        """The engine that learns palettes; ones of a frame leave an entry for what does not change."""
        count = int(self.colors) if isinstance(self.colors, numbers.Integral) else 2
        if self.palettes == "frame" and count == gif.MAX_COLORS:
            count = gif.MAX_COLORS - 1
        return KMeansPalette(count, color_space=self.color_space, random_state=self.random_state, queue=self.queue)

    def about(self) -> About:
        """What writers must know before the first frame."""
        palettes = [scene.palette for scene in self.scenes]
        rgba = palettes[0].rgba() if len(palettes) == 1 else None
        if palettes:
            alphas = np.concatenate([palette.rgba()[:, 3] for palette in palettes])
            holes, opaque = bool((alphas < gif.OPAQUE_ALPHA).any()), bool((alphas == 255).all())
        else:
            holes, opaque = self.channels == 4, self.channels < 4
        return About(*self.size, self.plays, rgba, holes, opaque)

    def frames(self) -> Iterator[Made]:
        """Yield each frame in its palette."""
        scenes = iter(self.scenes)
        now, following = next(scenes, None), next(scenes, None)
        learner = self._learner()
        for number, frame in enumerate(ahead(self.source)):
            if frame.pixels.shape[1::-1] != self.size:
                raise InvalidArgument(
                    f"frames[{number}] is {frame.pixels.shape[1]} wide and {frame.pixels.shape[0]} high, the first "
                    f"{self.size[0]} and {self.size[1]}; allowed: one size for all"
                )
            if following is not None and number == following.first:
                now, following = following, next(scenes, None)
            palette = learner.fit(frame.pixels).palette_ if now is None else now.palette
            if self.holes and now is None and _has_holes(frame):
                palette = palette.with_transparent()
            image = engine.quantize(
                frame.pixels, palette, color_space=self.color_space, dither=self.dither, queue=self.queue
            )
            yield Made(image, self.delay_ms or min(max(frame.delay_ms, DELAYS_MS[0]), DELAYS_MS[1]))
            self.report.report(self.looked + number + 1, self.looked + max(self.looked or self.expected, number + 1))

    def packing(self) -> Packing:
        """How a GIF's pixels are packed."""
        return gif_frames.packed

    def fitted(self, write: Write, file: BinaryIO) -> tuple[Maker, dict[str, Any]]:
        """Write a file."""
        return self, write(self, file)


class _Looked:
    """Frames on their way, and what alpha they have had so far."""

    def __init__(self, reduction: Reduction) -> None:
        self._reduction = reduction
        self.holes, self.channels, self.count = False, 1, 0

    def __iter__(self) -> Iterator[Frame]:
        report, expected = self._reduction.report, self._reduction.expected
        for number, frame in enumerate(self._reduction.source, 1):
            self.channels = max(self.channels, _channels(frame))
            self.holes = self.holes or _has_holes(frame)
            yield frame
            self.count = number
            report.report(number, 2 * max(expected, number))


def _channels(frame: Frame) -> int:
    return frame.pixels.shape[2] if frame.pixels.ndim == 3 else 1


def _has_holes(frame: Frame) -> bool:
    return _channels(frame) == 4 and not frame.pixels[:, :, 3].all()
