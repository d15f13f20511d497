"""Ordered dithering against its reference, its masks, and what it is for."""

from __future__ import annotations

import itertools

import numpy as np
import PIL.Image
import pytest

import clquant
import clquant.pillow
from clquant import KMeansPalette, OrderedDither, Palette
from clquant.color import spaces
from clquant.dithering import mixes, simplices, threshold_maps
from clquant.dithering.bounds import speck
from clquant.dithering.registry import for_learned
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.palette import engine
from clquant.panel import panel
from clquant.quality import visual_error
from clquant.runtime import InvalidArgument, InvalidType, force_tuning, force_variant, open_session
from tests.reference import ordered as reference
from training import blue_noise


@pytest.mark.small
@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_equals_the_reference(queue, rng, name, channels):
    image = rng.integers(0, 256, (9, 13, channels), dtype=np.uint8)
    colors = rng.integers(0, 256, (7, channels if channels == 4 else 3), dtype=np.uint8)
    if channels == 4:
        colors[2], image[::3, ::2, 3], image[1::3, :, 3] = 0, 0, 255
    palette, space = Palette(colors), spaces.space(name, channels == 4)
    for dither in (OrderedDither(means="near"), OrderedDither("bayer", size=4, strength=0.6)):
        given = dither.thresholds(), round(dither.strength * 256), dither.means or "exact"
        expected = reference.dither(image, palette, space, *given)
        given = image[:, :, 0] if channels == 1 else image
        assert np.array_equal(engine.predict(given, palette, color_space=name, dither=dither, queue=queue), expected)


@pytest.mark.parametrize("form", ["lanes", "portable"])
@pytest.mark.parametrize(
    "name", [*spaces.NAMES[:1], *(pytest.param(n, marks=pytest.mark.full) for n in spaces.NAMES[1:])]
)
@pytest.mark.parametrize("channels", [3, pytest.param(4, marks=pytest.mark.full)])
def test_inks_equal_the_reference(queue, rng, form, name, channels):
    """Their simplices are found by brute force there; two inks are equal, and one is partly transparent or clear."""
    image = rng.integers(0, 256, (9, 13, channels), dtype=np.uint8)
    image[:4, :, :3] = np.linspace(0, 255, 13, dtype=np.uint8)[None, :, None]
    colors = np.array([[26, 13, 35], [185, 202, 205], [202, 184, 0], [121, 9, 0], [26, 13, 35], [0, 69, 139]], np.uint8)
    if channels == 4:
        image[..., 3] = rng.choice([0, 128, 255, 255], (9, 13))
        colors = np.concatenate([np.c_[colors, np.full(6, 255, np.uint8)], [[0, 0, 0, 0], [90, 90, 90, 100]]])
    palette, space = Palette(colors.astype(np.uint8)), spaces.space(name, channels == 4)
    for dither in (OrderedDither(), OrderedDither("bayer", strength=0.6)):
        expected = reference.dither(image, palette, space, dither.thresholds(), round(dither.strength * 256))
        with force_variant(form):
            shown = engine.predict(image, palette, color_space=name, dither=dither, queue=queue)
        assert np.array_equal(shown, expected)


def test_deep_inks_equal_the_reference(queue, rng):
    image = rng.integers(0, 65536, (8, 9, 3), dtype=np.uint16)
    palette, space, dither = (
        Palette([[0, 0, 0], [255, 255, 255], [200, 10, 30]]),
        spaces.space("srgb", False, 16),
        "bayer4",
    )
    expected = reference.dither(image, palette, space, threshold_maps.bayer(2), 256)
    assert np.array_equal(engine.predict(image, palette, dither=dither, queue=queue), expected)


def _lattice(*levels):
    return [list(color) for color in itertools.product(*levels)]


