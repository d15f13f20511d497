"""Histograms of colours: which bins are occupied, and what is collected of them, few cells at a time."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import runtime
from tests.reference import counting as reference

CELLS, CELL_BINS, FIRST = 3, 256, 5 << 12
COUNTS = np.array([1, 2, 255, 256, 1 << 31, (1 << 32) - 1], np.uint32)


@pytest.mark.full
@pytest.mark.small
@pytest.mark.parametrize(("group", "room"), [(1, 50), (4, 7), (4, CELL_BINS), (CELL_BINS // 8, 100)])
def test_occupied_bins_are_counted_and_collected(queue, rng, group, room):
    colors = rng.integers(0, 32, (20000, 3), dtype=np.uint8)
    colors = colors[np.unique(reference.z_order(colors), return_index=True)[1]]
    codes = reference.z_order(colors) - FIRST
    kept = (codes >= 0) & (codes < CELLS * CELL_BINS) & (codes // CELL_BINS != 1) & (rng.random(len(codes)) < 0.7)
    colors, codes = colors[kept], codes[kept]
    counts = COUNTS[np.arange(len(codes)) % len(COUNTS)]
    bins = np.zeros(CELLS * CELL_BINS, np.uint32)
    bins[codes] = counts
    starts = np.searchsorted(codes, CELL_BINS * np.arange(CELLS + 1)).astype(np.uint32)

    session = runtime.open_session(queue)
    program = session.program("histogram/bins.cl", CELL_BINS=CELL_BINS)
    count, collect = (program.kernel(f"{verb}_occupied") for verb in ("count", "collect"))
    group = min(session.work_group_size(count, group), session.work_group_size(collect, group))
    with session.scope() as scope:
        held, found = scope.copy_of(bins), scope.empty(4 * CELLS)
        local = runtime.LocalMemory(8 * group)
        session.launch(count, CELLS * group, group, held, found)
        assert session.download(found, CELLS, np.uint32).tolist() == np.diff(starts.astype(np.int64)).tolist()

        out = [scope.empty(4 * len(codes)) for _ in range(2)]
        waiting = local, runtime.LocalMemory(2 * room), runtime.LocalMemory(4 * room), np.uint32(room)
        given = held, np.uint32(FIRST), scope.copy_of(starts), *out, *waiting
        session.launch(collect, CELLS * group, group, *given)
        collected, sums = (session.download(buffer, len(codes), np.uint32) for buffer in out)
        assert not session.download(held, len(bins), np.uint32).any()
    assert np.array_equal(collected.view(np.uint8).reshape(-1, 4)[:, :3], colors)
    assert np.array_equal(sums, counts)
