"""Many steps of Lloyd's algorithm in one launch, against the reference: with all groups, and with one that is alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clquant import KMeansPalette, runtime
from clquant.kmeans import lloyd, lloyd_grid, points, swaps
from tests.kmeans.test_lloyd import case_of, device_step, photo, picture
from tests.reference import kmeans as reference

ALONE = 2  # of cl/common/grid_barrier.h


@pytest.fixture
def grid(queue, monkeypatch):
    """The form as devices have it that do, and in OpenCL C alone, with warps of one work-item, on the others.

    Not on Oclgrind: OpenCL 1.2 orders nothing between work-groups, so it rightly calls what they hand on a race.
    """
    if not lloyd_grid.GRID.admits(runtime.open_session(queue).limits):
        constants = {"DEVICE_FENCE": "mem_fence(CLK_GLOBAL_MEM_FENCE)", "WARP": 1, "SHORTLIST": 4}
        anywhere = dataclasses.replace(lloyd_grid.GRID, admits=lambda _: True, constants=constants)
        monkeypatch.setattr(lloyd, "VARIANTS", (anywhere, lloyd.PORTABLE))


@pytest.fixture(params=["all", "alone"])
def gate(request, monkeypatch):
    """Groups as they come, or one alone, which is what happens where not all come: the gate says so beforehand."""
    if request.param == "alone":
        for name in ("swap", "steps"):
            plain = getattr(lloyd_grid.LloydGrid, name)

            def alone(self, *args, plain=plain):
                groups = min(self._most_groups, self._lloyd.tiles.n)
                self._session.fill(self._memory[1], np.uint32(ALONE + groups - 1), 4)
                plain(self, *args)

            monkeypatch.setattr(lloyd_grid.LloydGrid, name, alone)


@pytest.fixture(params=[1, 3, 64])
def units(request, monkeypatch):
    """Compute units: how many points a work-item takes, and how many groups there are, follow from their number."""
    monkeypatch.setattr(lloyd_grid.LloydGrid, "_most_groups", request.param)


def words_are_zero(made):
    sums, words = made.grid._memory
    session = made._session
    assert not session.download(words, lloyd_grid.GRID_WORDS, np.uint32).any()
    held = lloyd_grid.SUMS * (1 + 2 * made.points.space.dims) * made.k
    assert not session.download(sums, held, np.uint64).any()


@pytest.mark.full
@pytest.mark.usefixtures("grid", "gate")
@pytest.mark.parametrize(
    ("channels", "space", "k"),
    [*((3, "srgb", k) for k in (1, 2, 7, 64)), *((4, "srgb", k) for k in (1, 2, 7, 64, 250)), (4, "linear", 250)],
)
def test_a_step_equals_the_reference(queue, rng, k, channels, space):
    with case_of(queue, picture(rng, channels=channels), space) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, k)
        centers = case.where[rng.choice(len(case.where), k, replace=False)]
        moved, totals = device_step(case, made, centers)
        expected, expected_totals, *_ = reference.step(case.where, case.weights, centers, case.extent)
        np.testing.assert_array_equal(totals, expected_totals)
        np.testing.assert_array_equal(moved, expected)
        words_are_zero(made)


@pytest.mark.full
@pytest.mark.usefixtures("grid", "units")
@pytest.mark.parametrize(("channels", "k"), [(3, 50), (4, 50), (4, 250)])
def test_a_step_on_any_number_of_compute_units(queue, rng, channels, k):
    with case_of(queue, picture(rng, channels=channels)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, k)
        centers = case.where[rng.choice(len(case.where), k, replace=False)]
        moved, totals = device_step(case, made, centers)
        expected, expected_totals, *_ = reference.step(case.where, case.weights, centers, case.extent)
        np.testing.assert_array_equal(totals, expected_totals)
        np.testing.assert_array_equal(moved, expected)
        words_are_zero(made)


@pytest.mark.full
@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize(("group", "rows", "channels"), [(32, 1, 4)])
def test_steps_repair_empty_centers_as_the_reference(queue, rng, group, rows, channels, monkeypatch):
    monkeypatch.setattr(lloyd_grid, "ROWS", rows)
    pixels = picture(rng, levels=40, channels=channels)
    with runtime.force_tuning({"kmeans.grid_group": group}), case_of(queue, pixels) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, 50)
        centers = case.where[rng.integers(0, len(case.where), 50)]
        for _ in range(3):
            moved, totals = device_step(case, made, centers)
            expected, expected_totals, *_ = reference.step(case.where, case.weights, centers, case.extent)
            np.testing.assert_array_equal(totals, expected_totals)
            np.testing.assert_array_equal(moved, expected)
            centers = moved


@pytest.mark.full
@pytest.mark.usefixtures("grid", "gate")
@pytest.mark.parametrize("tol", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize(("max_iter", "at_once"), [(1, 64), (5, 2), (60, 8), (60, 64)])
def test_a_run_ends_where_the_reference_ends(queue, rng, tol, max_iter, at_once):
    with runtime.force_tuning({"kmeans.steps_a_launch": at_once}), case_of(queue, photo(rng)) as case:
        made = lloyd.Lloyd(case.session, case.scope, case.points, 12)
        centers = case.where[:: len(case.where) // 11][:12]
        made.set_centers(centers)
        steps = made.run(max_iter, tol)
        expected, _, _, expected_steps = reference.lloyd(case.where, case.weights, centers, case.extent, max_iter, tol)
        assert steps == expected_steps
        np.testing.assert_array_equal(made.get_centers(), expected)
        inertia = reference.totals_of(case.where, case.weights, expected, reference.assign(case.where, expected))
        assert made.inertia_later()() == inertia[4:].sum()
        np.testing.assert_array_equal(made.get_centers(), expected)
        words_are_zero(made)


@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize(("n", "tile"), [(250, 64), (1900, 64), (2000, 128), (4000, 256)])
def test_tiles_are_as_many_as_warps(queue, rng, n, tile, monkeypatch):
    """Of a device with 1000 work-items in 31 warps."""
    monkeypatch.setattr(lloyd_grid.LloydGrid, "_most_groups", 1)
    monkeypatch.setattr(lloyd_grid.LloydGrid, "_group", 1000)
    with case_of(queue, picture(rng)) as case:
        made = lloyd.Lloyd(case.session, case.scope, dataclasses.replace(case.points, n=n), 16)
        assert made.grid is not None
        made.grid._warp = 32
        assert made.grid.tile == tile


@pytest.mark.full
@pytest.mark.usefixtures("grid")
def test_a_run_is_one_launch_unless_steps_are_told(queue, rng):
    told = []
    with case_of(queue, photo(rng)) as case:
        for progress, few in ((None, True), (runtime.Progress(lambda done, _: told.append(done)), False)):
            made = lloyd.Lloyd(case.session, case.scope, case.points, 12)
            made.set_centers(case.where[:12])
            with runtime.profile() as profile:
                steps = made.run(60, 0.0, progress)
            assert (profile.counts()["lloyd_rounds"] == 1) == few
    assert told[-1] == steps
    assert told == sorted(told)
    assert len(told) > 1


@pytest.mark.full
@pytest.mark.usefixtures("grid", "gate")
@pytest.mark.parametrize(("k", "rounds"), [(1, 0), (3, 3), (5, 0), (12, 6), (60, 5), (200, 4)])
@pytest.mark.parametrize("channels", [3, 4])
def test_swaps_equal_the_reference(queue, rng, k, rounds, channels):
    pixels = photo(rng) if channels == 3 else picture(rng, channels=4)
    with case_of(queue, pixels) as case, runtime.profile() as profile:
        made = lloyd.Lloyd(case.session, case.scope, case.points, k)
        centers = case.where[:: len(case.where) // (3 * k)][:k]
        made.set_centers(centers)
        swaps.swap_centers(case.session, case.scope, made, rounds, 3)
        expected = reference.swap_centers(case.where, case.weights, centers, case.extent, rounds, 3)
        np.testing.assert_array_equal(made.get_centers(), expected)
        assert profile.counts()["lloyd_rounds"] == 1
        words_are_zero(made)


@pytest.mark.full
@pytest.mark.usefixtures("grid")
def test_more_centers_than_groups_have_room_for(queue, rng, monkeypatch):
    monkeypatch.setattr(lloyd, "MAX_IN_GRID", {3: 10, 4: 9})
    with case_of(queue, photo(rng)) as case:
        for k in (10, 11):
            made = lloyd.Lloyd(case.session, case.scope, case.points, k)
            assert (made.grid is None) == (k > 10)
            made.set_centers(case.where[:k])
            swaps.swap_centers(case.session, case.scope, made, 4, 3)
            expected = reference.swap_centers(case.where, case.weights, case.where[:k], case.extent, 4, 3)
            np.testing.assert_array_equal(made.get_centers(), expected)


@pytest.mark.full
@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize(
    "given",
    [
        {"n_colors": 2},
        {"n_colors": 24, "n_init": 2, "max_iter": 5},
        {"n_colors": 16, "fixed_colors": ["#102030", "#ff8800"]},
        {"n_colors": 24, "color_space": "oklab"},
        {"n_colors": 24, "init": "random"},
    ],
    ids=str,
)
def test_palettes_are_those_of_the_portable_form(queue, rng, given):
    pixels = photo(rng, 150, 150)
    weights = rng.integers(0, 5, pixels.shape[:2])
    for sample_weight in (None, weights):
        palette = KMeansPalette(**given, queue=queue).fit(pixels, sample_weight)
        with runtime.force_variant("portable"):
            expected = KMeansPalette(**given, queue=queue).fit(pixels, sample_weight)
        np.testing.assert_array_equal(palette.palette_.colors, expected.palette_.colors)
        assert palette.inertia_ == expected.inertia_
        assert palette.n_iter_ == expected.n_iter_


@pytest.mark.full
@pytest.mark.parametrize("dims", [3, 4])
def test_the_form_builds_at_the_first_try(queue, capfd, dims):
    """PoCL's compiler says nothing: with `cl/common/pocl.h` too, which has all that the form needs."""
    session = runtime.open_session(queue)
    fence = {"DEVICE_FENCE": "mem_fence(CLK_GLOBAL_MEM_FENCE)", "WARP": 1, "SHORTLIST": 4}
    session.program(lloyd_grid.GRID.file, DIMS=dims, ROWS=1, GROUP=24, **fence)
    assert not session.limits.is_pocl or capfd.readouterr().err == ""


@pytest.mark.parametrize("limits", ["", "work_group=16", "local_memory=32768", "compute_capability=75"])
def test_small_devices_take_other_forms(queue, monkeypatch, limits):
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    found = runtime.open_session(queue).limits
    assert lloyd_grid.GRID.admits(found) == (not limits and found.compute_capability >= 80)


@pytest.mark.parametrize("largest", [64, 100, 256])
def test_tiles_hold_at_most_so_many_points(queue, rng, largest):
    with case_of(queue, photo(rng)) as case:
        made = points.tiles_of(case.session, case.scope, case.points, largest)
        starts = case.session.download(made.starts, made.n + 1, np.uint32).astype(np.int64)
        assert starts[0] == 0
        assert starts[-1] == case.points.n
        assert 0 < np.diff(starts).min() <= np.diff(starts).max() <= largest
