"""NeuQuantCL against its references, bit for bit, and what it promises around them."""

from __future__ import annotations

import hashlib

import numpy as np
import PIL.Image
import pytest

from clquant import NeuQuantCL, Palette, cli, runtime
from clquant.color import spaces
from clquant.neuquant.map_points import limited_weights
from clquant.neuquant.nodes import gray_axis, search_shift
from tests.reference import neuquant as reference
from tests.reference.opaque import settle_opaque


@pytest.fixture
def picture(rng):
    """(60, 70, 3): soft streaks of many colours."""
    steps = rng.normal(0, 6, (60, 70, 3)).cumsum(axis=1)
    return np.clip(steps + rng.integers(60, 190, (60, 1, 3)), 0, 255).astype(np.uint8)


def flat(picture):
    return picture.reshape(-1, picture.shape[-1])


def parallel_reference(picture, colors=256, sample_factor=1, metric="l2", conscience=False, steps=4, space="srgb"):
    chosen = spaces.space(space, picture.shape[-1] == 4)
    points = chosen.coordinates(flat(picture)).astype(np.int64)
    if picture.shape[-1] == 4:
        points[flat(picture)[:, 3] == 0] = -1
    shift = search_shift(chosen)
    count = sum(batch for batch, _ in reference.steps(colors, sample_factor))
    nodes = gray_axis(chosen, colors, 12).astype(np.int64)
    nodes = reference.batch_map(
        points[reference.sample(len(points), count)], nodes, shift, sample_factor, metric, conscience
    )
    kept = flat(picture)[points[:, 0] >= 0]
    given = chosen.coordinates, nodes, sample_factor, steps, shift, chosen.extent
    nodes = reference.refinement(points, kept, *given)
    return chosen.colors(np.minimum((nodes + 2048) >> 12, np.array(chosen.extent)))


def forms(queue):
    """The forms of the map's steps that a device takes."""
    return ("lanes", "portable") if runtime.open_session(queue).limits.is_cpu else ("portable",)


@pytest.mark.parametrize(
    ("colors", "options"),
    [
        (16, {"sample_factor": 10}),
        (2, {"sample_factor": 30, "refine_steps": 2}),
        (8, {"sample_factor": 30, "color_space": "oklab"}),
        (9, {"sample_factor": 30}),
        (256, {"sample_factor": 30, "refine_steps": 1}),
        (50, {"sample_factor": 30, "refine_steps": 3}),
        (20, {"sample_factor": 20, "color_space": "linear"}),
        (20, {"sample_factor": 20, "color_space": "oklab"}),
        (24, {"sample_factor": 20, "metric": "l1"}),
        (24, {"sample_factor": 20, "metric": "l1", "conscience": True}),
        (7, {"sample_factor": 10, "refine_steps": 0}),
    ],
)
def test_parallel_equals_its_reference(queue, picture, colors, options):
    names = {"refine_steps": "steps", "color_space": "space"}
    expected = parallel_reference(picture, colors, **{names.get(k, k): v for k, v in options.items()})
    for form in forms(queue):
        with runtime.force_variant(form):
            palette = NeuQuantCL(colors, queue=queue, **options).fit(picture).palette_
        assert np.array_equal(palette.colors, expected), form


@pytest.mark.full
@pytest.mark.parametrize(("colors", "sample_factor"), [(12, 10), (12, 30), (150, 30)])
def test_pictures_of_many_colours_are_refined_on_samples(queue, rng, colors, sample_factor):
    picture = rng.integers(0, 256, (150, 130, 3), dtype=np.uint8)
    expected = parallel_reference(picture, colors, sample_factor)
    for form in forms(queue):
        with runtime.force_variant(form):
            palette = NeuQuantCL(colors, queue=queue, sample_factor=sample_factor).fit(picture).palette_
        assert np.array_equal(palette.colors, expected), form


