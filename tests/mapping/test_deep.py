"""Pixels of 16 bits take the palette entries that are nearest to their 16 bits."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clquant
from clquant import Palette
from clquant.color import space_tables, spaces
from clquant.mapping.error import mean_squared_error
from clquant.palette import engine
from clquant.runtime import CommandQueue, default_queue, force_tuning
from tests.reference.ordered import dither
from tests.reference.palette_map import nearest

SPACES = ("srgb", "linear", "oklab")


def some_pixels(rng: np.random.Generator, colors: np.ndarray, count: int, channels: int) -> np.ndarray:
    """Random ones, entries themselves, and what lies just beside the middle between two entries."""
    pixels = rng.integers(0, 65536, (count, channels)).astype(np.uint16)
    chosen = colors[rng.integers(0, len(colors), (2, count)), :channels].astype(np.int64) * 257
    pixels[: count // 4] = chosen[0, : count // 4]
    middle = chosen.sum(axis=0) // 2 + rng.integers(-1, 2, (count, channels))
    pixels[count // 4 : count // 2] = np.clip(middle, 0, 65535)[count // 4 : count // 2]
    if channels == 4:
        pixels[::7, 3] = 0
        pixels[1::3, 3] = 65535
    return pixels


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("alpha", [False, True])
def test_coordinates(name: str, alpha: bool, rng: np.random.Generator) -> None:
    """They are the definitions' within one step, and 32 or 257 times those of 8-bit values within a step of these."""
    colors = rng.integers(0, 256, (500, 4), dtype=np.uint8)
    plain, deep = spaces.space(name, alpha), spaces.space(name, alpha, 16)
    points = deep.coordinates(colors)
    assert (points >= 0).all()
    assert (points <= np.array(deep.extent)).all()
    assert np.array_equal(points, deep.coordinates(colors.astype(np.uint16) * 257))
    assert np.abs(points / deep.scale - plain.coordinates(colors)).max() <= 1.0
    if not alpha:
        assert np.array_equal(deep.colors(points), colors[:, :3])


def test_linear_light_by_16_bits() -> None:
    table = spaces.space("linear", False, 16).tables()
    assert len(table) == 65536
    assert (np.diff(table) >= 0).all()
    for code in (0, 1, 2650, 2651, 30000, 65534, 65535):
        value = Decimal(code) / 65535
        light = (
            value / Decimal("12.92")
            if code <= 2650
            else ((value + Decimal("0.055")) / Decimal("1.055")) ** Decimal("2.4")
        )
        assert table[code] == int((light * 2047 * 32 + Decimal("0.5")).__floor__())


def test_oklab_by_16_bits(rng: np.random.Generator) -> None:
    """Against the definition in floats: within 2 steps of 65536 from black to white."""
    colors = rng.integers(0, 65536, (4000, 3)).astype(np.uint16)
    value = colors / 65535
    light = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    lms = np.cbrt(light @ np.array(space_tables.TO_LMS, float).T)
    exact = lms @ (np.array(spaces._TO_LAB_Q12) / 4096).T * 65536 + 32 * np.array(spaces.OKLAB_SHIFT)
    found = spaces.space("oklab", False, 16).coordinates(colors)
    bright = (colors > 2000).any(axis=1)
    assert np.abs(found - exact)[bright].max() < 2


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_equals_the_reference(
    queue: CommandQueue, rng: np.random.Generator, name: str, channels: int, grid: bool
) -> None:
    colors = rng.integers(0, 256, (200, 4), dtype=np.uint8)
    colors[::2, 3] = 255
    colors[5:8] = colors[2:5]
    colors[9] = 0
    palette = Palette(colors if channels == 4 else colors[:, :3])
    pixels = some_pixels(rng, palette.rgba(), 1500, channels)
    space = spaces.space(name, palette.has_alpha or channels == 4, 16)
    image = pixels.reshape(30, 50, channels)
    with force_tuning({"mapping.grid_pays": 1 if grid else 1 << 32}):
        found = engine.predict(image, palette, color_space=name, queue=queue)
        there = engine.predict(pyopencl.array.to_device(queue, image), palette, color_space=name)
    assert np.array_equal(found.ravel(), nearest(pixels, palette, space))
    assert np.array_equal(there.get(), found)


