"""`TilePalettes`: equal to a reference, exact where that can be, and what it is given."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import KMeansPalette, OrderedDither, TilePalettes, runtime
from clquant.color import spaces
from clquant.color.display import DISPLAY_FORMATS
from clquant.runtime import ClquantError, InvalidArgument, NotFittedError, StoppedError, open_session
from clquant.targets.tilesets import fit as tiles_fit
from clquant.targets.tilesets.packing import packed_sets
from tests.reference import tilesets as reference


def small(sample, step=9):
    return np.ascontiguousarray(sample[::step, ::step])


def with_holes(image):
    alpha = np.full((*image.shape[:2], 1), 255, np.uint8)
    alpha[:5, ::2] = 0
    alpha[3:20, 7:30] = 127
    alpha[20:24, 7:30] = 128
    return np.concatenate([image, alpha], axis=2)


def all_colors(engine):
    return np.stack([palette.colors[:, :3] for palette in engine.palettes_])


def check(engine, image, space="srgb"):
    """The indices and the inertia are the reference's."""
    shaped = image if image.ndim == 3 else image[..., None]
    rgb = np.repeat(shaped, 3, axis=2) if shaped.shape[2] == 1 else shaped
    side = engine.tile_size if isinstance(engine.tile_size, tuple) else (engine.tile_size,) * 2
    there = spaces.space(space, False)
    reserved = int(engine.palette_.has_alpha)
    expected, cost = reference.entries(rgb, all_colors(engine), side, there, reserved)
    found = engine.predict(image)
    assert np.array_equal(found, expected)
    assert engine.inertia_ == cost / there.unit**2
    return found


@pytest.mark.parametrize("space", spaces.NAMES)
@pytest.mark.parametrize("side", [8, (5, 7), (8, 1)])
def test_equals_the_reference(queue, sample, space, side):
    image = small(sample)
    engine = TilePalettes(3, 4, tile_size=side, color_space=space, swap_rounds=3, queue=queue).fit(image)
    found = check(engine, image, space)
    assert found.dtype == np.uint8
    assert engine.tile_numbers(engine.quantize(image)).max() < 3
    assert engine.n_iter_ > 0


def test_one_palette_and_colours_that_do_not_fit_the_tiles_palettes(queue, sample):
    image = small(sample)
    check(TilePalettes(1, 4, swap_rounds=3, queue=queue).fit(image), image)
    grays = np.array([[10, 20, 30], [110, 120, 130], [10, 110, 220]], np.uint8)  # 7 of at most 8 entries
    image = np.repeat(np.concatenate([np.resize(three, (8, 8)) for three in grays], axis=1)[..., None], 3, axis=2)
    engine = TilePalettes(2, 4, queue=queue).fit(image)
    check(engine, image)
    assert engine.n_iter_ > 0


@pytest.mark.full
def test_gray_and_transparent_pixels(queue, sample):
    gray = small(sample)[..., 1]
    engine = TilePalettes(2, 3, swap_rounds=2, queue=queue).fit(gray)
    check(engine, gray)
    image = with_holes(small(sample))
    engine = TilePalettes(3, 4, swap_rounds=2, queue=queue).fit(image)
    found = check(engine, image)
    assert all(palette.colors[0].tolist() == [0, 0, 0, 0] for palette in engine.palettes_)
    assert np.array_equal(found % 4 == 0, image[..., 3] < 128)
    engine.set_params(shared_color="#123456").fit(image)
    assert all(palette.colors[0].tolist() == [0x12, 0x34, 0x56, 0] for palette in engine.palettes_)
    with pytest.raises(InvalidArgument, match=r"^the image has transparent pixels; allowed: images like those of fit"):
        TilePalettes(2, 3, swap_rounds=0, queue=queue).fit(gray).predict(image)


@pytest.mark.full
def test_an_entry_is_kept_for_transparent_pixels_that_may_come(queue, sample):
    image = small(sample)
    for color, values in (("transparent", [0, 0, 0, 0]), ("#f0f0", [255, 0, 255, 0])):
        engine = TilePalettes(3, 4, shared_color=color, swap_rounds=2, queue=queue).fit(image)
        assert all(palette.colors[0].tolist() == values for palette in engine.palettes_)
        assert (engine.predict(image) % 4 > 0).all()
        holes = with_holes(image)
        assert np.array_equal(engine.predict(holes) % 4 == 0, holes[..., 3] < 128)
    few = np.repeat(np.repeat([[[9, 9, 9], [200, 0, 0]]], 8, axis=0), 8, axis=1).astype(np.uint8)
    engine = TilePalettes(2, 2, shared_color="transparent", queue=queue).fit(few)
    assert np.array_equal(engine.transform(few)[..., :3], few)


