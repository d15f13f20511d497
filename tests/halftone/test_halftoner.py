"""PinwheelHalftoner equals its plain reference bit for bit, keeps the mean tone, and says what is wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import PIL.Image
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import images, runtime
from clquant.halftone import PinwheelHalftoner, floyd_steinberg
from clquant.halftone.pinwheel import levels as blocks
from clquant.halftone.pinwheel.tones import make_tones
from clquant.halftone.tables import constant_tables, trained_tables
from clquant.palette.engine import predict
from clquant.runtime.program.tuning import force_tuning
from tests.reference.halftone import halftone_plane

SHAPES = [(1, 1), (3, 40), (37, 29), (33, 66)]


def gradient(height, width, rng):
    ramp = np.linspace(0, 255, width)[None] + rng.normal(0, 12, (height, width))
    return np.clip(ramp, 0, 255).astype(np.uint8)


def reference(image, engine, **options):
    tables = engine._settings().tables
    return halftone_plane(
        image,
        engine.block_size,
        engine.scan,
        tables,
        levels=engine.levels,
        linear=engine.linear,
        noise=engine.noise,
        seed=engine.random_state,
        limit=int(16 * (engine.error_limit or 511)),
        **options,
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", [8, *(pytest.param(block, marks=pytest.mark.full) for block in (2, 3, 16))])
def test_equals_the_reference_at_any_size(queue, rng, block, shape):
    image = gradient(*shape, rng)
    engine = PinwheelHalftoner(block, queue=queue, random_state=7)
    assert np.array_equal(engine.transform(image, output="levels"), reference(image, engine))


@pytest.mark.parametrize(
    "options",
    [
        {"scan": "serpentine"},
        {"weights": "constant"},
        {"noise": 0.25},
        {"levels": 3},
        {"levels": 16, "noise": 0.5},
        {"levels": 256},
        {"linear": True},
        {"levels": 7, "linear": True, "scan": "serpentine"},
        {"error_limit": 40.0},
        {"random_state": 2**64 - 1},
    ],
    ids=str,
)
def test_equals_the_reference_for_every_option(queue, rng, options):
    image = gradient(30, 45, rng)
    engine = PinwheelHalftoner(8, queue=queue, **options)
    assert np.array_equal(engine.transform(image, output="levels"), reference(image, engine))


@pytest.mark.full
@pytest.mark.parametrize("block", [32, 64])
def test_equals_the_reference_at_large_blocks(queue, rng, block):
    image = gradient(70, 90, rng)
    engine = PinwheelHalftoner(block, queue=queue)
    assert np.array_equal(engine.transform(image, output="levels"), reference(image, engine))


@pytest.mark.full
def test_parts_of_a_block_equal_the_portable_form(device, rng, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", "local_memory=32768")
    engine = PinwheelHalftoner(32, queue=runtime.default_queue(device))
    image = gradient(70, 230, rng)
    with runtime.force_variant("portable"):
        expected = engine.transform(image)
    with runtime.force_variant("rings"):
        assert np.array_equal(engine.transform(image), expected)


@pytest.mark.full
def test_spread_between_lower_and_upper_threshold_is_used(queue, rng):
    image = gradient(20, 40, rng)
    tables = dataclasses.replace(constant_tables(), spread=np.full((3, 256), 500, np.int16), start=100)
    engine = PinwheelHalftoner(8, weights=tables, queue=queue)
    result = engine.transform(image, output="levels")
    assert np.array_equal(result, reference(image, engine))
    assert not np.array_equal(result, PinwheelHalftoner(8, weights="constant", queue=queue).transform(image) // 255)


def test_colour_channels_are_halftoned_apart_and_alpha_is_kept(queue, rng):
    image = rng.integers(0, 256, (21, 34, 4), np.uint8)
    engine = PinwheelHalftoner(8, levels=4, queue=queue)
    result = engine.transform(image, output="levels")
    assert np.array_equal(result[:, :, 3], image[:, :, 3])
    for channel in range(3):
        assert np.array_equal(result[:, :, channel], reference(image[:, :, channel], engine, channel=channel))


def test_values_are_the_output_levels(queue, rng):
    image = gradient(20, 50, rng)
    engine = PinwheelHalftoner(8, levels=5, queue=queue)
    levels = make_tones(5, False).output
    assert levels.tolist() == [0, 64, 128, 191, 255]
    assert np.array_equal(engine.transform(image), levels[engine.transform(image, output="levels")])


def test_bits_hold_eight_pixels_a_byte(queue, rng):
    image = gradient(9, 45, rng)
    engine = PinwheelHalftoner(8, queue=queue)
    bits = engine.transform(image, output="bits")
    assert bits.shape == (9, 6)
    assert np.array_equal(bits, np.packbits(engine.transform(image) == 255, axis=1))


def test_device_input_stays_on_the_device(queue, rng):
    image = gradient(25, 45, rng)
    on_device = pyopencl.array.to_device(queue, image)
    engine = PinwheelHalftoner(8)
    for output in ("values", "levels", "bits"):
        result = engine.transform(on_device, output=output)
        assert isinstance(result, runtime.Array)
        assert result.queue == queue
        assert np.array_equal(result.get(), PinwheelHalftoner(8, queue=queue).transform(image, output=output))
    colour = rng.integers(0, 256, (19, 23, 4), np.uint8)
    result = engine.transform(pyopencl.array.to_device(queue, colour))
    assert np.array_equal(result.get(), PinwheelHalftoner(8, queue=queue).transform(colour))
    assert np.array_equal(on_device.get(), image)


def test_pil_modes(queue, rng):
    image = gradient(16, 24, rng)
    two = PinwheelHalftoner(8, queue=queue)
    assert two.to_pil(image).mode == "1"
    assert np.array_equal(np.asarray(two.to_pil(image)), two.transform(image) == 255)
    assert PinwheelHalftoner(8, levels=4, queue=queue).to_pil(image).mode == "L"
    for channels, mode in ((3, "RGB"), (4, "RGBA")):
        assert two.to_pil(rng.integers(0, 256, (9, 9, channels), np.uint8)).mode == mode
    assert two.to_pil(PIL.Image.fromarray(image)).size == (24, 16)


def test_bands_do_not_show(device, rng, monkeypatch):
    image = gradient(90, 400, rng)
    whole = PinwheelHalftoner(8, queue=runtime.default_queue(device)).transform(image)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=20000")  # 50 rows of 400 bytes; the tables just fit
    seen = []
    banded = PinwheelHalftoner(8, queue=runtime.default_queue(device)).transform(
        image, progress=lambda *rows: seen.append(rows)
    )
    assert len(seen) > 1
    assert np.array_equal(banded, whole)


@pytest.mark.parametrize(("block", "shape"), [(2, (200, 400)), (32, (60_000, 1))])
def test_bands_leave_room_for_the_errors_between_blocks(device, rng, monkeypatch, block, shape):
    """Of small blocks and of narrow pictures these take more bytes than the pixels."""
    engine = PinwheelHalftoner(block, queue=runtime.default_queue(device))
    image = gradient(*shape, rng)
    whole = engine.transform(image)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=65536")
    assert np.array_equal(engine.transform(image), whole)


def test_any_work_group_gives_the_same(device, rng, monkeypatch):
    image = gradient(40, 90, rng)
    expected = PinwheelHalftoner(8, queue=runtime.default_queue(device)).transform(image)
    for limits in ("work_group=1", "work_group=4", "local_memory=1024"):
        monkeypatch.setenv("CLQUANT_LIMITS", limits)
        with force_tuning({"halftone.group": 64}), runtime.force_variant("portable"):
            found = PinwheelHalftoner(8, queue=runtime.default_queue(device)).transform(image)
        assert np.array_equal(found, expected)


@pytest.mark.full
@given(tone=st.integers(0, 255), seed=st.integers(0, 2**64 - 1), block=st.sampled_from([16, 32]))
@settings(max_examples=12)
def test_the_mean_tone_is_kept(tone, seed, block):
    flat = np.full((256, 256), tone, np.uint8)
    result = PinwheelHalftoner(block, random_state=seed).transform(flat)
    # What each inward block may drop, half a white pixel, over two blocks; and the start errors' mean.
    assert abs(float(result.mean()) - tone) <= 0.5


@pytest.mark.full
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("block", [2, 3, 8, 16, 32])
def test_output_levels_alone_stay_as_they_are(queue, rng, block, linear):
    for levels in (2, 3, 4, 7, 16, 30):
        output = make_tones(levels, linear).output
        image = output[rng.integers(0, levels, (70, 90))]
        halftoned = PinwheelHalftoner(block, levels=levels, linear=linear, queue=queue).transform(image)
        np.testing.assert_array_equal(halftoned, image)


def test_every_level_of_a_256_level_halftone_is_the_input(queue):
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert np.array_equal(PinwheelHalftoner(8, levels=256, queue=queue).transform(image), image)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"block_size": 1}, runtime.InvalidArgument),
        ({"block_size": 65}, runtime.InvalidArgument),
        ({"block_size": 32.0}, runtime.InvalidType),
        ({"scan": "zigzag"}, runtime.InvalidArgument),
        ({"weights": "trained"}, runtime.InvalidArgument),
        ({"weights": 3}, runtime.InvalidArgument),
        ({"noise": -0.1}, runtime.InvalidArgument),
        ({"noise": 1.5}, runtime.InvalidArgument),
        ({"noise": "some"}, runtime.InvalidType),
        ({"levels": 1}, runtime.InvalidArgument),
        ({"levels": 257}, runtime.InvalidArgument),
        ({"levels": True}, runtime.InvalidType),
        ({"linear": 1}, runtime.InvalidType),
        ({"error_limit": 0.5}, runtime.InvalidArgument),
        ({"error_limit": 600}, runtime.InvalidArgument),
        ({"random_state": "a"}, runtime.InvalidType),
        ({"random_state": -1}, runtime.InvalidArgument),
        ({"queue": "gpu"}, runtime.InvalidType),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(options, error):
    name = next(iter(options))
    with pytest.raises(error, match=f"^{name} is "):
        PinwheelHalftoner(**options).transform(np.zeros((4, 4), np.uint8))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"threshold": np.zeros((3, 256), np.int32)}, "weights.threshold is int32"),
        ({"threshold": np.full((3, 256), -1, np.int16)}, "weights.threshold is out of range"),
        ({"spread": np.full((3, 256), 4081, np.int16)}, "weights.spread is out of range"),
        ({"weights": np.zeros((3, 256, 4), np.uint8)}, "weights.weights is uint8"),
        ({"weights": np.zeros((3, 256, 5), np.uint8)}, "weights.weights holds 0"),
        ({"start": 128}, "weights.start is 128"),
    ],
    ids=["dtype", "threshold", "spread", "shape", "zero", "start"],
)
def test_wrong_tables_are_named(change, match):
    tables = dataclasses.replace(trained_tables("spiral", 32), **change)
    with pytest.raises(runtime.InvalidArgument, match=match):
        PinwheelHalftoner(weights=tables).transform(np.zeros((4, 4), np.uint8))


def test_wrong_calls_are_named():
    engine = PinwheelHalftoner()
    with pytest.raises(runtime.InvalidArgument, match="output is 'packed'"):
        engine.transform(np.zeros((4, 4), np.uint8), output="packed")
    with pytest.raises(runtime.InvalidArgument, match="output is 'bits' for 3 channels"):
        engine.transform(np.zeros((4, 4, 3), np.uint8), output="bits")
    with pytest.raises(runtime.InvalidArgument, match="output is 'bits' for 1 channels at 4 levels"):
        PinwheelHalftoner(levels=4).transform(np.zeros((4, 4), np.uint8), output="bits")
    with pytest.raises(runtime.InvalidType, match="progress is 3"):
        engine.transform(np.zeros((4, 4), np.uint8), progress=3)
    with pytest.raises(runtime.StoppedError):
        engine.transform(np.zeros((4, 4), np.uint8), progress=lambda *_: False)
    with pytest.raises(runtime.InvalidType, match="image is 3"):
        engine.transform(3)
    with pytest.raises(runtime.InvalidArgument, match=r"weights is None; allowed: .* or WeightTables"):
        PinwheelHalftoner(weights=None).transform(np.zeros((4, 4), np.uint8))


@pytest.mark.full
@pytest.mark.parametrize(
    ("form", "block"), [*(("lanes", n) for n in (5, 8, 16, 32)), *(("rings", n) for n in (32, 36))]
)
def test_every_form_equals_the_portable_one(device, rng, form, block):
    admitted = next(v for v in blocks.VARIANTS if v.name == form).admits(runtime.Limits.of(device))
    engine = PinwheelHalftoner(block, queue=runtime.default_queue(device), random_state=3)
    shapes = [(block, block), (2 * block - 1, 3 * block + 2), (3 * block, 20 * block), (2 * block, 3 * block, 3)]
    for shape in shapes:
        noise = rng.integers(0, 100, shape)
        ramp = np.linspace(0, 155, shape[1]).reshape(1, -1, *[1] * (len(shape) - 2))
        image = (noise + ramp).astype(np.uint8)
        with runtime.force_variant("portable"):
            expected = engine.transform(image)
        with runtime.force_variant(form):
            if not admitted:
                with pytest.raises(runtime.InvalidArgument, match="does not run on this device"):
                    engine.transform(image)
                return
            assert np.array_equal(engine.transform(image), expected)


@pytest.mark.parametrize("shape", [(1, 2**31 + 8), (2**30 + 1, 1)])
def test_sides_that_kernels_cannot_count_are_refused(shape):
    pixels = np.broadcast_to(np.uint8(0), (*shape, 1))
    picture = images.Picture(*shape, channels=1, gray=True, array=pixels)
    colors, message = (
        [[0, 0, 0], [255, 255, 255]],
        f"image has {shape[0]} x {shape[1]} pixels; allowed: up to 1073741824",
    )
    for refused in (
        lambda: PinwheelHalftoner().transform(picture),
        lambda: PinwheelHalftoner(palette=colors).transform(picture),
        lambda: predict(picture, colors, dither="pinwheel"),
        lambda: predict(picture, colors, dither="floyd-steinberg"),
        lambda: floyd_steinberg(picture),
    ):
        with pytest.raises(runtime.InvalidArgument, match=message):
            refused()


def deep_gradient(height, width, rng):
    ramp = np.linspace(0, 65535, width)[None] + rng.normal(0, 3000, (height, width))
    return np.clip(ramp, 0, 65535).astype(np.uint16)


@pytest.mark.parametrize(
    "options",
    [{"levels": 16}, {}, {"scan": "serpentine"}, {"noise": 0.25}, {"levels": 3}, {"levels": 16, "linear": True}],
    ids=str,
)
@pytest.mark.parametrize("block", [16, pytest.param(3, marks=pytest.mark.full)])
def test_16_bits_equal_the_reference(queue, rng, block, options):
    image = deep_gradient(30, 45, rng)
    engine = PinwheelHalftoner(block, queue=queue, random_state=5, **options)
    expected = reference(image, engine)
    assert np.array_equal(engine.transform(image, output="levels"), expected)
    there = engine.transform(pyopencl.array.to_device(queue, image), output="levels")
    assert np.array_equal(there.get(), expected)


@pytest.mark.full
def test_16_bit_colours_and_alpha(queue, rng):
    image = np.dstack([deep_gradient(35, 41, rng) for _ in range(4)])
    engine = PinwheelHalftoner(8, levels=5, queue=queue)
    found = engine.transform(image)
    planes = [make_tones(5, False).output[reference(image[..., c], engine, channel=c)] for c in range(3)]
    assert np.array_equal(found[..., :3], np.dstack(planes))
    assert np.array_equal(found[..., 3], images.read(image).array[..., 3])
    assert np.array_equal(engine.transform(pyopencl.array.to_device(queue, image)).get(), found)
    assert np.array_equal(engine.transform(image[..., :3]), found[..., :3])


@pytest.mark.full
def test_8_bit_values_in_16_bits_give_the_same(queue, rng):
    image = gradient(40, 50, rng)
    for levels in (2, 9):
        engine = PinwheelHalftoner(16, levels=levels, queue=queue)
        assert np.array_equal(engine.transform(image.astype(np.uint16) * 257), engine.transform(image))


def test_shades_below_an_8_bit_level_keep_their_mean(queue):
    engine = PinwheelHalftoner(16, levels=256, queue=queue)
    for shade in (25_700, 25_703, 25_800, 25_950):
        found = engine.transform(np.full((128, 128), shade, np.uint16))
        assert found.mean() == pytest.approx(shade / 257, abs=0.003)


@pytest.mark.full
def test_palettes_and_refining_take_the_nearest_8_bits(queue, rng):
    image = deep_gradient(20, 30, rng)
    for engine, options in [
        (PinwheelHalftoner(8, palette=["black", "gray", "white"], queue=queue), {}),
        (PinwheelHalftoner(8, queue=queue), {"refine": 1}),
    ]:
        assert np.array_equal(engine.transform(image, **options), engine.transform(images.read(image), **options))