SPANNING = {
    "black, white and red": [[0, 0, 0], [255, 255, 255], [255, 0, 0]],
    "pure inks": [[0, 0, 0], [255, 255, 255], [255, 255, 0], [255, 0, 0], [0, 0, 255], [0, 255, 0]],
    "Spectra 6": panel("spectra6").palette.colors.tolist(),
    "ACeP": panel("acep7").palette.colors.tolist(),
    "CGA": [[0, 0, 0], [85, 255, 255], [255, 85, 255], [255, 255, 255]],
    "EGA 16": _lattice(*[(0, 170)] * 3) + _lattice(*[(85, 255)] * 3),
    "EGA 64": _lattice(*[(0, 85, 170, 255)] * 3),
    "3-3-2 bits": _lattice(range(0, 253, 36), range(0, 253, 36), range(0, 256, 85)),
    "web": _lattice(*[range(0, 256, 51)] * 3),
    "grays with a gap": [[v, v, v] for v in (0, 10, 20, 30, 40, 50, 60, 255)],
    "two": [[20, 30, 200], [250, 240, 0]],
    "grays and red": [[v, v, v] for v in (0, 85, 170, 255)] + [[200, 0, 0]],
}

HAND_MADE = {
    "PICO-8": "000000 1d2b53 7e2553 008751 ab5236 5f574f c2c3c7 fff1e8 ff004d ffa300 ffec27 00e436 29adff 83769c "
    "ff77a8 ffccaa",
    "DB16": "140c1c 442434 30346d 4e4a4e 854c30 346524 d04648 757161 597dce d27d2c 8595a1 6daa2c d2aa99 6dc2ca dad45e "
    "deeed6",
    "DB32": "000000 222034 45283c 663931 8f563b df7126 d9a066 eec39a fbf236 99e550 6abe30 37946e 4b692f 524b24 323c39 "
    "3f3f74 306082 5b6ee1 639bff 5fcde4 cbdbfc ffffff 9badb7 847e87 696a6a 595652 76428a ac3232 d95763 d77bba 8f974a "
    "8a6f30",
    "Sweetie 16": "1a1c2c 5d275d b13e53 ef7d57 ffcd75 a7f070 38b764 257179 29366f 3b5dc9 41a6f6 73eff7 f4f4f4 94b0c2 "
    "566c86 333c57",
    "C64": "000000 ffffff 880000 aaffee cc44cc 00cc55 0000aa eeee77 dd8855 664400 ff7777 333333 777777 aaff66 0088ff "
    "bbbbbb",
    "four greens": "0f380f 306230 8bac0f 9bbc0f",
    "near and clear": "00000000 646464 8c6464 648c64",
}
GIVEN = SPANNING | {name: Palette([f"#{c}" for c in text.split()]).colors for name, text in HAND_MADE.items()}
GIVEN |= {f"random {n}": np.random.default_rng(n).integers(0, 256, (n, 3)) for n in (8, 16, 24, 32, 64, 300, 1024)}


