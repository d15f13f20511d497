"""A file of at most so many bytes whose frames differ least from the given ones, at the size of these.

Settings are tried on a few frames; whole files are made of the most promising ones alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import math
import numbers
import shutil
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from clquant.images import moving
from clquant.images.moving import Frame
from clquant.runtime import InvalidArgument, Progress
from clquant.video.animation import Maker, Write
from clquant.video.animator import Reduction
from clquant.video.frames import resized
from clquant.video.spool import TemporaryFile

# Runs of neighbouring frames that stand for all.
_RUNS, _RUN_FRAMES = 3, 4
_SAMPLE_MS = 10_000  # the most that a frame of the sample stands
# Levels of hold and loss that are tried; between them bytes and errors are interpolated.
_LEVELS = (0.0, 0.3, 0.7, 1.2, 2.0)
_HOLD_OF_LEVEL, _LOSS_OF_LEVEL = 30, 20
_LEAST_QUALITY, _MOST_LOSS = 30, 60
_FEWEST_COLORS = 4
# Sides shrink by the third root of two at a step, to a sixteenth.
_STEPS_PER_HALF, _MOST_STEPS = 3, 12
# What fewer colours and higher levels are taken to save at most, and which power of the sides bytes follow.
_MOST_SAVED, _POWER = 4, 1.7
_SAVED_BY_HALVING = 1.3  # the colours, at most
_AIM, _CLOSE = 0.99, 0.97
_WHOLE_TRIALS = 8
_CLEARLY_LESS = 0.8  # of the error at a size that a person chose: then another is named
_USUAL_WHOLE, _USUAL_PROBES = 4, 24  # trials, for progress
_SPOOLED = 1 << 26


class _Settings(NamedTuple):
    """What saves bytes."""

    scale: float  # of the frames' sides
    colors: Any
    level: float  # of hold and loss together

    def applied_to(self, reduction: Reduction) -> Reduction:
        """A reduction with less quality."""
        quality = max(reduction.quality - round(_HOLD_OF_LEVEL * self.level), min(reduction.quality, _LEAST_QUALITY))
        loss = min(reduction.lossy + round(_LOSS_OF_LEVEL * self.level**1.5), max(reduction.lossy, _MOST_LOSS))
        return dataclasses.replace(reduction, scale=self.scale, colors=self.colors, quality=quality, lossy=loss)


class _Found(NamedTuple):
    """Settings, with the bytes and the error that the sample takes with them."""

    settings: _Settings
    nbytes: float
    error: float


class _Whole(NamedTuple):
    """A file of all frames."""

    made: Reduction
    figures: dict[str, Any]
    spool: Any

    @property
    def nbytes(self) -> int:
        return int(self.figures["bytes"])


class _Sample:
    """Some of the frames, and what they take with settings that were tried."""

    def __init__(self, reduction: Reduction, count: int, write: Write, report: _Steps) -> None:
        self._reduction, self._write, self._report = reduction, write, report
        starts = [number * (count - _RUN_FRAMES) // (_RUNS - 1) for number in range(_RUNS)]
        picked = {start + number for start in starts for number in range(_RUN_FRAMES)}
        is_small = count <= _RUNS * _RUN_FRAMES
        self.frames = [
            Frame(frame.pixels, min(frame.delay_ms, _SAMPLE_MS))
            for number, frame in enumerate(reduction.source)
            if is_small or number in picked
        ]
        self._known: dict[Any, _Found] = {}

    def tried(self, settings: _Settings) -> _Found:
        """The bytes of the sample, and its mean squared error at the frames' own size."""
        trial = settings.applied_to(self._reduction)
        key = trial.scale, trial.colors if isinstance(trial.colors, int) else None, trial.quality, trial.lossy
        if key not in self._known:
            data = io.BytesIO()
            made = dataclasses.replace(trial, source=self.frames, report=self._report.next(len(self.frames))).prepared()
            figures = self._write(made, data)
            shown = moving.frames(data.getvalue(), "an animation")
            error = sum(_error(*pair) for pair in zip(shown, self.frames, strict=True))
            self._known[key] = _Found(settings, figures["bytes"], max(error, 1))
        return self._known[key]._replace(settings=settings)

    def best_level(self, scale: float, colors: Any, most: float) -> _Found | None:
        """The lowest level of at most so many bytes, between those tried; None where the highest takes more."""

        def tried(number: int) -> _Found:
            return self.tried(_Settings(scale, colors, _LEVELS[number]))

        low, high = -1, len(_LEVELS)
        while high - low > 1:
            middle = (low + high) // 2
            nbytes = tried(middle).nbytes
            low, high = (low, middle) if nbytes <= most else (middle, high)
            if nbytes > _MOST_SAVED * most:
                return None
        if high == len(_LEVELS):
            return None
        fits = tried(high)
        if not high or fits.nbytes == most:
            return fits
        over = tried(low)
        part = math.log(over.nbytes / most) / math.log(over.nbytes / fits.nbytes)
        level = over.settings.level + part * (fits.settings.level - over.settings.level)
        error = math.exp((1 - part) * math.log(over.error) + part * math.log(fits.error))
        return _Found(_Settings(scale, colors, level), most, error)

    def most_colors(self, scale: float, most: float) -> _Found | None:
        """The best level of the most colours that fit in a scale."""
        counts = _colors_of(self._reduction)
        while counts:
            found = self.best_level(scale, counts[0], most)
            if found is not None:
                return found
            over = self.tried(_Settings(scale, counts[0], _LEVELS[-1])).nbytes / most
            counts = counts[max(int(math.log(over, _SAVED_BY_HALVING)), 1) :]
        return None

    def best(self, most: float, keeps_size: bool) -> _Found | None:
        """The settings of the least error: a scale, as long as it falls, then one between, then the colours."""
        found: dict[float, _Found] = {}

        def add(step: float) -> bool:
            """Add a scale; whether it is the best of all."""
            now = self.most_colors(2.0 ** (-step / _STEPS_PER_HALF), most) if 0 <= step <= _MOST_STEPS else None
            is_best = now is not None and all(now.error < other.error for other in found.values())
            if now is not None:
                found[step] = now
            return is_best

        if keeps_size:
            add(0)
        else:
            whole = self.tried(_Settings(1.0, self._reduction.colors, 0.0)).nbytes
            first = math.ceil(_STEPS_PER_HALF * math.log2(max(whole / (most * _MOST_SAVED), 1)) / _POWER)
            for step in range(min(first, _MOST_STEPS), _MOST_STEPS + 1, 2):
                if not add(step) and found:
                    break
            for _ in range(2 if found else 0):
                middle = min(found, key=lambda each: found[each].error)
                for near in (middle - 1, middle + 1):
                    if near not in found:
                        add(near)
            if found:
                add(_between(found, most))
        if not found:
            return None
        return self._with_best_colors(min(found.values(), key=lambda each: each.error), most)

    def _with_best_colors(self, best: _Found, most: float) -> _Found:
        """Fewer colours while that is better; where bytes are left then, more."""
        few, more = best.settings.colors, best.settings.colors
        for colors in _colors_of(self._reduction):
            if not isinstance(few, int) or colors >= few:
                more = colors
                continue
            found = self.best_level(best.settings.scale, colors, most)
            if found is None or found.error >= best.error:
                break
            best, few, more = found, colors, few
        while isinstance(few, int) and not best.settings.level and more - few > 1:
            middle = (few + more) // 2
            found = self.tried(best.settings._replace(colors=middle))
            few, more = (middle, more) if found.nbytes <= most else (few, middle)
            best = found if found.nbytes <= most and found.error < best.error else best
        return best


