"""Mapping and ordered dithering in the forms for CPUs: equal to the portable ones, whatever the memo and the grid."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import OrderedDither, Palette, runtime
from clquant.mapping import candidates_lanes, search
from clquant.palette import engine
from tests.lowering import lower

DITHERS = (
    None,
    OrderedDither(),
    OrderedDither("bayer", size=256),
    OrderedDither("bayer", size=2, strength=0.3),
    OrderedDither("bayer", size=4, strength=0),
)


@pytest.fixture
def variant(queue):
    """The name of the form for CPUs where the device admits it, else of the portable one."""
    return next(v.name for v in search.VARIANTS if v.admits(runtime.open_session(queue).limits))


def both(queue, variant, image, palette, **given):
    with runtime.force_variant("portable"):
        expected = engine.predict(image, palette, queue=queue, **given)
    with runtime.force_variant(variant):
        return engine.predict(image, palette, queue=queue, **given), expected


def smooth(rng, height, width, channels):
    """Few colours a neighbourhood, many in all, some of them in the palette; parts of it transparent."""
    ramp = np.add.outer(np.arange(height) * 3, np.arange(width)) % 256
    image = (ramp[..., None] * np.arange(1, channels + 1) // 2 + rng.integers(0, 9, (height, width, channels))) % 256
    if channels == 4:
        image[..., 3] = np.where(image[..., 3] < 40, 0, np.where(image[..., 3] > 128, 255, image[..., 3]))
    return image.astype(np.uint8)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "channels", "count"),
    [
        *(("srgb", *case) for case in ((1, 3), (3, 256), (3, 300), (4, 40), (4, 1500))),
        *(("linear", *case) for case in ((1, 3), (3, 300), (4, 40))),
        *(("oklab", *case) for case in ((1, 3), (3, 1), (3, 256), (4, 1500))),
    ],
)
def test_forms_agree(queue, rng, variant, name, channels, count):
    image = smooth(rng, 61, 83, channels)
    colors = rng.integers(0, 256, (count, max(channels, 3)), dtype=np.uint8)
    colors[:: count // 2 + 1] = 0
    given = image[:, :, 0] if channels == 1 else image
    for dither in DITHERS[: 5 if count < 100 else 3]:
        found, expected = both(queue, variant, given, Palette(colors), color_space=name, dither=dither)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("pays", [1, 1 << 32])
def test_colors_that_share_a_slot(queue, rng, variant, pays):
    """All pixels of a chunk differ by multiples of 32, so they take each other's slots."""
    image = rng.integers(0, 8, (40, 301, 3), dtype=np.uint8) * np.uint8(32)
    image[::2] //= 64
    palette = Palette(rng.integers(0, 256, (70, 3)))
    with runtime.force_tuning({"mapping.grid_pays": pays}):
        for dither in DITHERS:
            found, expected = both(queue, variant, image, palette, dither=dither)
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("limit", ["max_alloc=16384", "max_alloc=65536,unified_memory=0", "work_group=1"])
def test_small_limits_change_nothing(queue, rng, variant, limit, monkeypatch):
    image = smooth(rng, 50, 70, 4)
    palette = Palette(rng.integers(0, 256, (20, 4))).with_transparent()
    whole = [both(queue, variant, image, palette, dither=dither)[1] for dither in DITHERS]
    monkeypatch.setenv("CLQUANT_LIMITS", limit)
    for dither, expected in zip(DITHERS[:2], whole, strict=False):
        with runtime.force_variant(variant):
            assert np.array_equal(engine.predict(image, palette, dither=dither, queue=queue), expected)


@pytest.mark.parametrize("most", [1, 300, 5000])
@pytest.mark.parametrize("many", [2, 1 << 17])
def test_lists_too_long_give_a_coarser_grid(queue, rng, variant, most, many, monkeypatch):
    lower(monkeypatch, candidates_lanes__whole=most)
    monkeypatch.setattr(candidates_lanes, "MANY_COLORS", many)
    image = smooth(rng, 64, 64, 3)
    palette = Palette(np.concatenate([rng.integers(100, 110, (600, 3)), rng.integers(0, 256, (90, 3))]))
    with runtime.force_tuning({"mapping.grid_pays": 1}):
        found, expected = both(queue, variant, image, palette)
    assert np.array_equal(found, expected)


@pytest.mark.full
def test_sums_of_absolute_differences(queue, rng, variant):
    image = smooth(rng, 33, 44, 4)
    palette = Palette(rng.integers(0, 256, (90, 4))).with_transparent()
    found, expected = both(queue, variant, image, palette, metric="l1", color_space="oklab")
    assert np.array_equal(found, expected)


@pytest.mark.full
@pytest.mark.parametrize("pays", [1, 1 << 32])
@pytest.mark.parametrize("count", [1, 20, 256])
@pytest.mark.parametrize("channels", [1, 3])
def test_noise_and_quiet_in_turns(queue, rng, variant, channels, count, pays):
    """Noise is searched without a memo, eight pixels at a time; what follows is remembered again."""
    image = rng.integers(0, 256, (150, 237, channels), dtype=np.uint8)
    image[60:110] = 77
    image[110:112] //= 16
    palette = Palette(np.repeat(rng.integers(0, 256, (-(-count // 2), 3), dtype=np.uint8), 2, axis=0)[:count])
    with runtime.force_tuning({"mapping.grid_pays": pays}):
        for metric in ("l2", "l1"):
            found, expected = both(queue, variant, image, palette, metric=metric)
            assert np.array_equal(found, expected)
