"""Palettes of moving pictures: one for all frames, one a scene, or one a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.histogram.color_histogram import ColorHistogram, together
from clquant.runtime import CommandQueue
from clquant.video.hold import Held

if TYPE_CHECKING:
    from clquant.kmeans import KMeansPalette

WAYS = ("one", "scene", "frame")

_COUNTED_TOGETHER = 1 << 22  # pixels
_MOST_COLORS = 1 << 19
_CUT = 0.5  # of the pixels that are of other coarse colours than those of the frame before
_SHORTEST_MS = 500
_UNIT_MS = 10
_LEAST_CALM = 1 / 16  # of the pixels that stay: of frames with fewer all moves, and nothing counts more
_NEW_POWER = 2  # of the weight of pixels that do not stay, beside their own
_MOST_WEIGHT = 1 << 38
_LEAST_ALIKE = 7 / 8  # of the pixels that stay in frames that are counted together
_COARSE_BITS = 3
_MANY_PIXELS = 1 << 16  # new ones, of which one in four is counted, for four
# New pixels of up to so many frames decide the order of a palette, of frames that have few.
_FEW_PIXELS, _MOST_CHANGES = 1 << 14, 256


class Scene(NamedTuple):
    """The palette of the frames from `first` on."""

    first: int
    palette: Palette


class _Counted:
    """The colours of a scene's frames, by the weight of the time that they are shown."""

    def __init__(self, first: int, queue: CommandQueue | None) -> None:
        self.first, self._queue = first, queue
        self._histograms: dict[int, ColorHistogram] = {}
        self._rounded: set[int] = set()  # powers of which six bits a channel are counted: noise has millions of colours
        self._waiting: dict[int, list[npt.NDArray[np.uint8]]] = {}
        self._changes: list[npt.NDArray[np.uint8]] = []
        self.shown_ms = self._pixels = 0
        # The last frame, how many alike there are with it, and what took the place of what after how many of them.
        self._last, self._power, self._alike = np.empty((0, 0, 3), np.uint8), 0, 0
        self._moved: list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], int]] = []

    def add(self, held: Held, is_first: bool) -> None:
        """Count a frame, and what is new in it again."""
        frame, stays = held
        power = max(frame.delay_ms // _UNIT_MS, 1).bit_length() - 1
        part = 0.0 if is_first else np.count_nonzero(stays) / stays.size
        places = np.flatnonzero(~stays) if part >= _LEAST_CALM else np.arange(0)
        rows, last = (pixels.reshape(-1, frame.pixels.shape[2]) for pixels in (frame.pixels, self._last))
        if part < _LEAST_ALIKE or power != self._power or rows.shape[1] == 1:
            self._end_alike()
            self._pixels += stays.size
        elif len(places):
            self._moved.append((last.take(places, axis=0), rows.take(places, axis=0), self._alike))
            self._pixels += len(places)
        self._last, self._power, self._alike = frame.pixels, power, self._alike + 1
        if len(places):
            fewer = _NEW_POWER if len(places) > _MANY_PIXELS else 0
            new = rows.take(places[:: 1 << fewer], axis=0)[None]
            self._waiting.setdefault(power + _NEW_POWER + fewer, []).append(new)
            if len(places) <= _FEW_PIXELS and len(self._changes) < _MOST_CHANGES:
                self._changes.append(new)
        self.shown_ms += frame.delay_ms
        if self._pixels > _COUNTED_TOGETHER:
            self._count()

    def _end_alike(self) -> None:
        """Count the last frame as often as there are alike, and what moved by how often it was there."""
        if self._alike == 1:
            self._waiting.setdefault(self._power, []).append(self._last)
        elif self._alike:
            found = _times(ColorHistogram.of([self._last], queue=self._queue), self._alike)
            if self._moved:
                gone, come, often = zip(*self._moved, strict=True)
                counts = np.repeat(often, [len(rows) for rows in gone])
                found = found + ColorHistogram(np.concatenate(gone), counts)
                found = found - ColorHistogram(np.concatenate(come), counts)
            self._merge(self._power, found)
        self._alike = 0
        self._moved.clear()

    def _count(self) -> None:
        self._end_alike()
        for power, pictures in self._waiting.items():
            if power in self._rounded:
                pictures = [_of_six_bits(picture) for picture in pictures]
            self._merge(power, ColorHistogram.of(pictures, queue=self._queue))
        self._waiting.clear()
        self._pixels = 0

    def _merge(self, power: int, found: ColorHistogram) -> None:
        if power in self._histograms:
            found = together([self._histograms[power], found])
        if found.n_colors > _MOST_COLORS or power in self._rounded:
            self._rounded.add(power)
            colors, counts = found.to_arrays()
            found = ColorHistogram(_of_six_bits(colors[None].astype(np.uint8))[0], counts)
        self._histograms[power] = found

    def histogram(self) -> ColorHistogram:
        """All colours, each pixel as often as its weight says."""
        self._count()
        least = min(self._histograms)
        powers = {power: power - least for power in self._histograms}
        while sum(h.total << powers[p] for p, h in self._histograms.items()) > _MOST_WEIGHT and any(powers.values()):
            powers = {power: max(own - 1, 0) for power, own in powers.items()}
        return together([_times(h, 1 << powers[p]) for p, h in self._histograms.items()])

    def scene(self, learner: KMeansPalette) -> Scene:
        """The scene with its palette learned."""
        self._end_alike()
        if not self._histograms and len(self._waiting) == 1:  # a device counts and learns
            learner.fit(*self._waiting.values())
        else:
            learner.fit_histogram(self.histogram())
        palette = learner.palette_
        used = np.zeros((len(self._changes), len(palette)), np.bool_)
        for row, new in zip(used, self._changes, strict=True):
            row[learner.predict(new, None)] = True
        return Scene(self.first, Palette(palette.colors[_short_first(used)]))


def _short_first(used: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Order entries so that many frames use low ones alone, whose codes are short; `used` is (frames, entries).

    The entries of a frame that lacks fewest come next, of the first such frame; those of no frame come last.
    """
    left, order = np.ones(used.shape[1], np.bool_), []
    while len(used := used[(used & left).any(axis=1)]):
        new = used[np.argmin((used & left).sum(axis=1))] & left
        order.append(np.flatnonzero(new))
        left &= ~new
    return np.concatenate([*order, np.flatnonzero(left)])


def learned(
    frames: Iterable[Held], learner: KMeansPalette, by_scene: bool, queue: CommandQueue | None
) -> Iterator[Scene]:
    """Palettes of scenes, or of all frames as one; a pixel counts by the time that it is shown.

    That is to a power of two of 10 ms. Of frames in which at least a sixteenth of the pixels stays, those that do not
    count five times: what moves takes few pixels, and is looked at. A scene begins where more than half of the pixels
    have other colours, of 3 bits a channel, than those of the frame before, and the scene before was at least half a
    second long.
    """
    counted = _Counted(0, queue)
    before: npt.NDArray[np.int64] | None = None
    for number, held in enumerate(frames):
        if by_scene:
            now = _coarse(held.frame.pixels)
            if before is not None and counted.shown_ms >= _SHORTEST_MS and _distance(before, now) > _CUT:
                yield counted.scene(learner)
                counted = _Counted(number, queue)
            before = now
        counted.add(held, number == counted.first)
    yield counted.scene(learner)


def _times(histogram: ColorHistogram, often: int) -> ColorHistogram:
    """A histogram with all counts multiplied."""
    colors, counts = histogram.to_arrays()
    return ColorHistogram(colors, counts * np.uint64(often)) if often > 1 else histogram


def _of_six_bits(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Pixels whose channels, but alpha, have their high six bits, repeated below."""
    fewer: npt.NDArray[np.uint8] = pixels & np.uint8(0xFC) | pixels >> np.uint8(6)
    if pixels.shape[2] == 4:
        fewer[:, :, 3] = pixels[:, :, 3]
    return fewer


def _coarse(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Pixels of each of 512 colours, of every second row and column."""
    shift = 8 - _COARSE_BITS
    part = np.broadcast_to(pixels[::2, ::2], (*pixels[::2, ::2].shape[:2], max(pixels.shape[2], 3))) >> shift
    codes = (part[..., 0].astype(np.intp) << 2 * _COARSE_BITS) | (part[..., 1] << _COARSE_BITS) | part[..., 2]
    return np.bincount(codes.ravel(), minlength=1 << 3 * _COARSE_BITS)


def _distance(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> float:
    """The part of the pixels whose coarse colours are others; 0 to 1."""
    return float(np.abs(first - second).sum()) / (2 * max(int(first.sum()), 1))
