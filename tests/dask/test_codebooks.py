"""VQ training on Dask arrays and files: the bits of one process, whatever the chunks and parts."""

from __future__ import annotations

import pickle
from typing import Any
from unittest import mock

import dask
import dask.array as da
import hypothesis.strategies as st
import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings

import clquant
from clquant.dask import training as on_workers
from clquant.dask.training import WorkerShares
from clquant.runtime import DeviceMemoryError
from clquant.training.blocks import BlockShape
from clquant.training.lloyd import Lloyd
from clquant.training.shares import Band, Share


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Samples and parts so small that the steps over all blocks matter."""
    monkeypatch.setenv("CLQUANT_LIMITS", "training.sample=24")
    monkeypatch.setattr(on_workers, "workers", lambda: 3)
    with dask.config.set(scheduler="synchronous"):
        yield


def _learned(codec: clquant.VQCodec) -> tuple[bytes, float, int]:
    return codec.codebook_.tobytes(), codec.mse_, codec.n_iter_


@pytest.mark.full
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    chunk=st.tuples(st.integers(1, 17), st.integers(1, 17)),
    block=st.sampled_from([(4, 4), (2, 3)]),
    size=st.integers(2, 40),
    init=st.sampled_from(["k-means++", "splitting"]),
    refine=st.integers(0, 3),
    kinds=st.integers(2, 200),
    weighted=st.booleans(),
    spread=st.sampled_from([1, 3]),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_codebooks_are_those_of_one_process(
    height: int, width: int, chunk: Any, block: Any, size: int, init: str, refine: int, kinds: int, weighted: bool,
    spread: int, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    values = (rng.integers(0, kinds, (height, width, 1)) * 255 // kinds).astype(np.uint8)
    weights = [rng.integers(0, 4, (-(-height // block[0]), -(-width // block[1])))] if weighted else None
    if weights:
        weights[0].flat[0] = 2
    with mock.patch.object(on_workers, "workers", return_value=spread):
        made = [
            clquant.VQCodec(size, block, init=init, refine=refine, max_iter=6).fit([image], weights)
            for image in (values, da.from_array(values, (*chunk, 1)))
        ]
    assert _learned(made[0]) == _learned(made[1])


def test_dead_codewords_find_the_worst_blocks_of_all_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def call(shares: Any, method: str, *args: Any) -> Any:
        asked.append(method)
        return found(shares, method, *args)

    found = WorkerShares.call
    monkeypatch.setattr(WorkerShares, "call", call)
    few = np.repeat(np.repeat(np.random.default_rng(0).integers(0, 4, (24, 20)) * 60, 4, 0), 4, 1).astype(np.uint8)
    few[:40] = np.random.default_rng(1).integers(0, 256, (40, 80))
    for init in ("k-means++", "splitting"):
        one, other = (clquant.VQCodec(90, init=init, refine=2).fit(x) for x in (few, da.from_array(few, (17, 33))))
        assert _learned(one) == _learned(other)
    assert "worst" in asked


@pytest.mark.full
def test_several_arrays_and_files_are_one_collection(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    first, second, third = (
        rng.integers(0, 9, (h, w, 3), np.uint8) * np.uint8(25) for h, w in ((31, 18), (9, 7), (22, 40))
    )
    PIL.Image.fromarray(second).save(tmp_path / "second.png")
    weights = [1, rng.random((3, 2)), 0.5]
    one = clquant.VQCodec(30, refine=2).fit([first, second, third], weights)
    given = [da.from_array(first, (7, 9, 1)), str(tmp_path / "second.png"), da.from_array(third, (22, 11, 3))]
    for spread in (1, 3):
        monkeypatch.setattr(on_workers, "workers", lambda count=spread: count)
        assert _learned(clquant.VQCodec(30, refine=2).fit(given, weights)) == _learned(one)
    with pytest.raises(clquant.FileError, match=r"images\[1\].*missing.png"):
        clquant.VQCodec(8).fit([given[0], str(tmp_path / "missing.png")])
    with pytest.raises(clquant.InvalidArgument, match=r"images have \[1, 3\] channels"):
        clquant.VQCodec(8).fit([given[0], da.from_array(first[..., 0], (9, 9))])
    wrong = da.from_array(first.astype(np.int64) * 9, (16, 18, 3))
    with pytest.raises(clquant.InvalidArgument, match=r"chunk at row \d+, column 0 is array"):
        clquant.VQCodec(8).fit(wrong)


def test_a_share_may_move_and_its_device_memory_is_made_anew() -> None:
    values = np.random.default_rng(6).integers(0, 256, (13, 13, 1), dtype=np.uint8)
    share = Share([Band(values, 100)], None, BlockShape(4, 4, 1))
    codebook = share.rows(np.array([0, 5, 12]))
    before = share.sums(codebook, 4)
    assert before.totals[:, -1].sum() == 16
    moved = pickle.loads(pickle.dumps(share))
    assert _equal(moved.sums(codebook, 9), before)
    assert moved.squares(9) == share.squares(4)
    dead = np.concatenate([codebook, codebook[:1]])  # the last one loses all ties
    one, other = (each.worst(dead, 4) for each in (share, moved))
    assert np.array_equal(one.rows, other.rows)
    assert np.array_equal(one.numbers, other.numbers)
    assert one.numbers[one.levels > 0].min() >= 100
    assert _equal(share.sums(codebook, 40), before)  # room for more codewords
    assert len(pickle.dumps(share)) < 2000


def _equal(one: Any, other: Any) -> bool:
    return np.array_equal(one.totals, other.totals) and np.array_equal(one.errors, other.errors)


@pytest.mark.parametrize("weighted", [False, True])
def test_shares_joined_are_one(rng: np.random.Generator, weighted: bool) -> None:
    shape, values = BlockShape(4, 4, 1), rng.integers(0, 256, (40, 18, 1), dtype=np.uint8)
    weights = rng.integers(0, 4095, 50, dtype=np.uint16) if weighted else None
    whole = Share([Band(values, 0)], weights, shape)
    cuts = [(0, 2), (2, 3), (3, 7), (7, 10)]  # rows of blocks, of which five stand in a row
    parts = [
        Share([Band(values[4 * a : 4 * b], 5 * a)], None if weights is None else weights[5 * a : 5 * b], shape)
        for a, b in cuts
    ]
    joined, some = Share.joined([parts[i] for i in (2, 0, 3, 1)]), Share.joined([parts[3], parts[1]])
    codebook = whole.rows(np.array([3, 17, 17, 48]))  # the third one loses all ties
    assert _equal(joined.sums(codebook, 4), whole.sums(codebook, 4))
    assert joined.squares(4) == whole.squares(4)
    one, other = joined.worst(codebook, 4), whole.worst(codebook, 4)
    assert np.array_equal(one.numbers, other.numbers)
    assert np.array_equal(one.rows, other.rows)
    numbers = np.array([11, 14, 36, 49])
    assert np.array_equal(some.numbers(some.places_of(numbers)), numbers)
    assert np.array_equal(some.rows_of_numbers(numbers), whole.rows(numbers))


def test_idle_shares_give_up_their_device_memory_where_room_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(7).integers(0, 256, (16, 16, 1), dtype=np.uint8)
    idle, busy = (Share([Band(values, 0)], None, BlockShape(4, 4, 1)) for _ in range(2))
    codebook = idle.rows(np.array([1, 9]))
    expected = idle.sums(codebook, 2)
    fails = [DeviceMemoryError("short"), DeviceMemoryError("short"), None, DeviceMemoryError("short")]

    def sums(self: Any) -> Any:
        if error := fails.pop():
            raise error
        return found(self)

    found = Lloyd.read_totals
    monkeypatch.setattr(Lloyd, "read_totals", sums)
    assert _equal(busy.sums(codebook, 2), expected)
    assert idle._on_device is None
    with pytest.raises(DeviceMemoryError):
        busy.sums(codebook, 2)


def test_a_chunk_whose_blocks_have_no_weight(rng: np.random.Generator) -> None:
    values, weights = rng.integers(0, 256, (24, 20), dtype=np.uint8), np.ones((24, 4))
    weights[:8] = 0
    made = [values, da.from_array(values, (8, 20))]
    one, other = (clquant.VQCodec(5, (1, 5), refine=1).fit([x], [weights]) for x in made)
    assert _learned(one) == _learned(other)
