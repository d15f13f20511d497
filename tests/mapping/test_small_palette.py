"""Palettes of few colours on CPUs: equal to a search by NumPy and to the portable form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import OrderedDither, Palette, runtime
from clquant.mapping import small_palette
from clquant.palette import engine

LEVELS = st.sampled_from([[0, 255], [0, 1, 254, 255], list(range(256))])


def nearest(image, colors):
    pixels = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    distances = np.sum((pixels[:, :, None].astype(np.int64) - colors) ** 2, axis=3)
    return np.argmin(distances, axis=2)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, small_palette.MAX_COLORS),
    st.integers(1, 70),
    st.integers(1, 9),
    LEVELS,
    LEVELS,
)
def test_equals_an_exhaustive_search(seed, count, width, height, levels, entries):
    rng = np.random.default_rng(seed)
    colors = rng.choice(entries, (count, 3)).astype(np.uint8)
    for channels in (1, 3):
        image = rng.choice(levels, (height, width, channels)).astype(np.uint8)
        given = image[:, :, 0] if channels == 1 else image
        assert np.array_equal(engine.predict(given, Palette(colors)), nearest(image, colors))


@pytest.mark.parametrize("count", [1, 2, 5, small_palette.MAX_COLORS, small_palette.MAX_COLORS + 1])
@pytest.mark.parametrize("size", [(1, 1), (3, 15), (2, 16), (5, 17), (70, 131)])
def test_dithering_equals_the_portable_form(queue, rng, count, size):
    palette = Palette(rng.integers(0, 256, (count, 3), dtype=np.uint8))
    masks = [OrderedDither(strength=s) for s in (0, 0.37, 1)]
    masks += [OrderedDither("bayer", size=s) for s in (2, 4, 8, 16, 64, 128)]
    for channels in (1, 3):
        image = rng.choice([0, 1, 90, 100, 254, 255], (*size, channels)).astype(np.uint8)
        image[::2] = rng.integers(0, 256, image[::2].shape)
        given = image[:, :, 0] if channels == 1 else image
        for dither in masks:
            with runtime.force_variant("portable"):
                expected = engine.predict(given, palette, dither=dither, queue=queue)
            assert np.array_equal(engine.predict(given, palette, dither=dither, queue=queue), expected)
