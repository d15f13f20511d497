"""Frames with exact times: cut to a stretch of time, thinned to a rate, rounded so that delays add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

MILLISECONDS = 1000
LEAST = Fraction(1, 100)  # seconds that every format can show a frame


class Timed(NamedTuple):
    """A frame shown from `start` to `end`, in seconds; `read` makes its pixels."""

    start: Fraction
    end: Fraction
    read: Callable[[], Any]


def clipped(frames: Iterable[Timed], start: Fraction | None, end: Fraction | None) -> Iterator[Timed]:
    """Yield the frames shown between two times, which then count from the first."""
    begin = start or Fraction(0)
    for frame in frames:
        if end is not None and frame.start >= end:
            return
        if frame.end > begin:
            last = frame.end if end is None else min(frame.end, end)
            yield Timed(max(frame.start, begin) - begin, last - begin, frame.read)


def thinned(frames: Iterable[Timed], fps: Fraction) -> Iterator[Timed]:
    """Yield at most `fps` frames a second; a frame that is over when the next may begin is left out.

    Frames that come slower keep their times. The last one kept is shown until the last of all ends; one of which less
    than `LEAST` is left by then is not.
    """
    step, free = 1 / fps, Fraction(0)
    kept: list[Timed] = []  # the last two
    for frame in frames:
        begin = max(frame.start, free)
        if kept and frame.end <= begin:
            kept[-1] = kept[-1]._replace(end=frame.end)
            continue
        if kept:
            kept[-1] = kept[-1]._replace(end=begin)
        yield from kept[:-1]
        kept, free = [*kept[-1:], frame._replace(start=begin)], begin + step
    if len(kept) == 2 and kept[1].end - kept[1].start < min(LEAST, step):
        kept = [kept[0]._replace(end=kept[1].end)]
    yield from kept


def rounded(time: Fraction, unit: int = MILLISECONDS) -> int:
    """A time in whole units of ``1 / unit`` seconds, half up: delays between rounded times add up exactly."""
    return math.floor(time * unit + Fraction(1, 2))
