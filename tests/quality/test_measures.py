"""The measures of pictures against their references, definitions and each other."""

from __future__ import annotations

import math
import tempfile

import numpy as np
import pyopencl.array
import pytest

import clquant
from benchmarks import harness
from clquant import quality, runtime
from clquant.color.space_tables import linear_table
from clquant.images import lazy
from clquant.quality import definitions, differences, fourier, similarity, visual
from tests.reference import quality as reference

FALLOFF = math.radians(300 * 9.5) / visual.CONTRAST
MEASURES = (
    quality.mse,
    quality.psnr,
    quality.ssim,
    quality.visual_error,
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
    assert abs(found - definitions.similarity(first, second, 255.0)) < 1e-7
    assert quality.ssim(first, first, queue=queue) == 1.0
    assert quality.ssim(first, second, 1.0, queue=queue) == definitions.similarity(first, second, 1.0)


def test_ssim_of_extremes(queue):
    black = np.zeros((16, 19), np.uint8)
    for first, second in ((black, black + np.uint8(255)), (black, black + np.uint8(1)), (255 - black, black)):
        found, expected = quality.ssim(first, second, queue=queue), definitions.similarity(first, second, 255.0)
        assert abs(found - expected) < 1e-9
    checks = (np.indices((32, 32)).sum(axis=0) % 2 * 255).astype(np.uint8)
    expected = definitions.similarity(checks, 255 - checks, 255.0)
    assert abs(quality.ssim(checks, 255 - checks, queue=queue) - expected) < 1e-7


@pytest.mark.parametrize("formula", differences.FORMULAS)
def test_color_differences_equal_their_reference(queue, rng, formula):
    light, table = linear_table(1 << 30), differences.rotation_table() if formula == "ciede2000" else None
    half = similarity.half_window(0.8, 3)
    for first, second in (
        pair(rng, 13, 21),
        pair(rng, 1, 1),
        tuple(rng.integers(0, 256, (2, 9, 8, 3), dtype=np.uint8)),
    ):
        found = quality.color_difference(first, second, formula, queue=queue)
        assert found == reference.color_difference(first, second, light, table)
        found = quality.blurred_color_difference(first, second, 0.8, formula, queue=queue)
        assert found == reference.blurred_color_difference(first, second, light, table, half)


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
    ],
)
def test_the_reference_formula_gives_the_published_differences(lab1, lab2, expected):
    first, second = ([np.array([value], np.float32) for value in lab] for lab in (lab1, lab2))
    found = reference._ciede2000(first, second, differences.rotation_table())
    assert abs(float(found[0]) - expected) < 1e-4


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


SIDES = [(1, 1), (1, 9), (16, 64), (21, 40), (37, 13), (41, 36)]  # 37 and 41 take Bluestein's algorithm


@pytest.mark.parametrize(("height", "width"), SIDES)
@pytest.mark.parametrize("channels", [0, 3])
def test_visual_error_is_nearly_its_definition(queue, rng, height, width, channels):
    first, second = pair(rng, height, width, channels)
    found, expected = quality.visual_error(first, second, queue=queue), definitions.visual_error(first, second, FALLOFF)
    assert abs(found - expected) <= 1e-6 * expected
    assert quality.visual_error(first, first, queue=queue) == 0
    near = quality.visual_error(first, second, 10.0, 0.1, queue=queue)
    expected = definitions.visual_error(first, second, math.radians(10 * 0.1) / visual.CONTRAST)
    assert abs(near - expected) <= 1e-6 * expected


@pytest.mark.parametrize("n", [1, 2, 4, 8, 64, 96, 105, 242])
def test_transforms_equal_their_reference(queue, rng, n):
    data = (rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n))).astype(np.complex64)
    session = runtime.open_session(queue)
    with session.scope() as scope:
        there, _ = fourier.Transform(session, scope, n).run(scope.copy_of(data), scope.empty(data.nbytes), 3, 1)
        found = session.download(there, data.shape, np.complex64)
        columns = np.ascontiguousarray(data.T)
        there, _ = fourier.Transform(session, scope, n).run(scope.copy_of(columns), scope.empty(data.nbytes), 1, 3)
        found_columns = session.download(there, columns.shape, np.complex64)
    real, imaginary = reference.fourier(data, fourier.factors(n), fourier.roots(n))
    np.testing.assert_array_equal(found.real, real)
    np.testing.assert_array_equal(found.imag, imaginary)
    np.testing.assert_array_equal(found_columns, found.T)
    np.testing.assert_allclose(found, np.fft.fft(data), atol=1e-4)


