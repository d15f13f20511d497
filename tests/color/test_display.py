"""Colours of displays with fewer than 8 bits per channel."""

from __future__ import annotations

import numpy as np
import pytest

from clquant.color.display import DISPLAY_FORMATS, checked_format
from clquant.runtime import InvalidArgument

RAMP = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)


@pytest.mark.parametrize("name", DISPLAY_FORMATS)
def test_levels_are_their_bits_repeated(name):
    display = DISPLAY_FORMATS[name]
    for channel, bits in enumerate(display.bits):
        expected = [int((f"{value:0{bits}b}" * 8)[:8], 2) for value in range(1 << bits)]
        assert display.levels(channel).tolist() == expected


@pytest.mark.parametrize("name", DISPLAY_FORMATS)
def test_nearest_levels_ties_to_the_lower(name):
    display = DISPLAY_FORMATS[name]
    for channel, found in enumerate(display.nearest(RAMP).T):
        levels = display.levels(channel)
        assert found.tolist() == [levels[np.abs(levels - value).argmin()] for value in range(256)]


@pytest.mark.parametrize("name", DISPLAY_FORMATS)
def test_codes_are_the_highest_bits_of_displayed_colors(name, rng):
    display = DISPLAY_FORMATS[name]
    shown = display.nearest(rng.integers(0, 256, (100, 3), dtype=np.uint8)).astype(int)
    red, green, blue = display.bits
    cut = [shown[:, channel] >> 8 - bits for channel, bits in enumerate(display.bits)]
    assert (
        display.codes(shown.astype(np.uint8)).tolist()
        == ((cut[0] << green + blue) + (cut[1] << blue) + cut[2]).tolist()
    )
    assert red + green + blue == sum(display.bits)


def test_alpha_stays():
    assert DISPLAY_FORMATS["rgb565"].nearest(np.array([[3, 3, 9, 77]], np.uint8)).tolist() == [[0, 4, 8, 77]]


def test_names():
    assert checked_format(None) is None
    with pytest.raises(InvalidArgument, match=r"^color_format is 'rgb566'; allowed: 'rgb332', "):
        checked_format("rgb566")
