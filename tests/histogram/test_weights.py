"""Weights in NeuQuant: pixels stand in what it learns from as often as they count."""

from __future__ import annotations

import numpy as np
import pyopencl.array
import pytest

from clquant import KMeansPalette, NeuQuantCL, images
from clquant.histogram.weights import fixed_point_weights, resampled
from clquant.runtime import InvalidArgument, InvalidType

MODES = ("parallel", "sequential")
WRAPPED = np.ones((20, 30), np.int64)  # adds up to 596 in 64 bits
WRAPPED[0, :4] = 2**62


def reference(pixels, weights):
    """(1, N, C): each pixel as often as it counts, and of these N, evenly spread."""
    n, whole = len(pixels), np.repeat(pixels, weights, axis=0)
    return np.array([whole[(2 * s + 1) * len(whole) // (2 * n)] for s in range(n)])[None]


def learner(mode, queue):
    return NeuQuantCL(16, mode=mode, sample_factor=5, queue=queue)


@pytest.mark.parametrize("mode", MODES)
def test_equal_weights_change_nothing(queue, sample, mode):
    image = np.ascontiguousarray(sample[::8, ::8])
    plain = learner(mode, queue).fit(image).palette_
    for weight in (np.ones(image.shape[:2], int), np.full(image.shape[:2], 0.3)):
        assert learner(mode, queue).fit(image, weight).palette_ == plain


@pytest.mark.parametrize("mode", MODES)
def test_pixels_count_what_their_weights_say(queue, sample, rng, mode):
    image = np.ascontiguousarray(sample[::8, ::8])
    weight = rng.integers(0, 6, image.shape[:2])
    expected = reference(image.reshape(-1, 3), weight.ravel())
    assert learner(mode, queue).fit(image, weight).palette_ == learner(mode, queue).fit(expected).palette_


def test_what_counts_nothing_is_not_learned(queue, rng):
    image = rng.integers(0, 100, (20, 30, 3), dtype=np.uint8)
    image[:10] += 150
    weight = np.zeros((20, 30))
    weight[10:] = 0.5
    assert learner("parallel", queue).fit(image, weight).palette_.colors.max() < 100


def test_pictures_of_several_kinds(rng):
    gray, rgb, rgba = (rng.integers(0, 256, (5, 4, c), dtype=np.uint8) for c in (1, 3, 4))
    opaque = np.full((5, 4, 1), 255, np.uint8)
    together = [np.concatenate([gray, gray, gray, opaque], 2), np.concatenate([rgb, opaque], 2), rgba]
    weights = [rng.integers(0, 9, (5, 4)).astype(np.uint32) for _ in range(3)]
    rgba[2, 3, 3] = weights[2][2, 3] = 0
    found, clear = resampled([images.read(image) for image in (gray, rgb, rgba)], weights)
    assert clear
    pixels, counts = np.concatenate(together).reshape(-1, 4), np.concatenate(weights).ravel()
    assert np.array_equal(found.array, reference(pixels, counts))


@pytest.mark.parametrize("engine", [KMeansPalette, NeuQuantCL])
def test_pixels_of_alpha_0_have_an_entry_whatever_they_weigh(engine, queue, rng):
    image = rng.integers(0, 256, (12, 13, 4), dtype=np.uint8)
    image[..., 3] = 255
    image[:3, :, 3] = 0
    fitted = engine(5, queue=queue)
    indices = fitted.fit_predict(image, image[..., 3])
    assert len(fitted.palette_) == 5
    assert (indices[:3] == fitted.palette_.transparent_index).all()
    assert (indices[3:] != fitted.palette_.transparent_index).all()


def test_device_arrays_and_several_pictures(queue, sample, rng):
    parts = [np.ascontiguousarray(sample[:40:4, ::8]), np.ascontiguousarray(sample[40:90:4, ::8])]
    weights = [rng.random(part.shape[:2]) for part in parts]
    expected = learner("parallel", queue).fit(parts, weights).palette_
    there = [pyopencl.array.to_device(queue, part) for part in parts]
    assert learner("parallel", queue).fit(there, weights).palette_ == expected


@pytest.mark.parametrize("engine", [KMeansPalette, NeuQuantCL])
def test_weights_on_the_device(engine, queue, sample, rng):
    parts = [np.ascontiguousarray(sample[:40:4, ::8]), np.ascontiguousarray(sample[40:90:4, ::8])]
    weights = [rng.random(part.shape[:2]) for part in parts]
    there = [pyopencl.array.to_device(queue, weight) for weight in weights]
    learner = engine(5, queue=queue)
    assert learner.fit(parts[0], there[0]).palette_ == learner.fit(parts[0], weights[0]).palette_
    assert learner.fit(parts, there).palette_ == learner.fit(parts, weights).palette_
    with pytest.raises(InvalidArgument, match="sample_weight is a device array on no queue"):
        learner.fit(parts[0], there[0].with_queue(None))
    with pytest.raises(InvalidArgument, match="sample_weight is a device array with strides"):
        learner.fit(parts[0], there[0][:, ::2])


@pytest.mark.parametrize("least", [1e-275, 1e-200, 1e-3, 1e200])
def test_floats_of_every_size(queue, least):
    image = np.array([[0, 10, 10, 200]], np.uint8)
    fitted = KMeansPalette(2, queue=queue).fit(image, np.array([[3.0, 1.0, 1.0, 9.0]]) * least)
    assert sorted(fitted.palette_.colors[:, 0]) == [4, 200]
    assert fitted.inertia_ / least == pytest.approx(3 * (3 * 16 + 2 * 36), rel=1e-6)


def test_many_weights_are_converted_like_few(rng):
    weights = rng.random((1100, 1000)) + 0.01
    (found,), unit = fixed_point_weights([weights])
    np.testing.assert_array_equal(found, np.rint(weights * unit))
    assert 2**31 - weights.size < int(found.sum(dtype=np.uint64)) < 2**32
    (found,), unit = fixed_point_weights([(1000 * weights).astype(np.int64)])
    np.testing.assert_array_equal(found, (1000 * weights).astype(np.int64))
    assert unit == 1


@pytest.mark.parametrize(
    ("weight", "kind", "message"),
    [
        (np.ones((3, 3)), InvalidArgument, r"sample_weight has shape \(3, 3\)"),
        (np.full((20, 30), -1), InvalidArgument, "sample_weight has negative"),
        (np.zeros((20, 30)), InvalidArgument, "sample_weight adds up to 0"),
        ("missing", InvalidArgument, "sample_weight"),
        (np.ones((20, 30), complex), InvalidType, "sample_weight is array of shape .*, dtype complex128; allowed"),
        ([["1"] * 30] * 20, InvalidType, "sample_weight is .* of dtype <U1; allowed"),
        (np.full((20, 30), 1e-310), InvalidArgument, "sample_weight adds up to 6e-308; allowed: .* at least 1e-280"),
        (WRAPPED, InvalidArgument, "sample_weight goes up to 4611686018427387904; allowed: integers that add up to"),
    ],
)
def test_wrong_weights(queue, weight, kind, message):
    image = np.zeros((20, 30, 3), np.uint8)
    if isinstance(weight, str):
        weight = [np.ones((20, 30)), np.ones((20, 30))]
        image = [image]
    with pytest.raises(kind, match=message):
        learner("parallel", queue).fit(image, weight)
