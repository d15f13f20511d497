"""Quadtree as a value: lookup, pictures, figures, other forms."""

from __future__ import annotations

import copy
import io
import itertools
import json
import math
import pickle

import numpy as np
import PIL.Image
import pytest

from clquant import runtime
from clquant.quadtree import Quadtree, QuadtreeBuilder
from clquant.quadtree.levels import FORK, LEAF
from clquant.runtime import InvalidArgument, InvalidType
from tests.quadtree.test_builder import METHODS, patches


def owners(tree):
    """Place in `leaves()` of every pixel's leaf, painted one leaf after another."""
    owner = np.full((tree.height, tree.width), -1)
    for i, leaf in enumerate(tree.leaves()):
        region = np.s_[leaf["y"] : leaf["y"] + leaf["size"], leaf["x"] : leaf["x"] + leaf["size"]]
        assert (owner[region] == -1).all()
        owner[region] = i
    assert (owner >= 0).all()
    return owner


@pytest.fixture
def tree(queue, rng):
    return QuadtreeBuilder(queue=queue).build(patches(rng, 53, 70, 3))


def test_find_and_neighbours(tree, rng):
    owner = owners(tree)
    y, x = np.indices(owner.shape)
    assert np.array_equal(tree.find(x, y), owner)
    assert tree.find(69, 52) == owner[52, 69]
    assert tree.find([69, 0], [52, 0]).tolist() == [owner[52, 69], owner[0, 0]]
    touching = {i: set() for i in range(len(tree))}
    for a, b in ((owner[:, 1:], owner[:, :-1]), (owner[1:], owner[:-1])):
        for i, j in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
            if i != j:
                touching[i].add(j)
                touching[j].add(i)
    for i in rng.choice(len(tree), min(200, len(tree)), replace=False):
        assert tree.neighbours(int(i)).tolist() == sorted(touching[int(i)])


def test_render_outline_and_frames(tree):
    owner = owners(tree)
    picture = tree.render()
    assert np.array_equal(picture, tree.leaves()["mean"][owner])
    border = np.zeros(owner.shape, bool)
    border[:, 1:] |= owner[:, 1:] != owner[:, :-1]
    border[1:] |= owner[1:] != owner[:-1]
    outlined = tree.outline(color=(1, 2, 3))
    assert np.array_equal(outlined, np.where(border[..., None], (1, 2, 3), picture))
    frames = tree.frames()
    assert len(frames) == len(list(frames)) == tree.depth + 1
    assert [frame.tolist() for frame in frames[-2:]] == [frames[-2].tolist(), frames[tree.depth].tolist()]
    with pytest.raises(IndexError):
        frames[tree.depth + 1]
    assert (frames[0] == tree.levels[0].means[0, 0]).all()
    assert np.array_equal(frames[-1], picture)
    for depth, level in enumerate(tree.levels):
        shown = np.kron(np.isin(level.kinds, (FORK, LEAF)), np.ones((level.size, level.size), bool))
        means = level.means.repeat(level.size, 0).repeat(level.size, 1)[:53, :70]
        shown = shown[:53, :70]
        assert np.array_equal(frames[depth][shown], means[shown])


def test_outline_on_another_picture(tree):
    base = np.full((53, 70), 9, np.uint8)
    outlined = tree.outline(base)
    assert outlined.shape == (53, 70, 3)
    assert set(outlined.ravel().tolist()) == {9, 255}


def test_outline_leaves_the_picture_alone(tree, tmp_path):
    picture = np.full((53, 70, 3), 9, np.uint8)
    outlined = tree.outline(picture)
    assert (picture == 9).all()
    picture.setflags(write=False)
    assert np.array_equal(tree.outline(picture), outlined)
    PIL.Image.fromarray(picture).save(tmp_path / "picture.png")
    assert np.array_equal(tree.outline(tmp_path / "picture.png"), outlined)


@pytest.mark.parametrize("channels", [4, *(pytest.param(channels, marks=pytest.mark.full) for channels in (1, 2))])
def test_pictures_of_other_channels(queue, rng, channels):
    image = patches(rng, 20, 30, channels)
    tree = QuadtreeBuilder(queue=queue).build(image[..., 0] if channels == 1 else image)
    assert tree.render().shape == ((20, 30) if channels == 1 else (20, 30, channels))
    assert tree.outline().shape == (20, 30, 3)
    assert [frame.shape for frame in tree.frames()] == [tree.render().shape] * 6
    assert PIL.Image.open(io.BytesIO(tree._repr_png_())).size == (30, 20)