@pytest.mark.small
def test_small(queue: CommandQueue) -> None:
    palette = Palette([(0, 0, 0), (1, 1, 1), (255, 255, 255)])
    image = np.array([[0, 128, 129, 257, 32895, 32896, 32897, 65535]], np.uint16)
    assert engine.predict(image, palette, queue=queue).tolist() == [[0, 0, 1, 1, 1, 1, 2, 2]]
    assert engine.predict(image, palette, metric="l1", queue=queue).tolist() == [[0, 0, 1, 1, 1, 1, 2, 2]]


@pytest.mark.full
@given(st.integers(2, 40), st.sampled_from([1, 3, 4]), st.sampled_from(SPACES), st.integers(0, 2**32))
@settings(max_examples=30)
def test_pixels_of_8_bits_in_16(count: int, channels: int, name: str, seed: int) -> None:
    """Where the 16-bit space has the distances of the 8-bit one, 257 v takes the entry of v."""
    rng = np.random.default_rng(seed)
    palette = Palette(rng.integers(0, 256, (count, 3), dtype=np.uint8))
    image = rng.integers(0, 256, (7, 9, channels), dtype=np.uint8)
    image[..., 3:] = 255
    deep = image.astype(np.uint16) * 257
    found = engine.predict(deep, palette, color_space=name, queue=default_queue())
    space = spaces.space(name, channels == 4, 16)
    assert np.array_equal(found.ravel(), nearest(deep.reshape(-1, channels), palette, space))
    if name == "srgb" and channels != 4:
        assert np.array_equal(found, engine.predict(image, palette, queue=default_queue()))


@pytest.mark.parametrize("name", ["srgb", *(pytest.param(name, marks=pytest.mark.full) for name in SPACES[1:])])
@pytest.mark.parametrize("channels", [1, 3, pytest.param(4, marks=pytest.mark.full)])
def test_ordered_dithering(queue: CommandQueue, rng: np.random.Generator, name: str, channels: int) -> None:
    palette = Palette(rng.integers(0, 256, (17, 3), dtype=np.uint8))
    if channels == 4:
        palette = palette.with_transparent()
    image = some_pixels(rng, palette.rgba(), 600, channels).reshape(20, 30, channels)
    space = spaces.space(name, palette.has_alpha or channels == 4, 16)
    for ditherer in (clquant.OrderedDither("bayer", size=256), clquant.OrderedDither("blue-noise", strength=0.7)):
        strength = round(256 * ditherer.strength)
        expected = dither(image, palette, space, ditherer.thresholds(), strength)
        assert np.array_equal(ditherer.dither(image, palette, color_space=name, queue=queue), expected)


def test_a_ramp_of_16_bits_is_dithered_by_its_16_bits(queue: CommandQueue) -> None:
    """Between two neighbouring 8-bit values lie 256 shades: their shares of the brighter entry differ."""
    ramp = np.repeat(np.arange(0, 257, 32, dtype=np.uint16)[:, None, None] + np.uint16(257 * 100), 64, axis=1)
    image = np.repeat(ramp, 64, axis=2)
    palette = Palette([(100, 100, 100), (101, 101, 101)])
    shares = [float(engine.predict(one, palette, dither="bayer", queue=queue).mean()) for one in image]
    assert np.allclose(shares, np.arange(9) * 32 / 257, atol=1 / 64)


def test_the_mean_squared_error_is_that_of_16_bits(queue: CommandQueue, rng: np.random.Generator) -> None:
    palette = Palette(rng.integers(0, 256, (9, 3), dtype=np.uint8))
    image = rng.integers(0, 65536, (13, 11, 3)).astype(np.uint16)
    chosen = palette.colors[engine.predict(image, palette, queue=queue)].astype(np.int64) * 257
    expected = int(((chosen - image) ** 2).sum()) / 257**2 / image.size
    assert mean_squared_error(image, palette, queue=queue) == pytest.approx(expected, rel=1e-12)


def test_transparent_pixels_want_an_entry(queue: CommandQueue) -> None:
    image = np.zeros((2, 2, 4), np.uint16)
    with pytest.raises(clquant.ClquantError, match="no entry of alpha 0"):
        engine.predict(image, Palette([(0, 0, 0)]), queue=queue)
    image[..., 3] = 1  # nearly transparent is not transparent
    assert (engine.predict(image, Palette([(9, 9, 9)]), queue=queue) == 0).all()
