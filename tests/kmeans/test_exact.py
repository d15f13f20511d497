"""Palettes of the lowest inertia: gray levels, and one colour more than entries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import ColorHistogram, KMeansPalette
from clquant.color import spaces
from clquant.kmeans.seeding import INITS
from tests.lowering import lower
from tests.reference import exact as reference

ANY = settings(max_examples=25)


def gray_places(space):
    return space.coordinates(np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)).astype(np.int64)


@ANY
@given(seed=st.integers(0, 2**32), n=st.integers(3, 40), k=st.integers(2, 9), name=st.sampled_from(spaces.NAMES))
def test_gray_palettes_are_the_best_there_are(queue, seed, n, k, name):
    rng = np.random.default_rng(seed)
    levels = np.sort(rng.choice(256, n, replace=False)).astype(np.uint8)
    weights = rng.integers(1, 50, n)
    space = spaces.space(name, False)
    engine = KMeansPalette(k, color_space=name, queue=queue).fit(np.repeat(levels, weights)[None])
    expected = reference.lowest_gray_inertia(levels, weights, k, gray_places(space)) if n > k else 0
    assert engine.inertia_ == expected / space.unit**2
    palette = engine.palette_.colors
    assert (palette == palette[:, :1]).all()
    assert (np.diff(palette[:, 0].astype(int)) > 0).all()


@pytest.mark.parametrize("init", INITS)
def test_gray_palettes_do_not_depend_on_the_start(queue, rng, init):
    pixels = rng.normal(120, 40, (40, 50)).clip(0, 255).astype(np.uint8)
    expected = KMeansPalette(11, queue=queue).fit(pixels)
    engine = KMeansPalette(11, init=init, random_state=5, queue=queue).fit(np.repeat(pixels[:, :, None], 3, axis=2))
    np.testing.assert_array_equal(engine.palette_.colors, expected.palette_.colors)
    assert (engine.inertia_, engine.n_iter_) == (expected.inertia_, 0)


@pytest.mark.full
def test_gray_pixels_with_holes(queue, rng):
    pixels = np.full((20, 20, 4), 255, np.uint8)
    pixels[..., :3] = rng.integers(0, 256, (20, 20, 1))
    opaque = KMeansPalette(6, queue=queue).fit(pixels[2:, :, :3])
    pixels[:2, :, 3] = 0
    engine = KMeansPalette(7, queue=queue).fit(pixels)
    np.testing.assert_array_equal(engine.palette_.colors[0], 0)
    np.testing.assert_array_equal(engine.palette_.colors[1:, :3], opaque.palette_.colors)
    assert engine.inertia_ == opaque.inertia_


def test_gray_palettes_of_the_most_pixels(queue):
    levels = np.arange(256, dtype=np.uint8)
    counts = np.full(256, 2**31, np.int64)
    engine = KMeansPalette(64, queue=queue).fit_histogram(ColorHistogram(np.repeat(levels[:, None], 3, axis=1), counts))
    assert engine.inertia_ == 64 * 2**31 * (1 + 0 + 1 + 4) * 3


def test_given_centers_are_moved_as_always(queue):
    start = np.array([[0, 0, 0], [255, 255, 255]], np.uint8)
    engine = KMeansPalette(2, init=start[::-1], queue=queue).fit(np.array([[0, 0, 10, 200]], np.uint8))
    np.testing.assert_array_equal(engine.palette_.colors[:, 0], [200, 3])


@ANY
@given(seed=st.integers(0, 2**32), n=st.integers(3, 24))
def test_with_one_colour_too_many_the_best_pair_shares_an_entry(queue, seed, n):
    rng = np.random.default_rng(seed)
    colors = np.unique(rng.integers(0, 256, (n, 3), dtype=np.uint8), axis=0)
    weights = rng.integers(1, 60, len(colors))
    engine = KMeansPalette(len(colors) - 1, queue=queue).fit(np.repeat(colors, weights, axis=0)[None])
    assert engine.inertia_ == reference.lowest_merge_inertia(colors, weights)
    assert len(engine.palette_.colors) == len(colors) - 1


@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("channels", [3, 4])
def test_no_other_pair_is_better(queue, rng, name, channels, monkeypatch):
    lower(monkeypatch, exact__pairs=16)
    colors = rng.integers(1, 256, (20, channels), dtype=np.uint8)
    weights = rng.integers(1, 60, 20)
    partial = bool((colors[:, 3:] < 255).any())
    space = spaces.space(name, partial)
    engine = KMeansPalette(19, color_space=name, queue=queue).fit(np.repeat(colors, weights, axis=0)[None])
    where = space.coordinates(colors).astype(np.int64)
    for i in range(20):
        for j in range(i + 1, 20):
            both = weights[i] + weights[j]
            mean = (2 * (where[i] * weights[i] + where[j] * weights[j]) + both) // (2 * both)
            shared = space.coordinates(space.colors(mean[None])).astype(np.int64)
            others = np.delete(where, [i, j], axis=0)
            inertia = reference.inertia_of(where, weights, np.concatenate([others, shared]))
            assert engine.inertia_ <= inertia / space.unit**2
