"""What trees give out: pictures, figures and the complete array, by kernels and in pieces, against plain NumPy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from clquant import runtime
from clquant.quadtree import Quadtree, QuadtreeBuilder, paper_layout
from clquant.quadtree.levels import FORK, LEAF
from tests.lowering import lower
from tests.quadtree.test_builder import METHODS, patches

SHAPES = [(53, 70, 3), (64, 64, 1), (1, 1, 3), (130, 40, 4)]


def painted(tree):
    """The picture of the leaves, one after another."""
    picture = np.zeros((tree.height, tree.width, tree.channels), np.uint8)
    for leaf in tree.leaves():
        picture[leaf["y"] : leaf["y"] + leaf["size"], leaf["x"] : leaf["x"] + leaf["size"]] = leaf["mean"]
    return picture


def frame(tree, depth):
    """What is known at a depth, from the levels' means."""
    picture = np.zeros((tree.height, tree.width, tree.channels), np.uint8)
    for level in tree.levels[: depth + 1]:
        for y, x in np.argwhere((level.kinds == LEAF) | (level.kinds == FORK)):
            region = np.s_[y * level.size : (y + 1) * level.size, x * level.size : (x + 1) * level.size]
            picture[region] = level.means[y, x]
    return picture


@pytest.mark.full
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pictures_of_built_and_loaded_trees(queue, rng, shape, method):
    image = patches(rng, *shape)
    built = QuadtreeBuilder(method=method, queue=queue).build(image)
    for tree in (built, Quadtree.from_bytes(built.to_bytes())):
        assert np.array_equal(tree.render().reshape(shape), painted(tree))
        for depth in range(0, tree.depth + 1, 2):
            assert np.array_equal(tree.frames()[depth].reshape(shape), frame(tree, depth))
    assert built.squared_error() == ((painted(built).astype(np.int64) - image) ** 2).sum()


@pytest.mark.full
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_complete_array_of_devices_with_doubles_is_that_of_the_host(queue, rng, shape, method, monkeypatch):
    built = QuadtreeBuilder(method=method, queue=queue).build(patches(rng, *shape))
    for tree in (built, Quadtree.from_bytes(built.to_bytes())):
        made = tree.to_array()
        assert made.tobytes() == paper_layout.complete_array(tree.levels, tree.channels).tobytes()
        monkeypatch.setenv("CLQUANT_LIMITS", "fp64=0")
        assert tree.to_array().tobytes() == made.tobytes()
        monkeypatch.delenv("CLQUANT_LIMITS")


def test_the_complete_array_in_place_by_one_copy_and_in_bands(queue, rng, monkeypatch):
    tree = QuadtreeBuilder(queue=queue).build(patches(rng, 300, 201, 3))
    made = [tree.to_array().tobytes()]
    monkeypatch.setattr(runtime.HostResult, "in_place", staticmethod(lambda *_: False))
    made.append(tree.to_array().tobytes())
    monkeypatch.setattr(paper_layout, "DEVICE_SHARE", 1 << 50)
    lower(monkeypatch, paper_layout__band=100_000)
    made.append(tree.to_array().tobytes())
    assert set(made) == {paper_layout.complete_array(tree.levels, 3).tobytes()}


@pytest.mark.full
def test_deviations_of_large_nodes_are_exact(queue, rng, monkeypatch):
    monkeypatch.setattr(paper_layout, "EXACT_LEVELS", 7)
    for tree in (QuadtreeBuilder(queue=queue, method=method).build(patches(rng, 150, 200, 3)) for method in METHODS):
        assert tree.to_array().tobytes() == paper_layout.complete_array(tree.levels, tree.channels).tobytes()


def test_pieces_of_what_a_device_has_no_room_for(queue, rng, monkeypatch):
    image = patches(rng, 300, 201, 3)
    tree = QuadtreeBuilder(queue=queue).build(image)
    ink = (1, 2, 3)
    expected = tree.render(), tree.outline(color=ink), tree.outline(image), tree.squared_error(), tree.counts()
    lower(monkeypatch, max_alloc=70000)
    runtime.release_memory()
    found = tree.render(), tree.outline(color=ink), tree.outline(image), tree.squared_error(), tree.counts()
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)


def test_the_error_of_a_long_list_that_is_made_again(queue, rng, monkeypatch):
    image = rng.integers(0, 256, (70, 90, 3), dtype=np.uint8)
    image[:32, :40] = 9
    image[40:, 50:] //= 16
    tree = QuadtreeBuilder(queue=queue).build(image)
    expected = ((tree.render().astype(np.int64) - image) ** 2).sum()
    assert tree.squared_error() == expected
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    with runtime.profile() as profile:
        assert tree.squared_error() == expected
    assert profile.counts()["quadtree_leaves"] == 1


@pytest.mark.full
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_outlines_on_pictures_of_all_channels(queue, rng, channels):
    image = patches(rng, 40, 50, channels)
    tree = QuadtreeBuilder(queue=queue).build(image)
    shown = image[..., :3] if channels >= 3 else np.repeat(image[..., :1], 3, axis=2)
    edge = np.zeros((40, 50), bool)
    for leaf in tree.leaves():
        region = edge[leaf["y"] : leaf["y"] + leaf["size"], leaf["x"] : leaf["x"] + leaf["size"]]
        region[0] |= leaf["y"] > 0
        region[:, 0] |= leaf["x"] > 0
    assert np.array_equal(tree.outline(image, color=(9, 8, 7)), np.where(edge[..., None], (9, 8, 7), shown))


@pytest.mark.parametrize("method", METHODS)
def test_statistics_are_of_the_picture_as_it_was(queue, rng, method, monkeypatch):
    lower(monkeypatch, picture_statistics__thread=1000)
    image = patches(rng, 90, 40, 3)
    expected = QuadtreeBuilder(queue=queue, method=method).build(image.copy())
    tree = QuadtreeBuilder(queue=queue, method=method).build(image)
    image[...] = 0
    for one in (tree, pickle.loads(pickle.dumps(tree))):
        for level, other in zip(one.levels, expected.levels, strict=True):
            assert np.array_equal(level.sums, other.sums)
        assert one.squared_error() == expected.squared_error()