def _between(found: dict[float, _Found], most: float) -> float:
    """A step that may be better than those around it: the least error of a parabola, or where level 0 fits exactly."""
    best = min(found, key=lambda each: found[each].error)
    if found[best].settings.level == 0:
        return best - _STEPS_PER_HALF * math.log2(most / found[best].nbytes) / _POWER
    if best - 1 not in found or best + 1 not in found:
        return -1.0
    before, now, after = (found[best + each].error for each in (-1, 0, 1))
    return best + (before - after) / (2 * max(before - 2 * now + after, 1e-9))


class _Steps:
    """Progress over trials whose number is not known before."""

    def __init__(self, reduction: Reduction) -> None:
        self._report, self._done, self._shown = reduction.report, 0, 0
        frames = max(reduction.looked, reduction.expected, 1)
        self._total = 2 * (_USUAL_WHOLE * frames + _USUAL_PROBES * min(frames, _RUNS * _RUN_FRAMES))

    def next(self, frames: int) -> Progress:
        """The progress of a trial of so many frames, each looked at and made."""
        before, self._done = self._done, self._done + 2 * frames
        return Progress(lambda done, _: self._show(before + done))

    def _show(self, done: int) -> bool:
        self._shown = max(self._shown, min(done, self._total))
        self._report.report(self._shown, self._total)
        return True


def _colors_of(reduction: Reduction) -> list[Any]:
    """Numbers of colours that are tried, from the most down; a palette that was given stays."""
    if not isinstance(reduction.colors, numbers.Integral):
        return [reduction.colors]
    most = int(reduction.colors)
    counts = itertools.takewhile(lambda count: count >= _FEWEST_COLORS, (most >> halved for halved in range(8)))
    return list(counts) or [most]


