"""QuadtreeBuilder against the recursive reference: the same tree, the same integers, on every device."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import runtime
from clquant.quadtree import Quadtree, QuadtreeBuilder
from clquant.quadtree.criteria import CRITERIA, fixed_threshold
from clquant.quadtree.levels import FORK, INSIDE, LEAF
from tests.reference import quadtree as reference

METHODS = ("bottom-up", "top-down")


def patches(rng, height, width, channels, noise=6):
    """A picture with regions of several sizes, some flat, some rough."""
    picture = np.zeros((height, width, channels))
    for size in (32, 8, 3):
        grid = rng.integers(0, 130, (-(-height // size), -(-width // size), channels))
        grid = grid * (rng.random(grid.shape[:2]) < 0.5)[..., None]
        picture += grid.repeat(size, 0).repeat(size, 1)[:height, :width]
    return np.clip(picture + rng.integers(-noise, noise + 1, picture.shape), 0, 255).astype(np.uint8)


def rules(image, threshold, criterion="deviation", weights=None, min_size=1, max_depth=None):
    pixels = image if image.ndim == 3 else image[..., None]
    steps = Fraction(fixed_threshold(threshold), 65536)
    return reference.Decomposition(pixels, steps, criterion, weights or [], min_size, max_depth)


def reference_leaves(decomposition, method="bottom-up"):
    side = reference.root_side(*decomposition.pixels.shape[:2])
    grow = decomposition.bottom_up if method == "bottom-up" else decomposition.top_down
    return [(n.x, n.y, n.size, n.mean()) for n in reference.leaves(grow(0, 0, side))]


def listed(leaves):
    channels = leaves["mean"].reshape(len(leaves), -1).tolist()
    return [(int(r["x"]), int(r["y"]), int(r["size"]), m) for r, m in zip(leaves, channels, strict=True)]


def check(image, threshold, queue, method="bottom-up", **options):
    tree = QuadtreeBuilder(threshold, method=method, queue=queue, **options).build(image)
    assert listed(tree.leaves()) == reference_leaves(rules(image, threshold, **options), method)
    return tree


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:the picture is a single leaf")
def test_every_square_size(queue, rng):
    for side in range(1, 66):
        image = patches(rng, side, side, 3)
        expected = reference_leaves(rules(image, 13), "top-down")
        assert listed(QuadtreeBuilder(queue=queue).leaves(image)) == expected, side


@pytest.mark.parametrize("method", METHODS)
def test_rectangles(queue, rng, method):
    for height, width in ((1, 65), (65, 1), (2, 3), (17, 64), (64, 33), (5, 63), (31, 7), (63, 65), (130, 9)):
        check(patches(rng, height, width, 3), 13, queue, method)


@pytest.mark.small
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("channels", [1, 4, 3])
def test_small_pictures(queue, rng, method, channels):
    check(patches(rng, 19, 13, channels), 20, queue, method)


@pytest.mark.small
def test_whole_tiles_of_odd_grids(queue, rng):
    """The second level's statistics begin at an odd word here, where no two may be written at once."""
    check(patches(rng, 69, 69, 1)[..., 0], 13, queue)


