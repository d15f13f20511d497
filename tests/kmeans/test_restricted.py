"""Palettes whose entries a display can show."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clquant import ColorHistogram, KMeansPalette, Palette
from clquant.color import spaces
from clquant.color.display import DISPLAY_FORMATS, nearest_displayable
from clquant.color.palette import without
from clquant.runtime import InvalidArgument
from tests.lowering import lower


def are_displayable(colors, name):
    return np.array_equal(DISPLAY_FORMATS[name].nearest(colors), colors)


def squared_error(image, colors):
    apart = image.reshape(-1, 1, 3).astype(np.int64) - colors[None].astype(np.int64)
    return int((apart**2).sum(axis=2).min(axis=1).sum())


@pytest.mark.parametrize("space", spaces.NAMES)
@pytest.mark.parametrize("name", DISPLAY_FORMATS)
def test_entries_are_displayable_and_better_than_rounded_ones(queue, sample, name, space):
    image = np.ascontiguousarray(sample[::5, ::5])
    learner = KMeansPalette(12, color_format=name, color_space=space, queue=queue).fit(image)
    assert len(learner.palette_) == 12
    assert len(set(learner.palette_)) == 12
    assert are_displayable(learner.palette_.colors, name)
    free = KMeansPalette(12, color_space=space, queue=queue).fit(image).palette_.colors
    rounded = Palette(DISPLAY_FORMATS[name].nearest(free))
    if space == "srgb":
        assert learner.inertia_ == squared_error(image, learner.palette_.colors)
        assert learner.inertia_ <= 1.01 * squared_error(image, rounded.colors)


def test_no_step_lowers_the_inertia(queue, sample):
    """The mean of each entry's pixels, as the display has it, is the entry, or moving all entries gains nothing."""
    image, display = np.ascontiguousarray(sample[::6, ::6]), DISPLAY_FORMATS["rgb444"]
    learner = KMeansPalette(9, color_format="rgb444", queue=queue).fit(image)
    colors, indices = learner.palette_.colors, learner.predict(image)
    moved = [display.nearest(image[indices == i].mean(axis=0).round().astype(np.uint8)[None])[0] for i in range(9)]
    assert squared_error(image, colors) <= squared_error(image, np.array(moved))


@pytest.mark.parametrize("name", ["rgb332", "rgb444"])
@pytest.mark.parametrize("space", spaces.NAMES)
def test_displayable_colors_by_trying_all(name, space, rng):
    display, there = DISPLAY_FORMATS[name], spaces.space(space, False)
    places = itertools.product(*(range(1 << bits) for bits in display.bits))
    every = display.colors_at(np.array(list(places)))
    wanted = there.coordinates(rng.integers(0, 256, (20, 3), dtype=np.uint8)).astype(np.int64) * 8 + 3
    found = nearest_displayable(display, there, wanted, 8)
    distances = ((there.coordinates(every).astype(np.int64)[None] * 8 - wanted[:, None]) ** 2).sum(axis=2)
    own = ((there.coordinates(found).astype(np.int64) * 8 - wanted) ** 2).sum(axis=1)
    assert (own >= distances.min(axis=1)).all()
    if space != "oklab":
        assert np.array_equal(own, distances.min(axis=1))


def test_few_displayed_colors_are_kept(queue):
    image = np.array([[[0, 0, 0], [1, 1, 1], [250, 0, 0], [255, 3, 0], [90, 90, 90]]], np.uint8)
    learner = KMeansPalette(4, color_format="rgb444", queue=queue).fit(image)
    assert sorted(learner.palette_) == [(0, 0, 0), (85, 85, 85), (255, 0, 0)]
    assert learner.inertia_ == squared_error(image, learner.palette_.colors)


def test_gray_alpha_and_fixed_colors(queue, sample):
    gray = sample[::8, ::8, 1]
    assert are_displayable(KMeansPalette(6, color_format="rgb565", queue=queue).fit(gray).palette_.colors, "rgb565")
    pixels = np.concatenate([sample[::8, ::8], sample[::8, ::8, :1]], axis=2)
    pixels[:3, :, 3] = 0
    palette = KMeansPalette(9, color_format="rgb444", fixed_colors=["#f80"], queue=queue).fit(pixels).palette_
    assert palette.colors[:2].tolist() == [[0, 0, 0, 0], [255, 136, 0, 255]]
    assert are_displayable(palette.colors, "rgb444")
    with pytest.raises(
        InvalidArgument, match=r"^fixed_colors\[1\] is #ff8800, which rgb332 does not have; allowed: #ff"
    ):
        KMeansPalette(9, color_format="rgb332", fixed_colors=["black", "#f80"], queue=queue).fit(pixels)


def test_weights_histograms_and_quality(queue, sample):
    image = np.ascontiguousarray(sample[::12, ::12])
    learner = KMeansPalette(24, color_format="rgb444", queue=queue).fit(image)
    counted = KMeansPalette(24, color_format="rgb444", queue=queue).fit_histogram(ColorHistogram.of(image, queue=queue))
    assert learner.palette_ == counted.palette_
    assert learner.inertia_ == counted.inertia_
    assert learner.fit_many([image])[0] == learner.palette_
    halved = np.full(image.shape[:2], 2)
    assert KMeansPalette(24, color_format="rgb444", queue=queue).fit(image, halved).palette_ == learner.palette_
    few = KMeansPalette(256, color_format="rgb565", queue=queue).fit_quality(image, target_psnr=28).palette_
    assert are_displayable(few.colors, "rgb565")
    assert len(few) < 64


def test_swaps_reach_colors_that_steps_do_not(queue, rng):
    """With nearly as many entries as displayed colours, nearly all of these are used."""
    image = DISPLAY_FORMATS["rgb332"].nearest(rng.integers(0, 256, (3000, 3), dtype=np.uint8))[None]
    image = np.minimum(image.astype(int) + rng.integers(0, 5, image.shape), 255).astype(np.uint8)
    every = np.concatenate([DISPLAY_FORMATS["rgb332"].nearest(image[0]), np.full((3000, 1), 255, np.uint8)], axis=1)
    shown = np.unique(every, axis=0)
    palette = KMeansPalette(len(shown) - 8, color_format="rgb332", queue=queue).fit(image).palette_
    assert len(palette) == len(shown) - 8
    assert len(without(palette.rgba(), shown)) == 0


def test_swaps_that_gain_nothing_are_undone(queue, rng, monkeypatch):
    image = rng.normal(128, 45, (1, 3000, 3)).clip(0, 255).astype(np.uint8)
    learner = KMeansPalette(60, color_format="rgb332", queue=queue)
    swapped = learner.fit(image).inertia_
    assert swapped == squared_error(image, learner.palette_.colors)
    lower(monkeypatch, restricted__distances=0)
    assert swapped < learner.fit(image).inertia_
