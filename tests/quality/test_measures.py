"""The measures of pictures against their references, definitions and each other."""

from __future__ import annotations

import math

import numpy as np
import pyopencl.array
import pytest

from benchmarks import harness
from clquant import quality, runtime
from clquant.quality import definitions, differences, similarity, visual
from tests.lowering import lower
from tests.reference import quality as reference

MEASURES = (
    quality.mse,
    quality.psnr,
    quality.ssim,
    quality.visual_error,
    quality.speck_error,
    quality.color_difference,
    quality.blurred_color_difference,
)


class Rows:
    """The least that a lazy picture needs."""

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __getitem__(self, key):
        return self.values[key]


def pair(rng, height, width, channels=3, step=40):
    """A picture and a coarser one."""
    shape = (height, width) if channels == 0 else (height, width, channels)
    first = rng.integers(0, 256, shape, dtype=np.uint8)
    return first, (first // step * step + step // 2).astype(np.uint8)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (7, 5, 3), (33, 1000, 4), (2, 3, 4, 5), (40, 30, 6)])
def test_mse_is_exact(queue, rng, shape):
    first, second = rng.integers(0, 256, (2, *shape), dtype=np.uint8)
    expected = int(((first.astype(np.int64) - second) ** 2).sum()) / first.size
    assert quality.mse(first, second, queue=queue) == expected
    assert quality.mse(first.astype(np.float32), second, queue=queue) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("height", "width", "channels"), [(11, 11, 0), (14, 23, 3), (31, 12, 4), (20, 20, 2)])
def test_ssim_equals_its_reference_and_nearly_its_definition(queue, rng, height, width, channels):
    first, second = pair(rng, height, width, channels)
    found = quality.ssim(first, second, queue=queue)
    assert found == reference.ssim(first, second, similarity.half_window())
    assert abs(found - definitions.similarity([(first, second)], 255.0)) < 1e-7
    assert quality.ssim(first, first, queue=queue) == 1.0
    assert quality.ssim(first, second, 1.0, queue=queue) == definitions.similarity([(first, second)], 1.0)


def test_ssim_of_extremes(queue):
    black = np.zeros((16, 19), np.uint8)
    for first, second in ((black, black + np.uint8(255)), (black, black + np.uint8(1)), (255 - black, black)):
        found, expected = quality.ssim(first, second, queue=queue), definitions.similarity([(first, second)], 255.0)
        assert abs(found - expected) < 1e-9
    checks = (np.indices((32, 32)).sum(axis=0) % 2 * 255).astype(np.uint8)
    expected = definitions.similarity([(checks, 255 - checks)], 255.0)
    assert abs(quality.ssim(checks, 255 - checks, queue=queue) - expected) < 1e-7


# Of the 34 pairs of Sharma, Wu and Dalal (2005), table 1, those that test the corners of the formula.
@pytest.mark.parametrize(
    ("lab1", "lab2", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((90.8027, -2.0831, 1.4410), (91.1528, -1.6435, 0.0447), 1.4441),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
        # hues that are opposite, and a little less and more than that
        ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0009), 7.1792),
        ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0010), 7.1792),
        ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0011), 7.2195),
        ((50.0, -0.001, 2.49), (50.0, 0.0010, -2.49), 4.8045),
        ((50.0, -0.001, 2.49), (50.0, 0.0011, -2.49), 4.7461),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
    ],
)
def test_the_formula_gives_the_published_differences(lab1, lab2, expected):
    found = differences.ciede2000(np.array(lab1)[:, None], np.array(lab2)[:, None])
    assert abs(float(found[0]) - expected) < 1e-4


def test_oklab_distances_of_primaries(queue):
    """Red is at (0.6280, 0.2249, 0.1258), as B. Ottosson gives it."""
    red, black = np.full((2, 2, 3), (255, 0, 0), np.uint8), np.zeros((2, 2, 3), np.uint8)
    expected = 100 * math.sqrt(0.6280**2 + 0.2249**2 + 0.1258**2)
    assert abs(quality.color_difference(red, black, "oklab", queue=queue) - expected) < 0.01


def test_color_differences_of_other_pictures(queue, rng):
    first, second = pair(rng, 12, 17)
    alpha = np.dstack([first, rng.integers(0, 256, (12, 17), dtype=np.uint8)])
    for measure in (quality.color_difference, quality.blurred_color_difference):
        assert measure(alpha, second, queue=queue) == measure(first, second, queue=queue)
        gray = np.repeat(first[..., :1], 3, axis=2)
        assert measure(first[..., 0], second, queue=queue) == measure(gray, second, queue=queue)
        assert measure(first, first.copy(), queue=queue) == 0
    black = np.zeros((4, 5), np.uint8)
    for formula in differences.FORMULAS:
        assert abs(quality.color_difference(black, black + np.uint8(255), formula, queue=queue) - 100) < 1e-4


