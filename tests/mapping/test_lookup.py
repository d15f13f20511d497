"""The colours of indices, looked up on every device, against NumPy's indexing."""

from __future__ import annotations

import numpy as np
import pyopencl.array
import pytest

from clquant import Palette
from clquant.mapping import lookup
from clquant.palette import engine
from tests.lowering import lower


@pytest.mark.small
@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("count", [5, 300])
@pytest.mark.parametrize("size", [(1, 1), (3, 4), (7, 13)])
def test_equals_numpy(queue, rng, monkeypatch, size, count, channels):
    lower(monkeypatch, lookup__host=0)
    palette = Palette(rng.integers(0, 256, (count, channels), dtype=np.uint8))
    chosen = rng.integers(0, count, size).astype(palette.index_dtype)
    expected = palette.colors[chosen]
    np.testing.assert_array_equal(lookup.applied(chosen, palette, queue), expected)
    sent = pyopencl.array.to_device(queue, chosen)
    np.testing.assert_array_equal(lookup.applied(sent, palette, queue).get(), expected)


@pytest.mark.parametrize("dither", ["bayer", "floyd-steinberg"])
def test_dithered_colors_are_those_of_the_indices(queue, rng, dither):
    palette = Palette(rng.integers(0, 256, (16, 3), dtype=np.uint8))
    picture = rng.integers(0, 256, (181, 183, 3), dtype=np.uint8)
    assert picture.size // 3 >= 1 << 15
    chosen = engine.predict(picture, palette, dither=dither, queue=queue)
    colors = engine.transform(picture, palette, dither=dither, queue=queue)
    np.testing.assert_array_equal(colors, palette.colors[chosen])