def test_on_the_device(queue, sample):
    image = small(sample)
    session = open_session(queue)
    device = session.new_array(image.shape, np.uint8)
    device.set(image)
    host = TilePalettes(3, 4, swap_rounds=2, queue=queue).fit(image)
    there = TilePalettes(3, 4, swap_rounds=2).fit(device)
    assert host.palettes_ == there.palettes_
    assert isinstance(there.predict(device), runtime.Array)
    assert np.array_equal(there.predict(device).get(), host.predict(image))
    assert np.array_equal(there.transform(device).get(), host.transform(image))
    assert np.array_equal(there.predict(device, "bayer4").get(), host.predict(image, "bayer4"))


@pytest.mark.full
def test_tiles_that_fit_are_kept(queue, rng):
    palettes = rng.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    palettes[:, 0] = palettes[0, 0]
    numbers = rng.integers(0, 4, (5, 6))
    entries = rng.integers(0, 6, (5, 6, 8, 8))
    entries[0, 0] = 0
    tiles = palettes[numbers[..., None, None], entries]
    image = np.ascontiguousarray(tiles.swapaxes(1, 2).reshape(40, 48, 3))
    for more in ({}, {"shared_color": True}, {"shared_color": tuple(int(v) for v in palettes[0, 0])}):
        engine = TilePalettes(4, 6, queue=queue, **more).fit(image)
        assert (engine.inertia_, engine.n_iter_) == (0.0, 0)
        assert np.array_equal(engine.transform(image), image)


def test_packing():
    sets = [frozenset(text) for text in (("ab"), "abc", "cd", "efg", "ag", "e")]
    assert packed_sets(sets, 2, 4) is None
    found = packed_sets(sets, 3, 4)
    assert found is not None
    assert all(any(one <= palette for palette in found) for one in sets)
    assert all(len(palette) <= 4 for palette in found)
    assert packed_sets([frozenset("abcde")], 3, 4) is None
    assert packed_sets([], 3, 4) == []


@pytest.mark.parametrize("shared", ["#ff00ff", True])
def test_a_shared_entry(queue, sample, shared):
    image = small(sample)
    engine = TilePalettes(3, 4, shared_color=shared, swap_rounds=2, queue=queue).fit(image)
    firsts = {next(iter(palette)) for palette in engine.palettes_}
    assert len(firsts) == 1
    if shared is not True:
        assert firsts == {(255, 0, 255)}
    check(engine, image)


@pytest.mark.parametrize("name", ["rgb555", "rgb333"])
def test_entries_of_displays(queue, sample, name):
    image = small(sample)
    engine = TilePalettes(3, 4, color_format=name, shared_color="#777", swap_rounds=2, queue=queue).fit(image)
    assert np.array_equal(DISPLAY_FORMATS[name].nearest(engine.palette_.colors), engine.palette_.colors)
    check(engine, image)


