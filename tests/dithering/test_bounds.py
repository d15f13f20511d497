"""Entries near a colour by the bits of its channels, against their gaps."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import Palette
from clquant.color import spaces
from clquant.dithering import bounds
from clquant.mapping.within import entries_within
from tests.reference import reach


def near(palette, space, color):
    """Whether each entry has the bits of all the colour's axes."""
    axes = color[:3]
    if space.alpha:
        light = color[:3] * color[3] // space.white
        axes = np.concatenate([light, color[3:], color[3] - light])
    words = entries_within(palette, space, bounds.speck(palette, space))[np.arange(len(axes)), axes >> (space.bits - 8)]
    bits = np.unpackbits(np.bitwise_and.reduce(words).view(np.uint8), bitorder="little").astype(bool)
    assert not bits[len(palette) :].any()
    return bits[: len(palette)]


@pytest.mark.parametrize(("alpha", "bits"), [(False, 8), (True, 8), (False, 16), (True, 16)])
def test_bits_are_of_entries_that_are_no_specks(rng, alpha, bits):
    palette = Palette(rng.integers(0, 256, (70, 4 if alpha else 3)).astype(np.uint8))
    space = spaces.space("srgb", alpha, bits)
    entries, most = space.values(palette.rgba()).astype(int), bounds.speck(palette, space)
    colors = rng.integers(0, space.white + 1, (200, 4))
    if not alpha:
        colors[:, 3] = space.white
    found = np.array([near(palette, space, color) for color in colors])
    wanted = np.array([reach.gaps(color, entries, space) <= most for color in colors])
    assert wanted.any()
    assert (found >= wanted).all()
    if bits == 8:
        assert (found == wanted).all()
    else:  # of the upper byte: at most by what the lower one is
        assert (found <= np.array([reach.gaps(color, entries, space) <= most + 511 for color in colors])).all()


def test_palettes_without_penalty_have_no_bits():
    space = spaces.space("srgb", False)
    black_and_white = Palette([[0, 0, 0], [255, 255, 255]])
    assert bounds.speck(black_and_white, space) == space.white
    assert entries_within(black_and_white, space, space.white).size == 1
