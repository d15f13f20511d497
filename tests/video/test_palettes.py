"""What counts how much when a palette of moving pictures is learned."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant import ColorHistogram, KMeansPalette
from clquant.images.moving import Frame
from clquant.video import palettes
from clquant.video.hold import Held


@pytest.fixture
def noise(rng):
    return [rng.integers(0, 256, (8, 16, 3), np.uint8) for _ in range(5)]


def held(pictures, delays_ms=None, calm_rows=0):
    """Frames of which so many rows stay."""
    stays = np.zeros(pictures[0].shape[:2], np.bool_)
    for number, picture in enumerate(pictures):
        yield Held(Frame(picture, (delays_ms or [40] * len(pictures))[number]), stays)
        stays = stays.copy()
        stays[:calm_rows] = True


def palette_of(frames, by_scene=False):
    return [scene.palette for scene in palettes.learned(frames, KMeansPalette(8), by_scene, None)]


@pytest.mark.parametrize("together", [1 << 22, 256])
@pytest.mark.parametrize("calm_rows", [0, 2])
def test_new_pixels_count_five_times_where_others_stay(together, calm_rows, noise, monkeypatch):
    monkeypatch.setattr(palettes, "_COUNTED_TOGETHER", together)
    new = [picture[calm_rows:] for picture in noise[1:]] if calm_rows else []
    expected = KMeansPalette(8).fit([*noise, *new * 4]).palette_
    (found,) = palette_of(held(noise, calm_rows=calm_rows))
    assert {*map(tuple, found.colors)} == {*map(tuple, expected.colors)}


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("together", [1 << 22, 150])
def test_frames_of_which_little_changes_count_as_all_others(together, channels, rng, monkeypatch):
    monkeypatch.setattr(palettes, "_COUNTED_TOGETHER", together)
    counted = palettes._Counted(0, None)
    picture = rng.integers(0, 3, (8, 16, channels), np.uint8)
    expected = ColorHistogram(np.zeros((1, 3), np.uint8), [0])
    for number, delay_ms in enumerate([10, 10, 10, 10, 40, 40, 10, 10, 10, 20]):
        before, picture = picture, picture.copy()
        places = rng.permutation(128)[: (120, 3, 8, 0, 5, 0, 1, 70, 2, 2)[number]]
        picture.reshape(128, channels)[places] = rng.integers(0, 3, (len(places), channels), np.uint8)
        stays = (picture == before).all(axis=2)
        counted.add(Held(Frame(picture, delay_ms), stays), number == 0)
        for _ in range(delay_ms // 10):
            expected += ColorHistogram.of(picture)
            if number and not stays.all():
                expected += ColorHistogram.of([picture[~stays][None]] * 4)
    assert counted.histogram() == expected


def test_many_colours_are_counted_in_six_bits(noise, monkeypatch):
    monkeypatch.setattr(palettes, "_COUNTED_TOGETHER", 100)
    monkeypatch.setattr(palettes, "_MOST_COLORS", 50)
    alpha = np.full((8, 16, 1), 130, np.uint8)
    for pictures in (noise, [np.dstack([picture, alpha]) for picture in noise]):
        rounded = [picture // 4 * 4 + picture // 64 for picture in pictures]
        for picture in rounded:
            picture[..., 3:] = 130
        (found,) = palette_of(held(pictures))
        assert found == KMeansPalette(8).fit(rounded).palette_


def test_weights_have_a_bound(noise, monkeypatch):
    """Frames shown 16 times as long count as long as the bound has room for: here four times."""
    monkeypatch.setattr(palettes, "_MOST_WEIGHT", 128 * (1 + 4 * 4))
    (found,) = palette_of(held(noise, [10, 160, 160, 160, 160]))
    weighted = sum((ColorHistogram.of(noise[1:]) for _ in range(4)), ColorHistogram.of(noise[:1]))
    assert found == KMeansPalette(8).fit_histogram(weighted).palette_


def test_gray_and_coloured_frames_are_scenes_of_their_own(rng):
    levels = rng.integers(0, 256, (9, 11, 1), np.uint8)
    coloured = np.dstack([levels, levels // 2, levels // 3])
    pictures = [levels] * 20 + [coloured] * 20
    assert len(palette_of(held(pictures), by_scene=True)) == 2
    assert len(palette_of(held([levels] * 40), by_scene=True)) == 1
    made = clquant.animate(pictures, 16, palettes="scene")
    assert len({frame.palette for frame in made.frames}) == 2


def test_tall_gray_frames_are_pictures(rng):
    frames = [PIL.Image.fromarray(rng.integers(0, 4, (500, 3), np.uint8)) for _ in range(3)]
    made = clquant.animate(frames, 16, palettes="one")
    for frame, given in zip(made.frames, frames, strict=True):
        np.testing.assert_array_equal(frame.to_array()[..., 0], np.asarray(given))
