"""Palettes of few colours on CPUs: equal to a search by NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import Palette
from clquant.mapping import small_palette
from clquant.palette import engine

LEVELS = st.sampled_from([[0, 255], [0, 1, 254, 255], list(range(256))])


def nearest(image, colors):
    pixels = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    distances = np.sum((pixels[:, :, None].astype(np.int64) - colors) ** 2, axis=3)
    return np.argmin(distances, axis=2)


@settings(max_examples=30)
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