@pytest.mark.parametrize("method", METHODS)
def test_figures(queue, rng, method):
    image = patches(rng, 53, 70, 3)
    tree = QuadtreeBuilder(method=method, queue=queue).build(image)
    figures = tree.compression()
    kinds = [level.kinds for level in tree.levels]
    assert [c["forks"] for c in tree.counts()] == [int((k == FORK).sum()) for k in kinds]
    assert [c["leaves"] for c in tree.counts()] == [int((k == LEAF).sum()) for k in kinds]
    assert figures["leaves"] == len(tree) == len(tree.leaves())
    assert figures["file_bytes"] == len(tree.to_bytes())
    error = ((tree.render().astype(np.int64) - image) ** 2).sum()
    assert tree.squared_error() == error
    assert figures["psnr"] == 10 * math.log10(255**2 * image.size / int(error))
    assert QuadtreeBuilder(0, queue=queue).build(image).compression()["psnr"] == math.inf


def test_geojson(tree):
    collection = json.loads(json.dumps(tree.to_geojson()))
    assert len(collection["features"]) == len(tree)
    area = 0
    for feature, leaf in zip(collection["features"], tree.leaves(), strict=True):
        ring = feature["geometry"]["coordinates"][0]
        assert ring[0] == ring[-1] == [leaf["x"], leaf["y"]]
        area += (ring[2][0] - ring[0][0]) * (ring[2][1] - ring[0][1])
        assert feature["properties"] == {"size": int(leaf["size"]), "mean": leaf["mean"].tolist()}
    assert area == 53 * 70


def test_geojson_for_maps(tree):
    plain = tree.to_geojson()["features"]
    up = tree.to_geojson(y_up=True, flat=True)["features"]
    placed = tree.to_geojson((0.5, 0, 1000, 0, -0.25, 2000))["features"]
    for one, other, there in zip(plain, up, placed, strict=True):
        ring, turned, far = (feature["geometry"]["coordinates"][0] for feature in (one, other, there))
        assert turned == [[x, 53 - y] for x, y in reversed(ring)]
        assert far == [[1000 + 0.5 * x, 2000 - 0.25 * y] for x, y in reversed(ring)]
        for way in (ring, turned, far):  # left round
            assert sum(a[0] * b[1] - b[0] * a[1] for a, b in itertools.pairwise(way)) > 0
        means = {f"mean_{i}": value for i, value in enumerate(one["properties"]["mean"], 1)}
        assert other["properties"] == {"size": one["properties"]["size"], **means}
    assert tree.to_geojson((1, 0, 0, 0, 1, 0, 0, 0, 1))["features"] == plain
    for wrong in ((1, 2, 3), (1, 0, 0, 2, 0, 0), "abc", (1, 0, 0, 0, float("nan"), 0)):
        with pytest.raises((InvalidArgument, InvalidType), match="transform"):
            tree.to_geojson(wrong)
    with pytest.raises(InvalidArgument, match="y_up is True with a transform"):
        tree.to_geojson((1, 0, 0, 0, 1, 0), y_up=True)


def test_a_tree_is_a_value(tree):
    with pytest.raises(ValueError, match="read-only"):
        tree.leaves()["x"][0] = 5
    assert tree != 5
    assert tree == Quadtree.from_bytes(tree.to_bytes())
    assert "53, 70, 3" in repr(tree)
    assert tree.levels[-1].size == 1
    assert [level.size for level in tree.levels[:2]] == [128, 64]
    with pytest.raises(IndexError):
        tree.levels[8]


@pytest.mark.parametrize("method", METHODS)
def test_a_tree_does_not_change(queue, rng, method):
    tree = QuadtreeBuilder(queue=queue, method=method).build(patches(rng, 53, 70, 3))
    for one in (tree, copy.deepcopy(tree), copy.copy(tree), pickle.loads(pickle.dumps(tree))):
        assert one == tree
        with pytest.raises(ValueError, match="read-only"):
            one.leaves()["x"][0] = 5
        for level in one.levels:
            for array in (level.kinds, level.counts, level.sums, level.squares):
                with pytest.raises(ValueError, match="read-only"):
                    array[0, 0] = 7
        assert one.squared_error() == tree.squared_error()


def test_what_a_loaded_tree_shows(tree):
    loaded = Quadtree.from_bytes(tree.to_bytes())
    np.testing.assert_array_equal(loaded.render(), tree.render())
    np.testing.assert_array_equal(loaded.outline(), tree.outline())
    np.testing.assert_array_equal(loaded.frames()[-1], tree.frames()[-1])


def test_builder_conventions(queue):
    builder = QuadtreeBuilder(5, min_size=2, queue=queue)
    assert builder.get_params()["min_size"] == 2
    assert builder.set_params(threshold=7).threshold == 7
    assert "min_size=2" in repr(builder)


def good():
    return np.zeros((8, 8, 3), np.uint8)


