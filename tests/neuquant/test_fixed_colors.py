"""NeuQuant with fixed colours: kept exactly and in order, the others learned to go with them."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest

from clquant import NeuQuantCL, Palette, cli, runtime
from clquant.color import spaces
from clquant.mapping import error
from clquant.neuquant.nodes import gray_axis, search_shift
from clquant.runtime import InvalidArgument
from tests.reference import neuquant as reference

FIXED = [[255, 0, 255], [0, 0, 0], [90, 160, 20]]
MODES = ("parallel", "sequential")


@pytest.fixture
def picture(rng):
    """(60, 70, 3): soft streaks of many colours, and a part in the second and third fixed colour."""
    steps = rng.normal(0, 6, (60, 70, 3)).cumsum(axis=1)
    image = np.clip(steps + rng.integers(60, 190, (60, 1, 3)), 0, 255).astype(np.uint8)
    image[:20, :20], image[40:, 50:] = FIXED[1], FIXED[2]
    return image


def rgba(colors):
    return Palette(colors).rgba()


def taught(pixels, fixed, space):
    """Points of (n, 3 or 4) pixels; -1 where they are passed over."""
    points = space.coordinates(pixels).astype(np.int64)
    over = (rgba(pixels)[:, None] == rgba(fixed)[None]).all(axis=2).any(axis=1)
    points[over | (rgba(pixels)[:, 3] == 0)] = -1
    return points


def parallel_reference(picture, colors, fixed, sample_factor, steps, name):
    """The learned colours: the map beside the fixed ones, then the refinement with these among the nodes."""
    space = spaces.space(name, picture.shape[-1] == 4)
    pixels, pinned = picture.reshape(-1, picture.shape[-1]), len(fixed)
    points, shift, extent = taught(pixels, fixed, space), search_shift(space), np.array(space.extent)
    count = sum(batch for batch, _ in reference.steps(colors - pinned, sample_factor))
    nodes = gray_axis(space, colors - pinned, 12).astype(np.int64)
    nodes = reference.batch_map(points[reference.sample(len(points), count)], nodes, shift, sample_factor)
    learned = np.minimum((nodes + 2048) >> 12, extent)
    nodes = np.concatenate([space.coordinates(rgba(fixed)), learned]).astype(np.int64) << 12
    kept = pixels[rgba(pixels)[:, 3] > 0]
    given = space.coordinates, nodes, sample_factor, steps, shift, space.extent
    nodes = reference.refinement(points, kept, *given, pinned)
    return space.colors(np.minimum((nodes[pinned:] + 2048) >> 12, extent))


@pytest.mark.parametrize(
    ("colors", "steps", "space"),
    [
        (16, 4, "srgb"),
        (40, 2, "srgb"),
        (20, 3, "linear"),
        (20, 1, "oklab"),
        (4, 4, "srgb"),
        (11, 3, "linear"),
        (9, 0, "srgb"),
    ],
)
def test_parallel_equals_its_reference(queue, picture, colors, steps, space):
    learner = NeuQuantCL(
        colors, sample_factor=20, refine_steps=steps, color_space=space, fixed_colors=FIXED, queue=queue
    )
    expected = parallel_reference(picture, colors, FIXED, 20, steps, space)
    for form in ("lanes", "portable") if runtime.open_session(queue).limits.is_cpu else ("portable",):
        with runtime.force_variant(form):
            palette = learner.fit(picture).palette_
        assert palette.colors[:3].tolist() == FIXED
        assert np.array_equal(palette.colors[3:], expected), form


def test_many_colours_are_refined_on_samples(queue, rng):
    image = rng.integers(0, 256, (150, 130, 3), dtype=np.uint8)
    image[:50, :50] = FIXED[1]
    palette = NeuQuantCL(12, sample_factor=20, fixed_colors=FIXED, queue=queue).fit(image).palette_
    assert np.array_equal(palette.colors[3:], parallel_reference(image, 12, FIXED, 20, 4, "srgb"))


@pytest.mark.small
@pytest.mark.parametrize("mode", MODES)
def test_on_a_simulator(queue, picture, mode):
    small = np.ascontiguousarray(picture[16:24, 16:24])
    learner = NeuQuantCL(19, mode=mode, sample_factor=30, refine_steps=2, fixed_colors=FIXED, queue=queue)
    palette = learner.fit(small).palette_
    assert palette.colors[:3].tolist() == FIXED
    if mode == "parallel":
        assert np.array_equal(palette.colors[3:], parallel_reference(small, 19, FIXED, 30, 2, "srgb"))


@pytest.mark.parametrize(("colors", "sample_factor"), [(19, 1), (64, 1), (5, 3), (259, 10)])
def test_sequential_equals_its_reference(queue, picture, colors, sample_factor):
    learner = NeuQuantCL(colors, mode="sequential", sample_factor=sample_factor, fixed_colors=FIXED, queue=queue)
    palette = learner.fit(picture).palette_
    points = taught(picture.reshape(-1, 3), FIXED, spaces.space("srgb", False))
    assert palette.colors[:3].tolist() == FIXED
    assert np.array_equal(palette.colors[3:], reference.sequential(points, colors - 3, sample_factor))


@pytest.mark.parametrize("mode", MODES)
def test_the_others_go_with_them(queue, sample, mode):
    image = np.ascontiguousarray(sample[::4, ::4])
    image[:70, :70] = FIXED[0]
    alone = NeuQuantCL(16, mode=mode, queue=queue).fit(image).palette_
    joined = Palette(np.concatenate([np.array(FIXED, np.uint8), alone.colors]))
    learned = NeuQuantCL(19, mode=mode, fixed_colors=FIXED, queue=queue).fit(image).palette_
    errors = [error.mean_squared_error(image, palette, queue=queue) for palette in (learned, joined)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("mode", MODES)
def test_few_colors_stay_exact_and_duplicates_stay(queue, mode):
    image = np.array([[[0, 0, 0], [10, 20, 30], [10, 20, 30], [40, 40, 40]]], np.uint8)
    palette = NeuQuantCL(5, mode=mode, fixed_colors=FIXED, queue=queue).fit(image).palette_
    assert list(palette) == [(255, 0, 255), (0, 0, 0), (90, 160, 20), (10, 20, 30), (40, 40, 40)]
    tight = NeuQuantCL(4, mode=mode, fixed_colors=FIXED, queue=queue).fit(image).palette_
    assert tight.colors[:3].tolist() == FIXED
    assert len(tight) == 4
    twice = NeuQuantCL(4, mode=mode, fixed_colors=[FIXED[1], FIXED[1]], queue=queue).fit(image).palette_
    assert twice.colors[:2].tolist() == [FIXED[1], FIXED[1]]
    assert sorted(twice)[2:] == [(10, 20, 30), (40, 40, 40)]


@pytest.mark.parametrize("mode", MODES)
def test_a_picture_of_fixed_colours_alone(queue, mode):
    image = np.array([[FIXED[0], FIXED[1]]], np.uint8)
    kept = NeuQuantCL(8, mode=mode, fixed_colors=FIXED, queue=queue).fit(image).palette_
    assert kept.colors.tolist() == FIXED
    trained = NeuQuantCL(19, mode=mode, fixed_colors=FIXED, keep_exact=False, queue=queue).fit(image).palette_
    assert trained.colors[:3].tolist() == FIXED
    assert len(trained) == 19


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_alpha(queue, rng, mode):
    image = rng.integers(0, 256, (20, 30, 4), dtype=np.uint8)
    image[:, :10, 3], image[:, 10:, 3] = 0, 255
    half = [200, 30, 30, 128]
    for fixed in (FIXED, [half, *([*color, 255] for color in FIXED)]):
        palette = NeuQuantCL(9, mode=mode, fixed_colors=fixed, queue=queue).fit(image).palette_
        assert len(palette) == 9
        assert palette.colors[: len(fixed)].tolist() == rgba(fixed).tolist()
        assert palette[8] == (0, 0, 0, 0)
    clear = NeuQuantCL(9, mode=mode, fixed_colors=[half, [7, 7, 7, 0]], queue=queue).fit(image).palette_
    assert clear.colors[:2].tolist() == [half, [7, 7, 7, 0]]
    assert (clear.colors[2:, 3] > 0).all()
    assert len(clear) == 9
    opaque = NeuQuantCL(9, mode=mode, fixed_colors=[half], queue=queue).fit(image[:, 10:, :3]).palette_
    assert opaque.colors[0].tolist() == half
    only = NeuQuantCL(4, mode=mode, fixed_colors=FIXED, queue=queue).fit(image).palette_
    assert only.colors.tolist() == [*([*color, 255] for color in FIXED), [0, 0, 0, 0]]


@pytest.mark.full
def test_parallel_with_alpha_equals_its_reference(queue, picture, rng):
    alpha = rng.integers(0, 255, (60, 70, 1), dtype=np.uint8)  # opaque pixels would have entries of their own
    image = np.concatenate([picture, alpha], axis=2)
    fixed = [[200, 30, 30, 128], [0, 0, 0, 255]]
    palette = NeuQuantCL(20, sample_factor=20, fixed_colors=[*fixed, [0, 0, 0, 0]], queue=queue).fit(image).palette_
    assert palette.colors[:3].tolist() == [*fixed, [0, 0, 0, 0]]
    assert np.array_equal(palette.colors[3:], parallel_reference(image, 19, fixed, 20, 4, "srgb"))


@pytest.mark.parametrize("mode", MODES)
def test_many_pictures_and_progress(queue, picture, mode):
    learner = NeuQuantCL(19, mode=mode, sample_factor=10, fixed_colors=FIXED, queue=queue)
    pictures = [picture, np.ascontiguousarray(picture[::-1, :40]), picture[:5, :5]]
    assert learner.fit_many(pictures) == [learner.fit(image).palette_ for image in pictures]
    told = []
    learner.fit(picture, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1][0] == told[-1][1] == told[0][1]


def test_the_fewest_colours_for_a_quality(queue, picture):
    learner = NeuQuantCL(64, fixed_colors=FIXED, queue=queue).fit_quality(picture, target_psnr=28)
    assert learner.palette_.colors[:3].tolist() == FIXED
    assert 3 < len(learner.palette_) < 64


@pytest.mark.full
def test_the_command(tmp_path, picture, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PIL.Image.fromarray(picture).save("a.png")
    options = ["--method", "neuquant", "--fixed", "#ff00ff,#00000080", "--save-palette", "f.hex", "-q"]
    assert cli.main(["palette", "a.png", "-k", "8", *options]) == 0
    assert list(Palette.read("f.hex"))[:2] == [(255, 0, 255, 255), (0, 0, 0, 128)]


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        (np.zeros((4, 3), int), "fixed_colors has 4 colours; allowed: fewer than n_colors = 4"),
        ([[1, 2]], r"fixed_colors has shape \(1, 2\)"),
        ([[1, 2, 256]], "fixed_colors holds values from 1 to 256"),
    ],
)
def test_wrong_colors(queue, picture, fixed, message):
    with pytest.raises(InvalidArgument, match=message):
        NeuQuantCL(4, fixed_colors=fixed, queue=queue).fit(picture)
