"""Direct binary search against its reference, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import PinwheelHalftoner
from clquant.color.space_tables import linear_table
from clquant.halftone import refine
from clquant.quality import visual_error
from clquant.runtime import InvalidArgument, InvalidType, StoppedError, force_variant, open_session
from tests.reference import refine as reference
from tests.reference.search import kernel


def on_device(queue, array):
    made = open_session(queue).new_array(array.shape, np.uint8)
    made.set(array)
    return made


@pytest.mark.small
@pytest.mark.parametrize(("levels", "linear"), [(2, False), (4, False), (3, True)])
def test_equals_the_reference(queue, rng, levels, linear):
    image = rng.integers(0, 256, (9, 14), dtype=np.uint8)
    engine = PinwheelHalftoner(8, levels=levels, linear=linear, queue=queue)
    tones = linear_table(1020).astype(np.int64) if linear else np.arange(256) * 4
    values = tones[(510 * np.arange(levels) + levels - 1) // (2 * levels - 2)]
    shown = values[engine.transform(image, output="levels")]
    dpi, inches = 150, 6
    width = dpi * inches * np.pi / 180 / (0.525 * np.log(11) + 3.91) / (2 * np.pi)
    weights = kernel(round(4.5 * width), width, 0, 1020)
    expected = reference.refine(tones[image], shown, values, weights, 2)
    found = engine.transform(image, output="levels", refine=2, dpi=dpi, inches=inches)
    assert np.array_equal(values[found], expected)


@pytest.mark.full
@pytest.mark.parametrize("shape", [(1, 1), (67, 5), (33, 70), (30, 31, 3), (21, 40, 4)])
def test_forms_device_arrays_and_outputs_are_equal(queue, rng, shape):
    image = rng.integers(0, 256, shape, dtype=np.uint8)
    engine = PinwheelHalftoner(8, levels=2 if len(shape) == 2 else 5, queue=queue)
    found = engine.transform(image, refine=2)
    with force_variant("portable"):
        assert np.array_equal(engine.transform(image, refine=2), found)
    there = on_device(queue, image)
    assert np.array_equal(engine.transform(there, refine=2).get(), found)
    numbers = engine.transform(image, output="levels", refine=2)
    if len(shape) == 2:
        assert np.array_equal(found, 255 * numbers)
        bits = engine.transform(image, output="bits", refine=2)
        assert np.array_equal(bits, np.packbits(numbers, axis=1))
        assert np.array_equal(engine.transform(there, output="bits", refine=2).get(), bits)
    elif shape[2] == 4:
        assert np.array_equal(found[..., 3], image[..., 3])
    if len(shape) == 3:
        gray = engine.transform(np.ascontiguousarray(image[..., 1]), refine=2)
        assert gray.shape == shape[:2]


def test_channels_are_refined_by_themselves(queue, rng):
    image = np.repeat(rng.integers(0, 256, (24, 25, 1), dtype=np.uint8), 3, axis=2)
    engine = PinwheelHalftoner(8, noise=0.0, queue=queue)
    start = engine.transform(image)
    found = engine.transform(image, refine=1)
    for channel in range(3):
        if np.array_equal(start[..., channel], start[..., 0]):
            assert np.array_equal(found[..., channel], found[..., 0])


def test_bands_change_nothing(queue, rng, monkeypatch):
    image = rng.integers(0, 256, (900, 31), dtype=np.uint8)
    engine = PinwheelHalftoner(8, queue=queue)
    whole = engine.transform(image, refine=1)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=262144")
    seen = []
    found = engine.transform(image, refine=1, progress=lambda done, total: seen.append((done, total)))
    assert np.array_equal(found, whole)
    assert np.array_equal(engine.transform(on_device(queue, image), refine=1).get(), whole)
    assert seen[-1][0] == seen[-1][1] > 1


def test_less_visual_error_and_the_same_tone(queue, sample):
    gray = np.ascontiguousarray(sample[:256, :256, 1])
    engine = PinwheelHalftoner(queue=queue)
    before, after = engine.transform(gray), engine.transform(gray, refine=2)
    assert visual_error(gray, after) < 0.9 * visual_error(gray, before)
    assert abs(after.mean() - gray.mean()) < 0.3
    far = engine.transform(gray, refine=2, inches=12)
    assert not np.array_equal(far, after)
    assert visual_error(gray, far, inches=19) < visual_error(gray, after, inches=19)


def test_palettes_are_searched_from_the_halftone(queue, sample):
    image = np.ascontiguousarray(sample[:128, :160])
    palette = [[0, 0, 0], [255, 255, 255], [190, 40, 30], [40, 150, 70]]
    engine = PinwheelHalftoner(palette=palette, queue=queue)
    before, after = engine.quantize(image), engine.quantize(image, refine=2)
    assert visual_error(image, after.to_array()) < visual_error(image, before.to_array())
    assert np.array_equal(engine.transform(on_device(queue, image), refine=2).get(), after.indices)
    with force_variant("portable"):
        assert np.array_equal(engine.transform(image, refine=2), after.indices)
    assert engine.to_pil(image, refine=2).mode == "P"


def test_refused_and_stopped(queue, sample):
    gray = sample[:64, :64, 0]
    engine = PinwheelHalftoner(queue=queue)
    for given, kind, message in (
        ({"refine": -1}, InvalidArgument, "refine is -1; allowed"),
        ({"refine": True}, InvalidType, "refine is True"),
        ({"refine": 1, "dpi": 0}, InvalidArgument, "dpi is 0; allowed"),
        ({"refine": 1, "out": gray.copy()}, InvalidArgument, "refine is given with out or an image in a store"),
        ({"refine": 1, "inches": "far"}, InvalidType, "inches is 'far'"),
    ):
        with pytest.raises(kind, match=message):
            engine.transform(gray, **given)
    with pytest.raises(InvalidArgument, match="refine is 1 at 17 levels; allowed: at 16 levels at most"):
        PinwheelHalftoner(levels=17, queue=queue).transform(gray, refine=1)
    with pytest.raises(StoppedError):
        engine.transform(gray, refine=2, progress=lambda done, _: done < 1)


def test_kernels_of_all_distances_are_exact_or_refused():
    for inches in (0.1, 1, 5, 9.5, 20, 60):
        weights = refine.refinement_kernel(300, inches)
        assert len(weights) // 2 <= refine.MOST_REACH
        assert int(weights.sum()) * refine.WHITE < 2**24