def test_counts_over_the_limit_are_halved():
    counts = np.array([1, 3, 2**31, 2**30], np.uint32)
    assert limited_weights(counts, 2**32 - 1) is not counts
    assert limited_weights(counts, 2**32 - 1).tolist() == counts.tolist()
    assert limited_weights(counts, 2**24).tolist() == [1, 1, 2**23, 2**22]


def test_parallel_with_alpha_equals_its_reference(queue, picture, rng):
    alpha = rng.integers(0, 256, (60, 70, 1), dtype=np.uint8)
    alpha[:5] = 0
    rgba = np.concatenate([picture, alpha], axis=2)
    palette = NeuQuantCL(25, queue=queue, sample_factor=20).fit(rgba).palette_
    seen, counts = np.unique(rgba[rgba[..., 3] > 0], axis=0, return_counts=True)
    expected = settle_opaque(parallel_reference(rgba, 24, 20), seen, counts, spaces.space("srgb", True))
    assert np.array_equal(palette.colors[:24], expected)
    assert palette[24] == (0, 0, 0, 0)


@pytest.mark.small
def test_parallel_on_a_simulator(queue, picture):
    small = np.ascontiguousarray(picture[:8, :8])
    palette = NeuQuantCL(3, queue=queue, sample_factor=30, refine_steps=2).fit(small).palette_
    assert np.array_equal(palette.colors, parallel_reference(small, 3, 30, steps=2))


@pytest.mark.small
def test_sequential_on_a_simulator(queue, picture):
    small = np.ascontiguousarray(picture[:8, :8])
    palette = NeuQuantCL(16, queue=queue, mode="sequential").fit(small).palette_
    assert np.array_equal(palette.colors, reference.sequential(flat(small), 16))


@pytest.mark.parametrize(("colors", "sample_factor"), [(2, 1), (256, 1), (100, 7), (1024, 30), (256, 10)])
def test_sequential_equals_its_reference(queue, picture, colors, sample_factor):
    palette = NeuQuantCL(colors, mode="sequential", sample_factor=sample_factor, queue=queue).fit(picture).palette_
    assert np.array_equal(palette.colors, reference.sequential(flat(picture), colors, sample_factor))


@pytest.mark.full
@pytest.mark.parametrize(
    ("sample_factor", "digest"),
    [
        (1, "cf09ddc69941529a3c5af7e50e3ccf4069673330d0a883249a4d05243e09f3a7"),
        (10, "47380266df7c8f71e9b90b30c5a0b16866dd5bf391db52e65a13747fd41db3b2"),
    ],
)
def test_sequential_gives_dekkers_palette_of_the_sample(queue, sample, sample_factor, digest):
    palette = NeuQuantCL(mode="sequential", sample_factor=sample_factor, queue=queue).fit(sample).palette_
    assert hashlib.sha256(palette.colors.tobytes()).hexdigest() == digest


def test_parallel_gives_the_same_palette_of_the_sample_everywhere(queue, sample):
    palette = NeuQuantCL(queue=queue).fit(sample).palette_
    assert (
        hashlib.sha256(palette.colors.tobytes()).hexdigest()
        == "e8f9071b43823d86f854507d3d5c86eef3c13955da0a7741d945826a26a22165"
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("limits", "colors", "refine_steps"),
    [("work_group=1", 40, 1), ("work_group=8,local_memory=16384,max_alloc=4194304", 1024, 0)],
)
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_poor_devices_give_the_same_palettes(queue, picture, monkeypatch, mode, limits, colors, refine_steps):
    engine = NeuQuantCL(colors, mode=mode, sample_factor=30, refine_steps=refine_steps, queue=queue)
    before = engine.fit(picture).palette_
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    with runtime.force_variant("portable"):
        assert engine.fit(picture).palette_ == before


