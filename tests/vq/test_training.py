"""Training of VQ codebooks: steps against the reference, determinism, repair, weights, progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl.array
import pytest

from clquant import VQCodec, images, runtime
from clquant.vq.blocks import BlockShape
from clquant.vq.blockset import BlockSet
from clquant.vq.training import Plan, train
from tests.reference import vq as reference

Bytes = npt.NDArray[np.uint8]


def gray(rng: np.random.Generator, height: int, width: int) -> Bytes:
    y, x = np.mgrid[:height, :width]
    return ((4 * x + 3 * y + rng.integers(0, 40, (height, width))) % 256).astype(np.uint8)


def block_set(queue: Any, scope: Any, pictures: list[Bytes], shape: BlockShape, weights: Any = None) -> BlockSet:
    session = runtime.open_session(queue)
    return BlockSet(session, scope, [images.read(p) for p in pictures], weights, shape)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("limits", "variant"), [("", None), ("max_alloc=1600", None), ("", "portable")])
def test_a_lloyd_step_equals_the_reference(
    queue: Any,
    rng: np.random.Generator,
    weighted: bool,
    limits: str,
    variant: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variant:
        monkeypatch.setenv("CLQUANT_VARIANT", variant)
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    pictures = [gray(rng, 42, 38), gray(rng, 9, 33)]
    shape = BlockShape(4, 4, 1)
    tables = [shape.table_shape(*p.shape) for p in pictures]
    weights = [rng.integers(0, 4096, t).astype(np.uint16) for t in tables] if weighted else None
    rows = np.concatenate([reference.blocks(p, 4, 4) for p in pictures])
    factors = np.concatenate([w.ravel() for w in weights]).astype(np.int64) if weights else np.ones(len(rows), np.int64)
    codebook = rng.integers(0, 256, (9, 16), np.uint8)
    with runtime.open_session(queue).scope() as scope:
        blocks = block_set(queue, scope, pictures, shape, weights)
        np.testing.assert_array_equal(blocks.take(np.arange(blocks.count)), rows)
        blocks.assign(codebook)
        indices, distances = blocks.nearest(codebook)
        sums, counts = blocks.sums(len(codebook))
        blocks.assign(codebook, second=True)
        second, _ = blocks.nearest(codebook)
    np.testing.assert_array_equal(indices, reference.nearest(rows, codebook))
    np.testing.assert_array_equal(second, reference.second_nearest(rows, codebook))
    np.testing.assert_array_equal(distances, ((rows - codebook[indices].astype(np.int64)) ** 2).sum(1))
    expected = reference.lloyd_step(rows, codebook, factors)
    alive = counts > 0
    moved = (2 * sums[alive] + counts[alive, None]) // (2 * counts[alive, None])
    np.testing.assert_array_equal(moved, expected[alive])


@pytest.mark.parametrize("variant", ["portable", "lanes"])
def test_second_nearest_in_every_form(queue: Any, rng: np.random.Generator, variant: str) -> None:
    shape = BlockShape(9, 8, 1)
    rows = rng.integers(0, 256, (40, 72)).astype(np.int64)
    codebook = rng.integers(0, 256, (13, 72), np.uint8)
    admitted = variant == "portable" or runtime.open_session(queue).limits.is_cpu
    with runtime.force_variant(variant if admitted else "portable"), runtime.open_session(queue).scope() as scope:
        blocks = block_set(queue, scope, [rows.astype(np.uint8).reshape(-1, 8)], shape)
        blocks.assign(codebook)
        blocks.assign(codebook, second=True)
        np.testing.assert_array_equal(blocks.nearest(codebook)[0], reference.second_nearest(rows, codebook))


@pytest.mark.parametrize("init", ["k-means++", "splitting"])
def test_the_same_codebook_on_any_device_limits_and_path(
    queue: Any, rng: np.random.Generator, init: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [gray(rng, 40, 36), gray(rng, 21, 30)]
    first = VQCodec(12, init=init, queue=queue).fit(pictures)
    on_device = VQCodec(12, init=init).fit([pyopencl.array.to_device(queue, p) for p in pictures])
    np.testing.assert_array_equal(first.codebook_, on_device.codebook_)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=1600,work_group=4")
    with runtime.force_variant("portable"):
        again = VQCodec(12, init=init, queue=queue).fit(pictures)
    np.testing.assert_array_equal(first.codebook_, again.codebook_)
    assert (first.mse_, first.n_iter_) == (again.mse_, again.n_iter_)


def test_mse_is_that_of_the_decoded_pictures(queue: Any, rng: np.random.Generator) -> None:
    picture = gray(rng, 32, 40)
    codec = VQCodec(10, queue=queue).fit(picture)
    decoded = codec.decode(codec.encode(picture))
    assert codec.mse_ == reference.error(picture, decoded) / picture.size


def test_refinement_never_loses_and_a_seed_matters(queue: Any, rng: np.random.Generator) -> None:
    picture = gray(rng, 64, 64)
    plain = VQCodec(20, refine=0, queue=queue).fit(picture)
    refined = VQCodec(20, queue=queue).fit(picture)
    other = VQCodec(20, random_state=1, queue=queue).fit(picture)
    assert refined.mse_ <= plain.mse_
    assert not np.array_equal(refined.codebook_, other.codebook_)


@pytest.mark.parametrize("init", ["k-means++", "splitting"])
def test_few_distinct_blocks_are_kept_exactly(queue: Any, init: str) -> None:
    picture = np.kron(np.array([[0, 255], [7, 9]], np.uint8), np.ones((4, 4), np.uint8))
    codec = VQCodec(8, init=init, queue=queue).fit(picture)
    assert codec.mse_ == 0.0
    np.testing.assert_array_equal(codec.decode(codec.encode(picture)), picture)


def test_dead_codewords_are_repaired(queue: Any, rng: np.random.Generator) -> None:
    """From a start where all codewords but one are far from every block, all get blocks."""
    picture = gray(rng, 48, 48)
    codec = VQCodec(30, init="splitting", refine=0, queue=queue).fit(picture)
    assert len(np.unique(codec.encode(picture))) == 30


def test_weights_draw_codewords(queue: Any, rng: np.random.Generator) -> None:
    dark, bright = gray(rng, 24, 24) // 4, 192 + gray(rng, 24, 24) // 4
    even = VQCodec(8, queue=queue).fit([dark, bright], [1, 1])
    same = VQCodec(8, queue=queue).fit([dark, bright], [0.5, 0.5])
    only = VQCodec(8, queue=queue).fit([dark, bright], [1, 0])
    alone = VQCodec(8, queue=queue).fit([dark])
    per_block = VQCodec(8, queue=queue).fit([dark, bright], [np.ones((6, 6)), np.zeros((6, 6))])
    np.testing.assert_array_equal(even.codebook_, same.codebook_)
    np.testing.assert_array_equal(only.codebook_, per_block.codebook_)
    assert int(only.codebook_.max()) < 128 < int(even.codebook_.max())
    assert only.mse_ <= 2 * alone.mse_


def test_progress_counts_up_and_stops(queue: Any, rng: np.random.Generator) -> None:
    picture = gray(rng, 32, 32)
    seen: list[tuple[int, int]] = []
    VQCodec(6, refine=4, queue=queue).fit(picture, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 6)
    assert seen[-1] == (6, 6)
    assert seen == sorted(set(seen))
    codec = VQCodec(6, queue=queue)
    with pytest.raises(runtime.StoppedError):
        codec.fit(picture, progress=lambda done, _: done < 1)
    assert not hasattr(codec, "codebook_")


def test_codebooks_larger_than_the_passes_of_sampling(queue: Any, rng: np.random.Generator) -> None:
    picture = rng.integers(0, 256, (80, 80), np.uint8)
    plan = Plan(size=1500, init="k-means++", max_iter=1, refine=0, seed=3)
    session = runtime.open_session(queue)
    trained = train(session, [images.read(picture)], None, BlockShape(2, 2, 1), plan, runtime.Progress(None))
    assert trained.codebook.shape == (1500, 4)
