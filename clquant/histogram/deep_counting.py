"""Counting the distinct colours of 16-bit pictures on the device, in hash tables (`cl/histogram/deep_counting.cl`).

Bands of a picture have tables of their own. A colour that occurs in several is there several times, which sums do not
see; `HostCounts` adds it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from clquant.histogram.counts import CLEAR, PARTIAL
from clquant.histogram.merging import MAX_NARROW, HostCounts, checked_total, codes_of, merged, summed
from clquant.histogram.portions import Portion, portions
from clquant.images import Picture
from clquant.runtime import Buffer, Scope, Session

NOTES = 3
# Pixels of a band, so that the table's 8 bytes a slot, of at least two slots a pixel, stay small.
MAX_BAND = 1 << 22
# Neighbouring pixels that one work-item counts.
_RUN, _RUN_ON_CPUS = 16, 1 << 10
_SLOTS_PER_PIXEL = 2
# Gray levels, copies of their counters for CPUs, and pixels of a band.
_LEVELS, _MAX_LEVEL_COPIES, _MAX_GRAY_BAND = 1 << 16, 16, 1 << 28


def count_deep(
    session: Session, pictures: Sequence[Picture], weights: Sequence[npt.NDArray[np.unsignedinteger]] | None = None
) -> HostCounts:
    """Count the colours of pictures from 16 bits a value; v of 8 bits counts as 257 v."""
    return merged(list(deep_parts(session, pictures, weights)))


def deep_parts(
    session: Session, pictures: Sequence[Picture], weights: Sequence[npt.NDArray[np.unsignedinteger]] | None = None
) -> Iterator[HostCounts]:
    """Count like `count_deep`, a band of the pictures at a time; the last part says what alpha there is."""
    checked_total(sum(p.pixels for p in pictures))
    for portion in portions(session, pictures, weights, MAX_NARROW):
        for part in _parts(session, portion):
            yield part.shifted(portion.shift)


def _parts(session: Session, portion: Portion) -> Iterator[HostCounts]:
    """Count a portion, whose counts fit 32 bits."""
    if any(picture.channels == 1 for picture in portion.pictures):
        yield _levels(session, portion)
    with session.scope() as scope:
        notes = scope.zeros(4 * NOTES)
        before = 0
        for i, picture in enumerate(portion.pictures):
            if picture.channels == 1:
                continue
            # Slots are up to twice as many as asked for, of 4 bytes in each of two buffers.
            most = min(MAX_BAND, session.limits.max_alloc // (8 * _SLOTS_PER_PIXEL))
            rows = max(most // picture.width, 1)
            for row0 in range(0, picture.height, rows):
                row1 = min(row0 + rows, picture.height)
                weight = None if portion.weights is None else portion.weights[i][row0:row1]
                with session.scope() as band:
                    colors, counts, n = _count_band(session, band, picture, row0, row1, weight, notes, before)
                    if n:
                        values = session.download(colors, n, np.uint64).view(np.uint16).reshape(-1, 4)
                        numbers = session.download(counts, n, np.uint32).astype(np.uint64)
                        yield HostCounts(*summed(codes_of(values), numbers), 0, False, False)
                before += n
        transparent, alphas = (int(v) for v in session.download(notes, 2, np.uint32))
    none, partial, clear = np.zeros(0, np.uint64), bool(alphas & PARTIAL), bool(alphas & CLEAR)
    yield HostCounts(none, none, transparent, partial, clear)


def _levels(session: Session, portion: Portion) -> HostCounts:
    """Count the gray pictures of a portion."""
    limits = session.limits
    on_cpu = limits.is_cpu and not limits.is_simulator
    copies = min(limits.compute_units, _MAX_LEVEL_COPIES) if on_cpu else 1
    most = min(_MAX_GRAY_BAND, limits.max_alloc // 4)
    with session.scope() as scope:
        counters = scope.zeros(4 * copies * _LEVELS)
        for i, picture in enumerate(portion.pictures):
            constants = {"CHANNELS": 1, "BITS": picture.bits, "WEIGHTED": int(portion.weights is not None)}
            rows = max(most // picture.width, 1)
            for row0 in range(0, picture.height if picture.channels == 1 else 0, rows):
                row1 = min(row0 + rows, picture.height)
                n, run = (row1 - row0) * picture.width, _RUN_ON_CPUS if on_cpu else 1
                with session.scope() as band:
                    pixels = picture.upload(session, band, row0, row1)
                    weighing = counters
                    if portion.weights is not None:
                        weighing = band.upload(np.ascontiguousarray(portion.weights[i][row0:row1]))
                    program = session.program("histogram/deep_counting.cl", **constants, RUN=run, ALONE=int(on_cpu))
                    kernel = program.kernel("count_levels")
                    group = 1 if on_cpu else session.work_group_size(kernel, session.tuned("counting.group"))
                    items = min(-(-n // run), copies if on_cpu else session.tuned("counting.work_items"))
                    given = pixels, weighing, np.uint32(n), np.uint32(copies), counters
                    session.launch(kernel, items, group, *given)
        counted = session.download(counters, (copies, _LEVELS), np.uint32).sum(axis=0, dtype=np.uint64)
    levels = np.flatnonzero(counted).astype(np.uint16)
    opaque = np.full_like(levels, 65535)
    return HostCounts(codes_of(np.column_stack([levels, levels, levels, opaque])), counted[levels], 0, False, False)


def _count_band(
    session: Session,
    scope: Scope,
    picture: Picture,
    row0: int,
    row1: int,
    weights: npt.NDArray[np.uint32] | None,
    notes: Buffer,
    before: int,
) -> tuple[Buffer, Buffer, int]:
    """Count some rows: colours, counts and their number; `before` is the number of the bands before."""
    count = (row1 - row0) * picture.width
    slots = 1 << (_SLOTS_PER_PIXEL * count - 1).bit_length()
    run = _RUN_ON_CPUS if session.limits.is_cpu else _RUN
    constants = {"CHANNELS": picture.channels, "BITS": picture.bits, "WEIGHTED": int(weights is not None), "RUN": run}
    program = session.program("histogram/deep_counting.cl", **constants)
    with session.scope() as band:
        pixels = picture.upload(session, band, row0, row1)
        weighing = notes if weights is None else band.upload(np.ascontiguousarray(weights))
        owners, sums, cursor = band.zeros(4 * slots), band.zeros(4 * slots), band.zeros(4)
        kernel = program.kernel("count_deep")
        group = session.work_group_size(kernel, session.tuned("counting.group"))
        items = min(-(-count // run), session.tuned("counting.work_items"))
        session.launch(
            kernel, items, group, pixels, weighing, np.uint32(count), np.uint32(slots - 1), owners, sums, notes
        )
        n = int(session.download(notes, NOTES, np.uint32)[2]) - before
        if n == 0:
            return notes, notes, 0
        colors, counts = scope.empty(8 * n), scope.empty(4 * n)
        kernel = program.kernel("collect_deep")
        group = session.work_group_size(kernel, session.tuned("counting.group"))
        items = min(-(-slots // run), session.tuned("counting.work_items"))
        session.launch(kernel, items, group, pixels, owners, sums, np.uint32(slots), cursor, colors, counts)
    return colors, counts, n
