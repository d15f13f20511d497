"""Median cut and Wu's cut against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant.kmeans.box_cut import box_centers
from tests.reference import boxes as reference


@pytest.mark.parametrize("rule", ["median-cut", "wu"])
@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 25), dims=st.integers(3, 4), part=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_boxes_equal_the_reference(rule, n, dims, part, seed):
    rng = np.random.default_rng(seed)
    points = np.unique(rng.integers(0, 2041, (n, dims)), axis=0)
    weights = rng.integers(1, 50, len(points))
    k = 1 + int(part * (len(points) - 1))
    np.testing.assert_array_equal(
        box_centers(points, weights, k, rule), reference.box_centers(points, weights, k, rule)
    )


@pytest.mark.parametrize("rule", ["median-cut", "wu"])
def test_as_many_boxes_as_points_are_the_points(rng, rule):
    points = np.unique(rng.integers(0, 100, (60, 3)), axis=0)
    found = box_centers(points, np.ones(len(points), np.int64), len(points), rule)
    np.testing.assert_array_equal(np.unique(found, axis=0), points)


@pytest.mark.parametrize("rule", ["median-cut", "wu"])
def test_great_sums_stay_exact(rule):
    points = np.array([[0, 0, 0], [2040, 2040, 2040], [2040, 0, 2040]])
    weights = np.array([2**31, 2**30, 2**30 - 1])
    np.testing.assert_array_equal(
        box_centers(points, weights, 2, rule), reference.box_centers(points, weights, 2, rule)
    )
