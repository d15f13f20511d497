"""The frames of `animate`: palettes learned, then a frame at a time in few colours."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import numbers
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from clquant.color.formats.gif import MAX_COLORS
from clquant.color.formats.parallel import ordered
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.dithering.registry import for_learned
from clquant.flow.source import take_ahead
from clquant.images.moving import Frame
from clquant.palette import verbs
from clquant.runtime import (
    CommandQueue,
    InvalidArgument,
    Progress,
    first_queue,
    open_session,
    thread_queue,
)
from clquant.video import lzw
from clquant.video import palettes as ways
from clquant.video.animation import Maker, Write
from clquant.video.frames import resized
from clquant.video.hold import Held, held
from clquant.video.kept import Kept
from clquant.video.shown import About
from clquant.video.writing import Made, Packing, about_of, shown_ms

if TYPE_CHECKING:
    from clquant.kmeans import KMeansPalette

# Of frames that a GPU maps in one launch, and launches at a time: a tile of a dither takes it as long as all tiles.
_MAPPED_BYTES, _LAUNCHES = 1 << 25, 2


# Writes a file of few enough bytes: the maker that made it, and its figures.
Search = Callable[["Reduction", Write, BinaryIO], tuple[Maker, dict[str, Any]]]


@dataclass(frozen=True)
class Reduction:
    """The reduction of frames to few colours: the arguments of `animate`, and the palettes learned.

    Attributes
    ----------
    alike : bool
        Whether all frames are known to have as many channels.
    search : Search, optional
        Of the settings for a file of few enough bytes.
    keeps_size : bool
        Whether a person chose the size of the frames.
    scale : float
        Of the frames' sides.
    scenes : tuple of Scene
        The palettes, but of ``palettes="frame"``.
    size : (width, height)
    channels : int
        The most that a frame has.
    holes : bool
        Whether a frame has pixels of alpha 0.
    looked : int
        Frames that were looked at before any is made.
    kept : Kept, optional
        These frames, with what is held in them.
    """

    source: Iterable[Frame]
    alike: bool
    expected: int
    colors: Any
    palettes: str
    quality: int
    hold: int
    lossy: int
    search: Search | None
    dither: Any
    color_space: str
    plays: int
    random_state: Any
    queue: CommandQueue | None
    report: Progress
    keeps_size: bool = False
    scale: float = 1.0
    scenes: tuple[ways.Scene, ...] = ()
    size: tuple[int, int] = (0, 0)
    channels: int = 1
    holes: bool = False
    looked: int = 0
    kept: Kept | None = None

    def prepared(self) -> Reduction:
        """Look at all frames where that is needed: for palettes, and for what alpha there is."""
        given = isinstance(self.colors, Palette)
        first = next(iter(self._scaled()))
        height, width = first.pixels.shape[:2]
        self._learner()
        found = dataclasses.replace(self, size=(width, height), channels=first.pixels.shape[2])
        scenes: tuple[ways.Scene, ...] = (ways.Scene(0, self.colors),) if given else ()
        learns = not given and self.palettes != "frame"
        if found.alike and found.channels < 4 and not learns:
            return dataclasses.replace(found, scenes=scenes)
        found = dataclasses.replace(found, kept=Kept(found.calm))
        looked = _Looked(found)
        if learns:
            scenes = tuple(ways.learned(take_ahead(looked), self._learner(), self.palettes == "scene", self.queue))
        else:
            collections.deque(looked, 0)
        if looked.holes:
            scenes = tuple(scene._replace(palette=scene.palette.with_transparent()) for scene in scenes)
        return dataclasses.replace(
            found,
            scenes=scenes,
            channels=max(looked.channels, found.channels),
            holes=looked.holes,
            looked=looked.count,
        )

    def _scaled(self) -> Iterator[Frame]:
        """Yield the frames in the size that they get, with a third axis, so that tall ones are not taken for rows."""
        size = None
        for frame in self.source:
            if size is None:
                size = tuple(max(round(side * self.scale), 1) for side in frame.pixels.shape[1::-1])
            pixels = frame.pixels if self.scale == 1 else resized(frame.pixels, size)
            yield Frame(np.atleast_3d(pixels), frame.delay_ms)

    def calm(self) -> Iterator[Held]:
        """Yield the frames with what is held in them."""
        frames = take_ahead(self._scaled())
        if self.hold:
            yield from held(frames, self.hold if self.quality < 100 else 0, self.quality, self.queue)
            return
        for frame in frames:
            yield Held(frame, np.zeros(frame.pixels.shape[:2], np.bool_))

    def _learner(self) -> KMeansPalette:
        """The engine that learns palettes; ones of a frame, or with loss, leave an entry for what does not change."""
        from clquant.kmeans import KMeansPalette  # an engine, which most commands do without

        count = int(self.colors) if isinstance(self.colors, numbers.Integral) else 2
        if count == MAX_COLORS and (self.palettes == "frame" or self.quality < 100):
            count = MAX_COLORS - 1
        return KMeansPalette(count, color_space=self.color_space, random_state=self.random_state, queue=self.queue)

    def about(self) -> About:
        """Facts that writers need before the first frame."""
        if not self.scenes:
            return About(*self.size, self.plays, None, self.channels == 4, self.channels < 4, reserve=True)
        palettes = [scene.palette.rgba() for scene in self.scenes]
        return about_of(self.size[::-1], palettes, self.plays)._replace(reserve=True)

    def frames(self) -> Iterator[Made]:
        """Yield each frame in its palette."""
        before: IndexedImage | None = None
        # A CPU is busy with one frame, and the caller's own ditherer may keep something from call to call.
        alone = open_session(self.queue).limits.is_cpu or not isinstance(self.dither, str | bool | None)
        most = 1 if alone else max(_MAPPED_BYTES // (self.size[0] * self.size[1] * self.channels), 1)
        launches = ordered(self._mapped, self._together(most), 1 if alone else _LAUNCHES)
        for number, (job, part, indices) in enumerate(itertools.chain.from_iterable(launches)):
            if before is not None and job.follows:
                whole = before.host_indices()
                if not job.held.stays.all():
                    whole = whole.copy()
                    np.copyto(whole[part], indices, where=~job.held.stays[part])
                indices = whole
            before = IndexedImage.of_own(indices, job.palette)
            yield Made(before, shown_ms(job.held.frame.delay_ms, number), job.kept)
            self.report.report(self.looked + number + 1, self.looked + max(self.looked or self.expected, number + 1))

    def _together(self, most: int) -> Iterator[list[_Job]]:
        """Yield up to `most` frames of as many channels in one palette."""
        for _, alike in itertools.groupby(self._jobs(), lambda job: (job.palette, job.held.frame.pixels.shape)):
            while jobs := list(itertools.islice(alike, most)):
                yield jobs

    def _jobs(self) -> Iterator[_Job]:
        """Yield each frame with its palette."""
        scenes = iter(self.scenes)
        now, following = next(scenes, None), next(scenes, None)
        learner = self._learner()
        before: Palette | None = None
        for number, held_frame in enumerate(take_ahead(self.kept or self.calm())):
            pixels, stays = held_frame.frame.pixels, held_frame.stays
            if pixels.shape[1::-1] != self.size:
                raise InvalidArgument(
                    f"frames[{number}] is {pixels.shape[1]} wide and {pixels.shape[0]} high, the first "
                    f"{self.size[0]} and {self.size[1]}; allowed: one size for all"
                )
            if following is not None and number == following.first:
                now, following = following, next(scenes, None)
            palette = learner.fit(pixels).palette_ if now is None else now.palette
            if self.holes and now is None and _has_holes(held_frame.frame):
                palette = palette.with_transparent()
            follows = before == palette and bool(stays.any())
            kept = stays if not follows and now is None and self.channels < 4 and number else None
            yield _Job(held_frame, palette, follows, kept)
            before = palette

    def _mapped(self, jobs: list[_Job]) -> list[tuple[_Job, tuple[slice, ...], Any]]:
        """Map what is new in frames, if anything is: with each the part of it that was mapped, and its indices."""
        queue = self.queue and thread_queue(first_queue(self.queue))
        each = (job.held.stays if job.follows else np.zeros_like(job.held.stays) for job in jobs)
        stays = functools.reduce(np.logical_and, each)
        if stays.all():
            return [(job, (), None) for job in jobs]
        dither = self.dither if isinstance(self.colors, Palette) else for_learned(self.dither)
        how: Any = {"color_space": self.color_space, "dither": dither, "queue": queue}
        part, found = verbs.predict_changes([job.held.frame.pixels for job in jobs], jobs[0].palette, stays, **how)
        return [(job, part, indices) for job, indices in zip(jobs, found, strict=True)]

    def packing(self) -> Packing:
        """The packing of a GIF's pixels."""
        return functools.partial(lzw.packed, loss=self.lossy, queue=self.queue)

    def fitted(self, write: Write, file: BinaryIO) -> tuple[Maker, dict[str, Any]]:
        """Write a file, of no more bytes than were asked for."""
        return (self, write(self, file)) if self.search is None else self.search(self, write, file)


class _Job(NamedTuple):
    """A frame to map; it `follows` one in its palette, whose indices stay where pixels do, or these are `kept`."""

    held: Held
    palette: Palette
    follows: bool
    kept: npt.NDArray[np.bool_] | None


class _Looked:
    """Frames on their way, and what alpha they have had so far."""

    def __init__(self, reduction: Reduction) -> None:
        self._reduction = reduction
        self.holes, self.channels, self.count = False, 1, 0

    def __iter__(self) -> Iterator[Held]:
        report, expected = self._reduction.report, self._reduction.expected
        assert self._reduction.kept is not None
        for number, held_frame in enumerate(self._reduction.kept, 1):
            self.channels = max(self.channels, held_frame.frame.pixels.shape[2])
            self.holes = self.holes or _has_holes(held_frame.frame)
            yield held_frame
            self.count = number
            report.report(number, 2 * max(expected, number))


def _has_holes(frame: Frame) -> bool:
    return frame.pixels.shape[2] == 4 and not frame.pixels[:, :, 3].all()
