"""Lloyd's algorithm, its seeding and its swaps on the device against the reference, number by number."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import ColorHistogram, images, runtime
from clquant.color import spaces
from clquant.histogram import counting
from clquant.histogram.color_histogram import counts_of
from clquant.kmeans import lloyd, points, seeding, swaps
from tests.reference import counting as counting_reference
from tests.reference import kmeans as reference

ANY = settings(max_examples=8)


@dataclasses.dataclass
class Case:
    """Points of a picture on the device and on the host."""

    session: runtime.Session
    scope: runtime.Scope
    counts: counting.ColorCounts
    points: points.Points
    where: np.ndarray
    weights: np.ndarray

    @property
    def extent(self):
        return self.points.extent


def on_host(session, made):
    """Coordinates (n, dims) and weights (n,) of points, int64 each."""
    planes = session.download(made.coordinates, (made.space.dims, made.stride), np.float32)
    weights = session.download(made.weights, made.n, np.uint64 if made.wide else np.uint32)
    return planes[:, : made.n].T.astype(np.int64), weights.astype(np.int64)


@contextlib.contextmanager
def case_of(queue, pixels, space="srgb"):
    session = runtime.open_session(queue)
    with session.scope() as scope:
        counts = counting.count_colors(session, scope, [images.read(pixels)])
        made = points.points_of(session, scope, counts, spaces.space(space, counts.partial))
        where, weights = on_host(session, made)
        yield Case(session, scope, counts, made, where, weights)


def picture(rng, height=24, width=31, channels=3, levels=256):
    return rng.integers(0, levels, (height, width, channels), dtype=np.uint8)


def photo(rng, height=60, width=80):
    """Smooth blobs with noise: colours in clumps, as photographs have them."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 9 + 2 * c) * 60 + np.cos(y / (7 + c)) * 50 + 120 for c in range(3)]
    return np.clip(np.stack(waves, axis=-1) + rng.normal(0, 4, (height, width, 3)), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("space", spaces.NAMES)
@pytest.mark.parametrize("channels", [3, 4])
def test_points_are_coordinates_times_scale(queue, rng, space, channels):
    with case_of(queue, picture(rng, channels=channels), space) as case:
        colors = case.counts.to_host(case.session)[0]
        chosen = case.points.space
        assert sum(e * e for e in case.extent) < 2**24 <= sum((2 * e) ** 2 for e in case.extent)
        np.testing.assert_array_equal(case.where, chosen.coordinates(colors) * case.points.scale)


@pytest.mark.parametrize("level", [4, 5, 6, 7, 8])
@pytest.mark.parametrize("channels", [3, 4])
def test_a_sketch_holds_the_means_of_cells(queue, rng, level, channels):
    with case_of(queue, picture(rng, channels=channels, levels=100)) as case:
        sketcher = seeding.Sketcher(case.session, case.scope, case.counts, case.points)
        made = sketcher.sketch(level, sketcher.occupied((4, level))[1])
        where, weights = on_host(case.session, made)
        colors = case.counts.to_host(case.session)[0][:, :channels]
        expected, mass = reference.sketch(case.where, case.weights, colors, level)
        np.testing.assert_array_equal(where, expected)
        np.testing.assert_array_equal(weights, mass)


def device_step(case, made, centers):
    made.restart()
    made.set_centers(centers)
    made.step(by_axis=True)
    return made.get_centers(), made.get_totals().astype(np.int64)


@pytest.mark.parametrize("k", [1, 2, 7, 64, 300])
@pytest.mark.parametrize(("channels", "space"), [(3, "srgb"), (4, "srgb"), (3, "oklab"), (4, "linear")])
def test_a_step_equals_the_reference(queue, rng, k, channels, space):
    with case_of(queue, picture(rng, channels=channels), space) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, k)
        centers = case.where[rng.choice(len(case.where), k, replace=False)]
        moved, totals = device_step(case, made, centers)
        expected, expected_totals, *_ = reference.step(case.where, case.weights, centers, case.extent)
        np.testing.assert_array_equal(totals, expected_totals)
        np.testing.assert_array_equal(moved, expected)


def test_squared_distances_need_no_axes(queue, rng):
    with case_of(queue, photo(rng)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, 20)
        centers = case.where[::60][:20]
        expected = device_step(case, made, centers)[1]
        made.restart()
        made.set_centers(centers)
        made.step()
        totals = made.get_totals().astype(np.int64)
        np.testing.assert_array_equal(totals[:4], expected[:4])
        np.testing.assert_array_equal(totals[4], expected[4:].sum(axis=0))
        assert (totals[5:] == 0).all()


