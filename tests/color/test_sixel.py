"""Sixel pictures, decoded again by the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import IndexedImage, Palette
from clquant.color.formats import sixel
from clquant.palette import engine
from clquant.palette.sixel import shown_palette
from clquant.runtime import InvalidArgument
from tests.lowering import lower
from tests.reference.sixel import decode, encode


def shown(image: IndexedImage) -> np.ndarray:
    palette = shown_palette(image.palette).rgba().copy()
    palette[palette[:, 3] == 0] = 0
    return palette[image.host_indices()]


@settings(max_examples=25)
@given(
    height=st.integers(1, 20),
    width=st.integers(1, 30),
    count=st.integers(1, 256),
    alpha=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_decodes_to_the_shown_colors(height, width, count, alpha, seed):
    rng = np.random.default_rng(seed)
    colors = rng.integers(0, 256, (count, 4 if alpha else 3))
    image = IndexedImage(rng.integers(0, count, (height, width)), colors)
    assert np.array_equal(decode(image.to_sixel()), shown(image))


@pytest.mark.parametrize(
    ("height", "width", "repeat"), [(1, 1, 1), (7, 9, 1), (40, 33, 3), (13, 400, 120), (6, 70, 70)]
)
@pytest.mark.parametrize("part_pixels", [1, 1 << 17])
def test_equals_the_reference(height, width, repeat, part_pixels, rng, monkeypatch):
    lower(monkeypatch, sixel__part=part_pixels)
    rgba = rng.integers(0, 256, (19, 4), dtype=np.uint8)
    rgba[:3, 3] = 0
    indices = rng.integers(0, 19, (height, -(-width // repeat)), dtype=np.uint8).repeat(repeat, axis=1)[:, :width]
    indices[12:18] = 0  # a band of which nothing is drawn
    assert sixel.encode(indices, rgba) == encode(indices, rgba)


def test_runs_are_short(rng):
    flat = IndexedImage(np.zeros((600, 800), int), [[10, 20, 30], [0, 0, 0]])
    assert len(flat.to_sixel()) < 1000
    two = IndexedImage(rng.integers(0, 2, (12, 40)), [[0, 0, 0], [255, 255, 255]])
    assert np.array_equal(decode(two.to_sixel()), shown(two))


def test_registers_round_to_the_nearest_and_stay():
    every = Palette(np.repeat(np.arange(256)[:, None], 3, axis=1))
    once = shown_palette(every)
    assert np.abs(once.colors.astype(int) - every.colors).max() <= 1
    assert shown_palette(once) == once
    assert sixel.registers(every.colors).min() == 0
    assert sixel.registers(every.colors).max() == 100


def test_sample_through_shown_colors(sample, queue):
    palette = shown_palette(Palette([(r, g, b) for r in (0, 99, 200) for g in (3, 130, 251) for b in (7, 180)]))
    small = np.ascontiguousarray(sample[::8, ::8])
    image = engine.quantize(small, palette, queue=queue)
    assert np.array_equal(decode(image.to_sixel())[:, :, :3], image.to_array())


def test_too_many_colors():
    with pytest.raises(InvalidArgument, match="sixel holds at most 256 colours; this palette has 257"):
        IndexedImage([[0]], np.zeros((257, 3), int)).to_sixel()
