"""Colours of displays with fewer than 8 bits per channel.

A value v of b bits stands for the 8-bit value whose bits are those of v, again and again from the highest one: of 5
bits ``v << 3 | v >> 2``. The highest b bits of such a value are v, so that drivers that cut 8-bit values off find v.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.spaces import Space, descended

Colors = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]

_NEIGHBOURS = np.stack(np.meshgrid(*[[0, -1, 1]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)


@dataclass(frozen=True)
class DisplayFormat:
    """Bits of red, green and blue."""

    name: str
    bits: tuple[int, int, int]  # 1 to 8 each

    def levels(self, channel: int) -> npt.NDArray[np.int64]:
        """(2^b,) int64: the 8-bit values of a channel, 0 (red) to 2, ascending."""
        bits = self.bits[channel]
        values = np.arange(1 << bits, dtype=np.int64)
        repeated = sum(values << bits * number for number in range(-(-8 // bits)))
        return np.asarray(repeated >> (-8 % bits))

    def places(self, colors: Colors) -> npt.NDArray[np.int64]:
        """(n, 3) int64: which level of each channel is nearest to 8-bit values; ties: the lower."""
        found = np.empty((len(colors), 3), np.int64)
        for channel in range(3):
            levels = self.levels(channel)
            found[:, channel] = np.searchsorted(levels[1:] + levels[:-1], 2 * colors[:, channel].astype(np.int64))
        return found

    def colors_at(self, places: npt.NDArray[np.int64]) -> Colors:
        """(n, 3) uint8: the colours of some levels."""
        channels = [self.levels(channel)[places[:, channel]] for channel in range(3)]
        return np.stack(channels, axis=1).astype(np.uint8)

    def nearest(self, colors: Colors) -> Colors:
        """Round each colour channel to its nearest level; alpha stays."""
        return np.concatenate([self.colors_at(self.places(colors)), colors[:, 3:]], axis=1)

    def codes(self, colors: Colors) -> npt.NDArray[np.uint16]:
        """(n,) uint16: red's bits, then green's, then blue's in the lowest ones, of the nearest levels."""
        places = self.places(colors)
        _, green, blue = self.bits
        return (places[:, 0] << green + blue | places[:, 1] << blue | places[:, 2]).astype(np.uint16)


DISPLAY_FORMATS = {
    name: DisplayFormat(name, bits)
    for name, bits in (
        ("rgb332", (3, 3, 2)),
        ("rgb333", (3, 3, 3)),
        ("rgb444", (4, 4, 4)),
        ("rgb555", (5, 5, 5)),
        ("rgb565", (5, 6, 5)),
    )
}


def checked_format(name: str | None, argument: str = "color_format") -> DisplayFormat | None:
    """The format of a name; None for None."""
    return None if name is None else DISPLAY_FORMATS[params.choice(argument, name, DISPLAY_FORMATS)]


def nearest_displayable(display: DisplayFormat, space: Space, means: Int, unit: int) -> Colors:
    """The displayable colours nearest to places of a space.

    From the colour whose channels are nearest to the place's own, always on to the nearest of the 26 neighbours among
    the levels (ties: the first in the order 0, -1, 1 of red, green, blue), while that is nearer. Where a channel is an
    axis, in ``"srgb"`` and ``"linear"`` without alpha, no other colour is nearer.
    """
    first = space.colors((means + unit // 2) // unit)
    alpha = first[:, 3:]

    def distances(near: Int) -> Int:
        colors = display.colors_at(near.reshape(-1, 3))
        there = space.coordinates(np.concatenate([colors, np.repeat(alpha, near.shape[1], axis=0)], axis=1))
        apart = there.astype(np.int64).reshape(*near.shape[:2], space.dims) * unit - means[:, None]
        return np.asarray((apart * apart).sum(axis=2))

    most = np.array([(1 << bits) - 1 for bits in display.bits])
    places = descended(display.places(first), _NEIGHBOURS, most, distances)
    found = np.concatenate([display.colors_at(places), alpha], axis=1)
    return np.asarray(found if not alpha.size else np.where(alpha > 0, found, 0), np.uint8)
