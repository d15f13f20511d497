"""NeuQuant's map from pixels drawn on the host: the same palettes as from whole pictures on the device."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import NeuQuantCL, runtime
from clquant.histogram.distinct import MAX_DISTINCT
from clquant.neuquant import fit, host_sampling
from clquant.neuquant import schedule as tables
from clquant.neuquant.host_sampling import at_least_colors, samples_after, spread_places
from tests.reference import neuquant as reference

FIXED = [[0, 0, 0], [255, 255, 255], [200, 30, 30]]


@pytest.fixture
def picture(rng):
    """(300, 500, 3): an unevenly bright noise of more colours than are counted, no two corners alike."""
    noise = rng.integers(0, 120, (300, 500, 3))
    return np.asarray(noise + np.linspace(0, 135, 500).astype(int)[:, None], np.uint8)


@pytest.fixture
def drawings(monkeypatch):
    """What `drawn_pixels` gives from now on, where a picture need not be large and the device has its own memory."""
    given = []
    original = fit.drawn_pixels

    def noted(*args, **options):
        given.append(original(*args, **options))
        return given[-1]

    def begin():
        monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
        monkeypatch.setattr(host_sampling, "PIXELS_PER_SAMPLE", 1)
        monkeypatch.setattr(host_sampling, "MIN_LARGE_BYTES", 0)
        monkeypatch.setattr(host_sampling, "_BLOCK", 1000)
        monkeypatch.setattr(fit, "drawn_pixels", noted)
        return given

    return begin


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"random_state": 5},
        {"fixed_colors": FIXED},
        {"fixed_colors": [[200, 30, 30, 128]], "color_space": "oklab"},
        {"refine_steps": 0, "metric": "l1", "conscience": True},
        {"n_colors": 300, "sample_factor": 7, "color_space": "linear", "keep_exact": False},
    ],
)
def test_drawn_pixels_give_the_same_palette(queue, picture, drawings, options):
    engine = NeuQuantCL(queue=queue, **{"n_colors": 16, "sample_factor": 4, "refine_steps": 2, **options})
    expected = engine.fit(picture).palette_
    given = drawings()
    assert engine.fit(picture).palette_ == expected
    assert [pixels.bands[0].drawn for pixels in given] == [True]


def test_drawn_in_parts_that_fit_the_largest_buffer(queue, picture, drawings, monkeypatch):
    engine = NeuQuantCL(16, sample_factor=2, queue=queue)
    expected = engine.fit(picture).palette_
    given = drawings()
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0,max_alloc=262144")
    assert engine.fit(picture).palette_ == expected
    assert given[0].bands[0].drawn


def test_drawn_with_weights_and_many_at_once(queue, picture, drawings, rng):
    engine = NeuQuantCL(16, sample_factor=4, queue=queue)
    weights = rng.integers(0, 9, picture.shape[:2])
    pictures = [picture, picture[:20, :30], np.ascontiguousarray(picture[::-1])]
    weighted, many = engine.fit(picture, weights).palette_, engine.fit_many(pictures)
    given = drawings()
    assert engine.fit(picture, weights).palette_ == weighted
    assert engine.fit_many(pictures) == many
    assert [pixels is not None for pixels in given] == [True, True, True, False]  # small pictures are learned last


@pytest.mark.parametrize("kind", ["few", "gray", "alpha", "several", "small", "pinned", "device"])
def test_what_is_not_drawn(queue, picture, drawings, kind):
    image = picture
    if kind == "few":
        image = picture // 16 * 16
    if kind == "gray":
        image = np.ascontiguousarray(picture[..., 0])
    if kind == "alpha":
        image = np.concatenate([picture, picture[..., :1] | 1], axis=2)
        image[299, 499, 3] = 0
    if kind == "several":
        image = [picture[:200], picture[200:]]
    if kind == "small":
        image = np.ascontiguousarray(picture[:100])
    engine = NeuQuantCL(16, sample_factor=4, queue=queue)
    expected = engine.fit(image).palette_
    given = drawings()
    if kind == "pinned":
        image = runtime.empty_pinned(picture.shape, queue=queue)
        image[...] = picture
    if kind == "device":
        image = runtime.open_session(queue).new_array(picture.shape, np.uint8)
        image.set(picture)
    assert engine.fit(image).palette_ == expected
    assert given == [None]


@pytest.mark.parametrize(("total", "start"), [(150_001, 0), (2**31 - 1, 2**32 - 1), (67_108_864, 123_456_789)])
def test_places_are_those_of_the_reference(total, start):
    shifted = [((s * 2654435769 + start) % 2**32) * total // 2**32 for s in range(3000)]
    assert spread_places(total, start, 3000).tolist() == shifted
    assert start or shifted == reference.sample(total, 3000)
    which, places = samples_after(total, start, 3000, total // 3)
    assert sorted(which.tolist()) == [s for s, place in enumerate(shifted) if place >= total // 3]
    assert places.tolist() == [shifted[s] for s in which] == sorted(places.tolist())


def test_no_more_colors_are_promised_than_there_are(rng):
    few = rng.integers(0, 256, (MAX_DISTINCT, 3), dtype=np.uint8)
    assert at_least_colors(np.repeat(few, 4, axis=0)) <= len(np.unique(few, axis=0))
    assert at_least_colors(rng.integers(0, 256, (4 * MAX_DISTINCT, 3), dtype=np.uint8)) > MAX_DISTINCT


@pytest.mark.full
@pytest.mark.parametrize("sample_factor", [1, 3, 30])
def test_more_colors_look_at_no_fewer_samples(sample_factor):
    counts = [tables.schedule(n, sample_factor).most for n in (2, 3, 63, 64, 65, 255, 256, 257, 1023, 1024)]
    assert counts == sorted(counts)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_gathering(rng, monkeypatch, threads, channels):
    monkeypatch.setattr(runtime.transfer.gather, "_threads", lambda: threads)
    rows = rng.integers(0, 256, (999, channels), dtype=np.uint8)
    places = rng.integers(0, 999, 20_000)
    out = np.empty((20_000, channels), np.uint8)
    begun = runtime.gather_ahead(rows, places, out)
    assert len(begun) == (threads if threads > 1 else 0)
    for part in begun:
        part.result()
    assert np.array_equal(out, rows[places])