@pytest.mark.parametrize("numbers", [(20, 103), (140, 203)])  # between these, processors begin to order the points
def test_another_number_of_colors_needs_no_other_program(queue, picture, monkeypatch, numbers):
    programs, original = [], runtime.Session.program

    def noted(session, file, **constants):
        programs.append((file, *constants.items()))
        return original(session, file, **constants)

    monkeypatch.setattr(runtime.Session, "program", noted)
    for colors in numbers:
        NeuQuantCL(colors, sample_factor=30, queue=queue).fit(picture)
    assert len(programs) % 2 == 0
    assert programs[: len(programs) // 2] == programs[len(programs) // 2 :]


def test_steps_of_many_colors_fit_the_largest_buffer(queue, rng, monkeypatch):
    picture = rng.integers(0, 256, (300, 300, 3), dtype=np.uint8)
    engine = NeuQuantCL(256, queue=queue)
    before = engine.fit(picture).palette_
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=1048576")
    assert engine.fit(picture).palette_ == before


def test_few_colors_need_no_memory_for_a_map(queue, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0,max_alloc=3500000")
    picture = np.full((1024, 1025, 3), 7, np.uint8)
    assert NeuQuantCL(1024, queue=queue).fit(picture).palette_.colors.tolist() == [[7, 7, 7]]


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (22, 22), (1, 100), (499, 1), (503, 3)])
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_small_pictures(queue, rng, mode, size):
    picture = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    engine = NeuQuantCL(queue=queue, mode=mode, sample_factor=5, keep_exact=False).fit(picture)
    assert engine.palette_.colors.shape == (256, 3)
    if mode == "sequential":
        assert np.array_equal(engine.palette_.colors, reference.sequential(flat(picture), 256, 5))
    assert engine.predict(picture).shape == size


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("distinct", [1, 2, 255, 256])
def test_few_colours_are_kept_exactly(queue, rng, mode, distinct):
    codes = rng.choice(1 << 24, distinct, replace=False)
    colors = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1).astype(np.uint8)
    picture = colors[rng.permutation(np.arange(40 * 50) % distinct)].reshape(40, 50, 3)
    engine = NeuQuantCL(queue=queue, mode=mode).fit(picture)
    assert len(engine.palette_) == distinct
    assert np.array_equal(engine.transform(picture), picture)


def test_one_colour_too_many_is_trained(queue, rng):
    colors = rng.integers(0, 256, (257, 3), dtype=np.uint8)
    engine = NeuQuantCL(queue=queue).fit(np.repeat(colors, 4, axis=0)[None])
    assert len(engine.palette_) == 256


@pytest.mark.full
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_gray_pictures_give_gray_palettes(queue, picture, mode):
    gray = np.ascontiguousarray(picture[..., 0])
    engine = NeuQuantCL(16, queue=queue, mode=mode).fit(gray)
    assert np.ptp(engine.palette_.colors, axis=1).max() == 0
    assert engine.palette_ == NeuQuantCL(16, queue=queue, mode=mode).fit(np.stack([gray] * 3, axis=2)).palette_


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_opaque_rgba_is_rgb(queue, picture, mode):
    rgba = np.concatenate([picture, np.full((60, 70, 1), 255, np.uint8)], axis=2)
    engine = NeuQuantCL(16, queue=queue, mode=mode, sample_factor=5)
    assert engine.fit(rgba).palette_ == engine.fit(picture).palette_


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_transparent_pixels_teach_nothing(queue, picture, mode):
    rgba = np.concatenate([picture, np.full((60, 70, 1), 255, np.uint8)], axis=2)
    rgba[10:30, 10:30, 3] = 0
    other = rgba.copy()
    other[10:30, 10:30, :3] = 77
    engine = NeuQuantCL(17, queue=queue, mode=mode, sample_factor=5)
    palette = engine.fit(rgba).palette_
    assert palette[16] == (0, 0, 0, 0)
    assert (palette.colors[:16, 3] == 255).all()
    assert engine.fit(other).palette_ == palette
    assert (engine.transform(rgba)[10:30, 10:30] == 0).all()


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_only_transparent_pixels(queue, mode):
    palette = NeuQuantCL(2, queue=queue, mode=mode).fit(np.zeros((3, 3, 4), np.uint8)).palette_
    assert palette == Palette([(0, 0, 0, 0)])


