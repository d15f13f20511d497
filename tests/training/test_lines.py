"""Where blocks of parts are among all: numbers, and blocks at regular distances that parts find on their own."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from clquant.training.lines import Lines, Tile
from clquant.training.part import Part
from clquant.training.spacing import Spacing


@given(
    rows=st.integers(1, 30),
    columns=st.integers(1, 30),
    cuts=st.tuples(st.lists(st.integers(1, 29), max_size=3), st.lists(st.integers(1, 29), max_size=3)),
    before=st.integers(0, 40),
    weighted=st.booleans(),
    size=st.floats(0.01, 1),
    turn=st.integers(0, 15),
    seed=st.integers(0, 99),
)
def test_parts_find_the_blocks_at_regular_distances(
    rows: int, columns: int, cuts: Any, before: int, weighted: bool, size: float, turn: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 3, before + rows * columns).astype(np.uint16)
    weights[0] = 1
    able = np.flatnonzero(weights) if weighted else np.arange(len(weights))
    ranks = np.cumsum(weights > 0) - (weights > 0) if weighted else None
    count = max(1, int(size * len(able)))
    downs, acrosses = (
        [0, *sorted({cut for cut in own if cut < end}), end] for own, end in zip(cuts, (rows, columns), strict=True)
    )
    tiles = [Tile(0, before, 1, before)] if before else []
    for top, bottom in itertools.pairwise(downs):
        for left, right in itertools.pairwise(acrosses):
            tiles.append(Tile(before + top * columns + left, columns, bottom - top, right - left))
    half = len(tiles) // 2
    spacing = Spacing(len(able) // count, turn)
    expected = able[spacing.numbers(np.arange(count))]
    found = []
    for own in (tiles[:half], tiles[half:]):
        if own:
            lines = Lines.of_tiles(own, ranks)
            numbers = lines.numbers(np.arange(lines.lengths.sum()))
            places, which = lines.every(spacing, count, weights[numbers] if weighted else None)
            run = lines.run(spacing, count)
            assert run is None or np.array_equal(run, which)
            assert (np.diff(places) > 0).all()
            assert np.array_equal(expected[which], numbers[places])
            found.append(numbers[places])
    assert np.array_equal(np.sort(np.concatenate(found)), expected)


@pytest.mark.full
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_a_part_has_its_blocks_and_weights(weighted: bool) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 256, (10, 13, 3), dtype=np.uint8)
    weights = rng.integers(0, 3, (3, 4)).astype(np.uint16)
    able = np.flatnonzero(weights) if weighted else np.arange(12)
    ranks = np.cumsum(weights > 0) - (weights.ravel() > 0) if weighted else None
    part = Part([values], [weights] if weighted else None, (4, 4), Lines.of_tiles([Tile(0, 4, 3, 4)], ranks))
    spacing = Spacing(len(able) // 4, 1)
    sample = part.every(spacing, 4)
    places = able[spacing.numbers(np.arange(4))]
    assert np.array_equal(sample.rows(np.arange(4)), part.rows(places))
    assert np.array_equal(sample.lines.numbers(np.arange(4)), places)
    codebook = part.rows(np.array([0, 5]))
    assert sample.statistics(codebook, 2)[:, -1].sum() == (weights.ravel()[places].sum() if weighted else 4)


@pytest.mark.full
def test_a_sample_without_blocks_adds_nothing() -> None:
    values = np.random.default_rng(2).integers(0, 256, (4, 4, 1), dtype=np.uint8)
    part = Part([values], None, (4, 4), Lines(np.array([7]), np.array([1])))
    sample = part.every(Spacing(100, 0), 10)  # numbers 0, 101, 202 ...
    codebook = np.zeros((2, 16), np.uint8)
    assert not sample.statistics(codebook, 2).any()
    assert sample.squares(2) == 0
    assert not sample.worst(codebook, 2).levels.any()
