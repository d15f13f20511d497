"""A file of at most so many bytes: the same animation with less quality, until it fits."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import numbers
import shutil
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from clquant.runtime import InvalidArgument
from clquant.video.animation import Maker, Write

if TYPE_CHECKING:
    from clquant.video.animator import Reduction

# Where each of the four ways to save bytes is at its end, by level.
LEVELS = QUALITY, LOSS, COLORS, SIZE = 256, 512, 768, 1024
LEAST_QUALITY, MOST_LOSS, FEWEST_COLORS, LEAST_SCALE = 85, 30, 32, 1 / 16
CLOSE = 0.9
_TRIALS = 22
_SPOOLED = 1 << 26


class _TooLargeError(Exception):
    """A file has more bytes than are allowed."""


class _Bounded(io.BufferedIOBase):
    """A file that takes no more than so many bytes."""

    def __init__(self, file: Any, most: int) -> None:
        self._file, self._most = file, most

    def write(self, data: Any) -> int:
        if self._file.tell() + len(data) > self._most:
            raise _TooLargeError
        return int(self._file.write(data))

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))


def at_level(reduction: Reduction, level: int, before: int = SIZE) -> Reduction:
    """A reduction with less quality; the levels from 0 up save more and more.

    The ways that come before the one the level is in save what level `before` saves.
    """

    def part(first: int, last: int) -> float:
        own = level if level <= last else min(level, before)
        return min(max(own - first, 0) / (last - first), 1.0)

    quality = reduction.quality - round(part(0, QUALITY) * max(reduction.quality - LEAST_QUALITY, 0))
    loss = reduction.lossy + round(part(QUALITY, LOSS) * max(MOST_LOSS - reduction.lossy, 0))
    colors = reduction.colors
    if isinstance(colors, numbers.Integral):
        count = int(colors)
        colors = round(count * (min(FEWEST_COLORS, count) / count) ** part(LOSS, COLORS))
    scale = LEAST_SCALE ** part(COLORS, SIZE)
    return dataclasses.replace(reduction, quality=quality, lossy=loss, colors=colors, scale=scale)


def within(reduction: Reduction, most: int, write: Write, file: BinaryIO) -> tuple[Maker, dict[str, Any]]:
    """Write a file of at most `most` bytes by bisection over the levels, until it has nine tenths of them.

    A file of a higher level is taken to be no larger. Where the lowest level that fits has too few bytes (a colour
    table has a power of two of entries), its ways to save before the last are bisected again.
    """
    best: tuple[Reduction, dict[str, Any], Any] | None = None
    trials, steps = 0, 2 * max(reduction.looked, reduction.expected)

    def fits(level: int, before: int = SIZE) -> bool:
        """Make the file of a level; keep it if it is the largest that fits."""
        nonlocal best, trials
        report = reduction.report.part(trials * steps, (_TRIALS + 1) * steps)
        trial = dataclasses.replace(at_level(reduction, level, before), report=report, max_bytes=None)
        spool = spools.enter_context(tempfile.SpooledTemporaryFile(_SPOOLED))  # noqa: SIM115
        trials += 1
        try:
            if level:
                trial = dataclasses.replace(trial, scenes=()).prepared()
            figures = write(trial, cast(BinaryIO, _Bounded(spool, most)))
        except _TooLargeError:
            spool.close()
            return False
        if best is None or figures["bytes"] > best[1]["bytes"]:
            best = trial, figures, spool
        return True

    def lowest(attempt: Callable[[int], bool], last: int) -> int:
        """Bisect for the lowest level that fits; `last` is known to."""
        low, high = 0, last
        while low < high and trials < _TRIALS and (best is None or best[1]["bytes"] < CLOSE * most):
            middle = (low + high) // 2
            low, high = (low, middle) if attempt(middle) else (middle + 1, high)
        return high

    with contextlib.ExitStack() as spools:
        if not fits(0) and fits(SIZE):
            level = lowest(fits, SIZE)
            if not fits(level, 0):
                lowest(lambda before: fits(level, before), max(each for each in (0, *LEVELS) if each < level))
        if best is None:
            raise InvalidArgument(
                f"max_bytes is {most}; allowed for these frames: more than they take in {FEWEST_COLORS} colours and a "
                "sixteenth of their size"
            )
        made, figures, spool = best
        spool.seek(0)
        shutil.copyfileobj(spool, file)
    reached = {"quality": made.quality, "lossy": made.lossy, "scale": round(made.scale, 3), "trials": trials}
    return dataclasses.replace(made, max_bytes=most, report=reduction.report), {**figures, **reached}
