"""Colour spaces as integer coordinates, computed by the same integer operations on the host and on every device.

A space turns an 8-bit colour into a point with 3 coordinates, or 4 where alpha counts, such that the squared
Euclidean distance of two points is the error of taking one colour for the other. All coordinates are integers
from 0 to `Space.extent`, and every squared distance is below 2^24, so that it is exact in fp32 as well.

``"srgb"``
    The 8-bit values themselves.
``"linear"``
    Light, 0 to 2047 per channel, by the sRGB transfer function (IEC 61966-2-1).
``"oklab"``
    B. Ottosson, "A perceptual color space for image processing" (2020): L, a, b times 2048, a and b shifted
    by `OKLAB_SHIFT` to be positive.

**Alpha.** The error of a colour with alpha is the mean of its squared errors over a black and over a white
background. With p the colour times alpha and d the difference of two alphas that is, per channel,
(p - p' - d/2)^2 + d^2/4: Euclidean between the colours composited over mid-gray, with one more axis for
alpha, sqrt(3)/2 as long as the others (1/2 in OKLab, where black and white differ in L alone). For opaque
colours it is the error without alpha. All colours of alpha 0 are one point.

**16 bits.** A space of 16-bit values has the same definitions with finer steps: 257 for one in sRGB, `DEEP_SCALE` for
one in the other two. The 8-bit value v stands for 257 v. Squared distances are below 2^36, and take 64 bits.

The tables are those of `clquant.color.space_tables`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.space_tables import (
    LINEAR_SCALE,
    ROOT_FIRST,
    deep_lights,
    deep_oklab_table,
    light_thresholds,
    linear_table,
    oklab_table,
)

MAX_SQUARED = 2**24
OKLAB_SCALE = 2048
OKLAB_SHIFT = (0, 480, 640)
DEEP_SCALE = 32
"""Steps of a coordinate of 16-bit values for one of 8-bit values, in linear light and OKLab."""
LUMA_CHROMA = "ycbcr"
# 256 coordinates are left below those of black, and above those of white, in quarters of a step and in whole ones.
_LUMA_CHROMA_SHIFT = (256, 766, 766)
_DEEP_LUMA_CHROMA_SHIFT = (16448, 49216, 49216)
# Rows of ITU-R BT.601's matrix times 2^16: Y adds up to 2^16, Cb and Cr to 0.
_TO_LUMA_CHROMA_Q16 = ((19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329))

# Rows of matrices of Ottosson's definition: cube roots of LMS -> Lab, and the way back.
_TO_LAB_Q12 = ((862, 3251, -17), (8102, -9948, 1846), (106, 3206, -3312))
_FROM_LAB_Q16 = ((65536, 25974, 14143), (65536, -6918, -4185), (65536, -5864, -84639))
_FROM_LMS_Q16 = ((267173, -216774, 15137), (-83128, 171033, -22369), (-275, -46099, 111910))

Int = npt.NDArray[np.int64]

_CUBE = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
_STEPS = np.concatenate([_CUBE[13:14], _CUBE[:13], _CUBE[14:]])  # to neighbours in RGB, staying first


def _cube_root(x: Int, bits: int) -> Int:
    """Cube roots times 2^bits of x / 2^24, x from 0 to 2^24; linear between table entries."""
    table = oklab_table()[9 * 256 :].astype(np.int64)
    shift = np.zeros_like(x)
    scaled = x.copy()
    for _ in range(7):
        small = scaled < 2**21
        scaled = np.where(small, scaled << 3, scaled)
        shift += small
    index = np.maximum((scaled >> 14) - ROOT_FIRST, 0)
    root = table[index] + ((table[index + 1] - table[index]) * (scaled & 16383) >> 14)
    drop = 20 - bits + shift
    return np.where(x > 0, (root + (1 << drop - 1)) >> drop, 0)


def _to_oklab(rgb: Int, bits: int) -> Int:
    table, codes = (deep_oklab_table(), 65536) if bits == 16 else (oklab_table(), 256)
    root_bits, drop, scale = (17, 13, DEEP_SCALE) if bits == 16 else (14, 15, 1)
    terms = table[: 9 * codes].reshape(3, 3, codes).astype(np.int64)
    lms = np.stack([sum(terms[row, c][rgb[:, c]] for c in range(3)) for row in range(3)], axis=1)
    roots = _cube_root(np.minimum(lms, 2**24), root_bits)
    lab = (roots @ np.array(_TO_LAB_Q12, np.int64).T + (1 << drop - 1)) >> drop
    return np.asarray(np.maximum(lab + scale * np.array(OKLAB_SHIFT), 0))


def _to_luma_chroma(rgb: Int, bits: int) -> Int:
    drop, shift = (16, _DEEP_LUMA_CHROMA_SHIFT) if bits == 16 else (14, _LUMA_CHROMA_SHIFT)
    steps = (rgb @ np.array(_TO_LUMA_CHROMA_Q16, np.int64).T + (1 << drop - 1)) >> drop
    return np.asarray(steps + np.array(shift))


def _from_oklab(lab: Int, scale: int) -> Int:
    centred = (lab + scale // 2) // scale - np.array(OKLAB_SHIFT)
    roots = (centred @ np.array(_FROM_LAB_Q16, np.int64).T + (1 << 12)) >> 13  # times 2^14
    lms = (roots**3 + (1 << 17)) >> 18  # times 2^24
    light = (lms @ np.array(_FROM_LMS_Q16, np.int64).T + (1 << 15)) >> 16
    return np.asarray(np.searchsorted(light_thresholds(), light, side="right"), np.int64)


def _oklab_tables(bits: int) -> npt.NDArray[np.int32]:
    return oklab_table() if bits == 8 else deep_oklab_table()


def _lights(bits: int) -> npt.NDArray[np.int32]:
    return linear_table() if bits == 8 else deep_lights(LINEAR_SCALE * DEEP_SCALE)


def _from_light(points: Int, scale: int) -> Int:
    white = LINEAR_SCALE * scale
    light = (points * 2**24 + white // 2) // white
    return np.searchsorted(light_thresholds(), light, side="right").astype(np.int64)


@dataclass(frozen=True)
class Definition:
    """All that is particular to one colour space; kernels have its twin in `cl/common/color_spaces.h`."""

    number: int  # `SPACE` in kernels
    # largest coordinates of opaque colours of 8-bit values, and the coordinates of mid-gray
    extent: tuple[int, int, int]
    neutral: tuple[int, int, int]
    depth: int  # extent of the axis of alpha
    unit: float  # see `Space.unit`
    deep_scale: int  # steps of a coordinate of 16-bit values for one of 8-bit values
    to_points: Callable[[Int, int], Int]  # from (n, 3) int64 values and their bits to points
    # from points, and their steps for one of 8-bit values, to colours, around which the nearest are searched
    from_points: Callable[[Int, int], Int]
    # from the bits of values to the int32 tables of `cl/common/color_spaces.h`
    tables: Callable[[int], npt.NDArray[np.int32]]
    lightness: tuple[int, int, int]  # weights of the axes in lightness, in 1/256
    is_opponent: bool  # whether the axes are lightness and two differences of colour already
    # root of what dithers add to the squared distance of a speck, in 1/255 of the range; and by how much of it ordered
    # dithers, and error diffusion on coordinates, multiply it
    penalty: int
    ordered_share: float
    diffusion_share: int
    # log2 of the side of cells of candidate lists, without and with alpha: for GPUs, 2^15 to 2^16 cells, and for CPUs'
    # lanes
    cells: tuple[int, int]
    lane_cells: tuple[int, int]


def _no_tables(_: int) -> npt.NDArray[np.int32]:
    return np.zeros(0, np.int32)


DEFINITIONS = {
    "srgb": Definition(
        number=0,
        extent=(255, 255, 255),
        neutral=(255, 255, 255),  # of coordinates that are doubled where alpha is an axis
        depth=442,
        unit=1.0,
        deep_scale=257,
        to_points=lambda rgb, _: rgb,
        from_points=lambda points, scale: (points + scale // 2) // scale,
        tables=_no_tables,
        lightness=(77, 150, 29),
        is_opponent=False,
        penalty=38,
        ordered_share=1.75,
        diffusion_share=1,
        cells=(3, 5),
        lane_cells=(4, 6),
    ),
    "linear": Definition(
        number=1,
        extent=(LINEAR_SCALE,) * 3,
        neutral=(1024, 1024, 1024),
        depth=1773,
        unit=float(LINEAR_SCALE),
        deep_scale=DEEP_SCALE,
        to_points=lambda rgb, bits: _lights(bits)[rgb].astype(np.int64),
        from_points=_from_light,
        tables=_lights,
        lightness=(54, 183, 19),
        is_opponent=False,
        penalty=90,
        ordered_share=1.3,
        diffusion_share=2,
        cells=(6, 7),
        lane_cells=(7, 8),
    ),
    "oklab": Definition(
        number=2,
        extent=(OKLAB_SCALE, 1047, 1047),
        neutral=(1024, 480, 640),
        depth=1024,
        unit=float(OKLAB_SCALE),
        deep_scale=DEEP_SCALE,
        to_points=_to_oklab,
        from_points=_from_oklab,
        tables=_oklab_tables,
        lightness=(256, 0, 0),
        is_opponent=True,
        penalty=50,
        ordered_share=1.3,
        diffusion_share=1,
        cells=(5, 7),
        lane_cells=(7, 8),
    ),
    LUMA_CHROMA: Definition(
        number=3,
        extent=(1532, 1532, 1532),
        neutral=(766, 766, 766),
        depth=510,
        unit=4.0,
        deep_scale=64,
        to_points=_to_luma_chroma,
        from_points=lambda points, _: points,  # never called: there is no way back
        tables=_no_tables,
        lightness=(256, 0, 0),
        is_opponent=True,
        penalty=38,
        ordered_share=1.75,
        diffusion_share=1,
        cells=(5, 7),
        lane_cells=(6, 8),
    ),
}
NAMES = tuple(name for name in DEFINITIONS if name != LUMA_CHROMA)
"""Spaces that people may choose; `luma_chroma` is for error diffusion alone."""


@dataclass(frozen=True)
class Space:
    """One colour space, with or without alpha; see the module's text for the definitions."""

    name: str  # ``"srgb"``, ``"linear"`` or ``"oklab"``
    alpha: bool  # whether alpha is an axis
    extent: tuple[int, ...]  # largest coordinate of each axis; the smallest is 0
    # coordinates of mid-gray, over which colours with alpha are composited (empty without alpha)
    neutral: tuple[int, ...]
    # steps of a coordinate per unit of error: of one 8-bit step in sRGB; of the whole range from black to white in the
    # other two. Squared distances divided by its square are errors in those units
    unit: float
    bits: int = 8  # 8 or 16, of the values

    @property
    def definition(self) -> Definition:
        """The space's definition."""
        return DEFINITIONS[self.name]

    @property
    def dims(self) -> int:
        """3, or 4 with alpha."""
        return len(self.extent)

    @property
    def is_injective(self) -> bool:
        """Whether differing colours, of `bits` a value, are differing points.

        In Y Cb Cr two colours of one point would differ by less than a quarter in each coordinate, so by less than
        0.25 (1 + 1.772) < 1 in R, G and B. Of 16-bit values it has whole steps, and they may differ.
        """
        return not self.alpha and (self.name == "srgb" or (self.name == LUMA_CHROMA and self.bits == 8))

    @property
    def white(self) -> int:
        """The largest value: 255 or 65535."""
        return (1 << self.bits) - 1

    @property
    def scale(self) -> int:
        """Steps of a coordinate for one of the space of 8-bit values; of Y Cb Cr about so many."""
        return 1 if self.bits == 8 else self.definition.deep_scale

    def constants(self) -> dict[str, int]:
        """Compile-time constants of `cl/common/color_spaces.h`."""
        constants = {"SPACE": self.definition.number, "SPACE_ALPHA": int(self.alpha)}
        return constants if self.bits == 8 else {**constants, "BITS": self.bits}

    def tables(self) -> npt.NDArray[np.int32]:
        """(n,) int32: the tables that `cl/common/color_spaces.h` reads."""
        return self.definition.tables(self.bits)

    def values(self, colors: npt.NDArray[Any]) -> Int:
        """Widen colours of 8 or 16 bits to int64 from 0 to `white`."""
        values = colors.astype(np.int64)
        return values * 257 if self.bits == 16 and colors.dtype == np.uint8 else values

    def coordinates(self, colors: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Map (n, 3) or (n, 4) colours to (n, dims) int32 points; colours without alpha are opaque."""
        values, white = self.values(colors), self.white
        points = self.definition.to_points(values[:, :3], self.bits)
        if not self.alpha:
            return points.astype(np.int32)
        if self.name == "srgb":
            points = 2 * points
        alpha = values[:, 3:4] if colors.shape[1] == 4 else np.full((len(colors), 1), white)
        blended = (points * alpha + np.array(self.neutral) * (white - alpha) + white // 2) // white
        depth = (alpha * self.extent[3] + white // 2) // white
        return np.concatenate([blended, depth], axis=1).astype(np.int32)

    def colors(self, coordinates: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
        """8-bit colours of points: the inverse of `coordinates`, in integers.

        The colour is first computed through the inverse equations and then moved to the nearest in this space
        among its 26 neighbours in RGB (ties: the first in the order of R, G, B) as long as that is nearer. A
        colour whose alpha is 0 is (0, 0, 0, 0).
        """
        points = coordinates.astype(np.int64)
        alpha = None
        if self.alpha:
            alpha = np.clip((points[:, 3:] * 255 + self.extent[3] // 2) // self.extent[3], 0, 255)
            neutral = np.array(self.neutral)
            safe = np.maximum(alpha, 1)
            points = ((points[:, :3] - neutral) * 255 + safe // 2) // safe + neutral
        points = np.clip(points, 0, np.array(self.extent[:3]))
        rgb = self._nearest_rgb(points)
        if alpha is None:
            return rgb.astype(np.uint8)
        return np.where(alpha > 0, np.concatenate([rgb, alpha], axis=1), 0).astype(np.uint8)

    def _nearest_rgb(self, points: Int) -> Int:
        if self.name == "srgb":
            return self.definition.from_points(points, self.scale * (2 if self.alpha else 1))
        plain = space(self.name, False, self.bits)

        def distances(near: Int) -> Int:
            there = plain.coordinates(near.reshape(-1, 3).astype(np.uint8)).reshape(*near.shape)
            return np.asarray(((there - points[:, None]) ** 2).sum(axis=2))

        return descended(self.definition.from_points(points, self.scale), _STEPS, 255, distances)


def descended(places: Int, steps: Int, most: Int | int, distances: Callable[[Int], Int]) -> Int:
    """Move (n, 3) places within 0 to `most` by the step to the least distance until none is less; first on ties."""
    while True:
        near = np.clip(places[:, None] + steps, 0, most)
        chosen = distances(near).argmin(axis=1)
        if not chosen.any():
            return places
        places = near[np.arange(len(places)), chosen]


@functools.cache
def space(name: str, alpha: bool, bits: int = 8) -> Space:
    """Return the space of a name, with or without alpha, for values of 8 or 16 bits."""
    plain = _plain(params.choice("color_space", name, NAMES), alpha)
    return plain if bits == 8 else _deep(plain)


def _plain(name: str, alpha: bool) -> Space:
    """Make the space of 8-bit values."""
    found = DEFINITIONS[name]
    width = 2 if alpha and name == "srgb" else 1  # see **Alpha**: halves of alpha are whole steps
    extent = tuple(width * axis for axis in found.extent)
    axes, neutral = ((*extent, found.depth), found.neutral) if alpha else (extent, ())
    return Space(name, alpha, axes, neutral, width * found.unit)


def _deep(plain: Space) -> Space:
    """Make the space of 16-bit values beside one of 8-bit values."""
    scale = dataclasses.replace(plain, bits=16).scale
    extent, neutral = (tuple(scale * each for each in axes) for axes in (plain.extent, plain.neutral))
    if plain.name == "oklab":  # colours between 8-bit ones may be a little more chromatic
        extent = (extent[0], extent[1] + scale, extent[2] + scale, *extent[3:])
    return Space(plain.name, plain.alpha, extent, neutral, scale * plain.unit, 16)


@functools.cache
def luma_chroma(alpha: bool, bits: int = 8) -> Space:
    """Y Cb Cr (ITU-R BT.601) of 8-bit values in quarters of a step, and of 16-bit values in whole ones, where error
    diffusion compares colours.

    Coordinates of 8-bit colours are 256 to 1276, so that a colour and the errors of others may be beyond black and
    white. It is no space of `NAMES`: there is no way back from its coordinates to colours.
    """
    if bits == 8:
        return _plain(LUMA_CHROMA, alpha)
    return Space(LUMA_CHROMA, alpha, (98431,) * 3 + alpha * (32767,), alpha * (49216,) * 3, 257.0, bits)


def scale_of(space: Space) -> int:
    """The largest power of two by which coordinates can be multiplied with squared distances below 2^24."""
    scale = 1
    while sum((2 * scale * e) ** 2 for e in space.extent) < MAX_SQUARED:
        scale *= 2
    return scale