def test_two_colours_of_which_one_is_transparent(queue, picture):
    rgba = np.concatenate([picture, np.full((60, 70, 1), 200, np.uint8)], axis=2)
    rgba[0, 0, 3] = 0
    palette = NeuQuantCL(2, queue=queue).fit(rgba).palette_
    assert len(palette) == 2
    assert palette.transparent_index == 1


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.full
def test_many_pictures_are_independent(queue, picture, rng, mode, monkeypatch):
    pictures = [
        picture,
        np.ascontiguousarray(picture[::-1, :31]),
        rng.integers(0, 256, (9, 7, 3), dtype=np.uint8),
        np.zeros((4, 4, 3), np.uint8),
        rng.integers(0, 256, (30, 30, 4), dtype=np.uint8),
        picture[..., 0],
    ]
    engine = NeuQuantCL(16, queue=queue, mode=mode, sample_factor=20, refine_steps=1)
    palettes = engine.fit_many(pictures)
    assert not hasattr(engine, "palette_")
    assert palettes == [engine.fit(p).palette_ for p in pictures]
    monkeypatch.setenv("CLQUANT_LIMITS", "global_memory=65536")  # so that not all fit at once
    assert engine.fit_many(pictures) == palettes


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_several_pictures_share_a_palette_as_one_long_picture_would(queue, picture, mode):
    engine = NeuQuantCL(16, queue=queue, mode=mode, sample_factor=4)
    together = engine.fit([picture[:20], picture[20:]]).palette_
    assert together == engine.fit(picture).palette_


def test_device_arrays(queue, picture):
    session = runtime.open_session(queue)
    array = session.new_array(picture.shape, np.uint8)
    array.set(picture)
    engine = NeuQuantCL(20, sample_factor=10).fit(array)
    assert engine.palette_ == NeuQuantCL(20, sample_factor=10, queue=queue).fit(picture).palette_
    assert isinstance(engine.transform(array), runtime.Array)


@pytest.mark.full
@pytest.mark.parametrize("channels", [3, 4])
def test_l1_maps_to_the_nearest_by_absolute_differences(queue, rng, channels):
    picture = rng.integers(0, 256, (40, 41, channels), dtype=np.uint8)
    if channels == 4:  # soft pixels alone: opaque ones have entries of their own
        picture[..., 3] = picture[..., 3].clip(1, 254)
    engine = NeuQuantCL(30, queue=queue, metric="l1", sample_factor=20).fit(picture)
    space = spaces.space("srgb", channels == 4)
    points, nodes = space.coordinates(flat(picture)), space.coordinates(engine.palette_.colors)
    distance = np.abs(points[:, None] - nodes).sum(axis=2)
    chosen = distance[np.arange(len(points)), engine.predict(picture).ravel()]
    assert np.array_equal(chosen, distance.min(axis=1))
    if channels == 3:
        assert np.array_equal(engine.predict(picture).ravel(), distance.argmin(axis=1))


def test_the_command_takes_neuquants_options(tmp_path, picture, capsys):
    source, target = tmp_path / "in.png", tmp_path / "out.png"
    PIL.Image.fromarray(picture).save(source)
    common = ["palette", str(source), "-k", "16", "--dither", "none", "-o", str(target), "-q"]
    assert cli.main([*common, "--method", "neuquant", "--sample-factor", "7", "--sequential"]) == 0
    expected = NeuQuantCL(16, mode="sequential", sample_factor=7).fit(picture).transform(picture)
    with PIL.Image.open(target) as image:
        assert np.array_equal(np.asarray(image.convert("RGB")), expected)
    assert cli.main([*common, "--method", "neuquant", "--sample-factor", "31"]) == 2
    assert "--sample-factor is 31" in capsys.readouterr().err
    assert cli.main([*common, "--method", "kmeans", "--sample-factor", "3"]) == 2
    assert "--sample-factor is given with --method kmeans" in capsys.readouterr().err


