"""The parallel map against Dekker's: not below it where its samples, its start or its chain would fail it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clquant import NeuQuantCL, quality
from clquant.mapping import error


def flat_colours(rng):
    colors = rng.integers(0, 256, (300, 3), dtype=np.uint8)
    return colors[rng.integers(0, 300, (64, 64))].repeat(2, axis=0).repeat(2, axis=1)


def red_ramp(_):
    y, x = np.mgrid[0:64, 0:256]
    return np.stack([x, 0 * x, y // 8], axis=2).astype(np.uint8)


def dots_on_a_page(rng):
    page = np.full((500, 700, 3), (200, 210, 220), np.uint8)
    page[rng.integers(0, 500, 600), rng.integers(0, 700, 600)] = rng.integers(0, 256, (600, 3))
    return page


def gray_noise(rng):
    gray = rng.normal(128, 25, (100, 150))
    planes = np.stack([gray + rng.normal(0, 1, gray.shape), gray, gray], axis=2)
    return np.clip(planes, 0, 255).astype(np.uint8)


def noise(rng):
    return rng.integers(0, 256, (150, 150, 3), dtype=np.uint8)


@pytest.mark.full
@pytest.mark.parametrize("make", [flat_colours, red_ramp, dots_on_a_page, gray_noise, noise])
def test_made_pictures(queue, rng, make):
    picture = make(rng)
    sequential, parallel = (
        quality.psnr(picture, NeuQuantCL(mode=mode, queue=queue).fit(picture).transform(picture))
        for mode in ("sequential", "parallel")
    )
    assert parallel > sequential


@pytest.mark.full
def test_the_sample_gains_what_photographs_gain(queue, sample):
    sequential, parallel = (
        quality.psnr(sample, NeuQuantCL(mode=mode, queue=queue).fit(sample).transform(sample))
        for mode in ("sequential", "parallel")
    )
    assert parallel > sequential + 0.4


def least_error(colors, counts, k, fixed=None, tried=None):
    """The least mean squared error a channel of palettes of the fixed and further colours, near enough.

    Lloyd steps begin with every subset of the colours, or of those that are tried.
    """
    fixed = np.zeros((0, 3)) if fixed is None else fixed.astype(float)
    tried, colors, best = colors if tried is None else tried, colors.astype(float), np.inf
    for chosen in itertools.combinations(range(len(tried)), k - len(fixed)):
        centers = np.concatenate([fixed, tried[list(chosen)]])
        for _ in range(8):
            won = ((colors[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
            for i in set(won[won >= len(fixed)].tolist()):
                centers[i] = np.average(colors[won == i], axis=0, weights=counts[won == i])
        apart = ((colors[:, None] - np.rint(centers)) ** 2).sum(axis=2).min(axis=1)
        best = min(best, (apart * counts).sum() / counts.sum() / 3)
    return best


@pytest.mark.full
@pytest.mark.parametrize("k", [2, 3, 4])
def test_tiny_pictures_to_a_few_colours(queue, rng, k):
    """Learned from the gray axis alone, such palettes had up to 3.6 times the least error."""
    pictures = []
    for _ in range(12):
        colors = rng.integers(0, 256, (int(rng.integers(5, 9)), 3), dtype=np.uint8)
        pictures.append(colors[rng.choice(len(colors), (5, 6), p=rng.dirichlet(np.full(len(colors), 0.6)))])
    ratios = []
    for picture, palette in zip(pictures, NeuQuantCL(k, queue=queue).fit_many(pictures), strict=True):
        colors, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
        if len(colors) > k:
            found = error.mean_squared_error(picture, palette, queue=queue)
            ratios.append(found / least_error(colors, counts, k))
    assert np.mean(ratios) < 1.06
    assert max(ratios) < 1.35


@pytest.mark.full
@pytest.mark.parametrize(("fixed", "free"), [(15, 1), (30, 2)])
def test_nearly_all_colours_fixed(queue, sample, rng, fixed, free):
    picture = np.ascontiguousarray(sample[5::40, 7::40])
    colors, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
    for _ in range(3):
        kept = colors[rng.choice(len(colors), fixed, replace=False)]
        palette = NeuQuantCL(fixed + free, fixed_colors=kept, queue=queue).fit(picture).palette_
        found = error.mean_squared_error(picture, palette, queue=queue)
        assert found <= 1.1 * least_error(colors, counts, fixed + free, kept, colors[:: 2 if free == 1 else 15])