def test_factors_multiply_to_the_length():
    for n in range(1, 400):
        assert math.prod(fourier.factors(n)) == n
        assert max(fourier.factors(fourier.transform_length(n)), default=1) <= fourier.MAX_RADIX


@pytest.mark.parametrize("measure", MEASURES)
def test_device_arrays_and_pictures_in_bands_give_the_same(queue, rng, measure, monkeypatch):
    first, second = pair(rng, 40, 33)
    expected = measure(first, second, queue=queue)
    arrays = [pyopencl.array.to_device(queue, one) for one in (first, second)]
    assert measure(arrays[0], arrays[1]) == expected
    assert measure(arrays[0], second) == expected
    views = [pyopencl.array.to_device(queue, np.stack([one, one]))[1] for one in (first, second)]
    assert measure(*views) == expected
    monkeypatch.setattr(similarity, "band_bytes", lambda _: 16 * 33 * 7)
    monkeypatch.setattr(differences, "band_bytes", lambda _: 16 * 33 * 7)
    monkeypatch.setattr(differences, "MAX_BAND", 3 * 33 * 9)
    assert measure(first, second, queue=queue) == expected


@pytest.mark.parametrize(
    ("height", "width", "channels"), [(64, 64, 0), (63, 50, 3), (37, 74, 4), (1, 40, 0), (40, 1, 3)]
)
def test_a_spectrum_without_room_is_kept_in_a_file(queue, rng, monkeypatch, height, width, channels):
    first, second = pair(rng, height, width, channels)
    expected = quality.visual_error(first, second, queue=queue)
    assert quality.visual_error(Rows(first), Rows(second), queue=queue) == expected
    monkeypatch.setattr(lazy, "memory_bytes", lambda _: 4 * 1500)
    monkeypatch.setattr(visual._Spectrum, "fits", lambda *_: False)
    assert quality.visual_error(first, second, queue=queue) == expected
    assert quality.visual_error(first, first, queue=queue) == 0
    assert quality.visual_error(Rows(first), second, queue=queue) == expected
    assert quality.visual_error(Rows(first), Rows(second), queue=queue) == expected


def test_a_spectrum_that_no_file_takes(rng, monkeypatch):
    def full():
        raise OSError("no space left")

    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=1500")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(clquant.FileError, match=r"cannot keep a spectrum in .*: no space left"):
        quality.visual_error(*pair(rng, 64, 64, 0))


@pytest.mark.full
def test_vectors_of_cpus_change_nothing(queue, rng, monkeypatch):
    first, second = pair(rng, 23, 19)
    found = []
    for lanes in (1, 8):
        monkeypatch.setattr(differences, "_lanes", lambda _, lanes=lanes: lanes)
        for formula in differences.FORMULAS:
            found.append(quality.color_difference(first, second, formula, queue=queue))
            found.append(quality.blurred_color_difference(first, second, 1.0, formula, queue=queue))
    assert found[:4] == found[4:]


def test_what_cannot_be_compared_is_refused(queue):
    one, other = harness.synthetic_photo(16, 24), harness.synthetic_photo(16, 25)
    for measure in MEASURES:
        with pytest.raises(runtime.InvalidArgument, match="original and result"):
            measure(one, other, queue=queue)
    with pytest.raises(runtime.InvalidArgument, match="formula"):
        quality.color_difference(one, one, "cie76", queue=queue)
    with pytest.raises(runtime.InvalidArgument, match="sigma"):
        quality.blurred_color_difference(one, one, 0.0, queue=queue)