WRONG_BUILDS = [
    ({"threshold": -1}, None, "threshold is -1"),
    ({"threshold": 256}, None, "threshold is 256"),
    ({"threshold": float("nan")}, None, "threshold is nan"),
    ({"threshold": "13"}, None, "threshold is '13'"),
    ({"criterion": "entropy"}, None, "criterion is 'entropy'"),
    ({"criterion": "weighted"}, None, "weights is None"),
    ({"criterion": "weighted", "weights": np.ones(3)}, None, r"weights\[0\] is "),
    ({"criterion": "weighted", "weights": np.ones((3, 1), int)}, None, "weights is array of shape"),
    ({"criterion": "weighted", "weights": [1, 2]}, None, "weights has 2 entries"),
    ({"criterion": "weighted", "weights": [0, 0, 0]}, None, "weights are all 0"),
    ({"criterion": "weighted", "weights": [1, 2, 256]}, None, r"weights\[2\] is 256"),
    ({"weights": [1, 2, 3]}, None, "weights is given with criterion='deviation'"),
    ({"criterion": "luma"}, np.zeros((4, 4, 5), np.uint8), "criterion is 'luma' and the picture has 5 channels"),
    ({"min_size": 0}, None, "min_size is 0"),
    ({"min_size": 3}, None, "min_size is 3"),
    ({"min_size": 2.0}, None, "min_size is 2.0"),
    ({"max_depth": -1}, None, "max_depth is -1"),
    ({"method": "sideways"}, None, "method is 'sideways'"),
    ({"random_state": -1}, None, "random_state is -1"),
    ({"queue": "gpu"}, None, "queue is 'gpu'"),
    ({}, np.zeros((0, 4), np.uint8), "no pixels"),
    ({}, np.zeros((4, 4, 17), np.uint8), "C 1 to 16"),
    ({}, np.zeros((1, 65536), np.uint8), "65535 per side"),
    ({}, np.zeros((4, 4), np.complex128), "complex128"),
    ({}, 5, "image is 5"),
    ({}, "no/such/file.png", "no such file"),
]


@pytest.mark.parametrize(("arguments", "image", "message"), WRONG_BUILDS)
def test_wrong_builds(arguments, image, message):
    with pytest.raises(runtime.ClquantError, match=message):
        QuadtreeBuilder(**arguments).build(good() if image is None else image)


@pytest.mark.full
def test_weights_may_be_an_array(queue):
    trees = [
        QuadtreeBuilder(criterion="weighted", weights=weights, queue=queue).build(good())
        for weights in ([3, 6, 1], (3, 6, 1), np.array([3, 6, 1]), np.array([3, 6, 1], np.uint8))
    ]
    assert all(tree == trees[0] for tree in trees)
    assert trees[3].weights == (3, 6, 1)


def test_wrong_progress_and_stopping(queue):
    with pytest.raises(runtime.InvalidType, match="progress is 3"):
        QuadtreeBuilder(queue=queue).build(good(), progress=3)
    with pytest.raises(runtime.StoppedError):
        QuadtreeBuilder(queue=queue).build(good(), progress=lambda _done, _total: False)


def test_wrong_calls_on_a_tree(tree):
    wrong = [
        (lambda: tree.find(70, 0), "x is 70"),
        (lambda: tree.find(0, -1), "y is -1"),
        (lambda: tree.find(0.5, 0), "x is 0.5"),
        (lambda: tree.find([1, 2], [1, 53]), "y goes from 1 to 53; allowed: 0 to 52"),
        (lambda: tree.find([1, 2], 1), "x and y have the shapes"),
        (lambda: tree.find([0.5], [1]), "allowed: integers"),
        (lambda: tree.find(np.array([0.5]), np.array([1])), "allowed: integers"),
        (lambda: tree.find(np.array([70]), np.array([1])), "x goes from 70 to 70"),
        (lambda: tree.find(np.array([7]), np.array([1, 2])), "x and y have the shapes"),
        (lambda: tree.neighbours(len(tree)), "leaf is"),
        (lambda: tree.outline(np.zeros((5, 5), np.uint8)), "image has the shape"),
        (lambda: tree.outline("photo.png"), "image: cannot read 'photo.png'"),
        (lambda: tree.outline(runtime.open_session().new_array((53, 70), np.uint8)), "allowed: a picture on the host"),
        (lambda: tree.outline(color=3), "color is 3"),
        (lambda: tree.outline(color=(0, 0, 256)), r"color\[2\] is 256"),
        (lambda: Quadtree.from_bytes("text"), "data is 'text'"),
        (lambda: Quadtree.from_bytes(tree.to_bytes()).squared_error(), "loaded from a file"),
        (lambda: tree.save("no/such/folder/tree.clqt"), "cannot write"),
        (lambda: Quadtree.load("no/such/tree.clqt"), "cannot read"),
    ]
    for call, message in wrong:
        with pytest.raises(runtime.ClquantError, match=message):
            call()


def test_too_large_for_the_complete_array(queue):
    tree = QuadtreeBuilder(queue=queue, max_depth=0, method="top-down").build(np.zeros((1, 8193), np.uint8))
    with pytest.raises(runtime.InvalidArgument, match="depth 14"):
        tree.to_array()
