"""Pages of large results are there before they are written, and what is written meanwhile stays."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from clquant.runtime.memory import populate


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(populate, "SMALLEST", 1 << 16)
    monkeypatch.setattr(populate, "_PIECE_BYTES", 1 << 16)


def ended():
    for thread in threading.enumerate():
        if thread.name.startswith("clquant-pages"):
            thread.join()


@pytest.mark.parametrize("nbytes", [1 << 16, (1 << 20) + 123, 5_000_001])
def test_what_is_written_meanwhile_stays(small, nbytes):
    array = np.empty(nbytes, np.uint8)
    populate.populate_ahead(array)
    array[:] = np.arange(nbytes, dtype=np.uint32) % 251
    ended()
    assert np.array_equal(array, np.arange(nbytes, dtype=np.uint32) % 251)


def test_pieces_cover_whole_pages_inside_the_array(small, monkeypatch):
    asked = []
    monkeypatch.setattr(populate, "_madvise", lambda: lambda *given: asked.append(given))
    array = np.empty((1 << 18) + 5, np.uint8)[1:]
    populate.populate_ahead(array)
    ended()
    asked.sort()
    begin, end = array.ctypes.data, array.ctypes.data + array.nbytes
    assert all(number == 23 for _, _, number in asked)
    assert begin <= asked[0][0] < begin + populate.mmap.PAGESIZE
    assert end - populate.mmap.PAGESIZE < sum(asked[-1][:2]) <= end
    assert all(first + size == following for (first, size, _), (following, *_) in itertools.pairwise(asked))


def test_small_arrays_and_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(populate, "_madvise", lambda: pytest.fail("asked"))
    with pytest.raises(pytest.fail.Exception):
        populate.populate_ahead(np.empty(populate.SMALLEST, np.uint8))
    monkeypatch.setattr(populate, "_madvise", lambda: None)
    populate.populate_ahead(np.empty(populate.SMALLEST, np.uint8))
    monkeypatch.undo()
    populate._madvise.cache_clear()
    monkeypatch.setattr(populate.sys, "platform", "win32")
    assert populate._madvise() is None
    populate._madvise.cache_clear()
