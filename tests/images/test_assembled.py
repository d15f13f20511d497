"""Pictures of pieces on a device, and parts of results from there."""

from __future__ import annotations

import dataclasses
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from clquant import images, runtime
from clquant.images.assembled import assembled, part_on_host

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=3)


@pytest.fixture(autouse=True)
def _memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")


@settings(max_examples=15)
@given(rows=SIZES, columns=SIZES, channels=st.sampled_from([None, 3, 4]), deep=st.booleans(), seed=st.integers(0, 99))
def test_pieces_are_put_together(queue: Any, rows: Any, columns: Any, channels: Any, deep: bool, seed: int) -> None:
    rng, dtype = np.random.default_rng(seed), np.uint16 if deep else np.uint8
    shape = (sum(rows), sum(columns), *([] if channels is None else [channels]))
    whole = rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    down, across = np.cumsum(rows)[:-1], np.cumsum(columns)[:-1]
    lines = [np.split(line, across, 1) for line in np.split(whole, down)]
    pieces = [[images.read(piece, max_bits=16) for piece in line] for line in lines]
    session = runtime.open_session(queue)
    with session.scope() as scope:
        picture = assembled(session, scope, pieces)
        assert picture is not None
        array = picture.device_array
        assert array is not None
        assert np.array_equal(array.get(queue), whole)
        ends = [sorted(rng.integers(0, size + 1, 2)) for size in shape[:2]]
        inner = tuple(slice(int(low), max(int(high), int(low) + 1)) for low, high in ends)
        inner = tuple(s if s.start < size else slice(0, size) for s, size in zip(inner, shape, strict=False))
        assert np.array_equal(part_on_host(array, *inner), whole[inner])


def test_host_pictures_stay_where_that_is_as_good(queue: Any) -> None:
    session = runtime.open_session(queue)
    wide, deep = (images.read(np.zeros((4, 5), kind), max_bits=16) for kind in (np.uint8, np.uint16))
    with session.scope() as scope:
        assert assembled(session, scope, [[wide, deep]]) is None
    session.limits = dataclasses.replace(session.limits, unified_memory=True)
    with session.scope() as scope:
        assert assembled(session, scope, [[wide, wide]]) is None
