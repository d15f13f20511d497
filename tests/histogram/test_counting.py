"""Colour counting against the reference: every channel count, slices, weights, work-groups of one."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import images, runtime
from clquant.histogram import bins, counting
from clquant.histogram.weights import fixed_point_weights
from tests.reference import counting as reference


@pytest.fixture(params=["as chosen", "histogram", "hash table"], autouse=True)
def _way(request):
    """Every test in every way of counting: as the device chooses, as large pictures go, and as small ones go."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "as chosen":
            patch.setenv("CLQUANT_VARIANT", "portable")
        if "histogram" in request.param:
            patch.setattr(counting, "FEW_WITH_ALPHA", 0)
        most = {"histogram": 0, "hash table": 1 << 18}
        tuning = {"counting.table_pixels": most[request.param]} if request.param in most else {}
        with runtime.force_tuning(tuning):
            yield


def counted(queue, pictures, weights=None):
    session = runtime.open_session(queue)
    with session.scope() as scope:
        result = counting.count_colors(session, scope, [images.read(p) for p in pictures], weights)
        return result, *result.to_host(session)


def assert_as_reference(queue, pictures, weights=None):
    result, colors, counts = counted(queue, pictures, weights)
    expected_colors, expected_counts = reference.count_colors(pictures, weights)
    np.testing.assert_array_equal(colors, expected_colors)
    np.testing.assert_array_equal(counts, expected_counts)
    assert result.total == expected_counts.sum()
    assert result.cell_starts[-1] == result.n_colors == len(expected_colors)
    cells = np.searchsorted(result.cell_starts, np.arange(len(colors)), side="right") - 1
    channels = 4 if result.partial else 3
    np.testing.assert_array_equal(cells, reference.z_order(colors[:, :channels] & 0xF0) >> (4 * channels))
    return result


def picture(rng, shape, levels=256):
    return rng.integers(0, levels, shape, dtype=np.uint8)


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (1, 1, 3), (3, 1, 3), (33, 31, 3), (1, 257, 3)])
def test_distinct_colors_and_counts(queue, rng, shape):
    assert_as_reference(queue, [picture(rng, shape)])
    assert_as_reference(queue, [picture(rng, shape, levels=3)])


@pytest.mark.full
@settings(max_examples=10)
@given(height=st.integers(1, 9), width=st.integers(1, 9), levels=st.integers(1, 256), seed=st.integers(0, 2**32))
def test_any_rgba_picture(queue, height, width, levels, seed):
    rng = np.random.default_rng(seed)
    pixels = picture(rng, (height, width, 4), levels)
    if (pixels[..., 3] > 0).any():
        assert_as_reference(queue, [pixels])


def test_transparent_pixels_are_told_apart(queue, rng):
    pixels = picture(rng, (20, 30, 4))
    pixels[..., 3] = 255
    pixels[:3, :, 3] = 0
    result = assert_as_reference(queue, [pixels])
    assert (result.transparent, result.partial) == (90, False)
    pixels[5, 5, 3] = 128
    result = assert_as_reference(queue, [pixels])
    assert (result.transparent, result.partial) == (90, True)


def test_alpha_is_noted_whatever_pixels_weigh(queue, rng):
    pixels = picture(rng, (20, 30, 4))
    pixels[..., 3] = 255
    weights = [np.ones((20, 30), np.uint32)]
    weights[0][:2] = 0
    result, colors, _ = counted(queue, [pixels], weights)
    assert (result.clear, result.partial) == (False, False)
    pixels[0, :, 3] = 0
    result = counted(queue, [pixels], weights)[0]
    assert (result.clear, result.partial, result.transparent) == (True, False, 0)
    pixels[1, 0, 3] = 9
    result, again, _ = counted(queue, [pixels], weights)
    assert (result.clear, result.partial) == (True, True)
    assert {tuple(color) for color in again} == {tuple(color) for color in colors}


def test_only_transparent_pixels_leave_no_colors(queue):
    result, colors, _ = counted(queue, [np.zeros((4, 4, 4), np.uint8)])
    assert (result.n_colors, result.transparent, len(colors)) == (0, 16, 0)


def test_pictures_of_differing_kinds_count_together(queue, rng):
    assert_as_reference(
        queue,
        [picture(rng, (9, 8)), picture(rng, (5, 4, 3), 4), picture(rng, (6, 7, 4), 4), np.zeros((3, 3), np.uint8)],
    )