@pytest.mark.parametrize("dither", ["blue-noise", "bayer8", pytest.param("bayer16", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", GIVEN)
def test_flat_fields_keep_their_mean(queue, rng, name, dither):
    """Colours within the hull of entries are off by rounding alone, neutral ones and mixes of few or many entries."""
    palette = Palette(GIVEN[name])
    colors = palette.rgba()[palette.rgba()[:, 3] == 255, :3]
    dark, light = colors[colors.sum(axis=1).argmin()], colors[colors.sum(axis=1).argmax()].astype(float)
    mixes_of = [rng.dirichlet(np.full(len(colors), share), 12) @ colors for share in (0.1, 1.0)]
    between = dark + np.linspace(0, 1, 9)[:, None] * (light - dark)
    fields = np.rint(np.concatenate([*mixes_of, between])).astype(np.uint8)
    image = np.repeat(np.repeat(fields[:, None, None], 64, axis=1), 64, axis=2).reshape(-1, 64, 3)
    shown = engine.transform(image, palette, dither=dither, queue=queue)[..., :3]
    means = shown.reshape(len(fields), -1, 3).mean(axis=1)
    assert np.abs(means - fields).max() <= 3


def test_learned_palettes_are_mixed_of_near_entries(queue, sample):
    """In their engines' verbs, in whatever call these stand; the same colours as a given palette have exact means."""
    image = np.ascontiguousarray(sample[:64, :80])
    learned, near = KMeansPalette(16, queue=queue).fit(image), OrderedDither("bayer", means="near")
    expected = engine.transform(image, learned.palette_, dither=near, queue=queue)
    given = engine.transform(image, learned.palette_, dither="bayer8", queue=queue)
    assert not np.array_equal(expected, given)
    assert np.array_equal(learned.transform(image, "bayer8"), expected)
    assert np.array_equal(clquant.quantize(image, 16, dither="bayer8", queue=queue).to_array(), expected)
    assert np.array_equal(clquant.animate([image], 16, dither="bayer8", queue=queue).frames[0].to_array(), expected)
    asked = OrderedDither("bayer", means="exact")
    assert np.array_equal(learned.transform(image, asked), given)
    film = clquant.animate([image], learned.palette_, dither="bayer8", queue=queue)
    assert np.array_equal(film.frames[0].to_array(), given)
    picture = PIL.Image.fromarray(image)
    assert np.array_equal(clquant.pillow.quantize(picture, 16, dither="bayer8").convert("RGB"), expected)
    held = learned.quantize(image).to_pil()
    assert np.array_equal(clquant.pillow.quantize(picture, palette=held, dither="bayer8").convert("RGB"), given)


@pytest.mark.parametrize("dither", ["blue-noise", "bayer4"])
def test_exact_means_of_hundreds_of_entries_are_alike_in_all_forms(queue, rng, dither):
    image, shown = rng.integers(0, 256, (40, 64, 3), dtype=np.uint8), []
    for form in ("lanes", "portable"):
        with force_variant(form):
            shown.append(engine.predict(image, Palette(GIVEN["random 300"]), dither=dither, queue=queue))
    assert np.array_equal(*shown)


def test_coarse_masks_are_off_by_half_a_step(queue):
    """Bayer's 2x2 and 4x4 have 4 and 16 thresholds."""
    grays = np.arange(0, 256, 5, dtype=np.uint8)
    image = np.repeat(np.repeat(grays[:, None, None], 4, axis=0), 4, axis=1).repeat(3, axis=2)
    for name, values in (("bayer2", 4), ("bayer4", 16)):
        shown = engine.transform(image, SPANNING["black, white and red"], dither=name, queue=queue)
        means = shown.reshape(len(grays), 16, 3).mean(axis=1)
        assert np.abs(means - grays[:, None]).max() <= 255 / values / 2 + 1e-9


def test_soft_edges_tint_no_inks(queue):
    """Pixels of any alpha keep their means over mid-gray where the palette has no alpha."""
    image = np.full((64, 128, 4), 192, np.uint8)
    image[:, :64, 3] = 255
    shown = engine.transform(image, SPANNING["black, white and red"], dither="bayer8", queue=queue)
    means = shown.reshape(64, 2, 64, 3).mean(axis=(0, 2))
    assert np.abs(means - [[192], [127.5 + 64.5 * 192 / 255]]).max() <= 3


@pytest.mark.parametrize("name", spaces.NAMES)
def test_grays_are_mixed_of_black_and_white(queue, name):
    image = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2).repeat(8, axis=0)
    shown = engine.predict(image, SPANNING["pure inks"], dither="bayer8", color_space=name, queue=queue)
    assert np.unique(shown).tolist() == [0, 1]


def test_colors_outside_the_hull_keep_their_luma(queue):
    image = np.full((64, 64, 3), (40, 160, 90), np.uint8)
    shown = engine.transform(image, SPANNING["black, white and red"], dither="blue-noise", queue=queue)
    luma = np.array([77, 150, 29]) / 256
    assert abs(shown.reshape(-1, 3).mean(axis=0) @ luma - image[0, 0] @ luma) < 3


@pytest.mark.parametrize("name", ["EGA 64", "grays with a gap", "grays and red"])
def test_simplices_cover_every_color_once(rng, name):
    space = spaces.space("srgb", False)
    table, starts = simplices.simplices(Palette(SPANNING[name]), space)
    points = np.c_[rng.integers(0, 256, (500, 3)), np.ones(500, np.int64)]
    weights = np.einsum("skd,nd->nsk", table["planes"], points)
    assert ((weights >= 0).all(axis=2).sum(axis=1) >= 1).all()
    assert ((weights > 0).all(axis=2).sum(axis=1) <= 1).all()
    for number, simplex in enumerate(table):
        others = simplex["beyond"][simplex["beyond"] >= 0]
        assert all(number in table["beyond"][other] for other in others)
    middles = np.c_[np.indices((16, 16, 16)).reshape(3, -1).T * 16 + 8, np.ones(4096, np.int64)]
    assert (np.einsum("nkd,nd->nk", table["planes"][starts], middles) >= 0).all()


@pytest.mark.parametrize("means", ["exact", "near"])
def test_bands_grids_and_device_arrays_change_nothing(queue, rng, monkeypatch, means):
    image = rng.integers(0, 256, (70, 33, 3), dtype=np.uint8)
    palette = Palette(rng.integers(0, 256, (40 if means == "near" else 10, 3)))
    dither = OrderedDither("bayer", size=16, means=means)
    whole = engine.predict(image, palette, dither=dither, queue=queue)
    there = open_session(queue).new_array(image.shape, np.uint8)
    there.set(image)
    assert np.array_equal(engine.predict(there, palette, dither=dither).get(), whole)
    assert np.array_equal(engine.transform(there, palette, dither=dither).get(), palette.colors[whole])
    with force_tuning({"mapping.grid_pays": 1}):
        assert np.array_equal(engine.predict(image, palette, dither=dither, queue=queue), whole)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=16384")
    assert np.array_equal(engine.predict(image, palette, dither=dither, queue=queue), whole)


def test_strength_zero_is_the_nearest_color(queue, rng):
    image = rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)
    palette = Palette(rng.integers(0, 256, (9, 3)))
    plain = engine.predict(image, palette, queue=queue)
    assert np.array_equal(engine.predict(image, palette, dither=OrderedDither(strength=0), queue=queue), plain)


@pytest.mark.parametrize("name", ["blue-noise", "bayer2", "bayer4", "bayer", "bayer16"])
def test_palette_colors_stay_and_grays_keep_their_mean(queue, name):
    palette = Palette([[0, 0, 0], [255, 255, 255]])
    ramp = np.repeat(np.arange(0, 256, 17, dtype=np.uint8), 64)[None].repeat(64, axis=0)
    shown = engine.predict(ramp, palette, dither=name, queue=queue)
    assert not shown[:, :64].any()
    assert shown[:, -64:].all()
    for step in range(16):
        levels = 4 if name == "bayer2" else 16 if name == "bayer4" else 64
        share = shown[:, 64 * step : 64 * (step + 1)].mean()
        assert abs(share - step / 15) <= 0.5 / levels + 1e-9


def test_alpha_is_dithered_and_alpha_zero_is_exact(queue):
    palette = Palette([[0, 0, 0, 0], [200, 40, 10, 255]])
    image = np.zeros((64, 64, 4), np.uint8)
    image[:, :, :3] = palette.colors[1, :3]
    image[:32, :, 3] = 128
    shown = engine.predict(image, palette, dither="blue-noise", queue=queue)
    assert not shown[32:].any()
    assert 0.4 < shown[:32].mean() < 0.6


def test_less_visual_error_than_without(queue, sample):
    colors = [(r, g, b) for r in (0, 255) for g in (0, 85, 170, 255) for b in (0, 255)]
    plain = visual_error(sample, engine.transform(sample, colors, queue=queue))
    for name in ("blue-noise", "bayer8"):
        assert visual_error(sample, engine.transform(sample, colors, dither=name, queue=queue)) < plain / 4


@pytest.mark.parametrize("name", ["blue-noise", "bayer8"])
def test_a_gradient_has_no_specks(queue, name):
    """A ramp between the entries of a soft palette never shows the bright outliers around it."""
    steps = np.arange(0, 256, 16)
    soft = np.stack([60 + steps // 4, 90 + steps // 4, 130 + steps // 3], axis=1)
    outliers = [[255, 120, 0], [120, 255, 0], [130, 0, 0], [255, 255, 0], [255, 0, 255], [0, 255, 255]]
    colors = np.concatenate([soft, outliers])
    ramp = np.arange(0, 240)[None].repeat(64, axis=0)
    image = np.stack([62 + ramp // 4, 88 + ramp // 4, 131 + ramp // 3], axis=2).astype(np.uint8)
    dither = for_learned(name)
    shown = engine.transform(image, colors, dither=dither, queue=queue).astype(int)
    assert np.abs(shown - image).max() <= 26  # six entries of the ramp are that far apart
    assert len(np.unique(shown.reshape(-1, 3), axis=0)) == len(soft)


@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize(("channels", "count"), [(3, 9), pytest.param(4, 40, marks=pytest.mark.full)])
def test_palettes_of_near_colors_equal_the_reference(queue, rng, name, channels, count):
    """Their far entries are specks, unlike those of widely spaced palettes."""
    image = rng.integers(50, 206, (24, 24, channels), dtype=np.uint8)
    colors = rng.integers(90, 170, (count, channels), dtype=np.uint8)
    colors[0], colors[1] = 0, 255
    palette, space, dither = Palette(colors), spaces.space(name, channels == 4), OrderedDither(means="near")
    assert speck(palette, space) == 60
    expected = reference.dither(image, palette, space, dither.thresholds(), 256, "near")
    assert np.array_equal(engine.predict(image, palette, color_space=name, dither=dither, queue=queue), expected)


@pytest.mark.parametrize(("alpha", "bits"), [(False, 8), (True, 16)])
def test_mixes_are_with_the_nearest_others_of_the_window(rng, alpha, bits):
    colors = rng.integers(0, 256, (1400, 4 if alpha else 3), np.uint8)
    colors[500:520] = colors[3]  # equal entries are no neighbours of each other, and equally far from others
    palette, space = Palette(colors), spaces.space("srgb", alpha, bits)
    points = space.coordinates(palette.rgba()).astype(np.int64)
    order = np.argsort(points[:, :3] @ np.array(space.definition.lightness), kind="stable")
    found = mixes.mixes(palette, space)["entry"]
    for row, entry in enumerate(order):
        first = row // mixes.ROWS * mixes.ROWS
        others = order[max(0, first - mixes.WINDOW) : first + mixes.ROWS + mixes.WINDOW]
        far = ((points[others] - points[entry]) ** 2).sum(axis=1)
        near = others[np.lexsort((others, far))][(far == 0).sum() :]
        assert np.array_equal(found[entry], near[: mixes.NEIGHBOURS[alpha]])


def test_a_palette_of_thousands_is_sent_once(queue, rng, monkeypatch):
    sent, of = [], PaletteOnDevice.of
    monkeypatch.setattr(PaletteOnDevice, "of", lambda *given: sent.append(given) or of(*given))
    palette, image = Palette(rng.integers(0, 256, (2000, 3), np.uint8)), rng.integers(0, 256, (8, 8, 3), np.uint8)
    first, second = (OrderedDither().dither(image, palette, queue=queue) for _ in range(2))
    assert np.array_equal(first, second)
    assert len(sent) == 1


def test_bayer_masks():
    assert threshold_maps.bayer(1).tolist() == [[0, 2], [3, 1]]
    for order in range(5):
        mask = threshold_maps.bayer(order)
        assert np.array_equal(np.sort(mask.ravel()), np.arange(4**order))


def test_the_shipped_mask_is_what_the_script_makes():
    mask = threshold_maps.shipped_mask()
    assert np.array_equal(np.sort(mask.ravel()), np.arange(64 * 64))
    assert np.array_equal(mask, blue_noise.void_and_cluster(blue_noise.SIDE, blue_noise.SEED))


def test_blue_noise_has_little_power_at_low_frequencies():
    mask = threshold_maps.shipped_mask()
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(64), np.fft.fftfreq(64)))
    for level in (409, 1024, 2048):
        power = np.abs(np.fft.fft2((mask < level) - level / 4096)) ** 2
        low = power[(frequency > 0) & (frequency < 0.1)].mean()
        assert low < power[frequency > 0.3].mean() / 20


@pytest.mark.parametrize(
    ("dither", "kind", "message"),
    [
        (OrderedDither("white"), InvalidArgument, "mask is 'white'; allowed: 'blue-noise', 'bayer'"),
        (OrderedDither("bayer", size=3), InvalidArgument, "size is 3; allowed: 2, 4, 8"),
        (OrderedDither(strength=1.5), InvalidArgument, "strength is 1.5; allowed: a number from 0 to 1"),
        (OrderedDither(strength="much"), InvalidType, "strength is 'much'"),
        (OrderedDither(means="far"), InvalidArgument, "means is 'far'; allowed: 'exact', 'near'"),
        (OrderedDither, InvalidType, "dither is <class"),
    ],
)
def test_wrong_arguments(dither, kind, message):
    with pytest.raises(kind, match=message):
        engine.predict(np.zeros((2, 2), np.uint8), [[0, 0, 0]], dither=dither)
