"""Palettes of 16-bit pictures: refined over all 16 bits, equal to the reference, whatever the parts and the form."""

from __future__ import annotations

import pathlib

import numpy as np
import PIL.Image
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clquant
from clquant import ColorHistogram, KMeansPalette, images
from clquant.color import spaces
from clquant.color.spaces import Space
from clquant.kmeans import deep_lloyd, deep_points
from clquant.kmeans.deep_lloyd import DeepLloyd, DeepStep
from clquant.kmeans.deep_points import DeepColors
from clquant.kmeans.exact import best_grays
from clquant.mapping.error import mean_squared_error
from clquant.runtime import CommandQueue, Session, StoppedError, force_tuning, force_variant, open_session
from tests.reference import deep_kmeans as reference
from tests.reference.palette_map import with_alpha

ANY = settings(max_examples=12)
SPACES = ("srgb", "linear", "oklab")


def smooth(rng: np.random.Generator, shape: tuple[int, ...] = (20, 30, 3)) -> np.ndarray:
    """Slow ramps with noise of less than an 8-bit step."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    slopes = rng.uniform(0, 900, (2, shape[2]))
    values = 9000 + rows[..., None] * slopes[0] + columns[..., None] * slopes[1] + rng.uniform(-120, 120, shape)
    pixels = np.clip(values, 0, 65535).astype(np.uint16)
    if shape[2] == 4:
        pixels[..., 3] = rng.choice(np.array([0, 20000, 65535], np.uint16), shape[:2])
    return pixels


def learned(engine: KMeansPalette) -> tuple[object, ...]:
    return engine.palette_.colors.tolist(), engine.inertia_, engine.n_iter_


def step_of(
    session: Session, pixels: np.ndarray, weights: np.ndarray | None, space: Space, centers: np.ndarray
) -> DeepStep:
    given = None if weights is None else [weights]
    with session.scope() as scope:
        colors = DeepColors(session, [images.read(pixels, max_bits=16)], given)
        return DeepLloyd(session, scope, colors, space).step(centers)


def assert_step(
    session: Session, pixels: np.ndarray, weights: np.ndarray | None, space: Space, centers: np.ndarray
) -> None:
    full = with_alpha(pixels.reshape(-1, pixels.shape[2]))
    solid = full[:, 3] > 0
    points = space.coordinates(full[solid]).astype(np.int64)
    mass = np.ones(len(full), np.int64) if weights is None else weights.ravel()
    moved, inertia = reference.step(points, mass[solid], centers)
    for form in (v for v in deep_lloyd.VARIANTS if v.admits(session.limits)):
        with force_variant(form.name):
            found = step_of(session, pixels, weights, space, centers)
        assert found.inertia == inertia
        assert np.array_equal(found.means(centers), moved)
        assert int(found.weights.sum()) == int(mass[solid].sum(dtype=np.int64))


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize(
    ("name", "channels", "heaviest"),
    [(name, 3 + (i + j) % 2, (0, 2**30, 2**36)[j]) for i, name in enumerate(SPACES) for j in range(3)],
)
def test_a_step_equals_the_reference(
    queue: CommandQueue, rng: np.random.Generator, name: str, channels: int, grid: bool, heaviest: int
) -> None:
    """Of far and near centers, two of them equal, with weights of 0, 32 and 64 bits."""
    pixels, k = smooth(rng, (20, 30, channels)), 40
    dtype = np.uint64 if heaviest > 2**32 else np.uint32
    weights = rng.integers(0, heaviest, (20, 30)).astype(dtype) >> dtype(6) if heaviest else None
    space = spaces.space(name, channels == 4, 16)
    centers = rng.integers(0, space.extent, (k, space.dims)).astype(np.int64)
    centers[5] = centers[3]
    centers[20:] = space.coordinates(pixels.reshape(-1, channels)[rng.integers(0, 600, 20)])
    with force_tuning({"mapping.grid_pays": 1 if grid else 1 << 32}):
        assert_step(open_session(queue), pixels, weights, space, centers)


@pytest.mark.full
@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("alike", [False, True])
def test_steps_of_large_cells(
    queue: CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, channels: int, alike: bool
) -> None:
    """More centers near a cell than are compared in 32 bits; several segments of a cell; comparisons of 64 bits."""
    monkeypatch.setattr(deep_points, "MAX_CELLS", 16)
    monkeypatch.setattr(deep_points, "SEGMENT", 100)
    pixels = rng.integers(0, 65536, (20, 30, channels)).astype(np.uint16)
    space, k = spaces.space("srgb", channels == 4, 16), 50 if alike else 90
    centers = rng.integers(0, 40 if alike else space.extent, (k, space.dims)).astype(np.int64)
    centers[0], centers[1] = 0, space.extent
    with force_tuning({"mapping.grid_pays": 1}):
        assert_step(open_session(queue), pixels, None, space, centers)


@pytest.mark.small
def test_small(queue: CommandQueue) -> None:
    """Two clusters whose means lie between 8-bit values."""
    image = np.array([[257 * 10, 257 * 10 + 100, 257 * 10 + 200, 65535 - 90, 65535]], np.uint16)
    engine = KMeansPalette(2, queue=queue).fit(image)
    assert engine.palette_.colors.tolist() == [[10, 10, 10], [255, 255, 255]]
    assert engine.inertia_ == pytest.approx(3 * (100**2 + 200**2 + 90**2) / 257**2, rel=1e-12)


@pytest.mark.parametrize("name", [SPACES[0], *(pytest.param(s, marks=pytest.mark.full) for s in SPACES[1:])])
@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("nearly_gray", [False, True])
def test_fit_equals_the_reference(
    queue: CommandQueue, rng: np.random.Generator, name: str, channels: int, nearly_gray: bool
) -> None:
    pixels = smooth(rng, (20, 30, channels))
    if nearly_gray:  # gray in 8 bits
        pixels[..., :3] = pixels[..., :1] // 257 * 257 + rng.integers(0, 20, (20, 30, 3), dtype=np.uint16)
    engine = KMeansPalette(9, color_space=name, tol=1e-3, queue=queue).fit(pixels)
    plain = KMeansPalette(9, color_space=name, tol=1e-3, queue=queue).fit(images.read(pixels).array)
    full = with_alpha(pixels.reshape(-1, channels))
    solid = full[full[:, 3] > 0]
    space = spaces.space(name, channels == 4, 16)
    entries = plain.palette_.rgba()
    moves = entries[:, 3] > 0
    expected, inertia, steps = reference.refined(
        solid, np.ones(len(solid), int), entries, moves, space, engine.max_iter, engine.tol
    )
    assert engine.palette_.rgba().tolist() == expected.tolist()
    assert engine.inertia_ == inertia / space.unit**2
    assert engine.n_iter_ == plain.n_iter_ + steps
    if channels == 3:
        error = mean_squared_error(pixels, engine.palette_, color_space=name, queue=queue)
        assert engine.inertia_ == pytest.approx(error * pixels.size, rel=1e-12)


def test_palettes_are_no_worse_than_those_of_8_bits(queue: CommandQueue, rng: np.random.Generator) -> None:
    for seed in range(4):
        pixels = smooth(np.random.default_rng(seed), (40, 30, 3))
        deep = KMeansPalette(16, queue=queue).fit(pixels)
        plain = KMeansPalette(16, queue=queue).fit(images.read(pixels).array)
        errors = [mean_squared_error(pixels, one.palette_, queue=queue) for one in (deep, plain)]
        assert errors[0] <= errors[1]


@pytest.mark.full
@ANY
@given(
    seed=st.integers(0, 2**32),
    channels=st.sampled_from([1, 3, 4]),
    cuts=st.lists(st.integers(1, 19)),
    k=st.integers(2, 12),
)
def test_any_cutting_gives_the_bits_of_the_whole(
    queue: CommandQueue, seed: int, channels: int, cuts: list[int], k: int
) -> None:
    rng = np.random.default_rng(seed)
    pixels = smooth(rng, (20, 30, channels)).squeeze()
    parts = np.split(pixels, sorted(set(cuts)))
    engine = KMeansPalette(k, swap_rounds=3, queue=queue)
    whole = learned(engine.fit(pixels))
    total = sum(ColorHistogram.of(parts[i], queue=queue) for i in rng.permutation(len(parts)))
    assert learned(engine.fit_histogram(total)) == whole
    assert learned(engine.fit(parts)) == whole
    assert learned(engine.fit(pyopencl.array.to_device(queue, pixels))) == whole


def test_bands_and_few_sums(queue: CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = smooth(rng)
    whole = learned(KMeansPalette(7, queue=queue).fit(pixels))
    monkeypatch.setattr(deep_points, "_most_points", lambda _: 64)
    monkeypatch.setattr(deep_lloyd, "_MAX_SUM_BYTES", 1)
    assert learned(KMeansPalette(7, queue=queue).fit(pixels)) == whole


@pytest.mark.full
def test_weights(queue: CommandQueue, rng: np.random.Generator) -> None:
    """A pixel of weight w counts as w pixels; sums beyond 32 bits too."""
    pixels = smooth(rng)
    weights = rng.integers(0, 4, (20, 30))
    repeated = np.repeat(pixels.reshape(-1, 3), weights.ravel(), axis=0)[None]
    engine = KMeansPalette(7, queue=queue)
    expected = learned(engine.fit(repeated))
    assert learned(engine.fit(pixels, sample_weight=weights)) == expected
    colors, inertia, steps = learned(engine.fit(pixels, sample_weight=weights * 2**26))
    assert (colors, inertia, steps) == (expected[0], expected[1] * 2**26, expected[2])


@pytest.mark.full
def test_fixed_colours_stay(queue: CommandQueue, rng: np.random.Generator) -> None:
    pixels = smooth(rng, (20, 30, 4))
    fixed = ["#102030", "#405060"]
    colors = KMeansPalette(8, fixed_colors=fixed, queue=queue).fit(pixels).palette_.rgba()
    assert colors[:3].tolist() == [[0, 0, 0, 0], [16, 32, 48, 255], [64, 80, 96, 255]]
    assert len(colors) == 8


def test_few_colours_and_no_pixels_to_show(queue: CommandQueue) -> None:
    image = np.zeros((3, 4, 4), np.uint16)
    engine = KMeansPalette(4, queue=queue).fit(image)
    assert (engine.palette_.colors.tolist(), engine.inertia_) == ([[0, 0, 0, 0]], 0.0)
    image[0, 0] = (65535, 0, 0, 65535)
    engine.fit(image)
    assert engine.palette_.colors.tolist() == [[0, 0, 0, 0], [255, 0, 0, 255]]
    image[0, 1] = (0, 0, 65535, 90)  # of alpha 0.35 / 255
    engine.fit(image)
    assert engine.predict(image)[1].tolist() == [0, 0, 0, 0]


@pytest.mark.full
def test_files_lazy_pictures_and_verbs(queue: CommandQueue, rng: np.random.Generator, tmp_path: pathlib.Path) -> None:
    pixels = smooth(rng, (20, 30, 1))[:, :, 0]
    PIL.Image.fromarray(pixels).save(tmp_path / "a.png")
    np.save(tmp_path / "a.npy", pixels)
    engine = KMeansPalette(5, queue=queue)
    whole, indices = learned(engine.fit(pixels)), engine.predict(pixels)
    for source in (tmp_path / "a.png", np.load(tmp_path / "a.npy", mmap_mode="r")):
        assert learned(engine.fit(source)) == whole
        assert np.array_equal(engine.predict(source), indices)
    assert np.array_equal(engine.fit_predict(pixels), indices)
    assert np.array_equal(engine.fit_transform(pixels), engine.palette_.colors[indices])
    assert np.array_equal(clquant.quantize(pixels, 5, queue=queue).indices, indices)
    many = engine.fit_many([pixels, np.uint8([[1, 2, 3]])])
    assert many[0].colors.tolist() == whole[0]


def test_mixed_with_8_bits(queue: CommandQueue, rng: np.random.Generator) -> None:
    deep, plain = smooth(rng), rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)
    engine = KMeansPalette(6, queue=queue)
    assert learned(engine.fit([deep, plain])) == learned(engine.fit([deep, plain.astype(np.uint16) * 257]))


def test_lazy_ones_mixed_with_8_bits(queue: CommandQueue, rng: np.random.Generator, tmp_path: pathlib.Path) -> None:
    narrow = rng.integers(0, 256, (20, 30, 3)).astype(np.uint8)
    lazy = np.memmap(tmp_path / "pixels", np.uint8, "w+", shape=narrow.shape)
    lazy[:] = narrow
    wide = np.memmap(tmp_path / "wide", np.uint16, "w+", shape=(20, 30, 3))
    wide[:] = smooth(rng)
    expected = KMeansPalette(9, queue=queue).fit([narrow, np.asarray(wide)])
    assert learned(KMeansPalette(9, queue=queue).fit([lazy, wide])) == learned(expected)


def test_progress_stops_it(queue: CommandQueue, rng: np.random.Generator) -> None:
    told: list[tuple[int, int]] = []
    pixels = smooth(rng)
    KMeansPalette(6, queue=queue).fit(pixels, progress=lambda *done: told.append(done))
    assert all(0 <= done <= total for done, total in told)
    with pytest.raises(StoppedError):
        KMeansPalette(6, queue=queue).fit(pixels, progress=lambda done, total: done < total)


@pytest.mark.full
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("k", [2, 5])
def test_gray_palettes_are_the_best_there_are(queue: CommandQueue, rng: np.random.Generator, name: str, k: int) -> None:
    """No other gray instead of one of the palette's is better; of two entries, no other two."""
    gray = np.sort(rng.choice(np.arange(20_000, 26_000), 90)).astype(np.uint16).reshape(9, 10)
    gray[0] += np.uint16(30_000)
    engine = KMeansPalette(k, color_space=name, queue=queue).fit(gray)
    space = spaces.space(name, False, 16)
    points = space.coordinates(np.repeat(gray.reshape(-1, 1), 3, axis=1)).astype(np.int64)
    entries = space.coordinates(np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)).astype(np.int64)
    squared = ((points[:, None] - entries[None]) ** 2).sum(axis=2)
    found = engine.palette_.colors[:, 0]
    assert (engine.palette_.colors == found[:, None]).all()
    lowest = int(squared[:, found].min(axis=1).sum())
    assert engine.inertia_ == lowest / space.unit**2
    for place in range(k):
        others = np.delete(squared[:, found], place, axis=1).min(axis=1)
        assert lowest <= np.minimum(others[:, None], squared).sum(axis=0).min()
    if k == 2:
        assert lowest == min(int(np.minimum(squared[:, [i]], squared).sum(axis=0).min()) for i in range(256))