def test_a_step_over_colors_equals_a_step_over_pixels(queue, rng):
    pixels = photo(rng)
    with case_of(queue, pixels) as case:
        centers = case.where[:: len(case.where) // 9]
        made = lloyd.Lloyd(case.session, case.scope, case.points, len(centers))
        moved, _ = device_step(case, made, centers)
    every = pixels.reshape(-1, 3).astype(np.int64) * 8
    expected, *_ = reference.step(every, np.ones(len(every), np.int64), centers, (2040,) * 3)
    np.testing.assert_array_equal(moved, expected)


def test_ties_go_to_the_lowest_index(queue):
    with case_of(queue, np.array([[[10, 10, 10], [20, 10, 10], [30, 10, 10]]], np.uint8)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, 4)
        centers = np.array([[240, 80, 80], [80, 80, 80], [80, 80, 80], [240, 80, 80]])
        _, totals = device_step(case, made, centers)
        np.testing.assert_array_equal(totals[0], [2, 1, 0, 0])


@ANY
@given(seed=st.integers(0, 2**32), k=st.integers(1, 40), levels=st.integers(2, 256))
def test_steps_repair_empty_centers_as_the_reference(queue, seed, k, levels):
    rng = np.random.default_rng(seed)
    with case_of(queue, picture(rng, 9, 11, levels=levels)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, k)
        centers = case.where[rng.integers(0, len(case.where), k)]
        for _ in range(3):
            moved, totals = device_step(case, made, centers)
            expected, expected_totals, *_ = reference.step(case.where, case.weights, centers, case.extent)
            np.testing.assert_array_equal(totals, expected_totals)
            np.testing.assert_array_equal(moved, expected)
            centers = moved


@pytest.mark.parametrize("tol", [0.0, 1e-4, 1e-2, 0.5])
@pytest.mark.parametrize("max_iter", [1, 5, 60])
def test_a_run_ends_where_the_reference_ends(queue, rng, tol, max_iter):
    with case_of(queue, photo(rng)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, 12)
        centers = case.where[:: len(case.where) // 11][:12]
        made.set_centers(centers)
        steps = made.run(max_iter, tol)
        expected, _, _, expected_steps = reference.lloyd(case.where, case.weights, centers, case.extent, max_iter, tol)
        assert steps == expected_steps
        np.testing.assert_array_equal(made.get_centers(), expected)
        inertia = reference.totals_of(case.where, case.weights, expected, reference.assign(case.where, expected))[
            4:
        ].sum()
        assert made.inertia_later()() == inertia
        np.testing.assert_array_equal(made.get_centers(), expected)


@pytest.mark.parametrize("limits", ["work_group=1", "work_group=2", "work_group=16,max_alloc=3000000"])
def test_limits_change_no_step(queue, rng, monkeypatch, limits):
    pixels = photo(rng)
    with case_of(queue, pixels) as case:
        centers = case.where[::50][:40]
        expected = device_step(case, lloyd.Lloyd(case.session, case.scope, case.points, len(centers)), centers)
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    with case_of(queue, pixels) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, len(centers))
        for got, wanted in zip(device_step(case, made, centers), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_sums_of_many_groups_fit_the_largest_buffer(queue, rng, monkeypatch):
    pixels = photo(rng)  # a processor with many cores has as many groups as buffers admit, here in small
    with case_of(queue, pixels) as case:
        centers = case.where[:4000]
        expected = device_step(case, lloyd.Lloyd(case.session, case.scope, case.points, 4000), centers)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=400000")  # two groups' lists, sums of one group
    with case_of(queue, pixels) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, 4000)
        for got, wanted in zip(device_step(case, made, centers), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("variant", [v.name for v in lloyd.VARIANTS])
def test_variants_equal_the_portable_form(queue, rng, variant):
    with case_of(queue, photo(rng)) as case, contextlib.suppress(runtime.InvalidArgument):
        centers = case.where[::40][:100]
        with runtime.force_variant("portable"):
            expected = device_step(case, lloyd.Lloyd(case.session, case.scope, case.points, 60), centers[:60])
        with runtime.force_variant(variant):
            made = lloyd.Lloyd(case.session, case.scope, case.points, 60)
        for got, wanted in zip(device_step(case, made, centers[:60]), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


@contextlib.contextmanager
def wide_case_of(queue, rng, pixels):
    """Points whose weights, some above 2^36, add up to nearly 2^39."""
    session = runtime.open_session(queue)
    colors, counts = counting_reference.count_colors([pixels])
    weights = counts.astype(np.uint64) * np.uint64(2**39 // counts.sum() // 2)
    weights[rng.choice(len(weights), 3, replace=False)] += np.uint64(2**36 + 12345)
    histogram = ColorHistogram(colors, weights)
    with session.scope() as scope:
        counted = counts_of(histogram).upload(scope)
        made = points.points_of(session, scope, counted, spaces.space("srgb", counted.partial))
        assert made.wide
        where, mass = on_host(session, made)
        np.testing.assert_array_equal(mass, weights)
        yield Case(session, scope, counted, made, where, mass)


@pytest.mark.full
@pytest.mark.parametrize("form", ["lanes", "portable"])
@pytest.mark.parametrize("channels", [3, 4])
def test_weights_beyond_32_bits(queue, rng, form, channels):
    """Steps, seeding, swaps and sketches, in every form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lloyd, "VARIANTS", (lloyd.PORTABLE,) if form == "portable" else lloyd.VARIANTS)
        with wide_case_of(queue, rng, picture(rng, channels=channels, levels=60)) as case:
            made = lloyd.Lloyd(case.session, case.scope, case.points, 30)
            centers = case.where[rng.choice(len(case.where), 30, replace=False)]
            moved, totals = device_step(case, made, centers)
            expected, expected_totals, *_ = reference.step(case.where, case.weights, centers, case.extent)
            np.testing.assert_array_equal(totals, expected_totals)
            np.testing.assert_array_equal(moved, expected)
            seeding.sample_centers(case.session, made, 7)
            drawn = reference.sample_centers(case.where, case.weights.astype(object), 30, 7)
            np.testing.assert_array_equal(made.get_centers(), drawn)
            swaps.swap_centers(case.session, case.scope, made, 5, 3)
            swapped = reference.swap_centers(case.where, case.weights, drawn, case.extent, 5, 3)
            np.testing.assert_array_equal(made.get_centers(), swapped)
            sketcher = seeding.Sketcher(case.session, case.scope, case.counts, case.points)
            sketch = sketcher.sketch(5, sketcher.occupied([5])[0])
            colors = case.counts.to_host(case.session)[0][:, :channels]
            means, mass = reference.sketch(case.where, case.weights, colors, 5)
            found = on_host(case.session, sketch)
            np.testing.assert_array_equal(found[0], means)
            np.testing.assert_array_equal(found[1], mass)


@ANY
@given(seed=st.integers(0, 2**64 - 1), k=st.integers(1, 70))
def test_seeding_equals_the_reference(queue, seed, k):
    rng = np.random.default_rng(5)
    with case_of(queue, photo(rng, 30, 40)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, k)
        seeding.sample_centers(case.session, made, seed)
        np.testing.assert_array_equal(made.get_centers(), reference.sample_centers(case.where, case.weights, k, seed))


def test_seeding_more_centers_than_points_repeats_the_first(queue):
    with case_of(queue, np.array([[1, 200]], np.uint8)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, 20)
        seeding.sample_centers(case.session, made, 3)
        np.testing.assert_array_equal(made.get_centers(), reference.sample_centers(case.where, case.weights, 20, 3))


@pytest.mark.full
@pytest.mark.parametrize(("k", "rounds"), [(2, 3), (5, 0), (12, 6), (60, 5)])
@pytest.mark.parametrize(("channels", "most_at_once"), [(3, 512), (4, 512), (3, 0)])
def test_swaps_equal_the_reference(queue, rng, k, rounds, channels, most_at_once, monkeypatch):
    monkeypatch.setattr(swaps, "MAX_IN_ONE_GROUP", most_at_once)
    pixels = photo(rng) if channels == 3 else picture(rng, channels=4)
    with case_of(queue, pixels) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, k)
        centers = case.where[:: len(case.where) // (3 * k)][:k]
        made.set_centers(centers)
        swaps.swap_centers(case.session, case.scope, made, rounds, 3)
        expected = reference.swap_centers(case.where, case.weights, centers, case.extent, rounds, 3)
        np.testing.assert_array_equal(made.get_centers(), expected)


def test_swaps_lower_the_inertia(queue, rng):
    with case_of(queue, photo(rng)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, 16)
        results = []
        for rounds in (0, 12):
            made.set_centers(case.where[:16])
            swaps.swap_centers(case.session, case.scope, made, rounds, 4)
            results.append(made.inertia_later()())
        assert results[1] < 0.8 * results[0]


def test_random_points_differ(rng):
    chosen = seeding.random_points(1000, 400, 7)
    assert len(set(chosen.tolist())) == 400
    assert 0 <= chosen.min() <= chosen.max() < 1000
    np.testing.assert_array_equal(seeding.random_points(1000, 10, 7), chosen[:10])
    most = seeding.random_points(10, 8, 7)
    assert len(set(most.tolist())) == 8
    assert 0 <= most.min() <= most.max() < 10
