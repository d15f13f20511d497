"""Which rectangle each frame of an animated GIF draws, and whether it goes before the next.

A frame draws the rectangle of what differs from the picture that stands there: whole, or with the transparent entry at
the pixels that do not differ, whichever is smaller. Pixels of a GIF can be covered but not erased, except by
clearing a frame's whole rectangle when its time is over. That is done where the next frame has holes in what is opaque
now, with the rectangle grown to reach them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel
from clquant.color.formats.gif import MAX_COLORS, OPAQUE_ALPHA, Frame, with_one_hole
from clquant.runtime import InvalidArgument

# A frame's (H, W) indices and the (n, 4) colours that they stand for.
Indexed = tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.uint8]]

_OPAQUE = 1 << 24  # beside 24 bits of colour, so that none is 0


def drawn(frames: Sequence[Indexed], loop: bool) -> Iterator[Frame]:
    """The frames as a GIF holds them; each drawn in its turn shows one of the given ones, pixel by pixel."""
    holes = any((rgba[:, 3] < OPAQUE_ALPHA).any() for _, rgba in frames)
    alike = all(np.array_equal(rgba, frames[0][1]) for _, rgba in frames)
    first = now = _Seen(frames[0], alike)
    stands: npt.NDArray[Any] | None = None
    without_entry, shared = None, None
    for number, frame in enumerate(frames):
        after = _Seen(frames[number + 1], alike) if number + 1 < len(frames) else first if loop else now
        touched = np.ones(frame[0].shape, np.bool_) if stands is None else now.shown != stands
        stands = now.shown.copy()
        erased = (now.shown != now.hole) & (after.shown == after.hole) if holes else np.zeros(0, np.bool_)
        clear = bool(erased.any())
        rows, columns = bounds(touched | erased if clear else touched)
        if clear:
            stands[rows, columns] = now.hole
        part, transparent, colors = now.indices[rows, columns], now.transparent, frame[1][:, :3]
        if holes and transparent is None:
            # Readers clear to transparent only where a frame has such an entry; Pillow, where the first one has it too.
            transparent, colors = _transparent_entry(part, colors)
            if transparent is None and without_entry != 0:
                without_entry = number
        if clear and without_entry in (0, number):
            raise InvalidArgument(
                f"frames[{without_entry}] has {MAX_COLORS} opaque colours and frames[{(number + 1) % len(frames)}] has "
                f"holes in it; allowed for a GIF with holes: {MAX_COLORS - 1} colours in its first frame and in those "
                "before such ones"
            )
        whole = Frame(part, columns.start, rows.start, colors, transparent, clear)
        shared = shared or whole.table
        with_gaps = _with_gaps(whole, touched[rows, columns]) or whole
        yield with_gaps if with_gaps.size(shared) < whole.size(shared) else whole
        now = after


def _with_gaps(frame: Frame, touched: npt.NDArray[np.bool_]) -> Frame | None:
    """A frame that draws nothing where nothing changes; None where all changes or there is no entry for that."""
    if touched.all():
        return None
    transparent, colors = frame.transparent, frame.colors
    if transparent is None:
        free = np.flatnonzero(np.bincount(frame.indices[touched], minlength=len(colors)) == 0)
        if len(free):  # of no changed pixel: the table stays
            transparent = int(free[-1])
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

    def __init__(self, frame: Indexed, alike: bool) -> None:
        self.indices, self.transparent = with_one_hole(*frame)
        self.hole = self.transparent
        self.shown: npt.NDArray[Any] = self.indices
        if not alike:
            table = frame[1].astype(np.uint32)
            codes = table[:, 0] << 16 | table[:, 1] << 8 | table[:, 2] | np.uint32(_OPAQUE)
            self.hole = 0
            codes[table[:, 3] < OPAQUE_ALPHA] = self.hole
            self.shown = parallel.looked_up(codes, self.indices)


def bounds(mask: npt.NDArray[np.bool_]) -> tuple[slice, slice]:
    """The smallest rectangle, as (rows, columns), around what is set; one pixel where nothing is."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _transparent_entry(
    part: npt.NDArray[np.uint8], colors: npt.NDArray[np.uint8]
) -> tuple[int | None, npt.NDArray[np.uint8]]:
    """A free index and the colours with it: a new entry, or one that no pixel has; None where all are taken."""
    if len(colors) < MAX_COLORS:
        return len(colors), np.concatenate([colors, np.zeros((1, 3), np.uint8)])
    free = np.flatnonzero(np.bincount(part.ravel(), minlength=MAX_COLORS) == 0)
    return (int(free[0]) if len(free) else None), colors
