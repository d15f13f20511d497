"""Alpha through a whole quantization: alpha 0 stays exact, and pictures of few colours come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import KMeansPalette, NeuQuantCL, Palette, SpatialPalette, quantize
from clquant.color import spaces
from clquant.mapping.error import mean_squared_error
from tests.color.test_palette import pil


def shown(image, count, space, dither):
    result = KMeansPalette(count, color_space=space).fit(image).quantize(image, dither)
    colors = result.to_array()
    if colors.shape[2] == 3:
        colors = np.dstack([colors, np.full(colors.shape[:2], 255, np.uint8)])
    return result, colors


@pytest.mark.full
@pytest.mark.parametrize("space", ["oklab", *(pytest.param(s, marks=pytest.mark.full) for s in ("srgb", "linear"))])
@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    dither=st.sampled_from([None, "blue-noise", "bayer4"]),
    clear=st.floats(0, 1),
)
def test_alpha_zero_is_exact(seed, space, dither, clear):
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (*rng.integers(1, 20, 2), 4), dtype=np.uint8)
    image[rng.random(image.shape[:2]) < clear, 3] = 0
    _, colors = shown(image, int(rng.integers(2, 20)), space, dither)
    assert not colors[image[:, :, 3] == 0].any()


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    space=st.sampled_from(spaces.NAMES),
    dither=st.sampled_from([None, "blue-noise", "bayer4"]),
    count=st.integers(1, 16),
)
@pytest.mark.full
def test_few_colors_are_lossless(seed, space, dither, count):
    rng = np.random.default_rng(seed)
    colors = rng.integers(0, 256, (count, 4), dtype=np.uint8)
    colors[rng.random(count) < 0.3, 3] = 255
    colors[rng.random(count) < 0.2] = 0
    image = colors[rng.integers(0, count, rng.integers(1, 20, 2))]
    image[image[:, :, 3] == 0] = 0
    result, same = shown(image, 17, space, dither)
    assert np.array_equal(same, image)
    assert np.array_equal(np.asarray(pil(result.to_bytes("PNG")).convert("RGBA")), image)


@pytest.mark.parametrize("space", ["srgb", pytest.param("linear", marks=pytest.mark.full), "oklab"])
def test_opaque_stays_opaque(sample, space):
    image = np.dstack([sample[::8, ::8], np.full((64, 96), 255, np.uint8)])
    image[:10, :, 3] = 0
    _, colors = shown(image, 16, space, None)
    assert (colors[10:, :, 3] == 255).all()


@pytest.mark.full
@pytest.mark.parametrize("space", spaces.NAMES)
@pytest.mark.parametrize("given", [{}, {"fixed_colors": ["#ff8800", "#00000000"]}, {"init": "random"}], ids=str)
def test_pixels_of_little_alpha_count_where_they_are_mapped(rng, space, given):
    """Some to the entry of alpha 0."""
    image = rng.integers(0, 256, (30, 40, 4), dtype=np.uint8)
    image[..., 3] = np.linspace(0, 90, 1200).astype(np.uint8).reshape(30, 40)
    engine = KMeansPalette(6, color_space=space, **given).fit(image)
    clear = int(np.flatnonzero(engine.palette_.rgba()[:, 3] == 0)[0])
    assert ((engine.predict(image) == clear) & (image[..., 3] > 0)).any()
    error = mean_squared_error(image, engine.palette_, color_space=space)
    assert engine.inertia_ == pytest.approx(error * 3 * image[..., 3].size, rel=1e-12)


def logo() -> np.ndarray:
    """Flat areas with soft edges, on a clear ground: 40x48."""
    y, x = np.mgrid[:40, :48]
    cover = np.clip(18.5 - np.hypot(y - 20, x - 24), 0, 1)[..., None]
    inner = np.clip(9.5 - np.abs(y - 20) * 0.9, 0, 1)[..., None]
    colors = inner * (250, 240, 230) + (1 - inner) * (200, 30, 40)
    return np.concatenate([np.where(cover > 0, colors, 0), 255 * cover], axis=2).round().astype(np.uint8)


@pytest.mark.parametrize("make", [KMeansPalette, NeuQuantCL, SpatialPalette])
@pytest.mark.parametrize("count", [4, 16])
def test_opaque_pixels_stay_opaque(make: type, count: int) -> None:
    image = logo()
    opaque, clear = image[..., 3] == 255, image[..., 3] == 0
    engine = make(count).fit(image)
    palettes = [engine.palette_]
    if make is KMeansPalette:
        weights = np.where(opaque, 1, 50).astype(np.uint8)
        palettes += [KMeansPalette(count, color_space="oklab").fit(image, sample_weight=weights).palette_]
        palettes += [Palette(["#00000000", "#c81e28f0", "#1e28c8", "#fafafafe"])]  # soft entries are nearer
    for palette in palettes:
        assert len(palette) <= max(count, 4)
        for dither in (None, "blue-noise", "floyd-steinberg", "leaky", "pinwheel", "search"):
            alpha = palette.rgba()[quantize(image, palette, dither=dither).indices][..., 3]
            assert (alpha[opaque] == 255).all(), dither
            assert (alpha[clear] == 0).all(), dither
