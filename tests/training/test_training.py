"""Training of VQ codebooks: steps against the reference, determinism, repair, weights, progress."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl.array
import pytest

from clquant import VQCodec, images, runtime
from clquant.training import schedule, training
from clquant.training import search as search_module
from clquant.training.blocks import BlockShape
from clquant.training.blockset import BlockSet
from clquant.training.selection import Selection
from clquant.vq.fit import checked_plan
from tests.lowering import lower
from tests.reference import vq as reference
from tests.reference import vq_training as training_reference

Bytes = npt.NDArray[np.uint8]


def gray(rng: np.random.Generator, height: int, width: int) -> Bytes:
    y, x = np.mgrid[:height, :width]
    return ((4 * x + 3 * y + rng.integers(0, 40, (height, width))) % 256).astype(np.uint8)


def block_set(queue: Any, scope: Any, pictures: list[Bytes], shape: BlockShape, weights: Any = None) -> BlockSet:
    session = runtime.open_session(queue)
    return BlockSet.of_pictures(session, scope, [images.read(p) for p in pictures], weights, shape)


@pytest.mark.parametrize("limits", ["", "max_alloc=1600,work_group=4"])
def test_blocks_and_their_samples(
    queue: Any, rng: np.random.Generator, limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    pictures = [gray(rng, 42, 38), gray(rng, 9, 133)]
    shape = BlockShape(4, 4, 1)
    rows = np.concatenate([reference.blocks(p, 4, 4) for p in pictures])
    weights = [rng.integers(0, 2, shape.table_shape(*p.shape)).astype(np.uint16) for p in pictures]
    flat = np.concatenate([w.ravel() for w in weights])
    with runtime.open_session(queue).scope() as scope:
        for given in (None, flat):
            known = np.ones(len(flat), np.int64) if given is None else flat.astype(np.int64)
            blocks = block_set(queue, scope, pictures, shape, given)
            np.testing.assert_array_equal(blocks.read(), rows)
            assert blocks.sample(scope, len(rows), 0, 5) is blocks
            sampled = blocks.sample(scope, 60, 1, 5)
            expected = training_reference.sample(training_reference.Blocks(rows, known), 60, 1, 5)
            np.testing.assert_array_equal(sampled.read(), expected.rows)
            assert sampled.total_weight == expected.total


def assert_trained(
    queue: Any, pictures: list[Bytes], size: int, weights: Any = None, *, rule: Any = None, **parameters: Any
) -> None:
    """`fit` is the reference, bit for bit; with `rule`, training by a rule with other numbers."""
    codec = VQCodec(size, (2, 3), queue=queue, **parameters)
    rows = np.concatenate([reference.blocks(p, 2, 3) for p in pictures])
    shape = BlockShape(2, 3, pictures[0].shape[2] if pictures[0].ndim == 3 else 1)
    tables = [shape.table_shape(*p.shape[:2]) for p in pictures]
    checked = training.check_weights(weights, tables, shape.components)
    flat = np.ones(len(rows), np.int64) if checked is None else checked
    seed = parameters.pop("random_state", 0)
    expected = training_reference.train(rows, flat.astype(np.int64), size, seed=seed, changes=rule, **parameters)
    if rule is None:
        codec.fit(pictures, weights)
        found = codec.codebook_.reshape(size, -1), codec.mse_, codec.n_iter_
    else:
        plan = dataclasses.replace(checked_plan(vars(codec))[0], rule=dataclasses.replace(schedule.BLOCKS, **rule))
        session = runtime.open_session(queue)
        with session.scope() as scope:
            blocks = block_set(queue, scope, pictures, shape, checked)
            made = training.train(session, blocks, [plan], runtime.Progress(None))
        found = made.codebook, made.mse, made.n_iter
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1:] == expected[1:]


@pytest.mark.parametrize("init", ["k-means++", "splitting"])
@pytest.mark.parametrize("refine", [0, 1, 4])
@pytest.mark.parametrize(
    ("limits", "variant"),
    [
        ("", None),
        ("max_alloc=900,work_group=4", None),
        ("", "portable"),
        ("", "unsorted"),
        ("max_alloc=900,work_group=1", "portable"),
    ],
)
def test_training_equals_the_reference(
    queue: Any,
    rng: np.random.Generator,
    init: str,
    refine: int,
    limits: str,
    variant: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    if variant:
        monkeypatch.setenv("CLQUANT_VARIANT", "portable")
    if variant == "unsorted":
        lower(monkeypatch, lloyd__bins=0)
    pictures = [gray(rng, 30, 28), gray(rng, 9, 33)]
    assert_trained(queue, pictures, 13, init=init, refine=refine, max_iter=30, random_state=refine)


@pytest.mark.full
@pytest.mark.parametrize("limits", ["", "max_alloc=2000"])
def test_weighted_training_equals_the_reference(
    queue: Any, rng: np.random.Generator, limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    pictures = [np.stack([gray(rng, 20, 21)] * 3, 2), rng.integers(0, 256, (12, 9, 3), np.uint8)]
    weights = [rng.integers(0, 3, (10, 7)), 1.7]
    assert_trained(queue, pictures, 9, weights, refine=4)


@pytest.mark.full
def test_samples_of_many_blocks_train_first(queue: Any, rng: np.random.Generator) -> None:
    rule = {"least_first": 0, "least_second": 0, "many": 3, "second": 128}
    assert_trained(queue, [gray(rng, 72, 75)], 2, refine=10, rule=rule)
    assert_trained(queue, [gray(rng, 72, 75)], 3, refine=10, rule=rule)
    assert_trained(queue, [gray(rng, 72, 75)], 5, refine=10, rule=rule)
    assert_trained(queue, [gray(rng, 72, 75)], 2, np.array([3.0]), init="splitting", refine=2, rule=rule)


@pytest.mark.full
@pytest.mark.parametrize("limits", ["", "max_alloc=900,work_group=4"])
def test_samples_in_turn_train_where_there_are_many_blocks(
    queue: Any, rng: np.random.Generator, limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    rule = {"least_first": 0, "least_turn": 0, "first": 4, "turn": 20}
    rule |= {"turn_steps": (7, 9, 11), "many_in_turn": 8, "many_turns": 5}
    assert_trained(queue, [gray(rng, 40, 43)], 4, refine=10, rule=rule)
    assert_trained(queue, [gray(rng, 40, 43)], 3, np.array([3.0]), refine=7, rule=rule)
    assert_trained(queue, [gray(rng, 68, 73)], 9, refine=10, rule=rule)
    assert_trained(queue, [gray(rng, 80, 91)], 8, refine=10, rule=rule)


def test_halves_of_very_many_blocks_are_taken_in_turn(queue: Any, rng: np.random.Generator) -> None:
    rule = {"least_first": 0, "first": 4, "second": 16, "halved": 150, "turn_steps": (7, 9, 11)}
    assert_trained(queue, [gray(rng, 40, 43)], 8, refine=10, rule=rule)
    assert_trained(queue, [gray(rng, 10, 43)], 8, refine=5, rule=rule)  # too few


@pytest.mark.parametrize("kind", ["BLOCKS", "ROWS"])
def test_rules_have_the_numbers_of_the_reference(kind: str) -> None:
    rule = dataclasses.asdict(getattr(schedule, kind))
    expected = getattr(training_reference, kind)
    assert {name: rule[name] for name in expected if name != "halved"} == {
        name: value for name, value in expected.items() if name != "halved"
    }
    assert rule["halved"] == (expected["halved"] if kind == "BLOCKS" else None)


@pytest.mark.full
def test_few_gray_levels_and_fewer_blocks_than_codewords(queue: Any, rng: np.random.Generator) -> None:
    assert_trained(queue, [gray(rng, 24, 24) // 64 * 85], 16, refine=4)
    assert_trained(queue, [gray(rng, 5, 7)], 20, refine=2)
    assert_trained(queue, [np.zeros((8, 9), np.uint8)], 7, init="splitting", refine=2)


@pytest.mark.full
@pytest.mark.parametrize("init", ["k-means++", "splitting"])
def test_the_same_codebook_on_any_device_limits_and_path(
    queue: Any, rng: np.random.Generator, init: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [gray(rng, 60, 56), gray(rng, 21, 30)]
    first = VQCodec(12, init=init, queue=queue).fit(pictures)
    on_device = VQCodec(12, init=init).fit([pyopencl.array.to_device(queue, p) for p in pictures])
    np.testing.assert_array_equal(first.codebook_, on_device.codebook_)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=2500,work_group=4")
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


@pytest.mark.full
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
    assert seen[0] == (0, 25)
    assert seen[-1] == (25, 25)
    assert seen == sorted(set(seen))
    codec = VQCodec(6, queue=queue)
    with pytest.raises(runtime.StoppedError):
        codec.fit(picture, progress=lambda done, _: done < 1)
    assert not hasattr(codec, "codebook_")
    steps: list[int] = []
    with pytest.raises(runtime.StoppedError):  # in the plain steps, which are all there are here
        VQCodec(6, refine=0, max_iter=8, queue=queue).fit(
            picture,
            progress=lambda done, _: steps.append(done) or done < 2,  # type: ignore[func-returns-value]
        )
    assert steps == [0, 1, 5]  # after two of eight steps 4 of the last 20 parts


def test_blocks_beyond_what_sums_of_squares_hold_are_refused(queue: Any) -> None:
    session = runtime.open_session(queue)
    with (
        session.scope() as scope,
        pytest.raises(runtime.InvalidArgument, match=r"\d+ blocks or rows; allowed"),
    ):
        BlockSet(session, scope, BlockShape(16, 16, 4), 1 << 40, None)


@pytest.mark.parametrize("bits", [8, 16])
def test_operands_for_tensor_cores(
    queue: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    """What cl/training/search_mma.cl is given, which no device of the tests runs."""
    forced = dataclasses.replace(search_module.VARIANTS[0], admits=lambda _: True)
    monkeypatch.setattr(search_module, "VARIANTS", (forced,))
    monkeypatch.setenv("CLQUANT_LIMITS", "local_memory=1024")
    session, size, components = runtime.open_session(queue), 45, 27
    padded, chunks, limbs = 48, 2, bits // 8
    shape = BlockShape(1, components, 1, bits)
    codebook = rng.integers(0, 1 << bits, (size, components)).astype(shape.dtype)
    with session.scope() as scope:
        search = search_module.Search(session, scope, codebook, shape)
        made = session.download(search._operands, (padded // 8, limbs, chunks, 8, 16), np.uint8)
        biases = session.download(search._biases, padded, np.int64 if bits == 16 else np.int32)
    rows = np.zeros((padded, 16 * chunks), shape.dtype)
    rows[:size, :components] = codebook
    for limb in range(limbs):
        own = (rows >> (8 * limb)).astype(np.uint8).reshape(padded // 8, 8, chunks, 4, 4)
        ordered = own.transpose(0, 1, 3, 2, 4)  # a work-item's chunks side by side
        np.testing.assert_array_equal(made[:, limb], ordered.reshape(padded // 8, chunks, 8, 16))
    norms = (codebook.astype(np.int64) ** 2).sum(1)
    expected = np.full(padded, -(2**46) if bits == 16 else -(2**31) + 1)
    expected[:size] = -norms
    if bits == 8:
        log_scale, tile = search._log_scale, search._tile
        assert (65025 * components + 1) << log_scale < 1 << 31 <= (65025 * components + 1) << (log_scale + 1)
        assert tile % 8 == 0 < tile < padded
        expected[:size] = -norms * 2**log_scale + 2**log_scale - 1 - np.arange(size) % tile
    np.testing.assert_array_equal(biases, expected)


@pytest.mark.parametrize("digits", [2, 8])
def test_selection(queue: Any, rng: np.random.Generator, digits: int) -> None:
    session, size = runtime.open_session(queue), 700
    keys = rng.integers(0, [60, 2**62][digits == 8], size, np.uint64)
    keys[::3] = keys[1]
    with session.scope() as scope:
        selection = Selection(session, scope, scope.copy_of(keys), size + 5, digits)
        for number in (1, 200, 300, size):
            selection.queue(size, number)
            expected = np.sort(np.argsort(keys, kind="stable")[:number])
            np.testing.assert_array_equal(session.download(selection.chosen, number, np.uint32), expected)
            stays = np.ones(size, bool)
            stays[expected] = False
            places = session.download(selection.places, size, np.uint32)
            np.testing.assert_array_equal(places, np.where(stays, np.cumsum(stays) - 1, 2**32 - 1))
