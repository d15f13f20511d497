"""Mapping against the reference, with and without the candidate grid, on every device."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import IndexedImage, Palette
from clquant.color import spaces
from clquant.dithering.registry import register_dither
from clquant.flow import Portion
from clquant.images import Picture
from clquant.mapping import candidates
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.search import search_of
from clquant.palette import engine
from clquant.runtime import (
    Array,
    InvalidArgument,
    InvalidType,
    Progress,
    StoppedError,
    default_queue,
    force_tuning,
    force_variant,
    open_session,
    release_memory,
)
from clquant.runtime.profiling import profile
from tests.lowering import lower
from tests.reference.palette_map import nearest


@pytest.fixture
def _always_by_grid():
    with force_tuning({"mapping.grid_pays": 1}):
        yield


def mapped(queue, pixels, palette, space, grid):
    session = open_session(queue)
    with session.scope() as scope:
        on_device = PaletteOnDevice.of(session, scope, palette, space, 2**25 if grid else 0)
        out = scope.empty(2 * len(pixels))
        picture = Picture(1, len(pixels), pixels.shape[1], False)
        portion = Portion(picture, scope.copy_of(pixels), out, 0, 1, 0, 1, Progress(None))
        search_of(on_device, picture.channels).map(session, scope, portion)
        return session.download(out, len(pixels), palette.index_dtype)


def some_pixels(rng, colors, count, channels):
    pixels = rng.integers(0, 256, (count, channels), dtype=np.uint8)
    pixels[: count // 4] = colors[rng.integers(0, len(colors), count // 4), :channels]
    if channels == 4:
        pixels[::7, 3] = 0
        pixels[1::3, 3] = 255
    return pixels


@pytest.mark.small
@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_equals_the_reference(queue, rng, name, channels, grid, monkeypatch):
    # Few and large cells: a simulator walks every one of them.
    for key, found in spaces.DEFINITIONS.items():
        cells = found.cells[0] + 2, found.cells[1] + 1
        monkeypatch.setitem(spaces.DEFINITIONS, key, dataclasses.replace(found, cells=cells))
    colors = rng.integers(0, 256, (9, 4), dtype=np.uint8)
    colors[4], colors[6] = 0, colors[3]
    pixels = some_pixels(rng, colors, 60, channels)
    space = spaces.space(name, channels == 4)
    palette = Palette(colors if channels == 4 else colors[:, :3])
    assert np.array_equal(mapped(queue, pixels, palette, space, grid), nearest(pixels, palette, space))


@pytest.mark.full
@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("count", [5, 300, 4000])
def test_grid_equals_the_reference_for_many_colors(queue, rng, name, channels, count):
    colors = rng.integers(0, 256, (count, channels), dtype=np.uint8)
    if channels == 4:
        colors[1, 3] = 0
    pixels = some_pixels(rng, colors, 700, channels)
    space = spaces.space(name, channels == 4)
    palette = Palette(colors)
    assert np.array_equal(mapped(queue, pixels, palette, space, True), nearest(pixels, palette, space))


@pytest.mark.full
@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("limits", ["is_cpu=0", "is_cpu=0,work_group=2", "is_cpu=0,local_memory=8192"])
@pytest.mark.parametrize("count", [400, 900])
def test_lists_made_by_groups_equal_the_reference(queue, rng, name, limits, count, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    colors = rng.integers(0, 256, (count, 3), dtype=np.uint8)
    colors[count // 3 : 2 * (count // 3)] = colors[: count // 3] // 16
    pixels = some_pixels(rng, colors, 700, 3)
    space, palette = spaces.space(name, False), Palette(colors)
    assert np.array_equal(mapped(queue, pixels, palette, space, True), nearest(pixels, palette, space))


@pytest.mark.full
@settings(max_examples=15)
@given(
    colors=st.lists(st.tuples(*[st.integers(0, 255)] * 4), min_size=1, max_size=40),
    name=st.sampled_from(spaces.NAMES),
    seed=st.integers(0, 99),
)
def test_clustered_palettes(colors, name, seed):
    palette = Palette(np.array(colors) // 16 * np.array([1, 16, 4, 16])).with_transparent()
    rng = np.random.default_rng(seed)
    pixels = some_pixels(rng, palette.colors, 200, 4)
    space = spaces.space(name, True)
    expected = nearest(pixels, palette, space)
    for grid in (False, True):
        assert np.array_equal(mapped(default_queue(), pixels, palette, space, grid), expected)


def test_lists_too_long_give_a_coarser_grid_or_none(queue, rng, monkeypatch):
    palette = Palette(rng.integers(100, 110, (600, 3)))
    pixels = rng.integers(0, 256, (500, 3), dtype=np.uint8)
    space = spaces.space("srgb", False)
    expected = nearest(pixels, palette, space)
    for most in (1, 3000, 300000):
        lower(monkeypatch, candidates__whole=most)
        assert np.array_equal(mapped(queue, pixels, palette, space, True), expected)


@pytest.mark.usefixtures("_always_by_grid")
@pytest.mark.parametrize("channels", [None, 3, 4])
def test_verbs_agree_on_host_and_device(queue, rng, channels):
    shape = (13, 17) if channels is None else (13, 17, channels)
    image = rng.integers(0, 256, shape, dtype=np.uint8)
    palette = Palette(rng.integers(0, 256, (200, 3))).with_transparent()
    indices = engine.predict(image, palette, queue=queue)
    assert indices.dtype == np.uint8
    assert indices.shape == (13, 17)
    assert np.array_equal(engine.transform(image, palette, queue=queue), palette.colors[indices])
    assert engine.quantize(image, palette, queue=queue) == IndexedImage(indices, palette)

    session = open_session(queue)
    there = session.new_array(image.shape, np.uint8)
    there.set(image)
    mapped_there = engine.predict(there, palette)
    assert isinstance(mapped_there, Array)
    assert np.array_equal(mapped_there.get(), indices)
    assert np.array_equal(engine.transform(there, palette).get(), palette.colors[indices])
    assert np.array_equal(engine.quantize(there, palette).host_indices(), indices)


def test_bands_under_a_small_allocation_limit_change_nothing(rng, monkeypatch):
    image = rng.integers(0, 256, (90, 31, 3), dtype=np.uint8)
    palette = Palette(rng.integers(0, 256, (20, 3)))
    whole = engine.transform(image, palette)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=4096,work_group=1")
    seen = []
    parts = engine.transform(image, palette, progress=lambda done, total: seen.append((done, total)))
    assert np.array_equal(parts, whole)
    assert len(seen) > 1
    assert seen[-1] == (90, 90)
    assert seen == sorted(set(seen))
    assert {total for _, total in seen} == {90}


def test_progress_can_stop(rng):
    with pytest.raises(StoppedError):
        engine.predict(rng.integers(0, 256, (4, 4), dtype=np.uint8), [[0, 0, 0]], progress=lambda *_: False)


def test_transparent_pixels_need_a_transparent_entry(rng):
    image = rng.integers(1, 256, (5, 5, 4), dtype=np.uint8)
    assert engine.predict(image, [[9, 9, 9]]).max() == 0
    image[2, 2, 3] = 0
    with pytest.raises(InvalidArgument, match="with_transparent"):
        engine.predict(image, [[9, 9, 9]])
    result = engine.transform(image, Palette([[9, 9, 9]]).with_transparent())
    assert tuple(result[2, 2]) == (0, 0, 0, 0)


def test_dither_is_a_registry(queue, rng):
    image = rng.integers(0, 256, (6, 5, 3), dtype=np.uint8)
    with pytest.raises(InvalidArgument, match=r"dither is 'nonesuch'; allowed: None, "):
        engine.predict(image, [[0, 0, 0]], dither="nonesuch")
    with pytest.raises(InvalidType, match="dither is 1; allowed: None, a bool, 'atkinson'"):
        engine.predict(image, [[0, 0, 0]], dither=1)

    def last(image, palette, **given):
        assert given == {"color_space": "srgb", "queue": queue, "progress": None}
        return np.full(image.shape[:2], len(palette) - 1, np.uint8)

    register_dither("test-last", last)
    palette = Palette([[0, 0, 0], [1, 2, 3]])
    assert (engine.predict(image, palette, dither="test-last", queue=queue) == 1).all()
    assert (engine.transform(image, palette, dither="test-last", queue=queue) == [1, 2, 3]).all()


@pytest.mark.parametrize("channels", [3, 4])
def test_a_finer_grid_changes_nothing(queue, rng, channels, monkeypatch):
    monkeypatch.setattr(candidates, "FINER_PAYS", 1)
    colors = rng.integers(0, 256, (50, channels), dtype=np.uint8)
    colors[1, channels - 1] = 0
    pixels = some_pixels(rng, colors, 300, channels)
    space, palette = spaces.space("oklab", channels == 4), Palette(colors)
    with force_variant("portable"):
        assert np.array_equal(mapped(queue, pixels, palette, space, True), nearest(pixels, palette, space))


@pytest.mark.usefixtures("_always_by_grid")
@pytest.mark.parametrize("limits", ["", "is_cpu=0,unified_memory=0"])
def test_lists_of_a_palette_are_made_once(queue, rng, limits, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    release_memory()
    palette = Palette(rng.integers(0, 256, (40, 3), dtype=np.uint8))
    other = Palette(palette.colors[::-1].copy())
    pixels = rng.integers(0, 256, (31, 33, 3), dtype=np.uint8)

    def made(colors: Palette) -> bool:
        with profile() as found:
            got = engine.predict(pixels, colors, queue=queue)
        expected = nearest(pixels.reshape(-1, 3), colors, spaces.space("srgb", False))
        np.testing.assert_array_equal(got.ravel(), expected)
        return "list_candidates" in found.counts()

    assert [made(palette), made(palette), made(other), made(palette)] == [True, False, True, False]


def test_what_was_wanting_is_forgotten_with_its_palette(queue, rng):
    palette = Palette(rng.integers(0, 256, (9, 3), dtype=np.uint8))
    clear, opaque = np.zeros((4, 4, 4), np.uint8), np.full((4, 4, 4), 255, np.uint8)
    for _ in range(2):
        engine.predict(opaque, palette, queue=queue)
        with pytest.raises(InvalidArgument, match="fully transparent"):
            engine.predict(clear, palette, queue=queue)


@pytest.mark.parametrize(
    "name", ["srgb", *(pytest.param(name, marks=pytest.mark.full) for name in ("linear", "oklab"))]
)
@pytest.mark.parametrize("channels", [3, 4])
def test_equal_entries_are_searched_once(queue, rng, name, channels):
    colors = np.repeat(rng.integers(0, 256, (7, channels), np.uint8), 300, axis=0)[rng.permutation(2100)]
    palette = Palette(colors).with_transparent() if channels == 4 else Palette(colors)
    space = spaces.space(name, channels == 4)
    pixels = some_pixels(rng, palette.colors, 400, channels)
    expected = nearest(pixels, palette, space)
    assert len(np.unique(expected)) <= 8
    for form in ("portable", "lanes"):
        with contextlib.nullcontext() if form == "lanes" else force_variant(form):
            for grid in (False, True):
                assert np.array_equal(mapped(queue, pixels, palette, space, grid), expected)
    session = open_session(queue)
    with session.scope() as scope:
        on_device = PaletteOnDevice.of(session, scope, palette, space, 2**25)
        assert on_device._lister().fine(2**25).length <= 8
