"""Which rectangle each frame of an animated GIF draws, and whether it goes before the next.

A frame draws the rectangle of what differs from the picture that stands there: whole, or with the transparent entry at
the pixels that do not differ, whichever is smaller. Pixels of a GIF can be covered but not erased, except by
clearing a frame's whole rectangle when its time is over. That is done where the next frame has holes in what is opaque
now, with the rectangle grown to reach them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel
from clquant.color.formats.gif import MAX_COLORS, OPAQUE_ALPHA, with_one_hole
from clquant.images.moving import bounds
from clquant.runtime import InvalidArgument
from clquant.video.gif import Frame
from clquant.video.shown import About, Shown

_OPAQUE = 1 << 24  # beside 24 bits of colour, so that none is 0


class Drawn(NamedTuple):
    """A frame drawn whole, if that shows it, and with a transparent entry where nothing changes, if there is one."""

    whole: Frame | None
    gaps: Frame | None


def drawn(frames: Iterable[Shown], about: About) -> Iterator[Drawn]:
    """The frames as a GIF holds them; each drawn in its turn shows one of the given ones, pixel by pixel."""
    alike = about.rgba is not None
    source = iter(frames)
    given: Shown | None = next(source)
    assert given is not None
    first = now = _Seen(given, alike)
    stands: npt.NDArray[Any] | None = None
    without_entry, number, elapsed = None, 0, 0
    while given is not None:
        following = next(source, None)
        after = _Seen(following, alike) if following is not None else first if about.plays != 1 else now
        if given.kept is not None and stands is not None:
            now.shown = np.where(given.kept, stands, now.shown)
        touched = np.ones(given.indices.shape, np.bool_) if stands is None else now.shown != stands
        stands = now.shown.copy()
        erased = (now.shown != now.hole) & (after.shown == after.hole) if about.holes else np.zeros(0, np.bool_)
        clear = bool(erased.any())
        rows, columns = bounds(touched | erased if clear else touched)
        if clear:
            stands[rows, columns] = now.hole
        part, transparent, colors = now.indices[rows, columns], now.transparent, given.rgba[:, :3]
        if about.reserve and transparent is None and len(colors) < MAX_COLORS:
            colors = np.concatenate([colors, np.zeros((1, 3), np.uint8)])
        if about.holes and transparent is None:
            # Readers clear to transparent only where a frame has such an entry; Pillow, where the first one has it too.
            transparent, colors = _transparent_entry(part, colors)
            if transparent is None and without_entry != 0:
                without_entry = number
        if clear and without_entry in (0, number):
            after_it = number + 1 if following is not None else 0
            raise InvalidArgument(
                f"frames[{without_entry}] has {MAX_COLORS} opaque colours and frames[{after_it}] has "
                f"holes in it; allowed for a GIF with holes: {MAX_COLORS - 1} colours in its first frame and in those "
                "before such ones"
            )
        delay = (elapsed + given.delay_ms + 5) // 10 - (elapsed + 5) // 10
        whole = Frame(part, columns.start, rows.start, colors, transparent, clear, delay)
        gaps = _with_gaps(whole, touched[rows, columns])
        kept = given.kept is not None and gaps is not None and bool(given.kept[rows, columns].any())
        yield Drawn(None if kept else whole, gaps)
        elapsed += given.delay_ms
        given, now, number = following, after, number + 1


def packed(frames: Iterable[Drawn]) -> Iterator[tuple[Frame, bytes]]:
    """Frames with their pixels packed by Pillow, the smaller of the two ways to draw each."""
    source = iter(frames)
    first = next(source)
    assert first.whole is not None  # nothing stands there yet
    shared = first.whole.table

    def nbytes(way: Frame) -> int:
        return len(way.packed) + (0 if way.table == shared else len(way.table[1]))

    def smaller(frame: Drawn) -> tuple[Frame, bytes]:
        best = min((way for way in frame if way is not None), key=nbytes)
        return best, best.packed

    return parallel.ordered(smaller, itertools.chain([first], source))


def _with_gaps(frame: Frame, touched: npt.NDArray[np.bool_]) -> Frame | None:
    """A frame that draws nothing where nothing changes; None where all changes or there is no entry for that."""
    if touched.all():
        return None
    transparent, colors = frame.transparent, frame.colors
    if transparent is None:
        free = np.flatnonzero(parallel.counted(frame.indices[touched], len(colors)) == 0)
        if len(free):  # of no changed pixel: the table stays; a low one, so that codes are short
            transparent = int(free[0])
        elif len(colors) < MAX_COLORS:
            transparent, colors = _transparent_entry(frame.indices, colors)
        else:
            return None
    indices = frame.indices.copy()
    indices[~touched] = transparent
    return replace(frame, indices=indices, colors=colors, transparent=transparent)


class _Seen:
    """A frame's pixels on the host: `indices`, the `transparent` entry if any, and what is `shown`.

    That is numbers of which equal ones are equal colours, and `hole` is none. Where all frames have `alike` palettes
    these are the indices, which need not be looked up.
    """

    def __init__(self, frame: Shown, alike: bool) -> None:
        self.indices, self.transparent = with_one_hole(frame.indices, frame.rgba)
        self.hole = self.transparent
        self.shown: npt.NDArray[Any] = self.indices
        if not alike:
            table = frame.rgba.astype(np.uint32)
            codes = table[:, 0] << 16 | table[:, 1] << 8 | table[:, 2] | np.uint32(_OPAQUE)
            self.hole = 0
            codes[table[:, 3] < OPAQUE_ALPHA] = self.hole
            self.shown = parallel.looked_up(codes, self.indices)


def _transparent_entry(
    part: npt.NDArray[np.uint8], colors: npt.NDArray[np.uint8]
) -> tuple[int | None, npt.NDArray[np.uint8]]:
    """A free index and the colours with it: a new entry, or one that no pixel has; None where all are taken."""
    if len(colors) < MAX_COLORS:
        return len(colors), np.concatenate([colors, np.zeros((1, 3), np.uint8)])
    free = np.flatnonzero(np.bincount(part.ravel(), minlength=MAX_COLORS) == 0)
    return (int(free[0]) if len(free) else None), colors
