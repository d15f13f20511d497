"""KMeansPalette: whole fits against the reference, and the promises of its documentation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import KMeansPalette, runtime
from clquant.color import spaces
from clquant.kmeans import seeding
from clquant.kmeans.fit import are_few
from clquant.kmeans.seeding import (
    FEW_CENTERS,
    SKETCH_LEVELS,
    SKETCH_POINTS,
    SKETCH_STEPS,
    STARTS_OF_FEW,
    SWAP_STEPS,
)
from tests.kmeans.test_lloyd import photo, picture
from tests.lowering import lower
from tests.reference import boxes as boxes_reference
from tests.reference import counting as counting_reference
from tests.reference import kmeans as reference
from tests.reference.exact import lowest_merge_inertia
from tests.reference.opaque import settle_opaque

ANY = settings(max_examples=8)


@pytest.fixture
def small_sketches(monkeypatch):
    """Sketches of small pictures too, so that the reference stays quick."""
    lower(monkeypatch, seeding__sketch=16)


def expected_palette(pixels, k, seed=0, max_iter=100, tol=1e-4, swap_rounds=24):
    """The documented steps for an opaque or partly transparent picture with more than k colours, k-means++."""
    colors, weights = counting_reference.count_colors([pixels])
    partial = bool((colors[:, 3] < 255).any())
    space = spaces.space("srgb", partial)
    scale = 4 if partial else 8
    extent = tuple(e * scale for e in space.extent)
    where = space.coordinates(colors).astype(np.int64) * scale
    codes = colors if partial else colors[:, :3]
    sketches = [reference.sketch(where, weights, codes, level) for level in SKETCH_LEVELS]
    least = max(SKETCH_POINTS * k, runtime.bound("seeding.sketch"))
    enough = [s for s in sketches if len(where) >= least <= len(s[0])]
    start, mass = enough[0] if enough else (where, weights)
    rounds = swap_rounds if k >= 2 else 0
    found = []
    starts = STARTS_OF_FEW if k <= FEW_CENTERS else 1
    for turn in range(starts):
        centers = reference.sample_centers(start, mass, k, (seed + (turn << 62)) % 2**64)
        centers = reference.swap_centers(start, mass, centers, extent, -(-rounds // starts), SWAP_STEPS)
        if k <= FEW_CENTERS:
            centers, *_ = reference.lloyd(start, mass, centers, extent, SKETCH_STEPS, tol)
            found.append((int((reference.squared_distances(start, centers).min(axis=1) * mass).sum()), turn, centers))
    if found:
        centers = min(found, key=lambda one: one[:2])[2]
    if len(enough) > 1 and 2 * len(sketches[-1][0]) < len(where):
        centers, *_ = reference.lloyd(*sketches[-1], centers, extent, SKETCH_STEPS, tol)
    tries = [centers]
    if are_few(len(where), k):
        tries.append(boxes_reference.box_centers(start, mass, k, "wu"))
    ends = []
    for turn, centers in enumerate(tries):
        centers, _, _, steps = reference.lloyd(where, weights, centers, extent, max_iter, tol)
        palette = space.colors((centers + scale // 2) // scale)
        palette = settle_opaque(palette, colors, weights, space) if partial else palette
        final = space.coordinates(palette).astype(np.int64) * scale
        inertia = int((reference.squared_distances(where, final).min(axis=1) * weights).sum())
        ends.append((inertia, turn, palette, steps))
    inertia, _, palette, steps = min(ends, key=lambda one: one[:2])
    return palette, inertia / (scale * space.unit) ** 2, steps


@pytest.mark.parametrize(("k", "seed"), [(2, 0), (5, 0), (90, 1), (16, 3)])
@pytest.mark.usefixtures("small_sketches")
def test_a_fit_equals_the_reference(queue, rng, k, seed):
    pixels = photo(rng)
    engine = KMeansPalette(k, random_state=seed, queue=queue).fit(pixels)
    palette, inertia, steps = expected_palette(pixels, k, seed)
    np.testing.assert_array_equal(engine.palette_.colors, palette)
    assert (engine.inertia_, engine.n_iter_) == (inertia, steps)


@pytest.mark.full
@pytest.mark.usefixtures("small_sketches")
def test_a_fit_over_two_sketches_equals_the_reference(queue, rng):
    codes = rng.permutation(1 << 15)[: 96 * 128].reshape(96, 128, 1)
    pixels = (codes >> np.array([0, 5, 10]) & 31).astype(np.uint8)  # 512 cells of the one grid, 4096 of the other
    engine = KMeansPalette(4, queue=queue).fit(pixels)
    palette, inertia, steps = expected_palette(pixels, 4)
    np.testing.assert_array_equal(engine.palette_.colors, palette)
    assert (engine.inertia_, engine.n_iter_) == (inertia, steps)


@pytest.mark.usefixtures("small_sketches")
def test_a_fit_with_alpha_equals_the_reference(queue, rng):
    pixels = picture(rng, channels=4)
    pixels[..., 3] |= 1
    engine = KMeansPalette(9, queue=queue).fit(pixels)
    palette, inertia, steps = expected_palette(pixels, 9)
    np.testing.assert_array_equal(engine.palette_.colors, palette)
    assert (engine.inertia_, engine.n_iter_) == (inertia, steps)


@ANY
@given(seed=st.integers(0, 2**32), k=st.integers(2, 12), height=st.integers(1, 9), width=st.integers(1, 9))
def test_any_small_picture(queue, seed, k, height, width):
    pixels = picture(np.random.default_rng(seed), height, width)
    engine = KMeansPalette(k, queue=queue, swap_rounds=2).fit(pixels)
    distinct = len(np.unique(pixels.reshape(-1, 3), axis=0))
    if distinct <= k:
        np.testing.assert_array_equal(engine.transform(pixels), pixels)
        assert len(engine.palette_) == distinct
    elif distinct == k + 1:
        colors, weights = counting_reference.count_colors([pixels])
        assert engine.inertia_ == lowest_merge_inertia(colors[:, :3], weights)
    else:
        palette, inertia, _ = expected_palette(pixels, k, swap_rounds=2)
        np.testing.assert_array_equal(engine.palette_.colors, palette)
        assert engine.inertia_ == inertia


@pytest.mark.parametrize("limits", ["work_group=1", "work_group=4,max_alloc=3000000"])
def test_limits_change_nothing(queue, rng, monkeypatch, limits):
    pixels = photo(rng)
    expected = KMeansPalette(20, queue=queue).fit(pixels)
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    engine = KMeansPalette(20, queue=queue).fit(pixels)
    np.testing.assert_array_equal(engine.palette_.colors, expected.palette_.colors)
    assert (engine.inertia_, engine.n_iter_) == (expected.inertia_, expected.n_iter_)


def test_an_array_of_colors_starts_as_given_and_keeps_its_order(queue, rng):
    pixels = photo(rng)
    init = pixels[::20, ::27].reshape(-1, 3)
    init = np.unique(init, axis=0)[::-1].copy()
    engine = KMeansPalette(len(init), init=init, tol=0, max_iter=7, queue=queue).fit(pixels)
    every = pixels.reshape(-1, 3).astype(np.int64) * 8
    ones = np.ones(len(every), np.int64)
    centers, _, _, steps = reference.lloyd(every, ones, init.astype(np.int64) * 8, (2040,) * 3, 7)
    np.testing.assert_array_equal(engine.palette_.colors, (centers + 4) // 8)
    assert engine.n_iter_ == steps


def test_random_starts_are_distinct_colors_of_the_picture(queue, rng):
    pixels = photo(rng)
    colors, weights = counting_reference.count_colors([pixels])
    chosen = seeding.random_points(len(colors), 10, 4)
    start = colors[chosen, :3].astype(np.int64) * 8
    where = colors[:, :3].astype(np.int64) * 8
    centers, *_ = reference.lloyd(where, weights, start, (2040,) * 3, 5)
    engine = KMeansPalette(10, init="random", random_state=4, max_iter=5, tol=0, queue=queue).fit(pixels)
    np.testing.assert_array_equal(engine.palette_.colors, (centers + 4) // 8)


@pytest.mark.parametrize(("distinct", "k"), [(40, 32), (258, 256), (300, 256), (20, 16)])
def test_rare_colours_of_few_are_not_forgotten(queue, distinct, k):
    """Shares that fall steeply, as in icons and text: what k-means++ is not likely to draw."""
    colors = np.unique(np.random.default_rng(1).integers(0, 256, (distinct, 3), dtype=np.uint8), axis=0)
    shares = np.maximum(1, 2000 / np.arange(1, len(colors) + 1) ** 1.5).astype(int)
    pixels = np.repeat(colors, shares, axis=0)[None]
    engine = KMeansPalette(k, queue=queue).fit(pixels)
    assert engine.inertia_ <= KMeansPalette(k, init="wu", queue=queue).fit(pixels).inertia_
    palette, inertia, steps = expected_palette(pixels, k)
    np.testing.assert_array_equal(engine.palette_.colors, palette)
    assert (engine.inertia_, engine.n_iter_) == (inertia, steps)


@pytest.mark.parametrize("init", ["wu", "median-cut"])
def test_box_starts_go_on_with_lloyd(queue, rng, init):
    pixels = photo(rng)
    colors, weights = counting_reference.count_colors([pixels])
    where = colors[:, :3].astype(np.int64) * 8
    start = boxes_reference.box_centers(where, weights, 40, init)
    centers, *_ = reference.lloyd(where, weights, start, (2040,) * 3, 5)
    engine = KMeansPalette(40, init=init, max_iter=5, tol=0, queue=queue).fit(pixels)
    np.testing.assert_array_equal(engine.palette_.colors, (centers + 4) // 8)


def test_the_best_of_several_starts_is_taken(queue, rng):
    pixels = photo(rng)
    single = [
        KMeansPalette(8, init="random", random_state=seed, queue=queue).fit(pixels).inertia_ for seed in (5, 6, 7)
    ]
    best = KMeansPalette(8, init="random", n_init=3, random_state=5, queue=queue).fit(pixels)
    assert best.inertia_ == min(single)


def test_a_palette_can_be_the_start(queue, rng):
    pixels = photo(rng)
    first = KMeansPalette(6, init="random", queue=queue, max_iter=1).fit(pixels)
    again = KMeansPalette(6, queue=queue, init=first.palette_).fit(pixels)
    assert again.inertia_ < first.inertia_


def test_gray_stays_gray(queue, rng):
    pixels = photo(rng)[..., 0]
    engine = KMeansPalette(11, queue=queue).fit(pixels)
    colors = engine.palette_.colors
    assert colors.shape == (11, 3)
    assert (colors == colors[:, :1]).all()
    rgb = np.repeat(pixels[..., None], 3, axis=2)
    np.testing.assert_array_equal(KMeansPalette(11, queue=queue).fit(rgb).palette_.colors, colors)


def test_few_colors_come_back_exactly(queue, rng):
    pixels = picture(rng, levels=3)
    engine = KMeansPalette(27, queue=queue).fit(pixels)
    np.testing.assert_array_equal(engine.transform(pixels), pixels)
    assert (engine.inertia_, engine.n_iter_) == (0.0, 0)


def test_transparent_pixels_pull_no_color_and_stay_transparent(queue, rng):
    pixels = photo(rng)
    rgba = np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])
    hidden = rgba.copy()
    hidden[:20, :, 3] = 0
    hidden[:20, :, :3] = rng.integers(0, 256, (20, pixels.shape[1], 3))
    engine = KMeansPalette(13, queue=queue).fit(hidden)
    np.testing.assert_array_equal(engine.palette_.colors[0], [0, 0, 0, 0])
    shown = KMeansPalette(12, queue=queue).fit(pixels[20:])
    np.testing.assert_array_equal(engine.palette_.colors[1:, :3], shown.palette_.colors)
    result = engine.transform(hidden)
    assert (result[:20] == 0).all()
    assert (result[20:, :, 3] == 255).all()


def test_an_empty_picture_has_one_entry(queue):
    engine = KMeansPalette(4, queue=queue).fit(np.zeros((3, 3, 4), np.uint8))
    np.testing.assert_array_equal(engine.palette_.colors, [[0, 0, 0, 0]])
    assert (engine.predict(np.zeros((3, 3, 4), np.uint8)) == 0).all()


def test_lossless_alpha(queue, rng):
    pixels = picture(rng, 8, 8, channels=4, levels=2) * 100
    engine = KMeansPalette(16, queue=queue).fit(pixels)
    result = engine.transform(pixels)
    seen = pixels[..., 3] > 0
    np.testing.assert_array_equal(result[seen], pixels[seen])
    assert (result[~seen] == 0).all()


def test_several_images_share_a_palette(queue, rng):
    frames = [photo(rng), photo(rng)[:, ::-1][:20], photo(rng)[..., 1]]
    engine = KMeansPalette(14, queue=queue).fit(frames)
    rgb = [f if f.ndim == 3 else np.repeat(f[..., None], 3, axis=2) for f in frames]
    joined = np.concatenate([f.reshape(1, -1, 3) for f in rgb], axis=1)
    single = KMeansPalette(14, queue=queue).fit(joined)
    np.testing.assert_array_equal(engine.palette_.colors, single.palette_.colors)


def test_integer_weights_equal_repeated_pixels(queue, rng):
    pixels = photo(rng, 12, 15)
    weights = rng.integers(0, 4, pixels.shape[:2])
    engine = KMeansPalette(7, queue=queue).fit(pixels, weights)
    repeated = np.repeat(pixels.reshape(-1, 3), weights.ravel(), axis=0)[None]
    expected = KMeansPalette(7, queue=queue).fit(repeated)
    np.testing.assert_array_equal(engine.palette_.colors, expected.palette_.colors)
    assert engine.inertia_ == expected.inertia_
    halves = KMeansPalette(7, queue=queue).fit(pixels, weights / 2)
    np.testing.assert_array_equal(halves.palette_.colors, expected.palette_.colors)
    assert halves.inertia_ == expected.inertia_ / 2


def test_more_than_256_colors(queue, rng):
    pixels = picture(rng, 40, 50)
    engine = KMeansPalette(300, queue=queue, max_iter=3).fit(pixels)
    indices = engine.predict(pixels)
    assert indices.dtype == np.uint16
    assert len(engine.palette_) == 300
    assert indices.max() > 255


def test_device_input_gives_the_same_palette(queue, rng):
    pixels = photo(rng)
    array = runtime.open_session(queue).new_array(pixels.shape, np.uint8)
    array.set(pixels)
    engine = KMeansPalette(9).fit(array)
    expected = KMeansPalette(9, queue=queue).fit(pixels)
    np.testing.assert_array_equal(engine.palette_.colors, expected.palette_.colors)
    np.testing.assert_array_equal(engine.predict(array).get(), expected.predict(pixels))


@pytest.mark.parametrize("space", spaces.NAMES)
def test_every_color_space_fits(queue, rng, space):
    pixels = photo(rng)
    engine = KMeansPalette(24, color_space=space, queue=queue).fit(pixels)
    chosen = spaces.space(space, False)
    where = chosen.coordinates(pixels.reshape(-1, 3)).astype(np.int64)
    centers = chosen.coordinates(engine.palette_.colors).astype(np.int64)
    distances = reference.squared_distances(where, centers).min(axis=1).sum()
    scale = spaces.scale_of(chosen)
    assert engine.inertia_ == int(distances) * scale**2 / (scale * chosen.unit) ** 2


def test_fit_predict_is_fit_then_predict(queue, rng):
    pixels = photo(rng)
    engine = KMeansPalette(5, queue=queue)
    indices = engine.fit_predict(pixels)
    np.testing.assert_array_equal(indices, engine.predict(pixels))
    nearest = reference.assign(pixels.reshape(-1, 3).astype(np.int64), engine.palette_.colors.astype(np.int64))
    np.testing.assert_array_equal(indices.ravel(), nearest)


@pytest.mark.parametrize("channels", [1, 3])
def test_fit_predict_copies_a_large_picture_once(queue, rng, monkeypatch, channels):
    pixels = np.tile(photo(rng), (10, 8, 1))[..., :channels].reshape(600, 640, *[3] * (channels == 3))
    expected = KMeansPalette(9, queue=queue).fit_predict(pixels)
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    indices = KMeansPalette(9, queue=queue).fit_predict(pixels)
    assert isinstance(indices, np.ndarray)
    np.testing.assert_array_equal(indices, expected)


def test_progress_counts_to_the_end_and_can_stop(queue, rng):
    pixels = photo(rng)
    calls = []
    engine = KMeansPalette(6, max_iter=20, tol=0, queue=queue)
    engine.fit(pixels, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (20, 20)
    assert calls == sorted(calls)
    before = engine.palette_
    with pytest.raises(runtime.StoppedError):
        engine.fit(pixels[::2], progress=lambda *_: False)
    assert engine.palette_ is before


@pytest.mark.parametrize("limits", ["", "unified_memory=0"])
@pytest.mark.parametrize("parameters", [{}, {"n_init": 2}, {"init": "wu"}, {"fixed_colors": ["#102030"]}])
@pytest.mark.usefixtures("small_sketches")
def test_mapping_begins_before_the_fit_is_over_and_changes_nothing(queue, rng, monkeypatch, limits, parameters):
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    pixels = photo(rng)
    with runtime.force_tuning({"kmeans.steps_a_wait": 2}):
        separate = KMeansPalette(12, queue=queue, **parameters).fit(pixels)
        together = KMeansPalette(12, queue=queue, **parameters)
        indices = together.fit_predict(pixels)
    np.testing.assert_array_equal(indices, separate.predict(pixels))
    assert together.palette_ == separate.palette_
    assert (together.inertia_, together.n_iter_) == (separate.inertia_, separate.n_iter_)
    errors = ((separate.palette_.colors[indices].astype(int) - pixels) ** 2).sum()
    assert together.inertia_ == errors


def test_a_fit_stands_where_the_mapping_is_stopped(queue, rng):
    pixels = photo(rng)
    expected = KMeansPalette(8, max_iter=3, queue=queue).fit(pixels)
    stopped = KMeansPalette(8, max_iter=3, queue=queue)
    with pytest.raises(runtime.StoppedError):
        stopped.fit_predict(pixels, progress=lambda _, total: total == 3)
    assert stopped.palette_ == expected.palette_
    assert (stopped.inertia_, stopped.n_iter_) == (expected.inertia_, expected.n_iter_)
