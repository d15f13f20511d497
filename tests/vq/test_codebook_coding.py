"""Codebooks as files hold them: residuals, words and states equal to the reference's, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clquant import runtime
from clquant.runtime import FormatError
from clquant.training.blocks import BlockShape
from clquant.vq.coding.codebook_coding import (
    decode_codebook,
    encode_codebook,
    longest,
    run_length,
    scale_tables,
    shortest,
)
from tests.reference import clvq as reference

SHAPES = [BlockShape(4, 4, 1), BlockShape(3, 1, 4), BlockShape(1, 1, 1), BlockShape(1, 3, 3), BlockShape(32, 8, 4)]


def reference_runs(codebook: Any, shape: BlockShape, scales: list[int]) -> tuple[list[int], list[list[int]]]:
    """States and words of every run of a codebook."""
    tables, run = reference.scale_tables(), run_length(len(codebook), shape)
    states, streams = [], []
    for first in range(0, len(codebook), run):
        previous, coded = 128, []
        for word in codebook[first : first + run]:
            coded += reference.code_codeword(word.reshape(shape.rows, shape.columns, shape.channels), previous)
            previous = (2 * int(word.sum(dtype=np.int64)) + word.size) // (2 * word.size)
        state, words = reference.LOW, []
        for kind, residual in reversed(coded):
            bounds = tables[scales[kind]]
            state = reference.put(state, words, bounds[residual], bounds[residual + 1])
        states.append(state)
        streams.append(words[::-1])
    return states, streams


@pytest.mark.parametrize("shape", [*SHAPES[:-1], pytest.param(SHAPES[-1], marks=pytest.mark.full)], ids=str)
def test_codebooks_equal_the_reference_and_come_back(queue: Any, rng: np.random.Generator, shape: BlockShape) -> None:
    size = 12 if shape.components > 500 else 700
    levels = np.sort(rng.integers(0, 256, (size, 1)), axis=0)
    codebook = np.clip(levels + rng.normal(0, 4, (size, shape.components)).cumsum(1), 0, 255).astype(np.uint8)
    session = runtime.open_session(queue)
    data = encode_codebook(session, codebook, shape)
    np.testing.assert_array_equal(decode_codebook(session, data, size, shape), codebook)
    assert data[0] == 1
    runs = -(-size // run_length(size, shape))
    assert runs > 1 or shape.components == 1
    scales = [(data[1 + k // 2] >> 4 * (k % 2)) & 15 for k in range(24)]
    states, streams = reference_runs(codebook, shape, scales)
    head = np.array([len(words) for words in streams], "<u2").tobytes() + np.array(states, "<u4").tobytes()
    assert data[13:] == head + np.concatenate([np.array(words, "<u2") for words in streams]).tobytes()


def test_tables_of_scales_equal_the_reference() -> None:
    assert scale_tables().tolist() == reference.scale_tables()
    assert (np.diff(scale_tables().astype(int), axis=1) >= 1).all()


@pytest.mark.parametrize("size", [2, 130, 5000])
@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_flat_codebooks_are_no_shorter_than_any_can_be(queue: Any, size: int, shape: BlockShape) -> None:
    codebook = np.zeros((size, shape.components), np.uint8)
    data = encode_codebook(runtime.open_session(queue), codebook, shape)
    assert shortest(size, shape) <= len(data) <= longest(size, shape)
    assert np.diff(scale_tables().astype(int), axis=1).max() < (1 << 15) * 0.83


def test_noise_is_stored_raw(queue: Any, rng: np.random.Generator) -> None:
    codebook = rng.integers(0, 256, (9, 16), np.uint8)
    session, shape = runtime.open_session(queue), BlockShape(4, 4, 1)
    data = encode_codebook(session, codebook, shape)
    assert data == b"\x00" + codebook.tobytes()
    np.testing.assert_array_equal(decode_codebook(session, data, 9, shape), codebook)


def test_damaged_codebooks_are_refused(queue: Any, rng: np.random.Generator) -> None:
    shape, session = BlockShape(4, 4, 1), runtime.open_session(queue)
    codebook = np.sort(rng.integers(0, 256, (40, 16), np.uint8), axis=0)
    data = encode_codebook(session, codebook, shape)
    assert data[0] == 1
    for wrong in (b"", b"\x02" + data[1:], data[:-1], data[:-2], data + b"\x00\x00", data[:9], b"\x00" + data[1:]):
        with pytest.raises(FormatError):
            decode_codebook(session, wrong, 40, shape)
    for place in range(20, len(data), 7):
        wrong = bytearray(data)
        wrong[place] ^= 64
        with pytest.raises(FormatError, match="does not end"):
            decode_codebook(session, bytes(wrong), 40, shape)
