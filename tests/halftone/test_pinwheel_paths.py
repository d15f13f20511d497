"""Paths, receivers, shares and limits are those of the reference; slots never collide."""

from __future__ import annotations

import numpy as np
import pytest

from clquant.halftone.pinwheel.layout import error_limit, error_shares, last_slot
from clquant.halftone.pinwheel.paths import INWARD, OUTWARD, SCANS, make_path
from clquant.halftone.pinwheel.tones import make_tones, records
from clquant.halftone.tables import constant_tables, rows, trained_sizes, trained_tables
from tests.reference import pinwheel as reference

PATHS = [(n, scan, phase) for n in (2, 3, 4, 7, 16, 33, 64) for scan in SCANS for phase in (OUTWARD, INWARD)]


@pytest.mark.parametrize(("size", "scan", "phase"), PATHS)
def test_paths_and_receivers_are_those_of_the_reference(size, scan, phase):
    path, expected = make_path(size, scan, phase), reference.both_scans(size, scan)[phase]
    assert (path.y.tolist(), path.x.tolist()) == tuple(
        map(list, zip(*(cell for cell, _, _ in expected.pixels), strict=True))
    )
    assert tuple(path.forward.tolist()) == expected.forward
    for k, (_, _, receivers) in enumerate(expected.pixels):
        none = [((0, 0), -1)] * (3 - len(receivers))
        found = zip(map(tuple, path.offsets[k].tolist()), path.kinds[path.kind[k]], strict=True)
        assert list(found) == [*receivers, *none]


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("size", [2, 3, 8, 33])
def test_shares_and_limits_are_those_of_the_reference(size, scan):
    scans, constant = reference.both_scans(size, scan), constant_tables()
    made = [rows(make_path(size, scan, phase), constant) for phase in (OUTWARD, INWARD)]
    limit = error_limit(size, scan, *zip(*made, strict=True))
    assert limit == reference.error_limit(scans, constant.weights, [0])
    for phase in (OUTWARD, INWARD):
        expected = reference.error_shares(scans, constant.weights, phase, 200)
        assert error_shares(200, size, scan, phase).tolist() == expected


@pytest.mark.parametrize(("size", "scan", "phase"), PATHS)
def test_slots_carry_each_share_to_its_own_receiver(size, scan, phase):
    path = make_path(size, scan, phase)
    waiting: dict[int, list[tuple[int, int]]] = {s: [] for s in range(path.slots)}
    sides = [[(-1, i) for i in range(size)], [(i, size) for i in range(size)]]
    sides += [[(size, i) for i in range(size)], [(i, -1) for i in range(size)]]
    inner = {-1: 0, size: size - 1}
    if phase == INWARD:
        for entry, (y, x) in enumerate(c for side in sides for c in side):
            waiting[path.rim_slots[entry]].append((inner.get(y, y), inner.get(x, x)))
    for k in range(size * size):
        here = (int(path.y[k]), int(path.x[k]))
        if path.slot[k] != path.slots - 1:
            assert set(waiting[path.slot[k]]) == {here}
            waiting[path.slot[k]].clear()
        for j, (dy, dx) in enumerate(path.offsets[k].tolist()):
            if (dy, dx) != (0, 0):
                waiting[path.receiver_slots[k, j]].append((here[0] + dy, here[1] + dx))
    if phase == OUTWARD:
        waiting[last_slot(path)].append((int(path.y[-1] + path.forward[0]), int(path.x[-1] + path.forward[1])))
        for entry, cell in enumerate(c for side in sides for c in side):
            if path.rim_slots[entry] != path.slots - 1:
                assert set(waiting[path.rim_slots[entry]]) == {cell}
    assert path.slots <= 4 * size + 6


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("size", [2, 8, 32, 64])
def test_weights_are_at_most_whole_and_sixteen_bits_hold_every_error(scan, size):
    for tables in (constant_tables(), trained_tables(scan, size)):
        made = []
        for phase in (OUTWARD, INWARD):
            path = make_path(size, scan, phase)
            row, table = rows(path, tables)
            assert row.max() < len(table) <= 64
            assert table[:, :, 1:].min() >= 0
            assert table[:, :, 1:].sum(axis=2).max() <= 16
            assert table[:, :, 0].min() >= 0
            made.append(records(path, tables, make_tones(2, False)))
        limit = error_limit(size, scan, (made[0][0], made[1][0]), (made[0][1], made[1][1]))
        assert 16 * 255 <= limit <= 8191


def test_constant_weights_are_floyd_and_steinbergs():
    path = make_path(16, "spiral", OUTWARD)
    row, table = rows(path, constant_tables())
    straight = path.kinds.index((45, 90, 135))
    assert (table[straight] == [2040, 1, 5, 3]).all()
    assert (row == straight).mean() > 0.8


def test_trained_tables_are_symmetric_about_middle_gray():
    for size in trained_sizes("spiral"):
        tables = trained_tables("spiral", size)
        assert np.array_equal(tables.threshold[:, :128], 4080 - tables.threshold[:, :127:-1])
        assert np.array_equal(tables.weights[:, :128], tables.weights[:, :127:-1])
