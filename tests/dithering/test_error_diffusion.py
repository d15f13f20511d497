"""Error diffusion by filters, in wavefronts, serially and in tiles, against a serial reference."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import ErrorDiffusion, KMeansPalette, Palette, flow, floyd_steinberg, images, quality, runtime
from clquant.color.spaces import luma_chroma, space
from clquant.dithering.error_diffusion import LEAKY, Diffused
from clquant.dithering.error_filters import FILTERS, MAX_WEIGHT, error_filter
from clquant.palette import engine
from tests.reference.error_diffusion import error_diffusion

# Every colour space with every space of errors, and with each of these every number of channels and tiling once.
CROSSED = [
    ((1, 3, 4)[(i + j) % 3], color_space, error_space, (None, 16)[(i + j + turn) % 2])
    for i, color_space in enumerate(("srgb", "linear", "oklab"))
    for j, error_space in enumerate((None, "srgb", "ycbcr"))
    for turn in range(2)
]
SIX = Palette([[0, 0, 0], [255, 255, 255], [200, 30, 20], [230, 200, 40], [30, 60, 160], [40, 110, 60]])


def picture(height, width, channels, rng):
    """Smooth gradients with noise."""
    y, x = np.mgrid[0:height, 0:width]
    levels = np.stack([255 * x / width, 255 * y / height, 128 + 100 * np.sin(x / 5), 60 + 190 * y / height], axis=-1)
    noisy = np.clip(levels + rng.integers(-20, 21, levels.shape), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(noisy[..., 0] if channels == 1 else noisy[..., :channels])


def expected(dither, image, palette, color_space="srgb"):
    alpha = palette.has_alpha or (image.ndim == 3 and image.shape[2] == 4)
    to_luma = dither.error_space == "ycbcr" and color_space == "srgb"
    where = luma_chroma(alpha) if to_luma else space(color_space, alpha)
    plain = dither.error_space == "srgb" or (color_space == "srgb" and not to_luma)
    strength = round(256 * dither.strength)
    shares = error_filter(dither.filter)
    return error_diffusion(image, palette, shares, strength, dither.serpentine, where, plain, dither.tile_size)


def rows_after(dither, carried, rows, queue):
    """Indices of some rows of an image by six colours; `carried` goes from the rows above to those below."""
    rows = dataclasses.replace(images.read(rows, max_bits=16), origin=(carried.rows, 0))
    session = runtime.open_session(queue)
    return flow.in_bands(session, rows, Diffused(SIX, "srgb", dither), runtime.Progress(None), carried=carried)


@pytest.mark.parametrize("serpentine", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_equals_the_reference(queue, rng, name, serpentine):
    dither = ErrorDiffusion(name, 0.75 if serpentine else 1.0, serpentine)
    image = picture(37, 21, 3, rng)
    assert np.array_equal(dither.dither(image, SIX, queue=queue), expected(dither, image, SIX))


@pytest.mark.parametrize(("channels", "color_space", "error_space", "tile_size"), CROSSED)
def test_spaces_and_alpha_equal_the_reference(queue, rng, channels, color_space, error_space, tile_size):
    dither = ErrorDiffusion("burkes", 0.9, tile_size is not None, error_space=error_space, tile_size=tile_size)
    image, palette = picture(19, 22, channels, rng), SIX
    if channels == 4:
        image[3:6, 2:9, 3] = 0
        palette = Palette(np.concatenate([SIX.rgba(), [[200, 100, 20, 90]]])).with_transparent()
    found = dither.dither(image, palette, color_space=color_space, queue=queue)
    assert np.array_equal(found, expected(dither, image, palette, color_space))
    if channels == 4:
        assert (found[3:6, 2:9] == palette.transparent_index).all()


@pytest.mark.full
@settings(max_examples=25)
@given(
    name=st.sampled_from(sorted(FILTERS)),
    strength=st.floats(0, 1),
    serpentine=st.booleans(),
    tile_size=st.sampled_from([None, 16, 32]),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 12)),
    colors=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_any_parameters_equal_the_reference(name, strength, serpentine, tile_size, shape, colors, seed):
    rng = np.random.default_rng(seed)
    dither = ErrorDiffusion(name, strength, serpentine, error_space="ycbcr", tile_size=tile_size)
    image = rng.integers(0, 256, (*shape, 3), np.uint8)
    palette = Palette(rng.integers(0, 256, (colors, 3), np.uint8))
    assert np.array_equal(dither.dither(image, palette), expected(dither, image, palette))


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("color_space", ["srgb", "oklab"])
def test_the_classic_filter_is_floyd_steinberg(queue, rng, color_space, channels):
    image, palette = picture(70, 90, channels, rng), SIX.with_transparent() if channels == 4 else SIX
    plain = ErrorDiffusion("floyd-steinberg", error_space="srgb")
    found = plain.dither(image, palette, color_space=color_space, queue=queue)
    assert np.array_equal(found, floyd_steinberg(image, palette, color_space=color_space, queue=queue))


@pytest.mark.parametrize("tile_size", [None, 32])
@pytest.mark.parametrize("serpentine", [False, True])
def test_bands_and_work_groups_do_not_show(device, rng, monkeypatch, serpentine, tile_size):
    image = picture(150, 70, 3, rng)
    dither = ErrorDiffusion("stucki", 0.9, serpentine, tile_size=tile_size)
    whole = dither.dither(image, SIX, queue=runtime.default_queue(device))
    for limits in ("max_alloc=60000", "max_alloc=30000,work_group=4", "compute_units=1"):
        monkeypatch.setenv("CLQUANT_LIMITS", limits)
        assert np.array_equal(dither.dither(image, SIX, queue=runtime.default_queue(device)), whole)


@pytest.mark.full
@pytest.mark.parametrize("colors", [2, 300])
def test_device_arrays_stay_on_the_device(queue, rng, colors):
    image = picture(40, 33, 3, rng)
    palette = Palette(rng.integers(0, 256, (colors, 3), np.uint8))
    for dither in (LEAKY, ErrorDiffusion("atkinson")):
        found = dither.dither(pyopencl.array.to_device(queue, image), palette)
        assert isinstance(found, runtime.Array)
        host = dither.dither(image, palette, queue=queue)
        assert host.dtype == (np.uint8 if colors <= 256 else np.uint16)
        assert np.array_equal(found.get(), host)


def test_flat_areas_of_palette_colours_stay_flat(queue):
    image = np.full((80, 90, 3), SIX.colors[3], np.uint8)
    assert (LEAKY.dither(image, SIX, queue=queue) == 3).all()
    assert (LEAKY.dither(image, SIX, color_space="oklab", queue=queue) == 3).all()


def test_light_is_kept_in_linear_space(queue):
    image = np.full((64, 64), 188, np.uint8)  # half the light of white
    shown = ErrorDiffusion().dither(image, [[0, 0, 0], [255, 255, 255]], color_space="linear")
    assert abs(shown.mean() - 0.5) < 0.01
    shown = ErrorDiffusion().dither(image, [[0, 0, 0], [255, 255, 255]])
    assert abs(shown.mean() - 188 / 255) < 0.01


def test_names_and_true(queue, sample):
    image = sample[:96, :96]
    palette = KMeansPalette(8, queue=queue).fit(image).palette_
    leaky = engine.predict(image, palette, dither="leaky", queue=queue)
    assert np.array_equal(leaky, engine.predict(image, palette, dither=True, queue=queue))
    assert np.array_equal(leaky, engine.predict(image, palette, dither=LEAKY, queue=queue))
    nearest = engine.predict(image, palette, queue=queue)
    assert np.array_equal(nearest, engine.predict(image, palette, dither=False, queue=queue))
    atkinson = engine.predict(image, palette, dither="atkinson", queue=queue)
    assert np.array_equal(atkinson, ErrorDiffusion("atkinson").dither(image, palette, queue=queue))
    errors = [quality.visual_error(image, palette.colors[shown]) for shown in (leaky, atkinson, nearest)]
    assert errors[0] < min(errors[1:])


def test_tiles_are_as_good_as_one_scan(queue, sample):
    image = sample[:160, :160]
    palette = KMeansPalette(8, queue=queue).fit(image).palette_
    errors = []
    for side in (None, 64):
        dither = ErrorDiffusion("floyd-steinberg", 0.9, True, error_space="ycbcr", tile_size=side)
        shown = palette.colors[dither.dither(image, palette, queue=queue)]
        errors.append(quality.visual_error(image, shown))
    assert errors[1] < 1.03 * errors[0]


def test_filters_are_bounded_and_drop_nothing_but_atkinsons():
    for name, shares in FILTERS.items():
        total = sum(weight for _, _, weight in shares.shares)
        assert total == (6 if name == "atkinson" else shares.divisor)
        assert total <= MAX_WEIGHT
        assert shares.lag in (2, 3)
        assert all(-2 <= column <= 2 and 0 <= row <= 2 for column, row, _ in shares.shares)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"filter": "floyd"}, "filter is 'floyd'; allowed"),
        ({"strength": 1.5}, "strength is 1.5; allowed"),
        ({"serpentine": 2}, "serpentine is 2; allowed"),
        ({"error_space": "lab"}, "error_space is 'lab'; allowed"),
        ({"tile_size": 17}, "tile_size is 17; allowed"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(options, match):
    with pytest.raises(runtime.ClquantError, match=match):
        ErrorDiffusion(**options).dither(np.zeros((4, 4), np.uint8), SIX)


@pytest.mark.full
def test_holes_need_an_entry_and_progress_may_stop():
    with pytest.raises(runtime.InvalidArgument, match="no entry of alpha 0"):
        LEAKY.dither(np.zeros((4, 4, 4), np.uint8), SIX)
    with pytest.raises(runtime.StoppedError):
        LEAKY.dither(np.zeros((4, 4), np.uint8), SIX, progress=lambda *_: False)
    with pytest.raises(runtime.InvalidArgument, match="color_space is 'hsv'"):
        LEAKY.dither(np.zeros((4, 4), np.uint8), SIX, color_space="hsv")


def deep_picture(height, width, channels, rng):
    """As `picture`, with all 16 bits."""
    values = picture(height, width, channels, rng).astype(np.int64) * 257 + rng.integers(-128, 129, 1)
    return np.clip(values, 0, 65535).astype(np.uint16)


def deep_expected(dither, image, palette, color_space):
    alpha = palette.has_alpha or (image.ndim == 3 and image.shape[2] == 4)
    to_luma = dither.error_space == "ycbcr" and color_space == "srgb"
    where = luma_chroma(alpha, 16) if to_luma else space(color_space, alpha, 16)
    plain = dither.error_space == "srgb" or (color_space == "srgb" and not to_luma)
    strength, shares = round(256 * dither.strength), error_filter(dither.filter)
    return error_diffusion(image, palette, shares, strength, dither.serpentine, where, plain, dither.tile_size)


@pytest.mark.parametrize(
    ("channels", "color_space", "error_space", "tile_size"),
    [CROSSED[0], *(pytest.param(*case, marks=pytest.mark.full) for case in CROSSED[1:])],
)
def test_16_bits_equal_the_reference(queue, rng, channels, color_space, error_space, tile_size):
    dither = ErrorDiffusion(serpentine=tile_size is not None, error_space=error_space, tile_size=tile_size)
    image, palette = deep_picture(19, 22, channels, rng), SIX
    if channels == 4:
        image[3:6, 2:9, 3] = 0
        palette = Palette(np.concatenate([SIX.rgba(), [[200, 100, 20, 90]]])).with_transparent()
    found = dither.dither(image, palette, color_space=color_space, queue=queue)
    assert np.array_equal(found, deep_expected(dither, image, palette, color_space))
    there = dither.dither(pyopencl.array.to_device(queue, image), palette, color_space=color_space)
    assert np.array_equal(there.get(), found)


@pytest.mark.full
def test_names_of_16_bits(queue, rng):
    image = deep_picture(21, 33, 3, rng)
    for name, dither in [("leaky", LEAKY), ("burkes", ErrorDiffusion("burkes"))]:
        found = engine.predict(image, SIX, dither=name, queue=queue)
        assert np.array_equal(found, deep_expected(dither, image, SIX, "srgb"))
    classic = ErrorDiffusion(error_space="srgb")
    found = floyd_steinberg(image, SIX, queue=queue)
    assert np.array_equal(found, deep_expected(classic, image, SIX, "srgb"))
    assert np.array_equal(found, engine.predict(image, SIX, dither="floyd-steinberg", queue=queue))
    gray = deep_picture(21, 33, 1, rng)
    bits = deep_expected(classic, gray, Palette([[0, 0, 0], [255, 255, 255]]), "srgb")
    assert np.array_equal(floyd_steinberg(gray, queue=queue), 255 * bits)
    with pytest.raises(runtime.InvalidArgument, match="3 channels"):
        floyd_steinberg(image, queue=queue)


def test_shades_between_8_bit_values_keep_their_mean(queue):
    """A flat shade of 16 bits between two neighbouring entries: the mean of the dithered picture is that shade."""
    pair = Palette([[100, 100, 100], [101, 101, 101]])
    for shade in (25_700, 25_750, 25_800, 25_957):
        flat = np.full((64, 64), shade, np.uint16)
        share = ErrorDiffusion().dither(flat, pair, queue=queue).mean()
        assert share == pytest.approx((shade - 25_700) / 257, abs=0.01)


@pytest.mark.parametrize("filter", ["floyd-steinberg", "jarvis-judice-ninke", "sierra-lite"])
@pytest.mark.parametrize(("serpentine", "deep"), [(False, False), (True, False), (False, True), (True, True)])
def test_rows_may_be_scanned_after_those_above(queue, rng, filter, serpentine, deep):
    image = rng.integers(0, 65536 if deep else 256, (61, 43, 3)).astype(np.uint16 if deep else np.uint8)
    scan = ErrorDiffusion(filter, 0.9, serpentine)
    carried = flow.Carried()
    cuts = (0, 1), (1, 3), (3, 36), (36, 61)
    found = [rows_after(scan, carried, image[begin:end], queue) for begin, end in cuts]
    assert carried.rows == 61
    assert np.array_equal(np.concatenate(found), scan.dither(image, SIX, queue=queue))
