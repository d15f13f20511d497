"""Counting the distinct colours of 16-bit pictures on the device, in hash tables (`cl/histogram/deep_counting.cl`).

Bands of a picture have tables of their own. A colour that occurs in several is there several times, which sums do not
see; `HostCounts` adds it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.histogram.counts import CLEAR, PARTIAL
from clquant.histogram.merging import MAX_NARROW, HostCounts, checked_total, codes_of, colors_of, merged, summed
from clquant.histogram.portions import Portion, portions
from clquant.images import Picture
from clquant.runtime import Buffer, Scope, Session

NOTES = 3
POINT_BYTES = 16
"""Of a colour in the largest buffer that those who use the counts need: its coordinates."""
# Pixels of a band, so that the table's 8 bytes a slot, of at least two slots a pixel, stay small.
MAX_BAND = 1 << 22
# Neighbours that are one work-item's.
_RUN, _RUN_ON_CPUS = 16, 1 << 10
_SLOTS_PER_PIXEL = 2


@dataclass(frozen=True)
class DeepCounts:
    """Colours of 16 bits a value and how often they occur, in any order; pixels of alpha 0 are left out.

    Attributes
    ----------
    parts : list of (Buffer, Buffer, int)
        (n) uint64, red in the lowest 16 bits, then green, blue and alpha; (n) uint32 counts, or uint64 if `wide`; n.
        A colour may be in several.
    total : int
        Sum of the counts: at most 2^39, and below 2^32 unless `wide`.
    transparent : int
        Sum over the pixels of alpha 0.
    partial, clear : bool
        Whether some pixel's alpha is neither 0 nor 65535; or 0.
    wide : bool
    """

    parts: list[tuple[Buffer, Buffer, int]]
    total: int
    transparent: int
    partial: bool
    clear: bool
    wide: bool = False

    def to_host(self, session: Session) -> HostCounts:
        """The same on the host, each colour once.

        Parameters
        ----------
        session : Session
        """
        dtype = np.uint64 if self.wide else np.uint32
        colors = [session.download(part[0], part[2], np.uint64) for part in self.parts]
        counts = [session.download(part[1], part[2], dtype).astype(np.uint64) for part in self.parts]
        values = np.concatenate([np.zeros(0, np.uint64), *colors]).view(np.uint16).reshape(-1, 4)
        codes, sums = summed(codes_of(values), np.concatenate([np.zeros(0, np.uint64), *counts]))
        return HostCounts(codes, sums, self.transparent, self.partial, self.clear)


def deep_counts_of(scope: Scope, counted: HostCounts, most_bytes: int) -> DeepCounts:
    """What was counted and added up, on a device.

    Parameters
    ----------
    scope : Scope
        Owns the result's buffers.
    counted : HostCounts
    most_bytes : int
        Of a buffer.

    Raises
    ------
    InvalidArgument
        If the counts add up to more than 2^39.
    DeviceMemoryError
        If they do not fit the device.
    """
    deep = counted.widened()
    total = checked_total(deep.total)
    wide = total > MAX_NARROW
    colors = colors_of(deep.codes).view(np.uint64).ravel()
    counts = deep.counts if wide else deep.counts.astype(np.uint32)
    step = max(most_bytes // POINT_BYTES, 1)
    parts = [
        (scope.copy_of(colors[i : i + step]), scope.copy_of(counts[i : i + step]), len(colors[i : i + step]))
        for i in range(0, len(colors), step)
    ]
    return DeepCounts(parts, total, deep.transparent, deep.partial, deep.clear, wide)


def count_deep(
    session: Session,
    scope: Scope,
    pictures: Sequence[Picture],
    weights: Sequence[npt.NDArray[np.unsignedinteger]] | None = None,
) -> DeepCounts:
    """Count the distinct colours of pictures together, from 16 bits a value.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns the result's buffers.
    pictures : sequence of Picture
        Of 8 or 16 bits, and of 1, 3 or 4 channels; gray v counts as (v, v, v), and v of 8 bits as 257 v.
    weights : sequence of ndarray, optional
        As `clquant.histogram.counting.count_colors` takes them.

    Returns
    -------
    DeepCounts

    Raises
    ------
    InvalidArgument
        If the pixels or their weights add up to more than 2^39.
    DeviceMemoryError
        If the distinct colours do not fit the device.
    """
    parts = list(portions(session, pictures, weights, MAX_NARROW))
    if len(parts) == 1:
        return _count(session, scope, parts[0])
    checked_total(sum(p.pixels for p in pictures))
    found = []
    for part in parts:
        with session.scope() as inner:
            found.append(_count(session, inner, part).to_host(session).shifted(part.shift))
    return deep_counts_of(scope, merged(found), session.limits.max_alloc)


def _count(session: Session, scope: Scope, portion: Portion) -> DeepCounts:
    """Count what fits 32-bit counters."""
    with session.scope() as inner:
        notes = inner.zeros(4 * NOTES)
        parts: list[tuple[Buffer, Buffer, int]] = []
        before = 0
        for i, picture in enumerate(portion.pictures):
            # Slots are up to twice as many as asked for, of 4 bytes in each of two buffers.
            most = min(MAX_BAND, session.limits.max_alloc // (8 * _SLOTS_PER_PIXEL))
            rows = max(most // picture.width, 1)
            for row0 in range(0, picture.height, rows):
                row1 = min(row0 + rows, picture.height)
                weight = None if portion.weights is None else portion.weights[i][row0:row1]
                parts.append(_count_band(session, inner, picture, row0, row1, weight, notes, before))
                before += parts[-1][2]
        transparent, alphas = (int(v) for v in session.download(notes, 2, np.uint32))
        joined = _joined(session, scope, [part for part in parts if part[2]])
    pixels = sum(p.pixels for p in portion.pictures)
    if portion.weights is not None:
        pixels = sum(int(w.sum(dtype=np.uint64)) for w in portion.weights)
    partial, clear = bool(alphas & PARTIAL), bool(alphas & CLEAR)
    return DeepCounts(joined, pixels - transparent, transparent, partial, clear)


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
    """The colours of some rows, their counts, and their number; `before` is what the bands before have noted."""
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


def _joined(
    session: Session, scope: Scope, parts: Sequence[tuple[Buffer, Buffer, int]]
) -> list[tuple[Buffer, Buffer, int]]:
    """The parts in as few buffers as the device allows, which `scope` owns."""
    most, room = session.limits.max_alloc // POINT_BYTES, 0
    waiting: list[tuple[Buffer, Buffer, int]] = []
    groups: list[list[tuple[Buffer, Buffer, int]]] = []
    for part in parts:
        if waiting and part[2] > room:
            groups.append(waiting)
            waiting = []
        room = (room if waiting else most) - part[2]
        waiting = [*waiting, part]
    groups += [waiting] if waiting else []
    joined: list[tuple[Buffer, Buffer, int]] = []
    for group in groups:
        n, at = sum(part[2] for part in group), 0
        colors, counts = scope.empty(8 * n), scope.empty(4 * n)
        for part_colors, part_counts, count in group:
            session.copy(colors, part_colors, 8 * count, 0, 8 * at)
            session.copy(counts, part_counts, 4 * count, 0, 4 * at)
            at += count
        joined.append((colors, counts, n))
    return joined
