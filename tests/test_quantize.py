"""`clquant.quantize`: the whole job in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl.array
import pytest

import clquant
from clquant import KMeansPalette, Palette, runtime


@pytest.fixture
def picture(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return rng.integers(0, 256, (13, 17, 3), dtype=np.uint8)


@pytest.mark.parametrize("dither", [None, "blue-noise"])
def test_a_number_is_learned_by_k_means(queue: runtime.CommandQueue, picture: Any, dither: Any) -> None:
    engine = KMeansPalette(5, color_space="oklab", random_state=3, queue=queue).fit(picture)
    made = clquant.quantize(picture, 5, dither=dither, color_space="oklab", random_state=3, queue=queue)
    assert made.palette == engine.palette_
    assert np.array_equal(made.indices, engine.predict(picture, dither))


@pytest.mark.parametrize("colors", [["black", "#f80", "white"], Palette([[0, 0, 0], [255, 136, 0], [255, 255, 255]])])
def test_a_palette_is_mapped_to(queue: runtime.CommandQueue, picture: Any, colors: Any) -> None:
    made = clquant.quantize(picture, colors, queue=queue)
    distances = ((picture[:, :, None].astype(int) - made.palette.colors) ** 2).sum(axis=3)
    assert np.array_equal(made.indices, distances.argmin(axis=2))


def test_a_device_array_stays_on_the_device(queue: runtime.CommandQueue, picture: Any) -> None:
    made = clquant.quantize(pyopencl.array.to_device(queue, picture), np.int16(4))
    assert isinstance(made.indices, pyopencl.array.Array)
    assert np.array_equal(made.indices.get(), clquant.quantize(picture, 4).indices)


@pytest.mark.parametrize(
    ("colors", "words"),
    [
        (1, "colors is 1; allowed: an integer from 2 to 65536"),
        (True, "colors is True; allowed: an integer"),
        (2.5, "colors is 2.5; allowed: an integer from 2 to 65536"),
        ([], "colors"),
        (["blck"], "'blck'; allowed: '#rgb'"),
    ],
)
def test_wrong_colours_are_named(picture: Any, colors: Any, words: str) -> None:
    with pytest.raises(clquant.ClquantError, match=words):
        clquant.quantize(picture, colors)
