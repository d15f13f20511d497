"""Palettes of many small pictures equal the reference on every device, in every variant, at every group size."""

from __future__ import annotations

import pathlib

import numpy as np
import PIL.Image
import pyopencl.array
import pytest

from clquant import KMeansPalette, images, runtime
from clquant.images import decode
from clquant.kmeans import small_images
from tests.reference import kmeans_batch as reference

PARAMETERS = (small_images.FEW_CELLS, small_images.STARTS, small_images.CANDIDATES, small_images.MOST_STEPS)


def small_pictures(rng: np.random.Generator) -> list[np.ndarray]:
    """Smooth, noisy, flat, few-coloured, tiny and one-hued pictures."""
    ramp = np.linspace(0, 255, 24 * 20).reshape(24, 20)
    smooth = np.stack([ramp, ramp.T[:20, :].repeat(2, 0)[:24, :20], 255 - ramp], -1).astype(np.uint8)
    few = rng.integers(0, 256, (5, 3), dtype=np.uint8)[rng.integers(0, 5, (9, 31))]
    red = np.zeros((16, 16, 3), np.uint8)
    red[..., 0] = np.arange(256).reshape(16, 16)
    return [
        smooth,
        rng.integers(0, 256, (17, 23, 3), dtype=np.uint8),
        np.full((8, 8, 3), 7, np.uint8),
        few,
        rng.integers(0, 256, (1, 1, 3), dtype=np.uint8),
        red,
        rng.integers(100, 108, (20, 20, 3), dtype=np.uint8),
        np.clip(rng.normal(128, 40, (40, 33, 3)), 0, 255).astype(np.uint8),
    ]


def run(queue: runtime.CommandQueue, pictures: list[np.ndarray], k: int, seed: int = 0) -> list[np.ndarray]:
    session = runtime.open_session(queue)
    read = [images.read(p) for p in pictures]
    assert all(map(small_images.fits, read))
    return small_images.batch_palettes(session, read, k, seed, runtime.Progress(None))


