"""Counting the distinct colours of 16-bit pictures on the device, in hash tables (`cl/histogram/deep_counting.cl`).

Bands of a picture have tables of their own. A colour that occurs in several is there several times, which sums do not
see; `HostCounts` adds it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clquant.histogram.count_groups import count_groups
from clquant.histogram.counts import CLEAR, PARTIAL
from clquant.histogram.merging import MAX_NARROW, HostCounts, checked_total, codes_of, summed
from clquant.images import Picture
from clquant.runtime import Buffer, Scope, Session, bound

NOTES = 3
# Neighbouring pixels that one work-item counts.
_RUN, _RUN_ON_CPUS = 16, 1 << 10
_SLOTS_PER_PIXEL = 2
# Gray levels, copies of their counters for CPUs, and pixels of a band.
_LEVELS, _MAX_LEVEL_COPIES, _MAX_GRAY_BAND = 1 << 16, 16, 1 << 28


def deep_parts(session: Session, pictures: Sequence[Picture]) -> Iterator[HostCounts]:
    """Count the colours of pictures from 16 bits a value, a band at a time; v of 8 bits counts as 257 v.

    The last part says what alpha there is.
    """
    checked_total(sum(p.pixels for p in pictures))
    for portion in count_groups(session, pictures, None, MAX_NARROW):
        yield from _parts(session, portion.pictures)


def _bands(
    session: Session, pictures: Sequence[Picture], gray: bool, most: int
) -> Iterator[tuple[Scope, Picture, int, Buffer]]:
    """Yield scope, picture, number and values of the pixels of bands: of gray pictures, or of the others."""
    for picture in pictures:
        rows = max(most // picture.width, 1)
        for row0 in range(0, picture.height if (picture.channels == 1) is gray else 0, rows):
            row1 = min(row0 + rows, picture.height)
            with session.scope() as scope:
                yield scope, picture, (row1 - row0) * picture.width, picture.upload(session, scope, row0, row1)


def _parts(session: Session, pictures: Sequence[Picture]) -> Iterator[HostCounts]:
    """Count pictures whose counts fit 32 bits."""
    if any(picture.channels == 1 for picture in pictures):
        yield _levels(session, pictures)
    # Slots are up to twice as many as asked for, of 4 bytes in each of two buffers.
    most = min(bound("deep_counting.band"), session.limits.max_alloc // (8 * _SLOTS_PER_PIXEL))
    with session.scope() as outer:
        notes, before = outer.zeros(4 * NOTES), 0
        for scope, picture, count, pixels in _bands(session, pictures, False, most):
            constants = {"CHANNELS": picture.channels, "BITS": picture.bits}
            after, colors, counts = _count_band(session, scope, constants, count, pixels, notes, before)
            if after > before:
                values = session.download(colors, after - before, np.uint64).view(np.uint16).reshape(-1, 4)
                numbers = session.download(counts, after - before, np.uint32).astype(np.uint64)
                yield HostCounts(*summed(codes_of(values), numbers), 0, False, False)
            before = after
        transparent, alphas = (int(v) for v in session.download(notes, 2, np.uint32))
    none, partial, clear = np.zeros(0, np.uint64), bool(alphas & PARTIAL), bool(alphas & CLEAR)
    yield HostCounts(none, none, transparent, partial, clear)


def _levels(session: Session, pictures: Sequence[Picture]) -> HostCounts:
    """Count the gray ones of pictures."""
    limits = session.limits
    on_cpu = limits.has_lanes()
    copies, run = (min(limits.compute_units, _MAX_LEVEL_COPIES), _RUN_ON_CPUS) if on_cpu else (1, 1)
    with session.scope() as outer:
        counters = outer.zeros(4 * copies * _LEVELS)
        for _, picture, count, pixels in _bands(session, pictures, True, min(_MAX_GRAY_BAND, limits.max_alloc // 4)):
            constants = {"CHANNELS": 1, "BITS": picture.bits}
            program = session.program("histogram/deep_counting.cl", **constants, RUN=run, ALONE=int(on_cpu))
            kernel = program.kernel("count_levels")
            group = 1 if on_cpu else session.work_group_size(kernel, session.tuned("counting.group"))
            items = min(-(-count // run), copies if on_cpu else session.tuned("counting.work_items"))
            session.launch(kernel, items, group, pixels, np.uint32(count), np.uint32(copies), counters)
        counted = session.download(counters, (copies, _LEVELS), np.uint32).sum(axis=0, dtype=np.uint64)
    levels = np.flatnonzero(counted).astype(np.uint16)
    opaque = np.full_like(levels, 65535)
    return HostCounts(codes_of(np.column_stack([levels, levels, levels, opaque])), counted[levels], 0, False, False)


def _count_band(
    session: Session,
    scope: Scope,
    constants: dict[str, int],
    count: int,
    pixels: Buffer,
    notes: Buffer,
    before: int,
) -> tuple[int, Buffer, Buffer]:
    """Count a band: the colours of all bands so far, `before` of which are earlier ones', its own, their counts."""
    slots = 1 << (_SLOTS_PER_PIXEL * count - 1).bit_length()
    run = _RUN_ON_CPUS if session.limits.is_cpu else _RUN
    program = session.program("histogram/deep_counting.cl", **constants, RUN=run)
    owners, sums, cursor = scope.zeros(4 * slots), scope.zeros(4 * slots), scope.zeros(4)
    kernel = program.kernel("count_deep")
    group = session.work_group_size(kernel, session.tuned("counting.group"))
    items = min(-(-count // run), session.tuned("counting.work_items"))
    table = np.uint32(slots - 1), owners, sums
    session.launch(kernel, items, group, pixels, np.uint32(count), *table, notes)
    after = int(session.download(notes, NOTES, np.uint32)[2])
    n = after - before
    colors, counts = scope.empty(8 * n), scope.empty(4 * n)
    if n:
        kernel = program.kernel("collect_deep")
        group = session.work_group_size(kernel, session.tuned("counting.group"))
        items = min(-(-slots // run), session.tuned("counting.work_items"))
        session.launch(kernel, items, group, pixels, owners, sums, np.uint32(slots), cursor, colors, counts)
    return after, colors, counts
