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
        (0, "colors is 0; allowed: an integer from 1 to 65536"),
        (True, "colors is True; allowed: an integer"),
        (2.5, "colors is 2.5; allowed: an integer from 1 to 65536"),
        ([], "colors"),
        (["blck"], "'blck'; allowed: '#rgb'"),
    ],
)
def test_wrong_colours_are_named(picture: Any, colors: Any, words: str) -> None:
    with pytest.raises(clquant.ClquantError, match=words):
        clquant.quantize(picture, colors)


@pytest.mark.full
@pytest.mark.parametrize(
    "call",
    [
        lambda engine, picture: engine.fit_predict(picture),
        lambda engine, picture: engine.fit_transform(picture),
        lambda engine, picture: clquant.quantize(picture, 5, queue=engine.queue),
        lambda engine, picture: clquant.quantize(picture, 5, dither="leaky", queue=engine.queue),
    ],
    ids=["fit_predict", "fit_transform", "quantize", "quantize, dithered"],
)
def test_a_picture_is_uploaded_once(
    queue: runtime.CommandQueue, picture: Any, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Learning alone uploads as much as learning and mapping do."""
    monkeypatch.setenv("CLQUANT_LIMITS", "is_cpu=0,unified_memory=0")
    engine = KMeansPalette(5, queue=queue)
    engine.fit(picture)  # tables that later calls find on the device
    call(engine, picture)
    with runtime.profile() as learning:
        engine.fit(picture)
    with runtime.profile() as whole:
        call(engine, picture)
    assert whole.counts()["upload"] == learning.counts()["upload"]