def test_large_sums_of_grays() -> None:
    """Whole numbers of any size give what 64-bit ones give."""
    levels, weights = np.array([5, 900, 30_000, 40_000, 65_000], np.uint16), np.array([9, 1, 3, 7, 2], np.uint64)
    space = spaces.space("linear", False, 16)
    few = best_grays(levels, weights, 3, space)
    assert np.array_equal(best_grays(levels, weights << np.uint64(34), 3, space), few)


@pytest.mark.full
@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("memory", ["64 MiB", "1 MiB"])
def test_lazy_pictures(
    queue: CommandQueue,
    rng: np.random.Generator,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    channels: int,
    memory: str,
) -> None:
    """The bits of the whole, if the points stay on the device and if each step reads and sorts them anew."""
    monkeypatch.setattr(deep_points, "POINTS_PER_CELL", 64)
    pixels = smooth(rng, (600, 300, channels))
    expected = learned(KMeansPalette(6, max_iter=3, queue=queue).fit(pixels))
    lazy = np.memmap(tmp_path / "pixels", np.uint16, "w+", shape=pixels.shape)
    lazy[:] = pixels
    engine = KMeansPalette(6, max_iter=3, queue=queue)
    assert learned(engine.fit(lazy, memory=memory)) == expected
    parts = [lazy[:200], lazy[200:]]
    assert learned(engine.fit(parts, memory=memory)) == expected


