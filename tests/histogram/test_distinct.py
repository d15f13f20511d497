"""The distinct colours of pictures, if they are few."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import runtime
from clquant.histogram import distinct as distinct_module
from clquant.histogram.distinct import MAX_DISTINCT, distinct_colors
from portability.programs import GPU_LIKE


def found(pictures, most, queue=None):
    session = runtime.open_session(queue)
    with session.scope() as scope:
        bands = [(scope.copy_of(p), p.shape[1], len(p)) for p in pictures]
        return distinct_colors(session, scope, bands, most)


def distinct(pictures):
    colors = collections.Counter()
    for picture in pictures:
        rgba = np.full((len(picture), 4), 255, np.uint8)
        rgba[:, : max(picture.shape[1], 3)] = picture
        colors.update(tuple(int(v) for v in c) for c in rgba if c[3])
    return sorted(colors.items())


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 40), st.sampled_from([1, 3, 4]), st.integers(0, 60))
def test_equals_a_set(seed, pixels, levels, channels, most):
    values = np.random.default_rng(seed).integers(0, levels, (pixels, channels), dtype=np.uint8)
    expected = distinct([values])
    result = found([values], most)
    if len(expected) <= most:
        found_colors = [tuple(int(v) for v in c) for c in result.colors]
        assert list(zip(found_colors, result.counts.tolist(), strict=True)) == expected
    else:
        assert result.colors is None
        assert result.counts is None
    if channels == 4:
        assert result.transparent == bool((values[:, 3] == 0).any())
        assert result.partial == bool(((values[:, 3] > 0) & (values[:, 3] < 255)).any())


def test_bands_add_up_and_alpha_is_seen_beyond_the_limit(queue, rng):
    many = rng.integers(0, 256, (20000, 4), dtype=np.uint8)
    many[:, 3] = 255
    assert found([many], 10, queue).colors is None
    assert not found([many], 10, queue).partial
    many[-1, 3] = 0
    many[-2, 3] = 9
    result = found([many, many], MAX_DISTINCT, queue)
    assert (result.colors, result.transparent, result.partial) == (None, True, True)
    two = [np.full((5, 1), 3, np.uint8), np.full((4, 3), 9, np.uint8)]
    assert found(two, 2, queue).colors.tolist() == [[3, 3, 3, 255], [9, 9, 9, 255]]
    assert found(two, 2, queue).counts.tolist() == [5, 4]


@pytest.mark.small
def test_exactly_as_many_as_asked(queue):
    picture = np.arange(40, dtype=np.uint8)[:, None]
    assert len(found([picture], 40, queue).colors) == 40
    assert found([picture], 39, queue).colors is None


@pytest.mark.small
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_groups_of_several_work_items_enter_the_same_colors(queue, rng, monkeypatch, channels):
    monkeypatch.setenv("CLQUANT_LIMITS", GPU_LIKE)
    picture = rng.integers(0, 3, (3000, channels), dtype=np.uint8)
    expected = distinct([picture])
    result = found([picture], len(expected), queue)
    assert [(tuple(c), n) for c, n in zip(result.colors.tolist(), result.counts.tolist(), strict=True)] == expected
    assert found([picture], len(expected) - 1, queue).colors is None


@pytest.mark.small
def test_colors_that_share_a_place_in_a_work_items_own_counts(queue, monkeypatch, rng):
    monkeypatch.setattr(distinct_module, "_MEMO_BITS", 2)
    monkeypatch.setenv("CLQUANT_LIMITS", "is_simulator=0")
    picture = rng.integers(0, 3, (2000, 3), dtype=np.uint8)
    result = found([picture, picture], 27, queue)
    assert [
        (tuple(c), n // 2) for c, n in zip(result.colors.tolist(), result.counts.tolist(), strict=True)
    ] == distinct([picture])