def test_a_blur_forgives_dither(queue):
    checks = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
    even = np.full((64, 64), 188, np.uint8)  # half the light
    assert quality.color_difference(even, checks, queue=queue) > 40
    assert quality.blurred_color_difference(even, checks, queue=queue) < 1


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9), (16, 64), (21, 40), (37, 13), (40, 1)])
@pytest.mark.parametrize("channels", [0, 3])
def test_visual_error_is_the_mean_square_behind_the_low_pass(queue, rng, monkeypatch, height, width, channels):
    first, second = pair(rng, height, width, channels)
    difference = definitions.luma(second) - definitions.luma(first)
    across, down = np.fft.rfftfreq(width)[None, :], np.fft.fftfreq(height)[:, None]
    for dpi, inches in ((300.0, 9.5), (10.0, 0.1)):
        gain = np.exp(-math.radians(dpi * inches) / visual.CONTRAST * np.hypot(down, across))
        seen = np.fft.irfft2(np.fft.rfft2(difference) * gain, s=difference.shape)
        found = quality.visual_error(first, second, dpi, inches, queue=queue)
        assert found == pytest.approx(float(np.mean(seen**2)), rel=1e-9)
        monkeypatch.setattr(visual, "SPECTRUM_SAMPLES", 2 * max(height, width))
        assert quality.visual_error(first, second, dpi, inches, queue=queue) == found
    assert quality.visual_error(first, first, queue=queue) == 0


@pytest.mark.parametrize("channels", [0, 1, 3])
def test_speck_error_equals_the_reference(queue, rng, channels):
    first, second = pair(rng, 50, 41, channels)
    for bound in (0, 10.5, 60):
        found = quality.speck_error(first, second, bound, queue=queue)
        assert found == reference.speck_error(first, second, bound)
        assert quality.speck_error(first.astype(np.float32), second, bound, queue=queue) == found
    assert quality.speck_error(first, first, 0, queue=queue) == 0
    with pytest.raises(runtime.InvalidArgument, match="bound"):
        quality.speck_error(first, second, -1)


def test_specks_show_where_means_do_not(queue):
    even = np.full((100, 100), 90, np.uint8)
    specked = even.copy()
    specked[10::25, 10::25] = 250
    assert quality.mse(even, specked, queue=queue) < 50
    assert quality.speck_error(even, specked, queue=queue) == 1.6


@pytest.mark.parametrize("measure", MEASURES)
def test_device_arrays_and_pictures_in_bands_give_the_same(queue, rng, measure, monkeypatch):
    first, second = pair(rng, 40, 33)
    expected = measure(first, second, queue=queue)
    arrays = [pyopencl.array.to_device(queue, one) for one in (first, second)]
    assert measure(arrays[0], arrays[1]) == expected
    assert measure(arrays[0], second) == expected
    views = [pyopencl.array.to_device(queue, np.stack([one, one]))[1] for one in (first, second)]
    assert measure(*views) == expected
    for name in ("BAND_BYTES", "CPU_BAND_BYTES"):
        monkeypatch.setattr(similarity, name, 16 * 33 * 7)
    lower(monkeypatch, differences__band=33 * 7)
    assert measure(first, second, queue=queue) == expected


def test_a_single_channel_is_gray(queue, rng):
    one, other = rng.integers(0, 256, (2, 24, 21), np.uint8)
    for measure in MEASURES:
        expected = measure(one, other, queue=queue)
        assert measure(one[..., None], other, queue=queue) == expected
        assert measure(one[..., None], other[..., None], queue=queue) == expected


def test_what_cannot_be_compared_is_refused(queue):
    one, other = harness.synthetic_photo(16, 24), harness.synthetic_photo(16, 25)
    for measure in MEASURES:
        with pytest.raises(runtime.InvalidArgument, match="original and result"):
            measure(one, other, queue=queue)
    with pytest.raises(runtime.InvalidArgument, match=r"allowed: pictures \(H, W\) or \(H, W, C\)"):
        quality.ssim(np.zeros(500), np.zeros(500), queue=queue)
    with pytest.raises(runtime.InvalidArgument, match="formula"):
        quality.color_difference(one, one, "cie76", queue=queue)
    with pytest.raises(runtime.InvalidArgument, match="sigma"):
        quality.blurred_color_difference(one, one, 0.0, queue=queue)


class OnlyDlpack:
    """An array of another library that speaks DLPack alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_arrays_that_speak_dlpack_alone(rng):
    first, second = pair(rng, 24, 32)
    for measure in MEASURES:
        assert measure(OnlyDlpack(first), OnlyDlpack(second)) == measure(first, second)
