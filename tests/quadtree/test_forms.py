"""The forms of quadtrees' kernels, and the ways of pictures to them, against the portable form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clquant import runtime
from clquant.quadtree import QuadtreeBuilder, plan, tiles
from clquant.quadtree.paper_layout import complete_array
from tests.quadtree.test_builder import patches


def assert_same_trees(queue, image):
    """The leaves and all levels are those of the portable form."""
    with runtime.force_variant("portable"):
        expected = QuadtreeBuilder(queue=queue).build(image)
    tree = QuadtreeBuilder(queue=queue).build(image)
    assert tree.leaves().tobytes() == expected.leaves().tobytes()
    for level, other in zip(tree.levels, expected.levels, strict=True):
        for name in ("kinds", "sums", "squares"):
            np.testing.assert_array_equal(getattr(level, name), getattr(other, name))


@pytest.mark.full
@pytest.mark.parametrize("across", [1, 3, 8])
def test_tiles_side_by_side_and_the_levels_above_them(queue, rng, across, monkeypatch):
    """The form for CPUs, whole tiles and those at the edge."""
    monkeypatch.setattr(tiles, "tiles_at_once", lambda _limits, _tiles, most: min(across, most))
    assert_same_trees(queue, patches(rng, 150, 700, 3))


@pytest.mark.parametrize("local_memory", [16384, 32768, 65536, 1 << 20])
@pytest.mark.parametrize("bands", [1, 3, 16])
def test_tiles_side_by_side_fit_local_memory(queue, bands, local_memory):
    limits = replace(runtime.open_session(queue).limits, local_memory=local_memory)
    most = tiles.max_tiles(limits, bands)
    words_and_counts = (64 + 16 + 4 + 1 + 1) * (8 * bands + 4)
    assert 1 <= most <= 8
    assert most * words_and_counts <= local_memory
    assert plan.tiles_at_once(limits, 10**6, most) <= most


@pytest.mark.parametrize("limits", ["max_alloc=300000", "max_alloc=300000,unified_memory=0", "max_alloc=100000"])
@pytest.mark.parametrize("shape", [(201, 197, 3), (256, 300, 1)], ids=str)
def test_subtrees_of_a_picture_that_is_on_the_device_as_a_whole(queue, rng, shape, limits, monkeypatch):
    """Their lists of leaves may be too long for one buffer; the last limit has no room for the picture either."""
    image = patches(rng, *shape)
    expected, coarse = QuadtreeBuilder(queue=queue).leaves(image), QuadtreeBuilder(25, queue=queue).build(image)
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    runtime.release_memory()
    with runtime.profile() as profile:
        assert QuadtreeBuilder(queue=queue).leaves(image).tobytes() == expected.tobytes()
    assert profile.counts()["quadtree_leaves"] > 1
    assert QuadtreeBuilder(25, queue=queue).build(image) == coarse


@pytest.mark.full
@pytest.mark.parametrize("limits", ["local_memory=1024,is_cpu=0", "max_alloc=100000"])
def test_devices_with_little_memory_of_either_kind(queue, rng, limits, monkeypatch):
    """Tiles of 16 pixels, leaves gathered from 8; trees too large for the device's array."""
    image = patches(rng, 170, 190, 5)
    expected = [QuadtreeBuilder(threshold, queue=queue).build(image) for threshold in (13, 255)]
    arrays = [complete_array(tree.levels, 5).tobytes() for tree in expected]
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    trees = [QuadtreeBuilder(threshold, queue=queue).build(image) for threshold in (13, 255)]
    assert trees == expected
    assert [tree.to_array().tobytes() for tree in trees] == arrays
