"""Median cut and Wu's cut against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import runtime
from clquant.color import spaces
from clquant.kmeans import box_cut
from clquant.kmeans.box_cut import box_centers
from clquant.kmeans.points import Points
from tests.lowering import lower
from tests.reference import boxes as reference

RULES = pytest.mark.parametrize("rule", ["median-cut", "wu"])


def centers(queue, points, weights, k, rule):
    """`box_centers` of points and weights on the host."""
    n, dims = points.shape
    session = runtime.open_session(queue)
    wide = bool(weights.max() >= 2**32)
    planes = np.zeros((dims, n + 3), np.float32)
    planes[:, :n] = points.T
    with session.scope() as scope:
        where, mass = scope.copy_of(planes), scope.copy_of(weights.astype(np.uint64 if wide else np.uint32))
        none = np.zeros(0, np.uint32)
        given = Points(spaces.space("srgb", dims == 4), 8, n, n + 3, where, mass, wide, none, none)
        return box_centers(session, given, k, rule)


def assert_equal(queue, points, weights, k, rule):
    wanted = reference.box_centers(points, weights, k, rule)
    np.testing.assert_array_equal(centers(queue, points, weights, k, rule), wanted)


@RULES
@settings(max_examples=15)
@given(n=st.integers(1, 90), dims=st.integers(3, 4), part=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_boxes_equal_the_reference(queue, rule, n, dims, part, seed):
    rng = np.random.default_rng(seed)
    points = np.unique(rng.integers(0, 2041, (n, dims)), axis=0)
    weights = rng.integers(1, 50, len(points))
    assert_equal(queue, points, weights, 1 + int(part * (len(points) - 1)), rule)


@pytest.mark.full
@RULES
@pytest.mark.parametrize("group", [1, 8])
def test_no_group_size_changes_a_result(queue, rng, rule, group):
    points, weights = rng.integers(0, 2041, (500, 3)), rng.integers(1, 1000, 500)
    with runtime.force_tuning({"kmeans.box_group": group}):
        assert_equal(queue, points, weights, 60, rule)


@RULES
def test_boxes_that_do_not_fit_or_come_late_are_cut_all_the_same(queue, rng, rule, monkeypatch):
    points, weights = rng.integers(0, 2041, (300, 3)), rng.integers(1, 1000, 300)
    monkeypatch.setattr(box_cut, "BOXES_PER_CUT", 1)
    monkeypatch.setattr(box_cut, "FEW_BOXES", 1)
    assert_equal(queue, points, weights, 40, rule)
    lower(monkeypatch, box_cut__chosen=3)
    assert_equal(queue, points, weights, 40, rule)


@RULES
@pytest.mark.parametrize("k", [11, 30, 64])
def test_ties_go_to_the_lowest(queue, rule, k):
    """A lattice, of which many boxes are equal, with some points twice."""
    points = np.stack(np.meshgrid(*[np.arange(4) * 500] * 3), axis=-1).reshape(-1, 3)
    points = np.concatenate([points, points[20:30]])
    assert_equal(queue, points, np.ones(len(points), np.int64), k, rule)


@RULES
def test_as_many_boxes_as_points_are_the_points(queue, rng, rule):
    points = np.unique(rng.integers(0, 100, (60, 3)), axis=0)
    found = centers(queue, points, np.ones(len(points), np.int64), len(points), rule)
    np.testing.assert_array_equal(np.unique(found, axis=0), points)


@pytest.mark.full
@RULES
@pytest.mark.parametrize("dims", [3, 4])
def test_great_sums_stay_exact(queue, rng, rule, dims):
    corners = np.array([[0] * dims, [2040] * dims, [2040, 0, *[2040] * (dims - 2)]])
    assert_equal(queue, corners, np.array([2**31, 2**30, 2**30 - 1]), 2, rule)
    points, weights = rng.integers(0, 2041, (70, dims)), rng.integers(2**28, 2**33, 70)
    weights[0] += 2**39 - weights.sum()
    assert_equal(queue, points, weights, 40, rule)


@pytest.mark.full
def test_what_rounding_decides_is_decided_as_in_doubles(queue, rng):
    """Points and weights that are the same from both ends, so that cuts differ by the rounding of doubles alone."""
    for _ in range(60):
        half, mass = rng.integers(0, 2041, (6, 3)), rng.integers(1, 2**34, 6)
        points, weights = np.concatenate([half, 2040 - half[::-1]]), np.concatenate([mass, mass[::-1]])
        assert_equal(queue, points, weights, 2, "wu")
