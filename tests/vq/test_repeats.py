"""Repeated rows and columns of blocks: found, told in bytes, left out of files and written again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clquant import VQCodec, clvq_info, runtime
from clquant.runtime import FormatError
from clquant.training.search import index_dtype
from clquant.vq.coding.repeats import Repeater, Repeats
from tests.lowering import lower


def repeated(rng: np.random.Generator, rows: int, columns: int, most: int, size: int = 40) -> npt.NDArray[Any]:
    """A table whose rows and columns come up to `most` times."""
    table = rng.integers(0, size, (rows, columns)).astype(index_dtype(size))
    table = np.repeat(table, rng.integers(1, most + 1, rows), axis=0)
    return np.repeat(table, rng.integers(1, most + 1, columns), axis=1)


@given(st.integers(0, 1 << 30), st.integers(1, 9), st.integers(1, 9), st.integers(1, 400))
def test_bytes_and_back(seed: int, rows: int, columns: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    height, width = int(rng.integers(rows, rows + most)), int(rng.integers(columns, columns + most))
    places = [np.sort(rng.choice(np.arange(1, n), k - 1, replace=False)) for n, k in ((height, rows), (width, columns))]
    made = Repeats((height, width), *(np.concatenate([[0], each]) for each in places))
    again = Repeats.from_bytes(made.to_bytes(), (height, width))
    np.testing.assert_array_equal(again.rows, made.rows)
    np.testing.assert_array_equal(again.columns, made.columns)


@pytest.mark.parametrize(
    "data", [b"", b"\x03", b"\x03\x00\x04", b"\x04\x04", b"\x03\x04\x01", b"\x03\x83", b"\xff" * 9]
)
def test_bytes_that_tell_no_repeats(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"the repeats of a \.clvq file"):
        Repeats.from_bytes(data, (3, 4))


def test_what_repeats_is_found(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, repeats__compared=100)
    for _ in range(20):
        table = repeated(rng, int(rng.integers(1, 6)), int(rng.integers(1, 40)), 30)
        found = Repeats.of(table)
        rows = [0, *(r for r in range(1, len(table)) if (table[r] != table[r - 1]).any())]
        columns = [0, *(c for c in range(1, table.shape[1]) if (table[:, c] != table[:, c - 1]).any())]
        if found.any:
            assert (found.rows.tolist(), found.columns.tolist()) == (rows, columns)
        else:
            told = Repeats((table.shape[0], table.shape[1]), np.array(rows), np.array(columns)).to_bytes()
            assert table.size - len(rows) * len(columns) < 64 * len(told)
    assert not Repeats.of(rng.integers(0, 9, (30, 40)).astype(np.uint8)).any


def test_the_device_writes_whole_tables(queue: Any, rng: np.random.Generator) -> None:
    session = runtime.open_session(queue)
    for size in (200, 300):
        table = repeated(rng, 7, 13, 60, size)
        repeats = Repeats.of(table)
        assert repeats.any
        first, end = repeats.end_of(2), repeats.end_of(6)
        with session.scope() as scope:
            coded = scope.copy_of(np.ascontiguousarray(repeats.coded(table)[2:6]))
            whole = scope.empty((end - first) * table.shape[1] * table.itemsize)
            Repeater(session, scope, repeats, size).write(coded, 2, (first, end), whole)
            found = session.download(whole, (end - first, table.shape[1]), table.dtype)
        np.testing.assert_array_equal(found, table[first:end])


@pytest.mark.full
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("block", [(4, 4), (2, 3), (1, 1)])
def test_pictures_with_repeats_come_back(
    queue: Any, rng: np.random.Generator, block: tuple[int, int], channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower(monkeypatch, reading__blocks=500)
    codec = VQCodec(40, block, queue=queue)
    codec.codebook_ = rng.integers(0, 256, (40, *block) + ((channels,) if channels > 1 else ()), np.uint8)
    table = repeated(rng, 9, 11, 12)
    image = codec.decode(table, (table.shape[0] * block[0] - (block[0] > 1), table.shape[1] * block[1]))
    expected = codec.decode(codec.encode(image), image.shape)
    data = codec.compress(image)
    np.testing.assert_array_equal(codec.decompress(data), expected)
    monkeypatch.setattr("clquant.vq.coding.repeats._LEAST_SAVED", 1 << 40)
    assert len(codec.compress(image)) > len(data)
    for rows in ((0, 1), (5, 6), (image.shape[0] // 2, image.shape[0]), (3, image.shape[0] - 1)):
        np.testing.assert_array_equal(codec.decompress(data, rows=rows), expected[slice(*rows)])
    seen: list[tuple[int, int]] = []
    codec.decompress(data, progress=lambda *done: seen.append(done))
    assert seen[-1] == (table.size, table.size)


@pytest.mark.full
def test_a_blank_picture_is_one_block(queue: Any) -> None:
    codec = VQCodec(2, (2, 2), queue=queue)
    codec.codebook_ = np.repeat(np.array([9, 200], np.uint8), 4).reshape(2, 2, 2)
    image = np.full((301, 1003), 9, np.uint8)
    data = codec.compress(image)
    assert clvq_info(data).bands == 1
    assert len(data) < 150
    np.testing.assert_array_equal(codec.decompress(data), image)
