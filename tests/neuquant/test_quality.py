"""The parallel map against Dekker's: not below it where its samples, its start or its chain would fail it."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import NeuQuantCL, quality


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


@pytest.mark.parametrize("make", [flat_colours, red_ramp, dots_on_a_page, gray_noise, noise])
def test_made_pictures(queue, rng, make):
    picture = make(rng)
    sequential, parallel = (
        quality.psnr(picture, NeuQuantCL(mode=mode, queue=queue).fit(picture).transform(picture))
        for mode in ("sequential", "parallel")
    )
    assert parallel > sequential


def test_the_sample_gains_what_photographs_gain(queue, sample):
    sequential, parallel = (
        quality.psnr(sample, NeuQuantCL(mode=mode, queue=queue).fit(sample).transform(sample))
        for mode in ("sequential", "parallel")
    )
    assert parallel > sequential + 0.4