def _error(shown: Frame, asked: Frame) -> int:
    """The sum of squares of the differences, of colours times their alpha, at the size of the frame asked for."""
    height, width = asked.pixels.shape[:2]
    pictures = [np.atleast_3d(pixels) for pixels in (resized(shown.pixels, (width, height)), asked.pixels)]
    difference = np.subtract(*(_times_alpha(picture) for picture in pictures))
    return int((difference.astype(np.int64) ** 2).sum())


def _times_alpha(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """(H, W, 4)."""
    if pixels.shape[2] < 4:
        return np.pad(
            np.broadcast_to(pixels, (*pixels.shape[:2], 3)), ((0, 0), (0, 0), (0, 1)), constant_values=255
        ).astype(np.int32)
    values = pixels.astype(np.int32)
    values[:, :, :3] = (values[:, :, :3] * values[:, :, 3:] + 127) // 255
    return values


def search_within(reduction: Reduction, write: Write, file: BinaryIO, *, most: int) -> tuple[Maker, dict[str, Any]]:
    """Write a file of at most `most` bytes whose mean squared error at the frames' own size is small.

    Nothing is changed where that fits. The size stays where a person chose it, unless no other way fits.
    """
    steps, bare = _Steps(reduction), dataclasses.replace(reduction, search=None)
    with contextlib.ExitStack() as spools:

        def whole(trial: Reduction) -> _Whole:
            spool = spools.enter_context(TemporaryFile(_SPOOLED))
            made = dataclasses.replace(trial, report=steps.next(max(reduction.looked, reduction.expected)))
            made = made if trial is bare else dataclasses.replace(made, scenes=(), kept=None).prepared()
            return _Whole(made, write(made, cast(BinaryIO, spool)), spool)

        best = whole(bare)
        if best.nbytes > most:
            best = _best_whole(bare, most, write, steps, whole, best)
        best.spool.seek(0)
        shutil.copyfileobj(best.spool, file)
    made = best.made
    reached = {"quality": made.quality, "lossy": made.lossy, "scale": round(made.scale, 3)}
    figures = {**best.figures, **reached, "changed": _changes(bare, made)}
    return dataclasses.replace(made, search=reduction.search, report=reduction.report), figures


def _changes(asked: Reduction, made: Reduction) -> dict[str, list[Any]]:
    """What is other than asked for, each with what was asked and what was made."""

    def facts(one: Reduction) -> dict[str, Any]:
        colors = int(one.colors) if isinstance(one.colors, numbers.Integral) else None
        size = "{}x{}".format(*one.size)
        return {"size": size, "colours": colors, "quality": one.quality, "lossy": one.lossy}

    before, after = facts(asked), facts(made)
    return {name: [before[name], after[name]] for name in before if before[name] != after[name]}


def _best_whole(
    bare: Reduction, most: int, write: Write, steps: _Steps, whole: Callable[[Reduction], _Whole], first: _Whole
) -> _Whole:
    """Make files by the sample's best settings, whose bytes each file predicts better, until one is close below."""
    sample = _Sample(bare, first.figures["frames"], write, steps)
    smallest = _Settings(2.0 ** (-_MOST_STEPS / _STEPS_PER_HALF), _colors_of(bare)[-1], _LEVELS[-1])
    ratio = first.nbytes / sample.tried(_Settings(1.0, bare.colors, 0.0)).nbytes
    keeps_size, least = bare.keeps_size, first.nbytes
    aim = 1.0 if len(sample.frames) == first.figures["frames"] else _AIM
    best: tuple[_Found, _Whole] | None = None
    for _ in range(_WHOLE_TRIALS):
        found = sample.best(aim * most / ratio, keeps_size)
        if found is None and keeps_size:
            keeps_size = False
            found = sample.best(aim * most / ratio, keeps_size)
        found = found or sample.tried(smallest)
        now = whole(found.settings.applied_to(bare))
        ratio, least = now.nbytes / found.nbytes, min(least, now.nbytes)
        if now.nbytes > most:
            aim *= _AIM
            if found.settings == smallest:
                break
            continue
        if best is None or found.error < best[0].error:
            best = found, now
        if now.nbytes >= _CLOSE * most or found.settings.level == 0:
            break
    if best is None:
        raise InvalidArgument(f"max_bytes {most} is too small: the smallest result takes {least:,} bytes")
    found, made = best
    other = sample.best(aim * most / ratio, False) if keeps_size and found.settings.level else None
    if other is not None and other.error < _CLEARLY_LESS * found.error:
        made.figures["better_width"] = round(bare.size[0] * other.settings.scale)
    return made
