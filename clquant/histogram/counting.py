"""Counting the distinct colours of one picture or of many, on the device.

Sums over pixels then become sums over weighted colours: the same integers, and many times fewer of them.

Opaque colours are counted in a histogram of 2^24 bins, several slices of it one after the other where the device
allows no buffer of that size; on CPUs, pixels are partitioned first and counted cell by cell. Pictures with partly
transparent pixels, and small ones, go through a hash table instead. Either way the colours come out in Z-order
(`cl/common/z_order.h`), so the result does not depend on scheduling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from clquant.flow import PictureSource
from clquant.histogram.bins import CELL_BINS, CELLS, CODES, NOTES, Bins
from clquant.histogram.count_groups import CountGroup, count_groups
from clquant.histogram.counts import PARTIAL, ColorCounts
from clquant.histogram.merging import MAX_NARROW, OPAQUE_CELLS, HostCounts, checked_total, merged
from clquant.histogram.runs import Partition, RunCounter, starts_of
from clquant.histogram.weights import total_weight
from clquant.images import Picture, sent_together
from clquant.runtime import (
    Buffer,
    DeviceMemoryError,
    Limits,
    LocalMemory,
    Program,
    Scope,
    Session,
    Variant,
)

ALPHA_CELLS = 1 << 16
SMALLEST_TABLE, FIRST_TABLE = 1 << 12, 1 << 24  # slots of the first hash table, twice the pixels between these
# Colours with alpha up to which each is compared with all others of its cell; words of a cell's bitmap for more, and
# how many of these are counted together, both of `cl/histogram/counting.cl`.
FEW_RANKED = 1 << 17
BITMAP, CHUNK = 1 << 11, 8
# Pixels up to which pictures that may be partly transparent go through a table: the histogram would be for nothing.
FEW_WITH_ALPHA = 1 << 12

PARTITION = Variant("partition", "histogram/counting_partition.cl", Limits.has_lanes, gain=1.6)
PORTABLE = Variant("portable", "histogram/counting.cl")
# Forms of counting opaque colours; `PARTITION` is shaped for CPUs and takes no weights.
VARIANTS = (PARTITION, PORTABLE)


def has_atomic_loads(limits: Limits) -> bool:
    """Whether a volatile read of a word is atomic (PTX ISA, ld.volatile)."""
    return limits.is_nvidia


def count_colors(
    session: Session,
    scope: Scope,
    pictures: Sequence[Picture],
    weights: Sequence[npt.NDArray[np.unsignedinteger]] | None = None,
) -> ColorCounts:
    """Count the colours of pictures of 1, 3 or 4 channels, with integer (H, W) weights; `scope` owns the result."""
    parts = list(count_groups(session, pictures, weights, MAX_NARROW))
    if len(parts) != 1:
        checked_total(sum(p.pixels for p in pictures))
        return merged([_on_host(session, part) for part in parts]).upload(scope)
    with session.scope() as own:
        given, own_weights = (session, scope, sent_together(session, own, parts[0].pictures)), parts[0].weights
        if own_weights is not None or session.choose(VARIANTS) is PORTABLE:
            return _Counter(*given, own_weights).count()
        if not (pixels := _OpaquePixels(*given)).fits:
            return _Counter(*given, None).count()
        found = pixels.count()
        if found is None and (runs := RunCounter(*given)).fits:
            found = runs.count()
        return found or _Counter(*given, None).count_by_table()


def _on_host(session: Session, portion: CountGroup) -> HostCounts:
    with session.scope() as scope:
        counted = count_colors(session, scope, portion.pictures, portion.weights)
        return HostCounts.of(session, counted).shifted(portion.shift)


class _OpaquePixels(Partition):
    """Opaque pixels by cells of the RGB cube, which are counted in bins."""

    file, channels = PARTITION.file, 3
    kernels = "count_cells", "place_pixels", "count_colors", "collect_colors"
    placed: ClassVar = {"places": 2}

    def scratch(self, scope: Scope, n: int) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ARG002
        """Return a cell's bins."""
        bins = {"bins": LocalMemory(4 * CELL_BINS)}
        return bins, bins


