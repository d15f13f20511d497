"""Dithering by search against its reference, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import KMeansPalette, Palette, SearchDither
from clquant.color import spaces
from clquant.dithering import eye, opponent, phase_planes, search, search_steps
from clquant.palette import engine
from clquant.quality import visual_error
from clquant.runtime import InvalidArgument, InvalidType, StoppedError, force_variant, open_session
from tests.reference import search as reference
from tests.reference.halftone import as_rgba


def expected(image, palette, name, dither):
    pixels = image.reshape(*image.shape[:2], -1)
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    space = spaces.space(name, palette.has_alpha or pixels.shape[2] == 4)
    flat = pixels.reshape(-1, pixels.shape[2])
    chroma = opponent.bounded_chroma(palette, space)
    wanted = opponent.points(space, flat, chroma).reshape(*pixels.shape[:2], -1)
    points = opponent.points(space, palette.rgba(), chroma)
    weights = reference.kernel(search.REACH, search.WIDTH, dither.sharpness, opponent.most_error(space))
    return reference.dither(wanted, as_rgba(pixels), points, palette, space, weights, dither.passes)


@pytest.mark.small
@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_equals_the_reference(queue, rng, name, channels):
    image = rng.integers(0, 256, (9, 14, channels), dtype=np.uint8)
    colors = rng.integers(0, 256, (7, channels if channels == 4 else 3), dtype=np.uint8)
    if channels == 4:
        colors[2], colors[5], image[::3, ::2, 3], image[1::3, :, 3] = 0, 0, 0, 255
    palette = Palette(colors)
    for dither in (SearchDither(2), SearchDither(1, sharpness=0)):
        found = engine.predict(image, palette, color_space=name, dither=dither, queue=queue)
        assert np.array_equal(found, expected(image, palette, name, dither))


@pytest.mark.parametrize("shape", [(1, 1), (3, 70), (67, 5), (33, 65)])
def test_forms_and_device_arrays_are_equal(queue, rng, shape):
    image = rng.integers(0, 256, (*shape, 4), dtype=np.uint8)
    palette = Palette(np.append(rng.integers(0, 256, (199, 4)), [[0, 0, 0, 0]], axis=0))
    found = engine.predict(image, palette, dither="search", queue=queue)
    assert found.dtype == np.uint8
    with force_variant("portable"):
        assert np.array_equal(engine.predict(image, palette, dither="search", queue=queue), found)
    there = open_session(queue).new_array(image.shape, np.uint8)
    there.set(image)
    assert np.array_equal(engine.predict(there, palette, dither="search").get(), found)
    assert np.array_equal(engine.transform(there, palette, dither="search").get(), palette.colors[found])


def test_bands_change_nothing(queue, rng, monkeypatch):
    image = rng.integers(0, 256, (700, 21, 3), dtype=np.uint8)
    palette = Palette(rng.integers(0, 256, (6, 3)))
    whole = engine.predict(image, palette, dither=SearchDither(1), queue=queue)
    seen = []
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=262144")
    there = open_session(queue).new_array(image.shape, np.uint8)
    there.set(image)
    assert np.array_equal(engine.predict(there, palette, dither=SearchDither(1)).get(), whole)
    found = engine.predict(
        image, palette, dither=SearchDither(1), queue=queue, progress=lambda done, total: seen.append((done, total))
    )
    assert np.array_equal(found, whole)
    assert seen[-1][0] == seen[-1][1] > 2


def test_strong_sharpness_is_nearly_the_nearest_color(queue, sample):
    palette, sample = Palette([[0, 0, 0], [255, 255, 255], [200, 40, 30], [40, 160, 60]]), sample[::3, ::3]
    lively, calm = (engine.predict(sample, palette, dither=SearchDither(sharpness=s), queue=queue) for s in (0, 16))
    nearest = engine.predict(sample, palette, queue=queue)
    assert (calm != nearest).mean() < 0.8 * (lively != nearest).mean()


def test_less_visual_error_than_error_diffusion(queue, sample):
    sample = sample[::3, ::3]
    palette = KMeansPalette(16, queue=queue).fit(sample).palette_
    errors = {
        name: visual_error(sample, engine.transform(sample, palette, dither=name, queue=queue))
        for name in ("floyd-steinberg", "search")
    }
    assert errors["search"] < errors["floyd-steinberg"]


def test_palette_colors_stay_and_flat_grays_keep_their_mean(queue):
    palette = Palette([[0, 0, 0], [255, 255, 255]])
    for level in (0, 37, 128, 200, 255):
        flat = np.full((64, 64), level, np.uint8)
        shown = engine.predict(flat, palette, dither=SearchDither(sharpness=0), queue=queue)
        assert abs(shown[8:-8, 8:-8].mean() - level / 255) < 0.04


def test_alpha_is_dithered_and_opaque_pixels_get_no_holes(queue):
    palette = Palette([[0, 0, 0, 0], [0, 0, 0, 255], [255, 255, 255, 255]])
    image = np.full((64, 64, 4), 128, np.uint8)
    image[:20, :, 3], image[40:, :, 3] = 255, 0
    shown = engine.predict(image, palette, dither="search", queue=queue)
    assert (shown[:20] > 0).all()
    assert (shown[40:] == 0).all()
    assert 0.3 < (shown[20:40] > 0).mean() < 0.7
    with pytest.raises(InvalidArgument, match="no entry of alpha 0"):
        engine.predict(image, [[0, 0, 0]], dither="search", queue=queue)


def test_progress_stops(queue, sample):
    with pytest.raises(StoppedError):
        engine.predict(sample[::3, ::3], [[0, 0, 0]], dither="search", queue=queue, progress=lambda done, _: done < 2)


@settings(max_examples=40)
@given(st.integers(3, 8), st.floats(0.5, 2), st.floats(0, 16), st.sampled_from([255, 1020, 1025]))
def test_kernels_are_whole_exact_and_positive(reach, width, sharpness, most_error):
    weights = eye.eye_kernel(reach, width, sharpness, most_error)
    assert np.array_equal(weights, reference.kernel(reach, width, sharpness, most_error))
    assert np.array_equal(weights, weights.T)
    assert np.array_equal(weights, weights[::-1])
    middle = int(weights[reach, reach])
    assert middle & (middle - 1) == 0
    assert int(weights.sum()) * most_error < 2**24


def test_the_kernel_is_positive_semidefinite():
    weights = eye.eye_kernel(search.REACH, search.WIDTH, 0, 1020)
    spectrum = np.fft.fft2(np.fft.ifftshift(np.pad(weights, 30))).real
    assert spectrum.min() > -0.03 * weights.max()


def test_every_color_is_within_the_bounds_of_exactness():
    grid = np.stack(np.meshgrid(*[np.arange(0, 256, 15, dtype=np.uint8)] * 3, [0, 128, 255]), axis=-1).reshape(-1, 4)
    for name in spaces.NAMES:
        for alpha in (False, True):
            space = spaces.space(name, alpha)
            points = opponent.points(space, grid)
            assert np.ptp(points, axis=0).max() <= opponent.most_error(space)
            assert np.abs(points).max() <= opponent.most_error(space)
            assert (points**2).sum(axis=1).max() + 4096 * np.abs(points).sum(axis=1).max() < 2**24


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_chunks_of_rows_change_nothing(queue, rng, monkeypatch, chunk):
    image = rng.integers(0, 256, (77, 40, 3), dtype=np.uint8)
    palette = Palette(rng.integers(0, 256, (6, 3)))
    with force_variant("portable"):
        whole = engine.predict(image, palette, dither=SearchDither(2), queue=queue)
    monkeypatch.setattr(search_steps, "CHUNK_ROWS", chunk)
    assert np.array_equal(engine.predict(image, palette, dither=SearchDither(2), queue=queue), whole)


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 50), st.integers(2, 3))
def test_every_row_takes_all_steps_in_turn_and_none_too_early(rows, steps, chunk, skew):
    done = np.zeros(rows, int)
    for step, first, end in phase_planes.skewed_rows(rows, steps, chunk, skew):
        assert (done[first:end] == step).all()
        around = done[max(first - skew, 0) : end + skew]
        assert around.min() >= step
        assert around.max() <= step + 1
        done[first:end] += 1
    assert (done == steps).all()


def test_steps_visit_every_phase_and_never_write_what_is_read():
    steps = phase_planes.PhaseSteps(phase_planes.PhasePlanes(20, 30))
    for _ in range(3):
        turn = steps.turn(np.ones((1, 1), np.int32))
        assert [phase for phase, *_ in turn.steps] == list(phase_planes.ORDER)
        for _, first, count, read, write in turn.steps:
            assert turn.taps[first, 0] == read * phase_planes.PhasePlanes(20, 30).plane
            assert count == 1
            assert read != write
    assert sorted(phase_planes.ORDER) == list(range(16))
    assert list(phase_planes.ORDER) == reference.ORDER


@pytest.mark.parametrize(
    ("dither", "kind", "message"),
    [
        (SearchDither(0), InvalidArgument, "passes is 0; allowed"),
        (SearchDither(2.5), InvalidType, "passes is 2.5"),
        (SearchDither(sharpness=-1), InvalidArgument, "sharpness is -1; allowed: a number from 0 to 16"),
        (SearchDither(sharpness="high"), InvalidType, "sharpness is 'high'"),
    ],
)
def test_refused(queue, dither, kind, message):
    with pytest.raises(kind, match=message):
        engine.predict(np.zeros((4, 4), np.uint8), [[0, 0, 0]], dither=dither, queue=queue)
