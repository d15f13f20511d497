"""Fixed colours: kept exactly and in order, the others fitted to go with them."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest

from clquant import KMeansPalette, Palette
from clquant.color import spaces
from clquant.mapping import error
from clquant.runtime import InvalidArgument

FIXED = [[255, 0, 255], [0, 0, 0], [90, 160, 20]]


@pytest.mark.parametrize("space", spaces.NAMES)
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_they_come_first_and_unchanged(queue, sample, space, init):
    image = np.ascontiguousarray(sample[::8, ::8])
    learner = KMeansPalette(12, fixed_colors=FIXED, init=init, color_space=space, queue=queue).fit(image)
    assert learner.palette_.colors[:3].tolist() == FIXED
    assert len(learner.palette_) == 12
    assert len(set(learner.palette_)) == 12
    measured = error.mean_squared_error(image, learner.palette_, color_space=space, queue=queue)
    # Both are the same whole number of squared steps, divided in another order.
    squares = spaces.space(space, alpha=False).unit ** 2
    assert round(learner.inertia_ * squares) == round(measured * image.size * squares)


def test_the_others_go_with_them(queue, sample):
    image = np.ascontiguousarray(sample[::8, ::8])
    free = KMeansPalette(9, queue=queue).fit(image).palette_
    joined = Palette(np.concatenate([np.array(FIXED, np.uint8), free.colors]))
    fitted = KMeansPalette(12, fixed_colors=FIXED, queue=queue).fit(image).palette_
    all_free = KMeansPalette(12, queue=queue).fit(image).palette_
    errors = [error.mean_squared_error(image, palette, queue=queue) for palette in (all_free, fitted, joined)]
    assert errors[0] < errors[1] < errors[2]


def test_free_centers_are_at_their_means(queue, rng):
    image = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
    learner = KMeansPalette(6, fixed_colors=[[128, 128, 128]], tol=0.0, max_iter=1000, queue=queue).fit(image)
    indices = learner.predict(image)
    for entry in range(1, 6):
        mean = image[indices == entry].mean(axis=0)
        assert np.abs(mean - learner.palette_.colors[entry]).max() <= 1.0


@pytest.mark.parametrize("start", [["#000000"] * 5, ["#000000"] * 4 + ["#ff00ff"]])
def test_a_start_that_no_pixel_is_nearest_to(queue, sample, start):
    image = np.ascontiguousarray(sample[::8, ::8])
    learner = KMeansPalette(5, init=start, fixed_colors=FIXED, queue=queue).fit(image)
    assert learner.palette_.colors[:3].tolist() == FIXED
    assert len(set(learner.palette_)) == 5
    assert np.bincount(learner.predict(image).ravel(), minlength=5)[3:].min() > 0
    assert learner.n_iter_ < 100


def test_a_start_keeps_its_order_beside_fixed_colors(queue, sample):
    image = np.ascontiguousarray(sample[::8, ::8])
    found = KMeansPalette(8, fixed_colors=FIXED, queue=queue).fit(image).palette_.colors
    turned = np.concatenate([found[:3], found[:2:-1]])
    again = KMeansPalette(8, init=turned, fixed_colors=FIXED, queue=queue).fit(image).palette_.colors
    assert np.abs(again.astype(int) - turned).max() <= 8


def test_few_colors_stay_exact(queue):
    image = np.array([[[0, 0, 0], [10, 20, 30], [10, 20, 30], [40, 40, 40]]], np.uint8)
    palette = KMeansPalette(5, fixed_colors=FIXED, queue=queue).fit(image).palette_
    assert list(palette) == [(255, 0, 255), (0, 0, 0), (90, 160, 20), (10, 20, 30), (40, 40, 40)]
    tight = KMeansPalette(4, fixed_colors=FIXED, queue=queue).fit(image).palette_
    assert tight.colors[:3].tolist() == FIXED
    assert len(tight) == 4


@pytest.mark.full
def test_with_a_transparent_entry_and_with_partial_alpha(queue, rng):
    image = rng.integers(0, 256, (20, 30, 4), dtype=np.uint8)
    image[:, :10, 3] = 0
    for partial in (False, True):
        if not partial:
            image[:, 10:, 3] = 255
        else:
            image[:, 20:, 3] = 100
        palette = KMeansPalette(9, fixed_colors=FIXED, queue=queue).fit(image).palette_
        assert palette[0] == (0, 0, 0, 0)
        assert palette.colors[1:4].tolist() == [[*color, 255] for color in FIXED]


def test_colours_with_alpha(queue, rng):
    image = rng.integers(0, 256, (20, 30, 4), dtype=np.uint8)
    image[:, :10, 3], image[:, 10:, 3] = 0, 255
    half, clear = [200, 30, 30, 128], [7, 7, 7, 0]
    palette = KMeansPalette(9, fixed_colors=[half, clear], queue=queue).fit(image).palette_
    assert palette.colors[:2].tolist() == [half, clear]
    assert (palette.colors[2:, 3] == 255).all()
    assert len(palette) == 9
    added = KMeansPalette(9, fixed_colors=[half], queue=queue).fit(image).palette_
    assert added.colors[:2].tolist() == [[0, 0, 0, 0], half]
    learner = KMeansPalette(9, fixed_colors=[half], queue=queue).fit(image[:, 10:, :3])
    assert learner.palette_.colors[0].tolist() == half
    plain = KMeansPalette(8, queue=queue).fit(image[:, 10:, :3])
    assert learner.inertia_ < 1.02 * plain.inertia_  # in the same units: opaque colours are as far apart as ever
    assert len(KMeansPalette(2, fixed_colors=[clear], queue=queue).fit(image).palette_) == 2


def test_many_pictures(queue, rng):
    pictures = [rng.integers(0, 256, (9, 8, 3), dtype=np.uint8) for _ in range(2)]
    learner = KMeansPalette(6, fixed_colors=np.array(FIXED, np.uint8), queue=queue)
    assert learner.fit_many(pictures) == [learner.fit(picture).palette_ for picture in pictures]


def test_the_fewest_colours_for_a_quality(queue, sample):
    image = np.ascontiguousarray(sample[::8, ::8])
    palette = KMeansPalette(64, fixed_colors=FIXED, queue=queue).fit_quality(image, target_psnr=24).palette_
    assert palette.colors[:3].tolist() == FIXED
    assert 3 < len(palette) < 64
    with pytest.raises(InvalidArgument, match="allowed: fewer than n_colors = 3"):
        KMeansPalette(3, fixed_colors=FIXED, queue=queue).fit_quality(image, target_psnr=24)


def test_an_empty_list_fixes_none(queue, sample):
    image = np.ascontiguousarray(sample[::8, ::8])
    free = KMeansPalette(5, queue=queue).fit(image)
    assert KMeansPalette(5, fixed_colors=[], queue=queue).fit(image).palette_ == free.palette_


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        (np.zeros((4, 3), int), "fixed_colors has 4 colours; allowed: fewer than n_colors = 4"),
        ([[1, 2]], r"fixed_colors has shape \(1, 2\)"),
        ([[1, 2, 256]], "fixed_colors holds values from 1 to 256"),
    ],
)
def test_wrong_colors(queue, sample, fixed, message):
    with pytest.raises(InvalidArgument, match=message):
        KMeansPalette(4, fixed_colors=fixed, queue=queue).fit(sample)


def test_a_gray_picture_weighs_pixels(queue, sample, tmp_path):
    image = np.ascontiguousarray(sample[::8, ::8])
    weight = np.ascontiguousarray(image[:, :, 1])
    path = tmp_path / "weight.png"
    PIL.Image.fromarray(weight).save(path)
    expected = KMeansPalette(6, queue=queue).fit(image, weight).palette_
    assert KMeansPalette(6, queue=queue).fit(image, path).palette_ == expected
    assert KMeansPalette(6, queue=queue).fit(image, PIL.Image.fromarray(weight)).palette_ == expected
    with pytest.raises(InvalidArgument, match="sample_weight is a picture of 3 channels; allowed: a gray one"):
        KMeansPalette(6, queue=queue).fit(image, PIL.Image.fromarray(image))
