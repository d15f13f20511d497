"""NeuQuant's map that is prepared, and trained, while a picture is on its way: the same palettes as afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import NeuQuantCL, runtime
from clquant.neuquant import fit, host_sampling

# Of each kind of picture: how often a map is made, and how often one is trained.
AHEAD = {
    "many": (1, 1),
    "opaque": (2, 2),  # fewer colours than it seems to have
    "hidden": (2, 2),  # a transparent pixel that is overlooked
    "clear": (2, 1),
    "blended": (2, 1),
    "few": (1, 1),
    "fixed": (2, 1),
}


@pytest.fixture
def on_its_way(queue, monkeypatch):
    """What page-locks a picture; from then on none need be large, and devices have memory of their own."""

    def locked(pixels, eighths=8):
        monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
        monkeypatch.setattr(fit, "PREPARED_PIXELS", 0)
        monkeypatch.setattr(host_sampling, "MIN_LARGE_BYTES", 0)
        monkeypatch.setattr(host_sampling, "PIXELS_PER_SAMPLE_PINNED", 1)
        monkeypatch.setattr(host_sampling, "SENT_EIGHTHS", eighths)
        monkeypatch.setattr(runtime.transfer.overlap, "SMALLEST", 0)
        monkeypatch.setattr("clquant.images.upload.PAGEABLE_PART", 0)
        array = runtime.empty_pinned(pixels.shape, queue=queue)
        array[...] = pixels
        return array

    return locked


@pytest.fixture
def noted(monkeypatch):
    """Note an event at every call of a method from now on."""
    events = []

    def note(owner, name, event):
        original = getattr(owner, name)

        def called(*args, **options):
            events.append(event)
            return original(*args, **options)

        monkeypatch.setattr(owner, name, called)
        return events

    return note


@pytest.mark.parametrize("kind", AHEAD)
def test_a_map_prepared_ahead_gives_the_same_palette(queue, rng, on_its_way, noted, kind):
    pixels = rng.integers(1, 256, (150, 160, 3 if kind in ("many", "opaque", "few", "fixed") else 4), dtype=np.uint8)
    if kind == "opaque":
        pixels = pixels.reshape(-1, 3)[rng.integers(0, 12_000, (150, 160))]
    if kind == "clear":
        pixels[..., 3] = 255 * (pixels[..., 3] > 9)
    if kind == "hidden":
        pixels[..., 3] = 255
        places = set(host_sampling.spread_places(150 * 160, 0, host_sampling.GLANCED).tolist())
        pixels.reshape(-1, 4)[min(set(range(150 * 160)) - places), 3] = 0
    if kind == "few":
        pixels //= 100
    fixed = [[0, 0, 0], [255, 255, 255]] if kind == "fixed" else None
    engine = NeuQuantCL(16, sample_factor=30, fixed_colors=fixed, refine_steps=2, queue=queue)
    expected = engine.fit(pixels).palette_
    pixels = on_its_way(pixels)
    events = noted(fit.MiniBatchSOM, "__init__", "map")
    noted(fit.MiniBatchSOM, "queue", "train")
    noted(runtime.Session, "download", "wait")
    assert engine.fit(pixels).palette_ == expected
    early = kind in ("many", "opaque", "hidden", "fixed")
    assert events[: 2 + early] == (["map", "train", "wait"] if early else ["map", "wait"])
    assert (events.count("map"), events.count("train")) == AHEAD[kind]
    events.clear()
    assert engine.fit(pixels, progress=lambda *_: None).palette_ == expected
    assert events[:2] == ["map", "wait"]


@pytest.fixture
def picture(rng):
    """(240, 300, 3): an unevenly bright noise of more colours than are counted, no two corners alike."""
    noise = rng.integers(0, 120, (240, 300, 3))
    return np.asarray(noise + np.linspace(0, 135, 300).astype(int)[:, None], np.uint8)


# How much of a picture is sent before it is learned from, in 1/8.
SHARES = [1, 5, 8]


@pytest.mark.parametrize("eighths", SHARES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"random_state": 5, "fixed_colors": [[0, 0, 0], [200, 30, 30]]},
        {"fixed_colors": [[200, 30, 30, 128]], "color_space": "oklab"},
        {"refine_steps": 0, "metric": "l1", "conscience": True},
    ],
)
def test_sent_and_drawn_pixels_give_the_same_palette(queue, picture, on_its_way, monkeypatch, eighths, options):
    engine = NeuQuantCL(queue=queue, **{"n_colors": 16, "sample_factor": 6, "refine_steps": 2, **options})
    expected = engine.fit(picture).palette_
    locked = on_its_way(picture, eighths)
    given = []
    original = fit.begun_pixels

    def kept(*args):
        given.append(original(*args))
        return given[-1]

    monkeypatch.setattr(fit, "begun_pixels", kept)
    assert engine.fit(locked).palette_ == expected
    assert [band.which is None for band in given[0].bands] == [False] * (eighths < 8) + [True]
    assert given[0].bands[-1].count == 300 * 30 * eighths


@pytest.mark.parametrize("eighths", SHARES)
@pytest.mark.parametrize("kind", ["many", "opaque", "hidden", "few below", "few above"])
def test_learned_and_mapped_on_its_way(queue, picture, on_its_way, rng, eighths, kind):
    if kind in ("opaque", "hidden"):
        picture = np.concatenate([picture, np.full((240, 300, 1), 255, np.uint8)], axis=2)
    if kind == "hidden":
        picture[239, 299, 3] = 0
    if kind == "few below":
        picture[120:] = 9
    if kind == "few above":
        picture[:120] = 9
    engine = NeuQuantCL(12, sample_factor=6, queue=queue)
    indices = engine.fit_predict(picture)
    expected = engine.palette_
    locked = on_its_way(picture, eighths)
    assert np.array_equal(engine.fit_predict(locked), indices)
    assert engine.palette_ == expected
    assert engine.fit(locked).palette_ == expected