def test_random_state_shifts_the_samples(queue, picture):
    palettes = [NeuQuantCL(20, sample_factor=10, random_state=s, queue=queue).fit(picture).palette_ for s in (0, 1, 1)]
    assert palettes[0] != palettes[1]
    assert palettes[1] == palettes[2]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_progress_is_told_and_may_stop(queue, picture, mode):
    calls = []
    engine = NeuQuantCL(16, mode=mode, sample_factor=10, queue=queue)
    engine.fit(picture, progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1]
    before = engine.palette_
    with pytest.raises(runtime.StoppedError):
        engine.fit(picture[:30], progress=lambda *_: False)
    assert engine.palette_ == before
    with pytest.raises(runtime.StoppedError):
        engine.fit_many([picture, picture[:30]], progress=lambda *_: False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_colors": 1}, "n_colors is 1"),
        ({"n_colors": 1025}, "n_colors is 1025"),
        ({"n_colors": 16.0}, "n_colors is 16.0"),
        ({"n_colors": None}, "n_colors is None"),
        ({"mode": "fast"}, "mode is 'fast'"),
        ({"mode": None}, "mode is None"),
        ({"sample_factor": 0}, "sample_factor is 0"),
        ({"sample_factor": 31}, "sample_factor is 31"),
        ({"sample_factor": True}, "sample_factor is True"),
        ({"metric": "linf"}, "metric is 'linf'"),
        ({"conscience": 1}, "conscience is 1"),
        ({"conscience": True}, "conscience is True with metric 'l2'"),
        ({"refine_steps": -1}, "refine_steps is -1"),
        ({"refine_steps": 65}, "refine_steps is 65"),
        ({"keep_exact": "yes"}, "keep_exact is 'yes'"),
        ({"color_space": "hsv"}, "color_space is 'hsv'"),
        ({"random_state": -1}, "random_state is -1"),
        ({"random_state": 0.5}, "random_state is 0.5"),
        ({"queue": "gpu"}, "queue is .gpu."),
    ],
)
def test_wrong_parameters_are_named(picture, options, words):
    with pytest.raises(runtime.ClquantError, match=words):
        NeuQuantCL(**options).fit(picture)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e, p: e.fit(p, sample_weight=np.ones(3)), "sample_weight"),
        (lambda e, _: e.fit([]), "images is empty"),
        (lambda e, _: e.fit_many([]), "images is empty"),
        (lambda e, p: e.fit_many(p), r"images is array of shape .*; allowed: a list or tuple of images"),
        (lambda e, _: e.fit(3), "images is 3"),
        (lambda e, p: e.fit([p, p.astype(complex)]), r"images\[1\]"),
        (lambda e, _: e.fit(np.zeros((0, 3), np.uint8)), "no pixels"),
        (lambda e, p: e.fit(p, progress=3), "progress is 3"),
        (lambda e, p: e.predict(p), "call fit first"),
        (lambda e, p: e.transform(p), "call fit first"),
    ],
)
def test_wrong_calls_are_named(picture, call, words):
    with pytest.raises(runtime.ClquantError, match=words):
        call(NeuQuantCL(), picture)


def test_parameters_are_kept_as_given():
    engine = NeuQuantCL(12, mode="sequential", sample_factor=4)
    assert engine.get_params()["sample_factor"] == 4
    assert repr(engine) == "NeuQuantCL(n_colors=12, mode='sequential', sample_factor=4)"
    assert engine.set_params(n_colors=5).n_colors == 5
