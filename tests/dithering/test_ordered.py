"""Ordered dithering against its reference, its masks, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import OrderedDither, Palette
from clquant.color import spaces
from clquant.dithering import mixes, threshold_maps
from clquant.dithering.bounds import speck
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.palette import engine
from clquant.quality import visual_error
from clquant.runtime import InvalidArgument, InvalidType, force_tuning, open_session
from tests.reference import ordered as reference
from training import blue_noise


@pytest.mark.small
@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_equals_the_reference(queue, rng, name, channels):
    image = rng.integers(0, 256, (9, 13, channels), dtype=np.uint8)
    colors = rng.integers(0, 256, (7, channels if channels == 4 else 3), dtype=np.uint8)
    if channels == 4:
        colors[2], image[::3, ::2, 3], image[1::3, :, 3] = 0, 0, 255
    palette, space = Palette(colors), spaces.space(name, channels == 4)
    for dither in (OrderedDither(), OrderedDither("bayer", size=4, strength=0.6)):
        expected = reference.dither(image, palette, space, dither.thresholds(), round(dither.strength * 256))
        given = image[:, :, 0] if channels == 1 else image
        assert np.array_equal(engine.predict(given, palette, color_space=name, dither=dither, queue=queue), expected)


def test_bands_grids_and_device_arrays_change_nothing(queue, rng, monkeypatch):
    image = rng.integers(0, 256, (70, 33, 3), dtype=np.uint8)
    palette = Palette(rng.integers(0, 256, (40, 3)))
    whole = engine.predict(image, palette, dither="bayer16", queue=queue)
    there = open_session(queue).new_array(image.shape, np.uint8)
    there.set(image)
    assert np.array_equal(engine.predict(there, palette, dither="bayer16").get(), whole)
    assert np.array_equal(engine.transform(there, palette, dither="bayer16").get(), palette.colors[whole])
    with force_tuning({"mapping.grid_pays": 1}):
        assert np.array_equal(engine.predict(image, palette, dither="bayer16", queue=queue), whole)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=16384")
    assert np.array_equal(engine.predict(image, palette, dither="bayer16", queue=queue), whole)


def test_strength_zero_is_the_nearest_color(queue, rng):
    image = rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)
    palette = Palette(rng.integers(0, 256, (9, 3)))
    plain = engine.predict(image, palette, queue=queue)
    assert np.array_equal(engine.predict(image, palette, dither=OrderedDither(strength=0), queue=queue), plain)


@pytest.mark.parametrize("name", ["blue-noise", "bayer2", "bayer4", "bayer", "bayer16"])
def test_palette_colors_stay_and_grays_keep_their_mean(queue, name):
    palette = Palette([[0, 0, 0], [255, 255, 255]])
    ramp = np.repeat(np.arange(0, 256, 17, dtype=np.uint8), 64)[None].repeat(64, axis=0)
    shown = engine.predict(ramp, palette, dither=name, queue=queue)
    assert not shown[:, :64].any()
    assert shown[:, -64:].all()
    for step in range(16):
        levels = 4 if name == "bayer2" else 16 if name == "bayer4" else 64
        share = shown[:, 64 * step : 64 * (step + 1)].mean()
        assert abs(share - step / 15) <= 0.5 / levels + 1e-9


def test_alpha_is_dithered_and_alpha_zero_is_exact(queue):
    palette = Palette([[0, 0, 0, 0], [200, 40, 10, 255]])
    image = np.zeros((64, 64, 4), np.uint8)
    image[:, :, :3] = palette.colors[1, :3]
    image[:32, :, 3] = 128
    shown = engine.predict(image, palette, dither="blue-noise", queue=queue)
    assert not shown[32:].any()
    assert 0.4 < shown[:32].mean() < 0.6


def test_less_visual_error_than_without(queue, sample):
    colors = [(r, g, b) for r in (0, 255) for g in (0, 85, 170, 255) for b in (0, 255)]
    plain = visual_error(sample, engine.transform(sample, colors, queue=queue))
    for name in ("blue-noise", "bayer8"):
        assert visual_error(sample, engine.transform(sample, colors, dither=name, queue=queue)) < plain / 4


@pytest.mark.parametrize("name", ["blue-noise", "bayer8"])
def test_a_gradient_has_no_specks(queue, name):
    """A ramp between the entries of a soft palette never shows the bright outliers around it."""
    steps = np.arange(0, 256, 16)
    soft = np.stack([60 + steps // 4, 90 + steps // 4, 130 + steps // 3], axis=1)
    outliers = [[255, 120, 0], [120, 255, 0], [130, 0, 0], [255, 255, 0], [255, 0, 255], [0, 255, 255]]
    colors = np.concatenate([soft, outliers])
    ramp = np.arange(0, 240)[None].repeat(64, axis=0)
    image = np.stack([62 + ramp // 4, 88 + ramp // 4, 131 + ramp // 3], axis=2).astype(np.uint8)
    shown = engine.transform(image, colors, dither=name, queue=queue).astype(int)
    assert np.abs(shown - image).max() <= 26  # six entries of the ramp are that far apart
    assert len(np.unique(shown.reshape(-1, 3), axis=0)) == len(soft)


@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize(("channels", "count"), [(3, 9), pytest.param(4, 40, marks=pytest.mark.full)])
def test_palettes_of_near_colors_equal_the_reference(queue, rng, name, channels, count):
    """Their far entries are specks, unlike those of widely spaced palettes."""
    image = rng.integers(50, 206, (24, 24, channels), dtype=np.uint8)
    colors = rng.integers(90, 170, (count, channels), dtype=np.uint8)
    colors[0], colors[1] = 0, 255
    palette, space, dither = Palette(colors), spaces.space(name, channels == 4), OrderedDither()
    assert speck(palette, space) == 60
    expected = reference.dither(image, palette, space, dither.thresholds(), 256)
    assert np.array_equal(engine.predict(image, palette, color_space=name, dither=dither, queue=queue), expected)


@pytest.mark.parametrize(("alpha", "bits"), [(False, 8), (True, 16)])
def test_mixes_are_with_the_nearest_others_of_the_window(rng, alpha, bits):
    colors = rng.integers(0, 256, (1400, 4 if alpha else 3), np.uint8)
    colors[500:520] = colors[3]  # equal entries are no neighbours of each other, and equally far from others
    palette, space = Palette(colors), spaces.space("srgb", alpha, bits)
    points = space.coordinates(palette.rgba()).astype(np.int64)
    order = np.argsort(points[:, :3] @ np.array(space.definition.lightness), kind="stable")
    found = mixes.mixes(palette, space)["entry"]
    for row, entry in enumerate(order):
        first = row // mixes.ROWS * mixes.ROWS
        others = order[max(0, first - mixes.WINDOW) : first + mixes.ROWS + mixes.WINDOW]
        far = ((points[others] - points[entry]) ** 2).sum(axis=1)
        near = others[np.lexsort((others, far))][(far == 0).sum() :]
        assert np.array_equal(found[entry], near[: mixes.NEIGHBOURS[alpha]])


def test_a_palette_of_thousands_is_sent_once(queue, rng, monkeypatch):
    sent, of = [], PaletteOnDevice.of
    monkeypatch.setattr(PaletteOnDevice, "of", lambda *given: sent.append(given) or of(*given))
    palette, image = Palette(rng.integers(0, 256, (2000, 3), np.uint8)), rng.integers(0, 256, (8, 8, 3), np.uint8)
    first, second = (OrderedDither().dither(image, palette, queue=queue) for _ in range(2))
    assert np.array_equal(first, second)
    assert len(sent) == 1


def test_bayer_masks():
    assert threshold_maps.bayer(1).tolist() == [[0, 2], [3, 1]]
    for order in range(5):
        mask = threshold_maps.bayer(order)
        assert np.array_equal(np.sort(mask.ravel()), np.arange(4**order))


def test_the_shipped_mask_is_what_the_script_makes():
    mask = threshold_maps.shipped_mask()
    assert np.array_equal(np.sort(mask.ravel()), np.arange(64 * 64))
    assert np.array_equal(mask, blue_noise.void_and_cluster(blue_noise.SIDE, blue_noise.SEED))


def test_blue_noise_has_little_power_at_low_frequencies():
    mask = threshold_maps.shipped_mask()
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(64), np.fft.fftfreq(64)))
    for level in (409, 1024, 2048):
        power = np.abs(np.fft.fft2((mask < level) - level / 4096)) ** 2
        low = power[(frequency > 0) & (frequency < 0.1)].mean()
        assert low < power[frequency > 0.3].mean() / 20


@pytest.mark.parametrize(
    ("dither", "kind", "message"),
    [
        (OrderedDither("white"), InvalidArgument, "mask is 'white'; allowed: 'blue-noise', 'bayer'"),
        (OrderedDither("bayer", size=3), InvalidArgument, "size is 3; allowed: 2, 4, 8"),
        (OrderedDither(strength=1.5), InvalidArgument, "strength is 1.5; allowed: a number from 0 to 1"),
        (OrderedDither(strength="much"), InvalidType, "strength is 'much'"),
        (OrderedDither, InvalidType, "dither is <class"),
    ],
)
def test_wrong_arguments(dither, kind, message):
    with pytest.raises(kind, match=message):
        engine.predict(np.zeros((2, 2), np.uint8), [[0, 0, 0]], dither=dither)
