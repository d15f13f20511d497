"""Tables looked up and counts taken in parts, on all cores."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from clquant.color.formats import parallel


def test_tables_are_looked_up_in_parts(rng, monkeypatch):
    monkeypatch.setattr(parallel, "_THREAD_ENTRIES", 50)
    monkeypatch.setattr(parallel, "_LOOKUP_ENTRIES", 7)
    for dtype, count in ((np.uint8, 256), (np.uint16, 60_000)):
        indices = rng.integers(0, count, (13, 29), dtype)
        table = rng.integers(0, 256, (count, 3), np.uint8)
        assert np.array_equal(parallel.looked_up(table, indices), table[indices])
        assert np.array_equal(parallel.looked_up(table[:, 0], indices), table[:, 0][indices])
        assert np.array_equal(parallel.counted(indices, count), np.bincount(indices.ravel(), minlength=count))
    assert np.array_equal(parallel.counted(np.full((3, 70), 4, np.uint8), 5), [0, 0, 0, 0, 210])


@pytest.mark.parametrize("shape", [(13, 30), (13, 29), (0, 4)])
@pytest.mark.parametrize("count", [1, 77, 256])
def test_bytes_are_looked_up_in_pairs(rng, monkeypatch, shape, count):
    monkeypatch.setattr(parallel, "_PAIRS_PAY", 2)
    monkeypatch.setattr(parallel, "_THREAD_ENTRIES", 50)
    indices, table = rng.integers(0, count, shape, np.uint8), rng.integers(0, 256, count, np.uint8)
    assert np.array_equal(parallel.looked_up(table, indices), table[indices])
    assert np.array_equal(parallel.looked_up(table, indices[:, 1:]), table[indices[:, 1:]])


def test_work_in_order_keeps_to_its_room():
    sizes, room, lock, used, most = [3, 1, 1, 9, 2, 2, 1, 1, 1, 4], 4, threading.Lock(), [0], [0]

    def begin(number):
        with lock:
            used[0] += sizes[number]
            most[0] = max(most[0], used[0] if sizes[number] <= room else room)
        return number

    found = []
    for number in parallel.ordered(begin, range(len(sizes)), weigh=sizes.__getitem__, room=room):
        found.append(number)
        with lock:
            used[0] -= sizes[number]
    assert found == [*range(len(sizes))]
    assert most[0] <= room