def test_gray_colours_of_lazy_pictures(queue: CommandQueue, rng: np.random.Generator, tmp_path: pathlib.Path) -> None:
    gray = rng.integers(0, 65536, (600, 300)).astype(np.uint16)
    colors = np.dstack([gray, gray, gray])
    lazy = np.memmap(tmp_path / "pixels", np.uint16, "w+", shape=colors.shape)
    lazy[:] = colors
    expected = learned(KMeansPalette(6, queue=queue).fit(gray))
    assert learned(KMeansPalette(6, queue=queue).fit(colors)) == expected
    assert learned(KMeansPalette(6, queue=queue).fit(lazy, memory="1 MiB")) == expected


@pytest.mark.full
@pytest.mark.parametrize("channels", [3, 4])
def test_devices_with_memory_of_their_own(
    queue: CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, channels: int
) -> None:
    """Pictures are sent there once, and narrowed there."""
    pixels = [smooth(rng, (20, 30, channels)), smooth(rng, (7, 9, 3)), rng.integers(0, 256, (5, 6, 3), np.uint8)]
    weights = [rng.integers(0, 9, one.shape[:2]) for one in pixels]
    engine = KMeansPalette(9, queue=queue)
    expected = learned(engine.fit(pixels)), learned(engine.fit(pixels, sample_weight=weights))
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    assert (learned(engine.fit(pixels)), learned(engine.fit(pixels, sample_weight=weights))) == expected
