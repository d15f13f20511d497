"""Models of indices: what learning gains, and what of it a file keeps."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import VQCodec, runtime
from clquant.training.blocks import BlockShape
from clquant.vq.coding.codebook_coding import encode_codebook
from clquant.vq.coding.contexts import (
    PRESET,
    Contexts,
    ContextShape,
    Model,
    distance_bounds,
    pack_curves,
    rounded_curves,
    unpack_curves,
)
from clquant.vq.coding.learning import _logs, decode_model, encode_model, learn, sample_pairs
from clquant.vq.container.clvq_format import OWN_CURVES_AND_RARITY, PICTURE, RARITY_SHAPE, Header
from tests.reference import clvq as reference


@settings(max_examples=50)
@given(st.lists(st.integers(0, 211), min_size=64, max_size=64))
def test_rounded_curves_come_back_from_their_bytes(values: list[int]) -> None:
    curves = rounded_curves(np.array(values).reshape(2, 32))
    assert curves.max() <= 211
    np.testing.assert_array_equal(unpack_curves(pack_curves(curves)), curves)
    np.testing.assert_array_equal(rounded_curves(curves.astype(np.int64)), curves)


def test_curves_out_of_range_are_refused() -> None:
    for nibbles in (b"\xff" * 32, b"\x00" * 32):
        with pytest.raises(runtime.FormatError, match="out of range"):
            unpack_curves(nibbles)


def test_bounds_and_logarithms_equal_the_reference() -> None:
    for components in (1, 3, 4, 12, 128):
        assert distance_bounds(components) == reference.thresholds(components)
    numbers = np.array([1, 2, 3, 5, 7, 9, 11, 255, 256, 1000, (1 << 31) - 1, 1 << 31, (1 << 39) + 12345])
    assert _logs(numbers).tolist() == [(int(n) ** 8).bit_length() - 1 for n in numbers]


def test_samples_have_both_neighbours_and_look_at_every_column(rng: np.random.Generator) -> None:
    table = rng.integers(0, 9, (300, 101)).astype(np.uint8)
    shape = ContextShape.of(65536, 1 << 20)
    pairs = sample_pairs(table, shape)
    assert 16 <= len(pairs) < table.size
    assert len(sample_pairs(table[:1], shape)) == len(sample_pairs(table[:, :1], shape)) == 0
    whole = sample_pairs(table[:20], ContextShape.of(9, 1 << 20))
    np.testing.assert_array_equal(whole[:, 2], table[1:20, 1:].ravel())
    np.testing.assert_array_equal(whole[:, 0], table[:19, 1:].ravel())
    np.testing.assert_array_equal(whole[:, 1], table[1:20, :-1].ravel())


def skewed(rng: np.random.Generator) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Codewords that differ inside, so that their sides tell nothing, and a table of them of very unequal use."""
    codebook = np.full((32, 4, 4), 100, np.uint8)
    codebook[:, 1:3, 1:3] = 8 * np.arange(32).reshape(-1, 1, 1)
    return codebook.reshape(32, 16), np.minimum(rng.geometric(0.5, (60, 60)) - 1, 31).astype(np.uint8)


@pytest.mark.full
def test_rarities_are_learned_where_codewords_are_of_unequal_use(queue: Any, rng: np.random.Generator) -> None:
    codebook, table = skewed(rng)
    session = runtime.open_session(queue)
    with session.scope() as scope:
        contexts = Contexts(session, scope, codebook, BlockShape(4, 4, 1), 57600)
        model = learn(session, contexts, table)
        even = learn(session, contexts, rng.permutation(np.arange(3600) % 32).reshape(60, 60).astype(np.uint8))
    assert model.rarity.any()
    assert model.rarity[0] < model.rarity[4]
    assert not even.rarity.any()
    header = Header(PICTURE, 1, (4, 4), 32, (240, 240), 0, bytes(16))
    for each in (model, even, Model(PRESET, np.zeros(32, np.uint8))):
        mode, data = encode_model(session, each)
        found = decode_model(session, dataclasses.replace(header, model=mode), data)
        np.testing.assert_array_equal(found.curves, each.curves)
        np.testing.assert_array_equal(found.rarity, each.rarity)


@pytest.mark.full
def test_files_come_near_the_entropy(queue: Any, rng: np.random.Generator) -> None:
    codebook, table = skewed(rng)
    codec = VQCodec(32, queue=queue)
    codec.codebook_ = codebook.reshape(32, 4, 4)
    data = codec.compress(codec.decode(table), embed_codebook=False)
    counts = np.bincount(codec.encode(codec.decode(table)).ravel())
    entropy = -(counts[counts > 0] * np.log2(counts[counts > 0] / table.size)).sum() / 8
    assert len(data) < 1.03 * entropy + 140


def test_rarities_out_of_range_are_refused(queue: Any) -> None:
    session, size = runtime.open_session(queue), 9
    header = Header(PICTURE, 1, (4, 4), size, (8, 8), 0, bytes(16), OWN_CURVES_AND_RARITY)
    rarity = encode_codebook(session, np.full((size, 1), 64, np.uint8), RARITY_SHAPE)
    with pytest.raises(runtime.FormatError, match="rarities"):
        decode_model(session, header, pack_curves(PRESET) + rarity)
