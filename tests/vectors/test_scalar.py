"""Optimal codebooks in one dimension."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clquant
from clquant import runtime, scalar_codebook
from clquant.vectors import scalar, scalar_counts, scalar_runs
from tests.reference.scalar import error_of, least_error

WHOLE = st.lists(st.tuples(st.integers(-300, 300), st.integers(0, 5)), min_size=1, max_size=9)


@settings(max_examples=60)
@given(WHOLE.filter(lambda pairs: any(weight for _, weight in pairs)), st.integers(1, 9), st.booleans())
def test_the_error_is_the_least_there_is(pairs: list[tuple[int, int]], k: int, weighted: bool) -> None:
    numbers, weights = (list(map(Fraction, column)) for column in zip(*pairs, strict=True))
    if not weighted:
        weights = [Fraction(1)] * len(numbers)
    k = min(k, len(numbers))
    given_weights = np.array(weights, np.float64) if weighted else None
    found = scalar_codebook(np.array(numbers, np.int16), k, given_weights)
    assert found.shape == (k,)
    assert (np.diff(found) >= 0).all()
    assert error_of(numbers, weights, found) == least_error(numbers, weights, k)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats(dtype: Any, rng: np.random.Generator) -> None:
    for k in (1, 3, 8):
        values = rng.normal(size=9).astype(dtype) * dtype(0.01)
        exact = [Fraction(float(value)) for value in values]
        ones = [Fraction(1)] * len(exact)
        assert error_of(exact, ones, scalar_codebook(values, k)) == least_error(exact, ones, k)


def test_entries_are_means_and_repeat_where_values_are_few() -> None:
    assert scalar_codebook([0, 1, 9, 10, 11], 2).tolist() == [0.5, 10.0]
    assert scalar_codebook([0, 1, 9], 2, [3, 1, 1]).tolist() == [0.25, 9.0]
    assert scalar_codebook([5, 5, 7, 7], 3).tolist() == [5, 7, 7]
    assert scalar_codebook([5, 5, 7, 7], 3, [1, 1, 0, 2]).tolist() == [5, 7, 7]
    assert scalar_codebook(np.array([7], np.uint8), 1).tolist() == [7]
    assert scalar_codebook(np.zeros(4, np.float16), 2).tolist() == [0, 0]


@pytest.mark.full
@pytest.mark.parametrize("local", [1, 7, 64])
@pytest.mark.parametrize("weighted", [False, True])
def test_work_groups_of_every_size_and_all_ways_in_give_the_same_bits(
    queue: runtime.CommandQueue, local: int, weighted: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = rng.normal(size=(5, 133)).astype(np.float16)
    weights = rng.random(values.shape) * (rng.random(values.shape) < 0.9) if weighted else None
    rows = scalar_codebook(values, 6, weights, axis=1, queue=queue)
    monkeypatch.setattr(scalar_runs, "group_size", lambda limits: min(local, limits.work_group))
    monkeypatch.setattr(scalar, "VALUES_PER_CPU_LAUNCH", 300)
    assert np.array_equal(scalar_codebook(values, 6, weights, axis=1, queue=queue), rows)
    alone = [scalar_codebook(values[i], 6, None if weights is None else weights[i], queue=queue) for i in range(5)]
    assert np.array_equal(alone, rows)


@pytest.mark.parametrize("dtype", ["f2", *(pytest.param(t, marks=pytest.mark.full) for t in ("u1", "i1", "u2", "i2"))])
@pytest.mark.parametrize("local", [1, *(pytest.param(n, marks=pytest.mark.full) for n in (7, 64))])
def test_counted_rows_give_the_bits_of_sorted_ones(
    queue: runtime.CommandQueue, dtype: str, local: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = (rng.normal(size=(5, 1025)) * np.array([[0.001], [20], [90], [0], [1]])).astype(np.float32)
    values = (np.abs(values) if dtype[0] == "u" else values).astype(dtype)
    values[3] = 7
    values[3, :2] = 9, 3  # fewer than k different ones
    expected = scalar_codebook(values, 6, np.ones(values.shape), axis=1, queue=queue)
    for module in (scalar_counts, scalar_runs):
        monkeypatch.setattr(module, "group_size", lambda limits: min(local, limits.work_group))
    assert np.array_equal(scalar_codebook(values, 6, axis=1, queue=queue), expected)
    assert np.array_equal(expected[3], [3, 7, 9, 9, 9, 9])
    there = pyopencl.array.to_device(queue, values)
    assert np.array_equal(scalar_codebook(there[1:], 6, axis=1), expected[1:])
    if dtype == "f2":
        monkeypatch.setattr(scalar_counts, "LEAST_COUNTED", 1 << 20)
        assert np.array_equal(scalar_codebook(values, 6, axis=1, queue=queue), expected)
        monkeypatch.undo()
        for wrong in (np.nan, -np.inf):
            values[2, 5] = wrong
            with pytest.raises(clquant.ClquantError, match=f"values has the value {wrong}; allowed: finite numbers"):
                scalar_codebook(values, 6, axis=1, queue=queue)
            with pytest.raises(clquant.ClquantError, match=f"values has the value {wrong}; allowed: finite numbers"):
                scalar_codebook(pyopencl.array.to_device(queue, values), 6, axis=1)


def test_bfloat16_bits_are_the_floats_they_stand_for(rng: np.random.Generator) -> None:
    bits = (rng.normal(size=200).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    floats = (bits.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(scalar_codebook(bits, 5, bfloat16=True), scalar_codebook(floats, 5))


def test_long_vectors_are_counted_first(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    values, weights = rng.integers(-40, 40, 500).astype(np.int16), rng.integers(0, 9, 500)
    often = np.bincount(values + 40, weights)
    wanted = scalar_codebook(np.flatnonzero(often).astype(np.int16) - 40, 7, often[often > 0])
    monkeypatch.setattr(scalar, "MAX_DISTINCT", 80)
    assert np.array_equal(scalar_codebook(values, 7, weights), wanted)
    assert np.array_equal(scalar_codebook(values.astype(np.float32), 7, weights), wanted)
    both = scalar_codebook(np.stack([values, values[::-1]]), 7, np.stack([weights, weights[::-1]]), axis=1)
    assert np.array_equal(both, [wanted, wanted])
    with pytest.raises(clquant.InvalidArgument, match="values has 500 different values; allowed: at most 80"):
        scalar_codebook(rng.random(500), 7)


def test_progress_is_told_and_stops(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VALUES_PER_LAUNCH", "VALUES_PER_CPU_LAUNCH"):
        monkeypatch.setattr(scalar, name, 20)
    told: list[tuple[int, int]] = []
    scalar_codebook(rng.random((5, 10)), 2, axis=1, progress=lambda *at: told.append(at))
    assert told == [(2, 5), (4, 5), (5, 5)]
    with pytest.raises(clquant.StoppedError):
        scalar_codebook(rng.random((5, 10)), 2, axis=1, progress=lambda *_: False)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ([1, 2], {"k": 3}, "k is 3; allowed: an integer from 1 to 2"),
        ([1, 2], {"k": 0}, "k is 0; allowed"),
        ([], {}, "allowed: at least one value"),
        ([1, np.nan], {}, "values has the value nan; allowed: finite numbers"),
        (np.array([1, np.inf], np.float16), {}, "values has the value inf"),
        (["a"], {}, "values is"),
        (np.zeros(3, np.int32), {}, "allowed: integers of 8 or 16 bits"),
        (np.zeros(3, np.int16), {"bfloat16": True}, "allowed with bfloat16=True: uint16"),
        ([1, 2], {"axis": 1}, r"allowed with axis=1: a matrix of shape \(m, n\)"),
        ([1, 2], {"axis": 0}, "axis is 0; allowed: None, 1"),
        ([1, 2], {"sample_weight": [1]}, r"sample_weight has the shape \(1,\); allowed: that of values, \(2,\)"),
        ([1, 2], {"sample_weight": [1, -1]}, "sample_weight has the value -1; allowed: finite numbers of at least 0"),
        ([1, 2], {"sample_weight": [1, np.nan]}, "sample_weight has the value nan"),
        ([1, 2], {"sample_weight": [0, 0]}, "sample_weight is 0 for all values"),
    ],
)
def test_bad_input(values: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(clquant.ClquantError, match=words):
        scalar_codebook(values, **{"k": 1, **options})


def test_equal_numbers_are_their_own_mean(rng: np.random.Generator) -> None:
    for number in rng.normal(size=20).astype(np.float32):
        found = scalar_codebook(np.full(5, number), 3, sample_weight=rng.random(5))
        assert np.array_equal(found, np.full(3, number))