def test_a_wide_range_of_alpha_orders_the_cells(queue, rng):
    assert_as_reference(queue, [picture(rng, (200, 300, 4), 24)])


def test_weights_replace_counts(queue, rng):
    pixels = [picture(rng, (9, 11, 3), 3), picture(rng, (4, 5, 4), 200)]
    weights = [rng.integers(0, 1 << 20, p.shape[:2], dtype=np.uint32) for p in pixels]
    assert_as_reference(queue, pixels[:1], weights[:1])
    assert_as_reference(queue, pixels, weights)


def test_one_color_of_great_weight(queue):
    weights = [np.full((1, 3), 2**30, np.uint32)]
    assert_as_reference(queue, [np.full((1, 3, 3), 9, np.uint8)], weights)


@pytest.mark.full
@pytest.mark.parametrize("limits", ["work_group=1", "work_group=2,max_alloc=8388608", "max_alloc=20000000"])
def test_limits_change_nothing(queue, rng, monkeypatch, limits):
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    assert_as_reference(queue, [picture(rng, (40, 50, 3))])
    assert_as_reference(queue, [picture(rng, (30, 20, 4))])


def test_the_table_grows_until_the_colors_fit(queue, rng, monkeypatch):
    monkeypatch.setattr(counting, "SMALLEST_TABLE", 64)
    monkeypatch.setattr(counting, "FIRST_TABLE", 64)
    assert_as_reference(queue, [picture(rng, (40, 50, 4))])


def test_a_table_over_the_limit_is_refused(queue, rng, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=1048576")
    assert_as_reference(queue, [picture(rng, (16, 32, 4))])
    with pytest.raises(runtime.DeviceMemoryError, match="largest table, of 262144"):
        counted(queue, [rng.integers(1, 255, (600, 500, 4), np.uint8)])


@pytest.mark.parametrize("step", ["__init__", "starts", "collected"])
def test_what_earlier_jobs_left_changes_nothing(queue, rng, monkeypatch, step):
    opaque, partial = picture(rng, (40, 50, 4)), picture(rng, (30, 20, 4))
    opaque[..., 3] = 255
    done = getattr(bins.Bins, step)

    def stopped(self, *args):
        done(self, *args)
        raise KeyboardInterrupt

    for _ in range(2):
        assert_as_reference(queue, [opaque])
        assert_as_reference(queue, [partial])
        with monkeypatch.context() as patch:
            patch.setattr(bins.Bins, step, stopped)
            with contextlib.suppress(KeyboardInterrupt):
                counted(queue, [opaque[:20]])
        assert_as_reference(queue, [opaque[::2]])
    assert_as_reference(queue, [opaque], [rng.integers(0, 9, opaque.shape[:2], dtype=np.uint32)])


def test_device_pictures_count_as_host_pictures(queue, rng):
    pixels = picture(rng, (13, 17, 3))
    session = runtime.open_session(queue)
    array = session.new_array(pixels.shape, np.uint8)
    array.set(pixels)
    with session.scope() as scope:
        result = counting.count_colors(session, scope, [images.read(array)])
        colors, counts = result.to_host(session)
    expected = reference.count_colors([pixels])
    np.testing.assert_array_equal(colors, expected[0])
    np.testing.assert_array_equal(counts, expected[1])


def test_integer_weights_stay_and_floats_scale_by_a_power_of_two():
    (integers,), one = fixed_point_weights([np.array([[0, 3]], np.int16)])
    assert one == 1.0
    np.testing.assert_array_equal(integers, np.array([[0, 3]], np.uint32))
    (first, second), scale = fixed_point_weights([np.array([[0.25, 1.0]]), np.array([[0.5]], np.float32)])
    unit = int(second[0, 0])
    assert unit & (unit - 1) == 0
    assert scale == 2 * unit
    np.testing.assert_array_equal(first, [[unit // 2, 2 * unit]])
    assert 2**31 <= first.sum() + unit < 2**32


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.array([-1.0, 1.0]), "negative"),
        (np.array([np.nan, 1.0]), "non-finite"),
        (np.array([np.inf]), "non-finite"),
        (np.array([0.0, 0.0]), "above 0"),
        (np.array([0, 0]), "adds up to 0"),
        (np.array([2**38, 2**38 + 1]), "adds up to 549755813889"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights, message):
    with pytest.raises(runtime.InvalidArgument, match=message):
        fixed_point_weights([weights])
