"""`SpatialPalette`: its sums and its solve against references, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import KMeansPalette, SpatialPalette
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.dithering import opponent, search
from clquant.dithering.eye import eye_kernel
from clquant.dithering.phase_planes import PhasePlanes
from clquant.dithering.search_steps import SearchPalette, ToggleSearch
from clquant.images import read
from clquant.palette.host_clusters import centers_of, sample_of
from clquant.quality import visual_error
from clquant.runtime import InvalidArgument, StoppedError, force_variant, open_session
from clquant.spatial import atlas, solve
from clquant.spatial.statistics import Statistics, statistics
from tests.lowering import lower
from tests.reference import search as search_reference
from tests.reference import spatial as reference
from tests.reference.halftone import as_rgba


def on_device(queue, array):
    made = open_session(queue).new_array(array.shape, np.uint8)
    made.set(array)
    return made


@pytest.mark.parametrize("form", ["lanes", "portable"])
@pytest.mark.parametrize("channels", [3, pytest.param(4, marks=pytest.mark.full)])
def test_sums_equal_the_reference(queue, rng, channels, form):
    image = rng.integers(0, 256, (11, 18, channels), dtype=np.uint8)
    colors = rng.integers(0, 256, (5, channels), dtype=np.uint8)
    alpha = np.full(image.shape[:2], 255)
    if channels == 4:
        image[::4, ::3, 3] = 0
        colors[:, 3] |= 1
        alpha = image[..., 3]
    session = open_session(queue)
    space, palette = spaces.space("srgb", channels == 4), Palette(colors)
    kernel = eye_kernel(search.REACH, search.WIDTH, 1.0, opponent.most_error(space))
    points = opponent.points(space, colors)
    wanted = opponent.points(space, image.reshape(-1, channels)).reshape(*image.shape[:2], -1)
    shown = Palette(np.append(colors, [[0, 0, 0, 0]], axis=0)) if channels == 4 else palette
    shown_points, weights = opponent.points(space, shown.rgba()), kernel.astype(np.int64)
    indices = search_reference.dither(wanted, as_rgba(image), shown_points, shown, space, weights, 1, is_bounded=False)
    if form == "lanes" and not session.limits.is_cpu:
        pytest.skip("the form for CPUs")
    with force_variant(form), session.scope() as scope:
        device = SearchPalette(session, scope, shown, space)
        steps = ToggleSearch(scope, device, PhasePlanes(*image.shape[:2]), kernel)
        steps.begin(scope.copy_of(image), channels)
        steps.improve()
        found = statistics(session, steps, kernel, len(shown), space.dims)
    errors = np.where(alpha[..., None] > 0, opponent.points(space, shown.rgba())[indices] - wanted, 0)
    assert points.shape[1] == space.dims
    expected = reference.sums(errors, indices, alpha, kernel.astype(np.int64), len(shown))
    for one, other in zip((found.pairs, found.counts, found.slopes), expected, strict=True):
        assert np.array_equal(one, other)


def test_the_solve_is_that_of_exact_fractions(rng):
    k, middle = 6, 1024
    kernel = eye_kernel(search.REACH, search.WIDTH, 1.0, 1021).astype(np.int64)
    indices = rng.integers(0, k - 1, (14, 14))
    errors = rng.integers(-300, 300, (14, 14, 3))
    pairs, counts, slopes = reference.sums(errors, indices, np.full(indices.shape, 255), kernel, k)
    free = np.array([False, True, True, True, True, True])
    found = solve.best_changes(Statistics(pairs, counts, slopes), middle, free)
    expected = reference.best_changes(pairs, counts, slopes, middle, free)
    assert counts[k - 1] == 0
    assert not found[[0, k - 1]].any()
    assert np.abs(found / solve.UNIT - np.array(expected, float)).max() < 0.01


def test_the_same_palette_everywhere(queue, sample):
    image = np.ascontiguousarray(sample[100:150, 200:281])
    palette = SpatialPalette(7, queue=queue).fit(image).palette_
    with force_variant("portable"):
        assert SpatialPalette(7, queue=queue).fit(image).palette_ == palette
    assert SpatialPalette(7).fit(on_device(queue, image)).palette_ == palette
    parts = [image[:33], image[33:]]
    assert (
        SpatialPalette(7, queue=queue).fit(parts).palette_
        == SpatialPalette(7).fit([on_device(queue, np.ascontiguousarray(part)) for part in parts]).palette_
    )
    opaque = np.dstack([image, np.full(image.shape[:2], 255, np.uint8)])
    assert SpatialPalette(7, queue=queue).fit(opaque).palette_ == palette


def test_less_visual_error_than_a_k_means_palette(queue, sample):
    image = np.ascontiguousarray(sample[:256:2, :256:2])
    ours = SpatialPalette(8, queue=queue).fit(image)
    other = KMeansPalette(8, queue=queue).fit(image)
    error = visual_error(image, other.transform(image, "search"))
    assert visual_error(image, ours.transform(image)) < 0.7 * error
    assert np.array_equal(ours.transform(image), ours.palette_.colors[ours.predict(image, dither="search")])
    assert np.array_equal(ours.fit_predict(image), ours.predict(image))
    assert ours.quantize(image, None).palette == ours.palette_


@pytest.mark.full
@pytest.mark.parametrize("name", spaces.NAMES)
def test_spaces_fixed_colors_and_holes(queue, sample, name):
    image = np.dstack([sample[:64, :80], np.full((64, 80), 255, np.uint8)])
    image[:9, :7] = 0
    palette = SpatialPalette(6, fixed_colors=["#ff0000", "#00ff80"], color_space=name, queue=queue).fit(image).palette_
    assert len(palette) == 6
    assert palette.rgba()[:3].tolist() == [[0, 0, 0, 0], [255, 0, 0, 255], [0, 255, 128, 255]]
    image[20:30, :, 3] = 128
    engine = SpatialPalette(6, color_space=name, queue=queue).fit(image)
    assert engine.palette_.has_alpha
    assert (engine.predict(image)[:9, :7] == 0).all()
    with force_variant("portable"):
        assert SpatialPalette(6, color_space=name, queue=queue).fit(image).palette_ == engine.palette_


def test_few_colors_grays_and_tiny_images(queue, rng):
    image = rng.integers(0, 2, (20, 20, 3), dtype=np.uint8) * 200
    assert len(SpatialPalette(16, queue=queue).fit(image).palette_) == len(np.unique(image.reshape(-1, 3), axis=0))
    gray = SpatialPalette(3, queue=queue).fit(rng.integers(0, 256, (30, 31), dtype=np.uint8)).palette_.colors
    assert len(gray) == 3
    assert (gray == gray[:, :1]).all()
    assert SpatialPalette(2, queue=queue).fit(np.full((1, 1, 3), 7, np.uint8)).palette_.colors.tolist() == [[7, 7, 7]]
    assert len(SpatialPalette(2, queue=queue).fit(np.array([[0, 100, 200]], np.uint8)).palette_) == 2


@pytest.mark.full
def test_large_pictures_are_learned_from_tiles(queue, rng, monkeypatch):
    lower(monkeypatch, atlas__pixels=1 << 12)
    monkeypatch.setattr(atlas, "TILE", 16)
    pictures = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((100, 90, 3), (9, 300), (70, 80, 4))]
    read_pictures = [read(picture) for picture in pictures]
    parts = atlas.parts_of(read_pictures, 5)
    assert len(parts) == 16
    assert len({id(part.picture) for part in parts}) == 3
    for part in parts:
        assert 0 <= part.row <= part.picture.height - part.rows
        assert 0 <= part.column <= part.picture.width - part.columns
        assert (part.rows, part.columns) == (min(16, part.picture.height), 16)
    palette = SpatialPalette(5, queue=queue).fit(pictures).palette_
    assert SpatialPalette(5).fit([on_device(queue, picture) for picture in pictures]).palette_ == palette
    assert SpatialPalette(5, random_state=1, queue=queue).fit(pictures).palette_ != palette


def test_parts_do_not_touch(queue, rng):
    session = open_session(queue)
    images = [rng.integers(1, 256, (h, w, 3), dtype=np.uint8) for h, w in ((40, 900), (7, 1500), (90, 30), (1, 1))]
    parts = atlas.parts_of([read(image) for image in images], 0)
    with session.scope() as scope:
        made = atlas.atlas_of(session, scope, parts)
        pixels = session.download(made.pixels, (made.rows, made.columns, 4), np.uint8)
    assert (pixels[..., 3] > 0).sum() == sum(image.shape[0] * image.shape[1] for image in images)
    places, _, _ = atlas._shelves(parts)
    for image, (row, column) in zip(images, places, strict=True):
        height, width = image.shape[:2]
        assert np.array_equal(pixels[row : row + height, column : column + width, :3], image)
        around = pixels[max(row - 8, 0) : row + height + 8, max(column - 8, 0) : column + width + 8, 3]
        assert (around > 0).sum() == height * width


def test_starts(rng):
    points = rng.integers(0, 1000, (200, 3))
    which, weights = sample_of(rng.integers(1, 9, 200, dtype=np.uint32), 3)
    assert np.array_equal(which, np.arange(200))
    centers = centers_of(points, weights, points[:2], 5, 3)
    assert np.array_equal(centers[:2], points[:2])
    assert len(centers) == 7
    assert len(centers_of(points[:3], weights[:3], points[:0], 5, 3)) == 3
    drawn, times = sample_of(np.ones(10000, np.uint32), 3)
    assert times.sum() == 4096
    assert (np.diff(drawn) > 0).all()


@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("alpha", [False, True])
def test_colors_are_the_inverse_of_points(rng, name, alpha):
    space = spaces.space(name, alpha)
    colors = rng.integers(0, 256, (300, 4 if alpha else 3), dtype=np.uint8)
    if alpha:
        colors[:, 3] = 255
    back = opponent.colors(space, opponent.points(space, colors) * 8, 8)
    allowed = {"srgb": 1, "linear": 16, "oklab": 12}[name]
    assert np.abs(back.astype(int) - colors).max() <= allowed


def test_refused_and_stopped(queue, sample):
    image = sample[:32, :32]
    for engine, message in (
        (SpatialPalette(1), "n_colors is 1; allowed"),
        (SpatialPalette(257), "n_colors is 257; allowed"),
        (SpatialPalette(rounds=0), "rounds is 0; allowed"),
        (SpatialPalette(sharpness=-1), "sharpness is -1; allowed"),
        (SpatialPalette(color_space="lab"), "color_space is 'lab'; allowed"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            engine.fit(image)
    with pytest.raises(InvalidArgument, match="sample_weight has shape"):
        SpatialPalette().fit(image, sample_weight=np.ones((32, 31)))
    with pytest.raises(StoppedError):
        SpatialPalette(4, queue=queue).fit(image, progress=lambda done, _: done < 1)


def searched(palette, image, queue):
    return palette.colors[search.SearchDither().dither(image, palette, queue=queue)]


@pytest.mark.full
def test_weights_say_what_is_learned_from(queue, sample):
    image = np.ascontiguousarray(sample[::4, ::4])
    engine = SpatialPalette(6, rounds=2, queue=queue)
    plain = engine.fit(image).palette_
    assert engine.fit(image, sample_weight=np.full(image.shape[:2], 0.25)).palette_ == plain
    assert engine.fit(image, np.full(image.shape[:2], 3)).palette_ == plain
    mask = np.zeros(image.shape[:2], np.uint8)
    mask[20:90, 30:110] = 1
    masked = engine.fit(image, sample_weight=mask).palette_
    assert masked == engine.fit(np.where(mask[..., None] > 0, image, 7).astype(np.uint8), mask).palette_
    assert masked == engine.fit([image], sample_weight=[mask]).palette_
    assert masked == engine.fit(on_device(queue, image), sample_weight=mask).palette_
    inside = np.ascontiguousarray(image[20:90, 30:110])
    assert visual_error(inside, searched(masked, inside, queue)) < visual_error(inside, searched(plain, inside, queue))


def test_draws_by_weights(queue, rng):
    session = open_session(queue)
    pictures = [read(rng.integers(0, 256, (50, 41, 3), dtype=np.uint8)), read(rng.integers(0, 256, (9, 70), np.uint8))]
    weights = [np.zeros((50, 41), np.uint32), np.zeros((9, 70), np.uint32)]
    weights[0][40, 20], weights[1][3, 60] = 3, 1
    parts = atlas.weighted_parts(session, pictures, 1, weights)
    assert len(parts) == atlas.FEWEST_WEIGHTED
    found = [(part.rows, part.columns, part.row, part.column) for part in parts]
    assert sorted(found) == [(9, 32, 0, 38)] * 16 + [(32, 32, 18, 4)] * 48
    with session.scope() as scope:
        made = atlas.atlas_of(session, scope, parts)
        pixels = session.download(made.pixels, (made.rows, made.columns, 4), np.uint8)
    assert (pixels[..., 3] == 255).sum() == len(parts)


def test_a_palette_for_each_of_many(queue, rng):
    pictures = [rng.integers(0, 256, (20 + n, 24, 3), dtype=np.uint8) for n in range(3)]
    engine = SpatialPalette(5, rounds=1, queue=queue)
    seen = []
    found = engine.fit_many(iter(pictures), progress=lambda done, total: seen.append((done, total)))
    assert found == [engine.fit(picture).palette_ for picture in pictures]
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_fewest_colors(queue, sample):
    image = np.ascontiguousarray(sample[::6, ::6])
    engine = SpatialPalette(64, rounds=1, queue=queue).fit_quality(image, target_psnr=22)
    assert 2 <= len(engine.palette_) < 64
    assert -engine.score(image) <= 255**2 / 10**2.2