@pytest.mark.full
def test_better_than_palettes_of_clustered_tiles(queue, sample):
    """Beside k-means of tiles' means, and k-means of the pixels of each cluster."""
    image = np.ascontiguousarray(sample[: 512 // 8 * 8 : 4, :768:4])[:128, :192]
    tiles = image.reshape(16, 8, 24, 8, 3).swapaxes(1, 2).reshape(-1, 64, 3)
    means = tiles.astype(int).mean(axis=1).round().astype(np.uint8)
    label = KMeansPalette(4, queue=queue).fit(means[None]).predict(means[None])[0]
    naive = 0.0
    for number in range(4):
        pixels = np.ascontiguousarray(tiles[label == number].reshape(1, -1, 3))
        naive += KMeansPalette(8, queue=queue).fit(pixels).inertia_
    assert TilePalettes(4, 8, queue=queue).fit(image).inertia_ < 0.9 * naive


def test_several_images_and_draws(queue, sample, monkeypatch):
    image = small(sample)
    engine = TilePalettes(3, 4, swap_rounds=1, queue=queue)
    both = engine.fit([image, image[:20]]).palette_
    assert both == engine.fit(iter([image, image[:20]])).palette_
    monkeypatch.setattr(tiles_fit, "MOST_PIXELS", 640)
    drawn = tiles_fit.drawn_tiles([30, 2, 70], 64, 5)
    assert sum(map(len, drawn)) == 10
    assert all((np.diff(one.astype(int)) > 0).all() for one in drawn)
    assert all((one < most).all() for one, most in zip(drawn, (30, 2, 70), strict=True))
    assert len(engine.fit([image, image[:20]]).palette_) == 12


def test_dithering_within_tiles(queue, sample):
    image = with_holes(small(sample))
    engine = TilePalettes(3, 4, swap_rounds=1, queue=queue).fit(image)
    plain = engine.predict(image)
    for way in ("blue-noise", OrderedDither("bayer", size=4)):
        dithered = engine.predict(image, way)
        assert not np.array_equal(dithered, plain)
        assert np.array_equal(dithered // 4, np.kron(engine.tile_numbers(plain), np.ones((8, 8), int))[:57, :86])
        assert np.array_equal(dithered % 4 == 0, image[..., 3] < 128)
    near = OrderedDither("bayer", means="near")
    assert np.array_equal(engine.predict(image, "bayer"), engine.predict(image, near))
    given = TilePalettes.with_palettes(engine.palettes_, queue=queue)
    assert not np.array_equal(given.predict(image, "bayer"), given.predict(image, near))


def test_fitting_in_one_call_and_few_tiles(queue, sample):
    image = small(sample)
    engine = TilePalettes(3, 4, swap_rounds=1, queue=queue)
    assert np.array_equal(engine.fit_transform(image), engine.transform(image))
    assert np.array_equal(engine.fit_predict(image), engine.predict(image))
    one = TilePalettes(5, 4, queue=queue).fit(image[:8, :8])
    assert len(one.palettes_) == 5
    assert np.array_equal(np.asarray(one.quantize(image[:8, :8]).to_array()), one.transform(image[:8, :8]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_palettes": 0}, r"^n_palettes is 0; allowed: an integer from 1 to 256$"),
        ({"n_palettes": 256, "n_colors": 256}, r"^n_palettes is 256 with n_colors=256; allowed: fewer than 65536 "),
        ({"tile_size": 17}, r"^tile_size is 17; allowed: at most 256 pixels$"),
        ({"tile_size": (8, 8, 8)}, r"^tile_size is \(8, 8, 8\); allowed: a number, or rows and columns$"),
        ({"shared_color": "#0008"}, r"^shared_color is '#0008'; allowed: an opaque colour, or one of alpha 0$"),
        ({"shared_color": "redd"}, r"^shared_color\[0\] is 'redd'; allowed: "),
        ({"color_format": "rgb"}, r"^color_format is 'rgb'; allowed: "),
        ({"color_space": "lab"}, r"^color_space is 'lab'; allowed: "),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        TilePalettes(**arguments).fit(np.zeros((8, 8), np.uint8))


def test_what_is_too_early_or_stopped(sample):
    with pytest.raises(NotFittedError):
        TilePalettes().predict(small(sample))
    with pytest.raises(StoppedError):
        TilePalettes(3, 4).fit(small(sample), progress=lambda *_: False)
    with pytest.raises(InvalidArgument, match=r"^dither is 'leaky'; allowed for tiles: None, 'blue-noise', "):
        TilePalettes(2, 4, swap_rounds=0).fit(small(sample)).predict(small(sample), "leaky")


def test_given_palettes(rng):
    image = rng.integers(0, 256, (19, 24, 3), dtype=np.uint8)
    given = [["black", "red", "#fff", "#080"], ["#404040", "blue", "#888", "#0ff"], ["black", "#ff0"]]
    engine = TilePalettes.with_palettes(given)
    indices = engine.predict(image)
    colors = [palette.colors.astype(int) for palette in engine.palettes_]
    assert [len(one) for one in colors] == [4, 4, 4]
    assert colors[2].tolist() == [[0, 0, 0], *[[255, 255, 0]] * 3]
    for y in range(0, 19, 8):
        for x in range(0, 24, 8):
            tile = image[y : y + 8, x : x + 8].reshape(-1, 3).astype(int)
            far = [((tile[:, None] - one) ** 2).sum(axis=2) for one in colors]
            best = int(np.argmin([one.min(axis=1).sum() for one in far]))
            want = far[best].argmin(axis=1) + 4 * best
            assert np.array_equal(indices[y : y + 8, x : x + 8].ravel(), want)
    for wrong, words in (
        ([], "n_palettes is 0"),
        (5, "palettes is 5; allowed: a list"),
        ([["#f008", "red"]], "palettes have alpha"),
        ([["transparent", "red"], ["red", "blue"]], "palettes have alpha"),
    ):
        with pytest.raises(ClquantError, match=words):
            TilePalettes.with_palettes(wrong)
