"""Bands of index tables: words and states equal to the reference's, in both forms, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clquant import runtime
from clquant.runtime import FormatError
from clquant.training.blocks import BlockShape
from clquant.training.search import index_dtype
from clquant.vq.coding.bands import BandCoder, BandLayout, CodedBand
from clquant.vq.coding.contexts import PRESET, Contexts, Model
from tests.reference import clvq as reference

FORMS = ["portable", "group", "lanes"]


class Layout(BandLayout):
    """A layout with rows and lanes of a test's own."""

    own: tuple[int, int]

    @property
    def rows(self) -> int:
        return self.own[0]

    @property
    def lanes(self) -> int:
        return self.own[1]


def layout(table: npt.NDArray[Any], rows: int, lanes: int) -> BandLayout:
    made = Layout(*table.shape)
    object.__setattr__(made, "own", (rows, lanes))
    return made


def decoded(
    session: runtime.Session, coder: BandCoder, coded: list[CodedBand], shape: tuple[int, int], size: int
) -> tuple[npt.NDArray[Any], bool]:
    with session.scope() as scope:
        dtype = index_dtype(size)
        indices, wrong = scope.copy_of(np.full(shape, np.iinfo(dtype).max, dtype)), scope.zeros(4)
        coder.decode(scope, coded, shape[0], indices, wrong)
        return session.download(indices, shape, dtype), bool(session.download(wrong, 1, np.uint32)[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("block", "size", "pixels", "shape", "rows", "lanes"),
    [
        (BlockShape(4, 4, 1), 37, 1000, (9, 11), 4, 4),
        (BlockShape(2, 2, 1), 2, 1000, (5, 3), 5, 1),
        (BlockShape(1, 3, 3), 20, 0, (7, 2), 7, 4),  # rows shorter than the lanes are many
        (BlockShape(2, 1, 4), 300, 0, (10, 6), 3, 2),  # groups of neighbours, buckets by values
        (BlockShape(2, 2, 1), 200, 1 << 18, (9, 7), 9, 8),  # pairs, sixteen codewords side by side
        (BlockShape(2, 2, 1), 300, 1 << 18, (9, 7), 9, 4),
        (BlockShape(2, 9, 3), 300, 1400, (9, 7), 4, 4),
    ],
)
def test_bands_equal_the_reference(
    queue: Any,
    rng: np.random.Generator,
    form: str,
    block: BlockShape,
    size: int,
    pixels: int,
    shape: tuple[int, int],
    rows: int,
    lanes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("clquant.vq.coding.contexts._FREE_ENTRIES", 1 << 13)
    monkeypatch.setattr(reference, "room", lambda n: (1 << 13) + 64 * n)
    codebook = rng.integers(0, 256, (size, block.components), np.uint8)
    codebook[size // 2 :] //= 4
    rarity = rng.integers(0, 20, size).astype(np.uint8)
    curves = np.sort(rng.integers(60, 212, (2, 32)), axis=1)[:, ::-1].astype(np.uint8)
    table = rng.integers(0, size, shape).astype(index_dtype(size))
    whole = codebook.reshape(size, block.rows, block.columns, block.channels)
    expected = reference.Contexts(whole, curves, pixels, rarity)
    session = runtime.open_session(queue)
    with runtime.force_variant(form), session.scope() as scope:
        contexts = Contexts(session, scope, codebook, block, pixels)
        assert contexts.shape.by_pairs == expected.by_pairs
        np.testing.assert_array_equal(contexts.order, expected.order)
        cut = layout(table, rows, lanes)
        coder = BandCoder(session, contexts.tables(scope, Model(curves, rarity)), cut)
        coded = coder.encode(table)
        for band, made in enumerate(coded):
            states, words = reference.encode_band(table[band * rows : (band + 1) * rows], expected, lanes)
            assert made.states.tolist() == states
            assert made.words.tolist() == words
            again = CodedBand.from_bytes(made.to_bytes(), lanes)
            assert (again.states.tolist(), again.words.tolist()) == (states, words)
        found, wrong = decoded(session, coder, coded, table.shape, size)
        np.testing.assert_array_equal(found, table)
        assert not wrong


@pytest.mark.parametrize("form", FORMS)
def test_streams_that_do_not_end_where_they_should_are_found(queue: Any, rng: np.random.Generator, form: str) -> None:
    size, block = 64, BlockShape(2, 2, 1)
    codebook = rng.integers(0, 256, (size, 4), np.uint8)
    table = rng.integers(0, size, (16, 30)).astype(np.uint8)
    session = runtime.open_session(queue)
    with runtime.force_variant(form), session.scope() as scope:
        contexts = Contexts(session, scope, codebook, block, 1920)
        tables = contexts.tables(scope, Model(PRESET, np.zeros(size, np.uint8)))
        coder = BandCoder(session, tables, layout(table, 8, 8))
        coded = coder.encode(table)
        words, states = coded[1].words, coded[1].states
        changed = words.copy()
        changed[3] ^= 1
        for wrong in (words[:-1], np.append(words, np.uint16(7)), changed, words[:0]):
            found, told = decoded(session, coder, [coded[0], CodedBand(states, wrong)], table.shape, size)
            assert told
            assert int(found.max()) < size
            np.testing.assert_array_equal(found[:8], table[:8])
        with pytest.raises(FormatError, match="impossible state"):
            decoded(session, coder, [coded[0], CodedBand(states // (1 << 20), words)], table.shape, size)


def test_layouts() -> None:
    assert (BandLayout(2048, 2048).rows, BandLayout(2048, 2048).lanes) == (32, 32)
    for rows, columns in ((1, 1), (128, 128), (129, 128), (1, 1 << 20), (33, 1 << 15), (1 << 20, 1), (500, 3000)):
        cut = BandLayout(rows, columns)
        assert sum(cut.rows_of(band) for band in range(cut.count)) == rows
        assert cut.rows_of(cut.count - 1) >= 1
        assert cut.lanes <= min(32, cut.rows)
        assert cut.rows * columns <= 1 << 20
