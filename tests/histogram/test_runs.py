"""Runs of equal pixels with alpha, sorted cell by cell, against the reference; and ranks by bitmaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import images, runtime
from clquant.flow import source
from clquant.histogram import counting, runs
from tests.reference import counting as reference

ANY = settings(max_examples=20)


def counted(queue, pictures):
    session = runtime.open_session(queue)
    with session.scope() as scope:
        counter = runs.RunCounter(session, scope, [images.read(one) for one in pictures])
        assert counter.fits
        result = counter.count()
        return result, *result.to_host(session)


def assert_as_reference(queue, pictures):
    result, colors, counts = counted(queue, pictures)
    expected_colors, expected_counts = reference.count_colors(pictures)
    np.testing.assert_array_equal(colors, expected_colors)
    np.testing.assert_array_equal(counts, expected_counts)
    assert result.total + result.transparent == sum(one.shape[0] * one.shape[1] for one in pictures)
    cells = np.searchsorted(result.cell_starts, np.arange(len(colors)), side="right") - 1
    np.testing.assert_array_equal(cells, reference.z_order(colors & 0xF0) >> 16)
    return result


@ANY
@given(
    seed=st.integers(0, 2**32),
    levels=st.sampled_from([2, 5, 40, 256]),
    shape=st.tuples(st.integers(1, 30), st.integers(1, 70)),
    run=st.integers(1, 9),
)
def test_any_picture(queue, seed, levels, shape, run):
    rng = np.random.default_rng(seed)
    pixels = np.repeat(rng.integers(0, levels, (shape[0], shape[1], 4), dtype=np.uint8), run, axis=1)
    pixels[0, 0, 3] = 7
    result = assert_as_reference(queue, [pixels])
    assert result.partial
    assert result.clear == bool((pixels[..., 3] == 0).any())


def test_many_runs_of_one_cell(queue, rng):
    pixels = rng.integers(0, 16, (60, 80, 4), dtype=np.uint8) | np.array([0, 0, 0, 1], np.uint8)
    assert_as_reference(queue, [pixels])


def test_pictures_of_all_channels(queue, rng):
    pictures = [rng.integers(0, 4, (9, 11, *more), dtype=np.uint8) for more in ((4,), (3,), ())]
    assert_as_reference(queue, pictures)


@pytest.mark.parametrize("limits", ["max_alloc=67108864", "compute_units=1"])
def test_bands_give_the_same(queue, rng, limits, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    cuts = [source.Cut(0, 10, 0, 10), source.Cut(10, 20, 10, 20)]
    monkeypatch.setattr(source.PictureSource, "portions", lambda *_, **__: cuts)
    assert_as_reference(queue, [rng.integers(0, 30, (20, 30, 4), dtype=np.uint8)])


def test_counters_that_do_not_fit_are_refused(queue, rng, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=65536")
    session = runtime.open_session(queue)
    with session.scope() as scope:
        picture = images.read(rng.integers(0, 30, (20, 30, 4), dtype=np.uint8))
        assert not runs.RunCounter(session, scope, [picture]).fits


@pytest.mark.full
@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("group", [1, 16])
def test_many_colours_are_ranked_by_bitmaps(queue, rng, group, loads, monkeypatch):
    """Also with a table that is read first, as on NVIDIA: aligned words are read whole on CPUs too."""
    monkeypatch.setattr(counting, "FEW_RANKED", 0)
    monkeypatch.setattr(counting, "has_atomic_loads", lambda _: loads)
    pixels = np.concatenate(
        [rng.integers(0, 256, (40, 50, 4), dtype=np.uint8), rng.integers(0, 16, (40, 50, 4), dtype=np.uint8)]
    )
    session = runtime.open_session(queue)
    with runtime.force_variant("portable"), runtime.force_tuning({"counting.group": group}), session.scope() as scope:
        counts = counting.count_colors(session, scope, [images.read(pixels)])
        found = counts.to_host(session)
    expected = reference.count_colors([pixels])
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