def assert_equal(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("variant", ["lanes", "portable"])
@pytest.mark.parametrize(("k", "seed"), [(2, 0), (5, 1), (40, 3), (16, 2**63)])
def test_palettes_equal_the_reference(
    queue: runtime.CommandQueue, variant: str, k: int, seed: int, rng: np.random.Generator
) -> None:
    pictures = small_pictures(rng)
    wanted = [reference.palette(p, k, seed, *PARAMETERS) for p in pictures]
    if variant == "lanes" and not runtime.open_session(queue).limits.is_cpu:
        variant = "portable"
    with runtime.force_variant(variant):
        assert_equal(run(queue, pictures, k, seed), wanted)


@pytest.mark.full
@pytest.mark.parametrize("work_group", [1, 8])
def test_group_sizes_change_nothing(
    queue: runtime.CommandQueue, work_group: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = small_pictures(rng)
    usual = run(queue, pictures, 6)
    monkeypatch.setenv("CLQUANT_LIMITS", f"work_group={work_group},max_alloc=1048576")
    with runtime.force_variant("portable"):
        assert_equal(run(queue, pictures, 6), usual)


@pytest.mark.full
def test_groups_are_as_small_as_the_compiled_kernels_want(
    queue: runtime.CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [rng.integers(0, 256, (24, 30, 3), np.uint8) for _ in range(2)]
    expected = KMeansPalette(7, queue=queue).fit_many(pictures)
    groups = {}
    launch = runtime.Session.launch

    def noted(
        session: runtime.Session, kernel: runtime.Kernel, size: int, group: int | None, /, **named: object
    ) -> object:
        groups[kernel.name] = group
        return launch(session, kernel, size, group, **named)

    monkeypatch.setattr(runtime.Session, "launch", noted)
    monkeypatch.setattr(runtime.Kernel, "work_group", lambda kernel, _: 4 if kernel.name == "seed_centers" else 64)
    with runtime.force_variant("portable"):
        assert KMeansPalette(7, queue=queue).fit_many(pictures) == expected
    assert {groups[name] for name in ("picture_points", "seed_centers", "lloyd_steps")} == {4}


def test_neighbours_change_nothing(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    pictures = small_pictures(rng)
    together = run(queue, pictures * 3, 8)
    alone = [run(queue, [p], 8)[0] for p in pictures]
    assert_equal(together, alone * 3)


def test_gray_and_colour_pictures_mix(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    gray = rng.integers(0, 256, (12, 13), dtype=np.uint8)
    color = np.repeat(gray[..., None], 3, axis=2)
    first, second, third = run(queue, [gray, color, gray], 4)
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)


def test_empty_centers_take_the_worst_points() -> None:
    """The rule itself, on the reference: a center far from everything is moved to the point of largest error."""
    points = np.array([[0, 0, 0], [80, 0, 0], [800, 0, 0]])
    centers, _ = reference.lloyd(points, np.array([5, 1, 3]), np.array([[40, 0, 0], [2040, 2040, 2040]]), 1)
    mean = (5 * 0 + 1 * 80 + 3 * 800 + 9 // 2) // 9
    assert centers.tolist() == [[mean, 0, 0], [800, 0, 0]]


def test_what_does_not_fit_is_known() -> None:
    assert not small_images.fits(images.read(np.zeros((129, 128, 3), np.uint8)))
    assert not small_images.fits(images.read(np.zeros((8, 8, 4), np.uint8)))
    assert small_images.fits(images.read(np.zeros((128, 128), np.uint8)))


def test_progress_counts_pictures(queue: runtime.CommandQueue) -> None:
    told: list[tuple[int, int]] = []
    pictures = [images.read(np.full((2, 2, 3), i, np.uint8)) for i in range(5)]
    progress = runtime.Progress(lambda done, total: told.append((done, total)))
    with runtime.force_tuning({"batch.pictures": 2}):
        palettes = small_images.batch_palettes(runtime.open_session(queue), pictures, 2, 0, progress)
    assert told == [(2, 5), (4, 5), (5, 5)]
    assert [p.tolist() for p in palettes] == [[[i, i, i]] for i in range(5)]


def test_fit_many_gives_each_image_its_palette(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    alpha = rng.integers(0, 256, (9, 9, 4), dtype=np.uint8)
    large = rng.integers(0, 256, (140, 120, 3), dtype=np.uint8)
    pictures = [*small_pictures(rng), alpha, large]
    engine = KMeansPalette(6, queue=queue, random_state=5)
    palettes = engine.fit_many(pictures)
    assert not hasattr(engine, "palette_")
    for i, picture in enumerate(pictures):
        small = picture.shape[-1] == 3 and picture.size < 3 * small_images.MOST_PIXELS
        wanted = reference.palette(picture, 6, 5, *PARAMETERS) if small else engine.fit(picture).palette_.colors
        assert np.array_equal(palettes[i].colors, wanted)


def test_fit_many_takes_device_arrays_as_host_arrays(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    packed = rng.integers(0, 256, (40, 30, 4), dtype=np.uint8)
    pictures = [*small_pictures(rng), packed, rng.integers(0, 256, (13, 14), dtype=np.uint8)]
    given = [pyopencl.array.to_device(queue, picture) for picture in pictures]
    flat = pyopencl.array.to_device(queue, np.concatenate([np.zeros(7, np.uint8), pictures[0].ravel()]))
    engine, own = KMeansPalette(6, random_state=5), KMeansPalette(6, random_state=5, queue=queue)
    expected = own.fit_many(pictures)
    assert engine.fit_many(given) == expected
    assert own.fit_many([a.with_queue(None) for a in given]) == expected
    assert engine.fit_many([pictures[1], flat[7:].reshape(pictures[0].shape), pictures[-1]]) == [
        expected[i] for i in (1, 0, -1)
    ]


def test_fit_many_reads_each_file_once(
    tmp_path: pathlib.Path, queue: runtime.CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "small.png", tmp_path / "alpha.png"]
    for path, channels in zip(paths, (3, 4), strict=True):
        PIL.Image.fromarray(rng.integers(0, 256, (12, 13, channels), np.uint8)).save(path)
    read, from_file = [], decode.from_file
    monkeypatch.setattr(decode, "from_file", lambda *args: read.append(args[0]) or from_file(*args))
    KMeansPalette(3, queue=queue).fit_many(paths)
    assert read == [str(path) for path in paths]


def test_fit_many_keeps_other_parameters(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    picture = rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)
    for engine in (
        KMeansPalette(4, init="random", queue=queue),
        KMeansPalette(4, color_space="oklab", queue=queue),
        KMeansPalette(4, init=picture[0, :4], queue=queue),
    ):
        (palette,) = engine.fit_many([picture])
        assert np.array_equal(palette.colors, engine.fit(picture).palette_.colors)


def test_fit_many_reports_images_and_stops(queue: runtime.CommandQueue) -> None:
    told: list[tuple[int, int]] = []
    pictures = [np.zeros((3, 3), np.uint8), np.zeros((3, 3, 4), np.uint8)]
    KMeansPalette(2, queue=queue).fit_many(pictures, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
    with pytest.raises(runtime.StoppedError):
        KMeansPalette(2, queue=queue).fit_many(pictures, progress=lambda *_: False)


@pytest.mark.parametrize(
    ("images", "parameters", "message"),
    [
        (np.zeros((2, 2, 3), np.uint8), {}, "images is array of shape .*; allowed: a list or tuple of images"),
        ([], {}, "images is empty"),
        ([np.zeros((99, 3), np.uint8)], {}, r"images\[0\] has the shape \(99, 3\), which looks like rows"),
        ([np.zeros((2, 2), np.uint8), 5], {}, r"images\[1\] is 5"),
        ([np.zeros((2, 2), np.uint8)], {"n_colors": 0}, "n_colors is 0; allowed: an integer from 1"),
        ([np.zeros((2, 2), np.uint8)], {"random_state": -1}, "random_state is -1"),
    ],
)
def test_fit_many_names_what_is_wrong(images: object, parameters: dict[str, int], message: str) -> None:
    with pytest.raises(runtime.ClquantError, match=message):
        KMeansPalette(**{"n_colors": 4, **parameters}).fit_many(images)  # type: ignore[arg-type]
