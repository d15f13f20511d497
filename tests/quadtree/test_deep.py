"""Quadtrees of 16-bit pictures against the recursive reference: decided by all 16 bits, means of 8."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import images, runtime
from clquant.quadtree import Quadtree, QuadtreeBuilder, deep
from clquant.quadtree.criteria import CRITERIA, fixed_threshold
from tests.reference import quadtree as reference

ANY = settings(max_examples=25)


def patches(rng: np.random.Generator, height: int, width: int, channels: int) -> np.ndarray:
    """Regions of several sizes, some flat, some rough, all values of 16 bits."""
    picture = np.zeros((height, width, channels))
    for size in (32, 8, 3):
        grid = rng.integers(0, 21000, (-(-height // size), -(-width // size), channels))
        grid = grid * (rng.random(grid.shape[:2]) < 0.5)[..., None]
        picture += grid.repeat(size, 0).repeat(size, 1)[:height, :width]
    return np.clip(picture + rng.integers(-1500, 1500, picture.shape), 0, 65535).astype(np.uint16)


def expected(image: np.ndarray, threshold: float, **options: Any) -> list[tuple[int, int, int, list[int]]]:
    """(x, y, size, mean) of the leaves; thresholds are in 8-bit levels, of 257 steps each."""
    pixels = image if image.ndim == 3 else image[..., None]
    steps = Fraction(fixed_threshold(threshold), 65536) * 257
    chosen = {"criterion": "deviation", "weights": [], "min_size": 1, "max_depth": None} | options
    rules = reference.Decomposition(pixels, steps, **chosen)
    nodes = reference.leaves(rules.top_down(0, 0, reference.root_side(*pixels.shape[:2])))
    channels = range(pixels.shape[2])
    means = [[(2 * n.sums[c] + 257 * n.count) // (514 * n.count) for c in channels] for n in nodes]
    return [(n.x, n.y, n.size, mean) for n, mean in zip(nodes, means, strict=True)]


def listed(leaves: np.ndarray) -> list[tuple[int, int, int, list[int]]]:
    channels = leaves["mean"].reshape(len(leaves), -1).tolist()
    return [(int(r["x"]), int(r["y"]), int(r["size"]), m) for r, m in zip(leaves, channels, strict=True)]


@pytest.mark.small
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (13, 6), (16, 16)])
def test_small(queue: runtime.CommandQueue, rng: np.random.Generator, shape: tuple[int, int]) -> None:
    image = patches(rng, *shape, 1)[..., 0]
    assert listed(QuadtreeBuilder(queue=queue).leaves(image)) == expected(image, 13)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:image is uint16 with no value above")
@ANY
@given(
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    channels=st.sampled_from([1, 3, 4]),
    criterion=st.sampled_from(CRITERIA),
    threshold=st.sampled_from([0, 0.01, 5, 13.3, 60, 254.9, 255]),
    min_size=st.sampled_from([1, 2, 8]),
    max_depth=st.sampled_from([None, 0, 2, 5]),
    seed=st.integers(0, 2**32),
)
def test_equals_the_reference(
    queue: runtime.CommandQueue,
    height: int,
    width: int,
    channels: int,
    criterion: str,
    threshold: float,
    min_size: int,
    max_depth: int | None,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    image = patches(rng, height, width, channels)
    options: dict[str, Any] = {"criterion": criterion, "min_size": min_size, "max_depth": max_depth}
    if criterion == "weighted":
        options["weights"] = [3, 6, 1] if channels == 3 else [74, 0, 250, 1][:channels]  # kernels are built for these
    if criterion == "luma" and channels == 1:
        found = expected(image, threshold, **{**options, "criterion": "deviation"})
    else:
        found = expected(image, threshold, **options)
    assert listed(QuadtreeBuilder(threshold, queue=queue, **options).leaves(image)) == found


@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_bands(
    queue: runtime.CommandQueue,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    criterion: str,
    level: int,
) -> None:
    image = patches(rng, 61, 83, 3)
    options = {"weights": [3, 6, 1]} if criterion == "weighted" else {}
    builder = QuadtreeBuilder(9.5, criterion=criterion, queue=queue, **options)
    whole = builder.leaves(image)
    monkeypatch.setattr(deep, "MAX_BAND_LEVEL", level)
    told: list[tuple[int, int]] = []
    found = builder.leaves(image, progress=lambda *done: told.append(done))
    assert np.array_equal(found, whole)
    assert told[-1] == (-(-61 >> level), -(-61 >> level))
    with pytest.raises(runtime.StoppedError):
        builder.leaves(image, progress=lambda *_: False)


def test_trees_and_device_arrays(queue: runtime.CommandQueue, rng: np.random.Generator, tmp_path: Any) -> None:
    image = patches(rng, 50, 40, 3)
    builder = QuadtreeBuilder(queue=queue)
    leaves = builder.leaves(image)
    there = pyopencl.array.to_device(queue, image)
    assert np.array_equal(builder.leaves(there).get(), leaves)
    tree = builder.build(image)
    assert tree == builder.build(there) == QuadtreeBuilder(method="top-down", queue=queue).build(image)
    assert np.array_equal(tree.leaves(), leaves)
    assert not tree.exact
    assert tree.render().shape == image.shape
    tree.save(tmp_path / "tree.clqt")
    assert Quadtree.load(tmp_path / "tree.clqt") == tree
    assert tree.levels[-1].means.shape == image.shape


def test_differences_below_an_8_bit_level_split(queue: runtime.CommandQueue) -> None:
    image = np.full((8, 8), 25_700, np.uint16)
    image[:4, :4] += 100
    assert len(QuadtreeBuilder(0.1, queue=queue).leaves(image)) == 4
    assert len(QuadtreeBuilder(0.1, queue=queue).leaves(images.read(image).array[..., 0])) == 1


@pytest.mark.full
def test_8_bit_values_in_16_bits_give_the_same(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    image = rng.integers(0, 20, (40, 50, 3), np.uint8) * np.uint8(12)
    for criterion in ("deviation", "range", "any"):
        builder = QuadtreeBuilder(60, criterion=criterion, queue=queue)
        assert np.array_equal(builder.leaves(image.astype(np.uint16) * 257), builder.leaves(image))