@pytest.mark.full
@pytest.mark.small
@pytest.mark.parametrize("criterion", ["deviation", "any"])
def test_tiles_that_the_edge_cuts_in_the_form_for_cpus(queue, rng, criterion, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", "is_simulator=0")
    check(patches(rng, 35, 69, 1), 13, queue, criterion=criterion)


def test_a_tree_stays_as_it_is(queue, rng):
    """Its statistics and leaves are its own, also those that CPUs write where it has them: no later job changes any."""

    def content(tree):
        levels = [(level.kinds.tobytes(), level.sums.tobytes(), level.squares.tobytes()) for level in tree.levels]
        return tree.leaves().tobytes(), levels

    image, other = patches(rng, 260, 330, 3), patches(rng, 260, 330, 3)
    tree = QuadtreeBuilder(queue=queue).build(image)
    before = content(tree)
    for _ in range(2):
        assert content(QuadtreeBuilder(queue=queue).build(other)) != before
    assert content(tree) == before
    image[...] = 7
    assert content(tree) == before
    assert content(QuadtreeBuilder(queue=queue).build(other)) != before


@pytest.mark.full
@pytest.mark.parametrize("channels", [2, 16])
def test_bands(queue, rng, channels):
    check(patches(rng, 37, 70, channels), 25, queue)


@settings(max_examples=20)
@given(
    height=st.integers(1, 65),
    width=st.integers(1, 65),
    threshold=st.floats(0, 255),
    min_size=st.sampled_from([1, 1, 2, 8, 64]),
    max_depth=st.sampled_from([None, None, 0, 2, 5]),
    rule=st.sampled_from([("deviation", "bottom-up"), ("deviation", "top-down"), ("luma", "bottom-up")]),
    seed=st.integers(0, 1 << 30),
)
def test_any_picture_and_rule(queue, height, width, threshold, min_size, max_depth, rule, seed):
    rng = np.random.default_rng(seed)
    image = patches(rng, height, width, 3, noise=int(rng.integers(0, 40)))
    criterion, method = rule
    check(image, threshold, queue, method, criterion=criterion, min_size=min_size, max_depth=max_depth)


@pytest.mark.parametrize("threshold", [0, 0.25, 1, 3.999, 13, 64, 127.5, 255])
def test_thresholds_on_a_photograph(queue, sample, threshold):
    image = np.ascontiguousarray(sample[100:177, 80:185])
    check(image, threshold, queue)


def test_gray_luma_is_the_deviation(queue, rng):
    image = patches(rng, 40, 41, 1)[..., 0]
    luma = QuadtreeBuilder(criterion="luma", queue=queue).leaves(image)
    assert luma.tobytes() == QuadtreeBuilder(queue=queue).leaves(image).tobytes()


def test_the_threshold_is_met_exactly(queue):
    image = np.zeros((2, 2), np.uint8)
    image[0] = 26  # standard deviation 13 exactly
    assert len(QuadtreeBuilder(13, queue=queue).build(image)) == 1
    assert len(QuadtreeBuilder(13 - 1 / 65536, queue=queue).build(image)) == 4
    assert len(QuadtreeBuilder(13 - 1 / 200000, queue=queue).build(image)) == 1  # rounds to 13
    wide = np.zeros((512, 512), np.uint8)
    wide[:256] = 26
    assert len(QuadtreeBuilder(13, queue=queue).build(wide)) == 1
    wide[0, 0] = 27
    assert len(QuadtreeBuilder(13, queue=queue).build(wide)) > 1


def reference_nodes(decomposition):
    """Every node that meets the picture: (level, x, y) -> (kind, node), by Algorithm 2."""
    found = {}

    def visit(node, inside):
        level = node.size.bit_length() - 1
        kind = INSIDE if inside else LEAF if node.leaf else FORK
        found[level, node.x >> level, node.y >> level] = (kind, node)
        for child in node.children:
            if child:
                visit(child, inside or node.leaf)

    visit(decomposition.bottom_up(0, 0, reference.root_side(*decomposition.pixels.shape[:2])), False)
    return found


@pytest.mark.parametrize(("height", "width"), [(77, 45), (64, 64), (9, 130), (1, 1), (2, 1)])
@pytest.mark.parametrize("method", METHODS)
def test_statistics_of_every_level(queue, rng, height, width, method):
    image = patches(rng, height, width, 3)
    nodes = reference_nodes(rules(image, 13))
    tree = QuadtreeBuilder(13, method=method, queue=queue).build(image)
    assert sum(level.kinds.size for level in tree.levels) == len(nodes)
    for depth, level in enumerate(tree.levels):
        assert level.size == tree.size >> depth
        for y, x in np.ndindex(*level.kinds.shape):
            kind, node = nodes[tree.depth - depth, x, y]
            assert level.kinds[y, x] == kind
            assert level.counts[y, x] == node.count
            if tree.complete or kind != INSIDE:
                assert level.sums[y, x].tolist() == node.sums[:3]
                assert level.squares[y, x].tolist() == node.squares[:3]
                assert level.means[y, x].tolist() == node.mean()
            else:
                assert not level.sums[y, x].any()


def test_deviations_are_those_of_the_pixels(queue, rng):
    image = patches(rng, 64, 64, 3)
    tree = QuadtreeBuilder(queue=queue).build(image)
    whole = image.reshape(-1, 3).astype(np.int64)
    n, total, squares = len(whole), whole.sum(0), (whole**2).sum(0)
    assert tree.levels[0].deviations[0, 0].tolist() == (np.sqrt(n * squares - total**2) / n).tolist()
    assert not tree.levels[-1].deviations.any()


def test_complete_array_in_the_papers_order(queue, rng):
    image = patches(rng, 20, 27, 3)
    tree = QuadtreeBuilder(13, queue=queue).build(image)
    array = tree.to_array()
    assert len(array) == (4**6 - 1) // 3
    nodes = reference_nodes(rules(image, 13))

    def visit(position, x, y, level):
        kind, node = nodes.get((level, x >> level, y >> level), (0, None))
        assert array["kind"][position] == kind
        assert array["mean"][position].tolist() == (node.mean() if node else [0, 0, 0])
        if level:
            half = 1 << (level - 1)
            for k, (dx, dy) in enumerate(reference.ORDER):
                visit(4 * position + 1 + k, x + dx * half, y + dy * half, level - 1)

    visit(0, 0, 0, tree.depth)


@pytest.mark.full
@pytest.mark.parametrize(
    ("criterion", "method"),
    [("deviation", "bottom-up"), ("deviation", "top-down"), ("range", "bottom-up"), ("weighted", "top-down")],
)
def test_subtrees_when_memory_is_short(queue, rng, monkeypatch, criterion, method):
    image = patches(rng, 150, 205, 3)
    image[:128, :128] = 40  # a leaf greater than a subtree
    options = {"criterion": criterion, "weights": [3, 6, 1] if criterion == "weighted" else None, "method": method}
    builder = QuadtreeBuilder(queue=queue, **options)
    whole = builder.build(image)
    steps = []
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=40000")
    cut = builder.build(image, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1] > 10
    assert cut == whole
    for mine, its in zip(cut.levels, whole.levels, strict=True):
        assert np.array_equal(mine.kinds, its.kinds)
        assert np.array_equal(mine.sums, its.sums)
        assert np.array_equal(mine.squares, its.squares)
    on_device = pyopencl.array.to_device(queue, image)
    assert builder.leaves(on_device).get().tobytes() == whole.leaves().tobytes()


@pytest.mark.full
def test_narrow_subtrees_when_memory_is_short(queue, rng, monkeypatch):
    image = patches(rng, 1, 4000, 16)
    whole = QuadtreeBuilder(20, queue=queue).leaves(image)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=115000")  # less than the statistics of all its levels take
    assert QuadtreeBuilder(20, queue=queue).leaves(image).tobytes() == whole.tobytes()


def test_no_memory_at_all(queue, rng, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=100")
    with pytest.raises(runtime.DeviceMemoryError, match="100 bytes"):
        QuadtreeBuilder(queue=queue).build(patches(rng, 64, 64, 3))


@pytest.mark.full
@pytest.mark.parametrize("limits", ["work_group=1,is_cpu=0", "work_group=8,local_memory=4096,is_cpu=0"])
def test_hostile_limits(queue, rng, monkeypatch, limits):
    image = patches(rng, 70, 90, 4)
    usual = QuadtreeBuilder(queue=queue).build(image)
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    assert QuadtreeBuilder(queue=queue).build(image) == usual


@pytest.mark.full
@pytest.mark.parametrize("criterion", ["deviation", "range"])
def test_no_kernel_takes_more_local_memory_than_there_is(queue, rng, monkeypatch, criterion):
    monkeypatch.setenv("CLQUANT_LIMITS", "local_memory=16384,is_cpu=0")
    launch, taken = runtime.Session.launch, []

    def measured(session, kernel, /, *args, **more):
        taken.append(kernel.local_memory(session.device))
        return launch(session, kernel, *args, **more)

    monkeypatch.setattr(runtime.Session, "launch", measured)
    image = patches(rng, 70, 90, 16)
    for method in METHODS:
        check(image, 20, queue, method, criterion=criterion)
    assert max(taken) <= 16384


@pytest.mark.full
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_variants_agree(queue, rng, criterion):
    image = patches(rng, 150, 131, 3)
    weights = [3, 6, 1] if criterion == "weighted" else None
    builder = QuadtreeBuilder(criterion=criterion, weights=weights, queue=queue)
    chosen = builder.build(image)
    with runtime.force_variant("portable"):
        portable = builder.build(image)
    assert chosen == portable
    for mine, its in zip(chosen.levels, portable.levels, strict=True):
        assert np.array_equal(mine.kinds, its.kinds)
        assert np.array_equal(mine.squares, its.squares)
    assert listed(chosen.leaves()) == reference_leaves(rules(image, 13, criterion, weights), "top-down")


@pytest.mark.full
@pytest.mark.parametrize("channels", [1, 3, 4, 5])
def test_the_variants_agree_on_extreme_values(queue, rng, channels):
    image = rng.choice(np.array([0, 254, 255], np.uint8), (192, 128, channels))
    image[:64, :64] = 255
    image[64:128, :64] = 255 * (np.indices((64, 64)).sum(0)[..., None] % 2)
    builder = QuadtreeBuilder(127.5, queue=queue)
    chosen = builder.build(image)
    with runtime.force_variant("portable"):
        portable = builder.build(image)
    assert chosen == portable
    for mine, its in zip(chosen.levels, portable.levels, strict=True):
        assert np.array_equal(mine.kinds, its.kinds)
        assert np.array_equal(mine.sums, its.sums)
        assert np.array_equal(mine.squares, its.squares)


def test_device_picture_keeps_its_leaves_there(queue, rng):
    image = patches(rng, 50, 61, 3)
    builder = QuadtreeBuilder()
    leaves = builder.leaves(pyopencl.array.to_device(queue, image))
    assert isinstance(leaves, pyopencl.array.Array)
    assert leaves.queue == queue
    assert leaves.get().tobytes() == QuadtreeBuilder(queue=queue).leaves(image).tobytes()
    assert builder.build(pyopencl.array.to_device(queue, image)) == QuadtreeBuilder(queue=queue).build(image)


@pytest.mark.parametrize("method", METHODS)
def test_device_picture_on_no_queue_is_read_on_the_engine_s(queue, rng, method):
    image = patches(rng, 40, 44, 3)
    flat = pyopencl.array.to_device(queue, np.concatenate([np.zeros(5, np.uint8), image.ravel()]))
    detached = flat[5:].reshape(image.shape).with_queue(None)
    builder = QuadtreeBuilder(queue=queue, method=method)
    assert builder.build(detached) == builder.build(image)
    assert builder.build(detached).levels[-1].sums.tolist() == builder.build(image).levels[-1].sums.tolist()


def test_device_picture_at_an_odd_offset(queue, rng):
    image = patches(rng, 40, 44, 3)
    flat = pyopencl.array.to_device(queue, np.concatenate([np.zeros(5, np.uint8), image.ravel()]))
    view = flat[5:].reshape(40, 44, 3)
    assert QuadtreeBuilder().leaves(view).get().tobytes() == QuadtreeBuilder(queue=queue).leaves(image).tobytes()


def test_noise_flat_and_checkerboard(queue, rng):
    noise = rng.integers(0, 256, (100, 100, 3), dtype=np.uint8)
    assert len(QuadtreeBuilder(0, queue=queue).build(noise)) > 9900
    flat = np.full((100, 100, 3), 77, np.uint8)
    tree = QuadtreeBuilder(0, queue=queue).build(flat)
    assert listed(tree.leaves()) == [(0, 0, 128, [77, 77, 77])]
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    assert len(QuadtreeBuilder(127.49, queue=queue).build(board)) == 64 * 64
    assert len(QuadtreeBuilder(127.5, queue=queue).build(board)) == 1


def test_the_caller_may_change_the_picture_afterwards(queue, rng):
    image = patches(rng, 30, 30, 3)
    tree = QuadtreeBuilder(queue=queue).build(image)
    before = tree.levels[-1].sums.copy()
    image[:] = 0
    assert np.array_equal(tree.levels[-1].sums, before)


@pytest.mark.full
def test_large_regions_need_more_than_64_bits(queue):
    image = np.zeros((5000, 4300), np.uint8)
    image[:, 2150:] = 255
    tree = QuadtreeBuilder(127.5, queue=queue).build(image)
    assert isinstance(tree, Quadtree)
    assert len(tree) == 1
    assert tree.levels[0].deviations.tolist() == [[[127.5]]]
    image[0, 0] = 1
    assert len(QuadtreeBuilder(127.49, queue=queue, max_depth=3).build(image)) > 1