class _Counter:
    """One counting job: the pictures and their weights."""

    def __init__(
        self,
        session: Session,
        scope: Scope,
        pictures: Sequence[Picture],
        weights: Sequence[npt.NDArray[np.uint32]] | None,
    ) -> None:
        self._session = session
        self._scope = scope
        self._pictures = pictures
        self._weights = weights
        self._pixels = sum(p.pixels for p in pictures)

    def count(self) -> ColorCounts:
        """Count as if all were opaque first; that tells whether there is partial transparency."""
        session = self._session
        by_table = session.tuned("counting.table_pixels")
        if any(picture.channels == 4 for picture in self._pictures):
            by_table = max(by_table, FEW_WITH_ALPHA)
        if self._pixels <= by_table:
            return self.count_by_table()
        with session.scope() as inner:
            counts = self._opaque(inner)
        return counts or self.count_by_table()

    def _launch_over_pixels(self, name: str, notes: Buffer, *args: object) -> None:
        """Run a kernel over all pixels; it adds to its results, so parts of pictures may come in any order."""
        session, weight_bytes = self._session, 0 if self._weights is None else 4
        for i, picture in enumerate(self._pictures):
            for cut in PictureSource(picture).portions(session, row_bytes=picture.width * weight_bytes):
                row0, row1 = cut.row0, cut.row1
                with session.scope() as band:
                    pixels = picture.upload(session, band, row0, row1)
                    weights = notes
                    if self._weights is not None:
                        weights = band.upload(np.ascontiguousarray(self._weights[i][row0:row1]))
                    n = (row1 - row0) * picture.width
                    kernel = self._program(picture.channels).kernel(name)
                    group = session.work_group_size(kernel, session.tuned("counting.group"))
                    items = min(n // 4 + 4, session.tuned("counting.work_items"))
                    session.launch(kernel, items, group, pixels, weights, np.uint32(n), *args, notes)

    def _program(self, channels: int) -> Program:
        limits, weighted = self._session.limits, int(self._weights is not None)
        constants = {"CHANNELS": channels, "WEIGHTED": weighted, "LOADS": int(has_atomic_loads(limits))}
        return self._session.program("histogram/counting.cl", **constants)

    def _opaque(self, inner: Scope) -> ColorCounts | None:
        """Count by histogram; None if a pixel is partly transparent."""
        session = self._session
        slices = max(1, -(-4 * CODES // session.limits.max_alloc))
        cells = CELLS >> (slices - 1).bit_length()
        bins = Bins(session, inner, cells)
        parts: list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]] = []
        transparent = alphas = 0
        for first_cell in range(0, CELLS, cells):
            first = first_cell * CELL_BINS
            given = np.uint32(first), np.uint32(bins.size), bins.buffer
            self._launch_over_pixels("count_opaque", bins.notes, *given)
            where, starts, notes = bins.starts(inner)
            transparent, alphas, _ = (int(v) for v in notes)
            if alphas & PARTIAL:
                return None
            n = int(starts[-1])
            found = bins.collected(self._scope if cells == CELLS else inner, first, where, n)
            if cells == CELLS:
                return self._result(*found, starts, transparent, alphas)
            colors, counts = (session.download(buffer, n, np.uint32) for buffer in found)
            parts.append((np.diff(starts), colors, counts))
        occupied, colors, counts = (np.concatenate(p) for p in zip(*parts, strict=True))
        buffers = self._scope.copy_of(colors), self._scope.copy_of(counts)
        return self._result(*buffers, starts_of(occupied), transparent, alphas)

    def count_by_table(self) -> ColorCounts:
        """Count by a hash table that grows until the colours fit."""
        session = self._session
        most = 1 << ((session.limits.max_alloc // 4).bit_length() - 1)
        slots = min(most, max(SMALLEST_TABLE, min(FIRST_TABLE, 1 << (2 * self._pixels).bit_length())))
        while True:
            with session.scope() as inner:
                keys, sums, notes = inner.zeros(4 * slots), inner.zeros(4 * slots), inner.zeros(4 * NOTES)
                self._launch_over_pixels("count_hashed", notes, np.uint32(slots - 1), keys, sums)
                transparent, alphas, full = (int(v) for v in session.download(notes, NOTES, np.uint32))
                if not full:
                    return self._ordered(inner, keys, sums, slots, transparent, alphas)
            if slots == most:
                raise DeviceMemoryError(f"more distinct colours than this device's largest table, of {most}, holds")
            slots = min(4 * slots, most)

    def _ordered(
        self, inner: Scope, keys: Buffer, sums: Buffer, slots: int, transparent: int, alphas: int
    ) -> ColorCounts:
        """The taken slots of a hash table in Z-order."""
        session = self._session
        program = self._program(self._pictures[-1].channels)  # which makes no difference to these, but is built
        file_hashed, order_cells = program.kernel("file_hashed"), program.kernel("order_cells")
        group = session.work_group_size(file_hashed, session.tuned("counting.group"))
        cursors = inner.zeros(4 * ALPHA_CELLS)
        given = (keys, sums, np.uint32(slots))
        session.launch(file_hashed, slots, group, *given, np.int32(0), cursors, cursors, cursors)
        starts = starts_of(session.download(cursors, ALPHA_CELLS, np.uint32))
        n = int(starts[-1])
        where = inner.copy_of(starts)
        codes, code_counts = inner.empty(4 * n), inner.empty(4 * n)
        session.copy(cursors, where, 4 * ALPHA_CELLS)
        session.launch(file_hashed, slots, group, *given, np.int32(1), cursors, codes, code_counts)
        colors, counts = self._scope.empty(4 * n), self._scope.empty(4 * n)
        if n <= FEW_RANKED:
            group = session.work_group_size(order_cells, session.tuned("counting.group"))
            session.launch(order_cells, n, group, np.uint32(n), where, codes, code_counts, colors, counts)
        else:
            rank_cells = program.kernel("rank_cells")
            group = session.work_group_size(rank_cells, session.tuned("counting.group"))
            room = LocalMemory(4 * BITMAP), LocalMemory(4 * BITMAP // CHUNK)
            filed = where, codes, code_counts
            session.launch(rank_cells, ALPHA_CELLS * group, group, *filed, colors, counts, *room)
        starts = starts if alphas & PARTIAL else np.append(starts[OPAQUE_CELLS], starts[-1])
        return self._result(colors, counts, starts, transparent, alphas)

    def _result(
        self, colors: Buffer, counts: Buffer, starts: npt.NDArray[np.uint32], transparent: int, alphas: int
    ) -> ColorCounts:
        weight = self._pixels if self._weights is None else sum(map(total_weight, self._weights))
        return ColorCounts.of_notes(colors, counts, starts, weight, (transparent, alphas))
