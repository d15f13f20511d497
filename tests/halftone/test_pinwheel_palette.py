"""Error diffusion to palettes, by the pinwheel and serially, equals plain references bit for bit."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pyopencl.array
import pytest

from clquant import KMeansPalette, runtime
from clquant.color.palette import Palette
from clquant.color.spaces import space
from clquant.dithering import bounds
from clquant.dithering.error_filters import error_filter
from clquant.halftone import PinwheelHalftoner, floyd_steinberg
from clquant.halftone.pinwheel.layout import error_shares
from clquant.halftone.pinwheel.palette import fade_of
from clquant.halftone.pinwheel.paths import INWARD, OUTWARD, make_path
from clquant.halftone.serial.rows import ROWS
from clquant.palette import engine as palettes
from tests.reference.error_diffusion import error_diffusion
from tests.reference.halftone import halftone_to_palette

CLASSIC = error_filter("floyd-steinberg")
EPAPER = Palette([(0, 0, 0), (255, 255, 255), (0, 160, 0), (0, 0, 255), (255, 0, 0), (255, 255, 0)])


def picture(height, width, channels, rng):
    ramp = np.linspace(0, 255, width)[None, :, None] + 40 * np.arange(channels)
    return np.clip(ramp + rng.normal(0, 20, (height, width, channels)), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("block", [8, *(pytest.param(b, marks=pytest.mark.full) for b in (2, 5))])
def test_pinwheel_equals_the_reference(queue, rng, block):
    image = picture(11, 19, 3, rng)
    result = PinwheelHalftoner(block, palette=EPAPER, queue=queue, random_state=9).transform(image)
    expected = halftone_to_palette(image, block, "spiral", EPAPER, space("srgb", False), seed=9)
    assert np.array_equal(result, expected)
    assert result.dtype == np.uint8


@pytest.mark.parametrize("color_space", ["srgb", "linear", "oklab"])
@pytest.mark.parametrize("linear", [False, True])
def test_pinwheel_equals_the_reference_in_every_space(queue, rng, color_space, linear):
    image = picture(9, 17, 3, rng)
    options = {"color_space": color_space, "linear": linear, "scan": "serpentine", "error_limit": 100.0}
    result = PinwheelHalftoner(8, palette=EPAPER, queue=queue, **options).transform(image)
    expected = halftone_to_palette(image, 8, "serpentine", EPAPER, space(color_space, False), linear=linear, limit=1600)
    assert np.array_equal(result, expected)


@pytest.mark.full
@pytest.mark.parametrize(("entries", "color_space"), [(300, "srgb"), (40, "oklab"), (16, "srgb")])
def test_any_palette_equals_the_reference(queue, rng, entries, color_space):
    image, palette = picture(20, 33, 3, rng), Palette(rng.integers(90, 256, (entries, 3), np.uint8))
    assert bounds.speck(palette, space(color_space, False)) < 255
    result = PinwheelHalftoner(16, palette=palette, color_space=color_space, queue=queue).transform(image)
    assert np.array_equal(result, halftone_to_palette(image, 16, "spiral", palette, space(color_space, False)))


def dull(rng, colors, spread):
    """A palette around a middle, farther inside the colours of `outside_the_hull` the less `spread` is."""
    return Palette(
        np.clip(np.array([190, 140, 150]) + spread * rng.normal(0, 40, (colors, 3)), 0, 255).astype(np.uint8)
    )


def outside_the_hull(side):
    y, x = np.mgrid[0:side, 0:side] / side
    levels = np.stack([200 + 40 * np.sin(3 * x), 120 + 60 * y, 150 + 50 * np.cos(2 * x + 3 * y)], axis=-1)
    return np.round(levels + np.random.default_rng(1).normal(0, 3, levels.shape)).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize(("spread", "fade"), [(0.2, 192), (1.5, None)])
def test_errors_that_fade_equal_the_reference(queue, rng, spread, fade):
    palette, image = dull(rng, 12, spread), outside_the_hull(19)
    assert fade_of(palette) == fade if fade else 192 < fade_of(palette) < 256
    result = PinwheelHalftoner(8, palette=palette, queue=queue).transform(image)
    assert np.array_equal(result, halftone_to_palette(image, 8, "spiral", palette, space("srgb", False)))


def test_errors_fade_where_entries_are_near_each_other():
    assert fade_of(EPAPER) == 256
    assert fade_of(Palette([[9, 9, 9]])) == 256
    assert fade_of(Palette(np.arange(600)[:, None] * np.array([[1, 0, 0]]) % 256)) <= 256
    assert fade_of(Palette([[v, v, v] for v in range(0, 256, 51)])) == 144 + 88


@pytest.mark.full
def test_turns_of_the_path_do_not_show_where_no_entries_make_up_for_errors(queue):
    image = np.full((256, 256, 3), (100, 160, 220), np.uint8)
    shown = palettes.transform(image, EPAPER, dither="pinwheel", queue=queue).astype(float)
    y, x = np.mgrid[:256, :256]
    turns = (np.abs(y % 32 - x % 32) <= 1) | (np.abs(y % 32 + x % 32 - 31) <= 1)
    outward = (y // 32 + x // 32) % 2 == 0
    for phase in (outward, ~outward):
        assert np.abs(shown[phase & turns].mean(axis=0) - shown[phase & ~turns].mean(axis=0)).max() < 12


@pytest.mark.parametrize("phase", [OUTWARD, INWARD])
def test_shares_make_up_for_what_reaches_a_pixel(phase):
    shares, path = error_shares(192, 32, "spiral", phase), make_path(32, "spiral", phase)
    assert np.count_nonzero(shares == 192) > 700
    assert 16 * 192 // 40 <= shares.min() <= shares.max() <= 2 * 192
    turns = set(shares[(path.y == path.x) & (path.y > 1) & (path.y < 30)].tolist())
    assert turns <= ({256, 307, 341, 384} if phase == OUTWARD else {96, 120, 128})


def aligned_error(image, shown, period):
    """How much of the blurred error is the same in all tiles: 1 for errors that do not know of them."""
    frequency = [
        np.fft.fftfreq(n)[:, None, None] if i == 0 else np.fft.fftfreq(n)[None, :, None]
        for i, n in enumerate(image.shape[:2])
    ]
    squared = frequency[0] ** 2 + frequency[1] ** 2
    low, high = (np.exp(-2 * (np.pi * sigma) ** 2 * squared) for sigma in (1.5, 16))
    error = shown.astype(float) - image
    blurred = np.fft.ifft2(np.fft.fft2(error, axes=(0, 1)) * (low - high), axes=(0, 1)).real
    down, across = (n // period for n in image.shape[:2])
    tiles = blurred.reshape(down, period, across, period, 3)
    return down * across * (tiles.mean(axis=(0, 2)) ** 2).mean() / (blurred**2).mean()


@pytest.mark.full
@pytest.mark.parametrize("colors", [16, 32])
def test_blocks_do_not_show_in_colours_outside_the_hull(queue, sample, colors):
    image = np.ascontiguousarray(sample[:192, :192])
    palette = KMeansPalette(colors, queue=queue).fit(image).palette_

    def figure(dither):
        return aligned_error(image, palettes.transform(image, palette, dither=dither, queue=queue), 64)

    assert figure("pinwheel") < 1.1 * figure("floyd-steinberg")


def test_transparent_pixels_take_the_transparent_entry(queue, rng):
    image = picture(12, 12, 4, rng)
    image[3:6, 2:9, 3] = 0
    palette = EPAPER.with_transparent()
    result = PinwheelHalftoner(8, palette=palette, queue=queue).transform(image)
    assert np.array_equal(result, halftone_to_palette(image, 8, "spiral", palette, space("srgb", True)))
    assert (result[image[:, :, 3] == 0] == 6).all()
    serial = floyd_steinberg(image, palette, queue=queue)
    assert np.array_equal(serial, error_diffusion(image, palette, CLASSIC, 256, False, space("srgb", True), True))
    for method in (PinwheelHalftoner(8, palette=EPAPER, queue=queue).transform, lambda i: floyd_steinberg(i, EPAPER)):
        with pytest.raises(runtime.InvalidArgument, match="no entry of alpha 0"):
            method(image)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (33, 65), (70, 200), (97, 31)])
def test_serial_gray_equals_pillow(queue, rng, shape):
    image = rng.integers(0, 256, shape, np.uint8)
    expected = np.asarray(PIL.Image.fromarray(image).convert("1"))
    assert np.array_equal(floyd_steinberg(image, queue=queue), expected * np.uint8(255))


@pytest.mark.full
@pytest.mark.parametrize("shape", [(1, 1), (3, 700), (300, 70), (513, 17)])
def test_serial_gray_by_rows_equals_the_portable_form(device, rng, monkeypatch, shape):
    queue = runtime.default_queue(device)
    image = rng.integers(0, 256, shape, np.uint8)
    with runtime.force_variant("portable"):
        expected = floyd_steinberg(image, queue=queue)
    if runtime.Limits.of(device).work_group < ROWS:
        with runtime.force_variant("rows"), pytest.raises(runtime.InvalidArgument, match="does not run on this"):
            floyd_steinberg(image, queue=queue)
        return
    with runtime.force_variant("rows"):
        assert np.array_equal(floyd_steinberg(image, queue=queue), expected)
        assert np.array_equal(floyd_steinberg(pyopencl.array.to_device(queue, image)).get(), expected)
        monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=500000")
        assert np.array_equal(floyd_steinberg(image, queue=queue), expected)


@pytest.mark.full
@pytest.mark.parametrize("limits", ["compute_units=1", "compute_units=64", "max_alloc=90000"])
@pytest.mark.parametrize("shape", [(1, 1), (40, 1), (17, 2), (9, 15), (129, 31), (200, 300)])
def test_serial_forms_are_equal(device, rng, monkeypatch, shape, limits):
    queue = runtime.default_queue(device)
    image = rng.integers(0, 256, (*shape, 3), np.uint8)
    gray = np.ascontiguousarray(image[..., 0])
    jobs = [lambda: floyd_steinberg(gray, queue=queue)]
    for k, picture, color_space in ((2, image, "srgb"), (257, image, "linear"), (40, gray, "oklab")):
        palette = Palette(rng.integers(0, 256, (k, 3), np.uint8))
        jobs.append(lambda p=palette, i=picture, s=color_space: floyd_steinberg(i, p, color_space=s, queue=queue))
    with runtime.force_variant("portable"):
        expected = [job() for job in jobs]
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    for job, result in zip(jobs, expected, strict=True):
        assert np.array_equal(job(), result)


@pytest.mark.parametrize("color_space", ["srgb", "oklab"])
def test_serial_colour_equals_the_reference(queue, rng, color_space):
    image = picture(35, 40, 3, rng)
    result = floyd_steinberg(image, EPAPER, color_space=color_space, queue=queue)
    assert np.array_equal(result, error_diffusion(image, EPAPER, CLASSIC, 256, False, space(color_space, False), True))


def test_bands_do_not_show(device, rng, monkeypatch):
    image = picture(100, 150, 3, rng)
    queue = runtime.default_queue(device)
    methods = [PinwheelHalftoner(8, palette=EPAPER, queue=queue).transform]
    methods += [lambda i: floyd_steinberg(i, EPAPER, queue=queue), lambda i: floyd_steinberg(i[:, :, 0], queue=queue)]
    whole = [method(image) for method in methods]
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=150000,work_group=4")
    for method, expected in zip(methods, whole, strict=True):
        assert np.array_equal(method(image), expected)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=26000")
    assert np.array_equal(methods[0](image), whole[0])


def test_a_band_of_whole_tiles_has_room_for_the_errors_above_it(device, rng, monkeypatch):
    image = rng.integers(0, 256, (200, 300), np.uint8)
    with runtime.force_variant("portable"):
        whole = floyd_steinberg(image, queue=runtime.default_queue(device))
        monkeypatch.setenv("CLQUANT_LIMITS", f"max_alloc={64 * 8 * 304}")
        assert np.array_equal(floyd_steinberg(image, queue=runtime.default_queue(device)), whole)


@pytest.mark.parametrize("width", [1, 2])
def test_narrow_pictures_launch_no_empty_waves(device, rng, monkeypatch, width):
    launch, sizes = runtime.Session.launch, []

    def noted(session, kernel, items, /, *args, **more):
        sizes.append(items)
        return launch(session, kernel, items, *args, **more)

    monkeypatch.setattr(runtime.Session, "launch", noted)
    image = rng.integers(0, 256, (100, width), np.uint8)
    with runtime.force_variant("portable"):
        found = floyd_steinberg(image[..., None], queue=runtime.default_queue(device))
    assert min(sizes) > 0
    assert np.array_equal(found, np.asarray(PIL.Image.fromarray(image).convert("1"), np.uint8) * 255)


def test_device_input_stays_on_the_device(queue, rng):
    image = picture(20, 33, 3, rng)
    on_device = pyopencl.array.to_device(queue, image)
    for method in (PinwheelHalftoner(8, palette=EPAPER).transform, lambda i: floyd_steinberg(i, EPAPER)):
        result = method(on_device)
        assert isinstance(result, runtime.Array)
        assert np.array_equal(result.get(), method(image))
    gray = pyopencl.array.to_device(queue, image[:, :, 0].copy())
    assert np.array_equal(floyd_steinberg(gray).get(), floyd_steinberg(image[:, :, 0]))


@pytest.mark.parametrize("name", ["pinwheel", "floyd-steinberg"])
def test_palette_engines_take_the_names(queue, rng, name):
    image = picture(24, 31, 3, rng)
    indexed = palettes.quantize(image, EPAPER, dither=name, queue=queue)
    assert not np.array_equal(indexed.indices, palettes.predict(image, EPAPER, queue=queue))
    colours = palettes.transform(image, EPAPER, dither=name, queue=queue)
    assert np.array_equal(colours, EPAPER.colors[indexed.indices])


def test_a_flat_area_of_a_palette_colour_stays_flat(queue):
    image = np.full((40, 40, 3), EPAPER.colors[4], np.uint8)
    assert (PinwheelHalftoner(8, palette=EPAPER, queue=queue).transform(image) == 4).all()


@pytest.mark.full
def test_a_palette_may_have_more_than_256_colours(queue, rng):
    palette = Palette(rng.integers(0, 256, (300, 3)))
    image = picture(16, 16, 3, rng)
    for result in (
        PinwheelHalftoner(8, palette=palette, queue=queue).transform(image),
        floyd_steinberg(image, palette),
    ):
        assert result.dtype == np.uint16
        assert result.max() < 300


def test_indexed_and_pil(queue, rng):
    image = picture(16, 20, 3, rng)
    engine = PinwheelHalftoner(8, palette=EPAPER, queue=queue)
    indexed = engine.quantize(image)
    assert indexed.palette == EPAPER
    assert np.array_equal(indexed.indices, engine.transform(image))
    assert engine.to_pil(image).mode == "P"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"levels": 4}, "levels is 4 with a palette"),
        ({"noise": 0.5}, "noise is 0.5 with a palette"),
        ({"weights": "constant"}, "weights is 'constant' with a palette"),
        ({"color_space": "lab"}, "color_space is 'lab'"),
        ({"palette": [(1, 2)]}, "palette has shape"),
        ({"palette": [(0, 0, 300)]}, "palette holds values"),
    ],
    ids=str,
)
def test_wrong_palette_parameters_are_named(options, match):
    with pytest.raises(runtime.InvalidArgument, match=match):
        PinwheelHalftoner(**{"palette": EPAPER, **options}).transform(np.zeros((4, 4), np.uint8))


def test_wrong_calls_are_named():
    gray = np.zeros((4, 4), np.uint8)
    with pytest.raises(runtime.InvalidArgument, match="palette is None"):
        PinwheelHalftoner().quantize(gray)
    with pytest.raises(runtime.InvalidArgument, match="image has 3 channels"):
        floyd_steinberg(np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(runtime.InvalidArgument, match="color_space is 'hsv'"):
        floyd_steinberg(gray, EPAPER, color_space="hsv")
    with pytest.raises(runtime.StoppedError):
        floyd_steinberg(gray, progress=lambda *_: False)
    with pytest.raises(runtime.StoppedError):
        PinwheelHalftoner(8, palette=EPAPER).transform(np.zeros((4, 4, 3), np.uint8), progress=lambda *_: False)
